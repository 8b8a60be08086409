// Reports over time in a real browser: three tabs at once, and kills at any moment of enrolment or report.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { args, executablePath } from "./chromium.mjs";
import { X } from "./client.mjs";

const { kills: KILLS } = JSON.parse(readFileSync(new URL("../test/vectors/size.json", import.meta.url)));
/** The planned rounds of the demo's release. */
const { rounds: ROUNDS, reports: REPORTS } = JSON.parse(
  readFileSync(new URL("../demo/release/client/manifest.json", import.meta.url)),
).panel;
const blockOf = (place) => Math.floor(((place + 1) * REPORTS - 1) / ROUNDS.length);

export async function checkPanels({ step, visit, url, received }) {
  await step("three tabs at once have one schedule and one report in a block", async () => {
    const tabs = await Promise.all([visit(), visit(), visit()]);
    for (let again = 0; again < 5; again++) {
      const ledger = `tabs ${again}`;
      const all = await Promise.all(tabs.map((tab, i) => tab.evaluate(reportEverywhere, { ledger, from: 4 * i, x: X })));
      const sent = {};
      for (const [round, report] of all.flat()) {
        assert.equal(sent[round] ?? report, report, "two reports of a round");
        sent[round] = report;
      }
      judge({ sent, silent: [], joins: [0, 4, 8], ...(await tabs[0].evaluate(recorded, ledger)) });
      assert.ok(Object.keys(sent).length > 0);
    }
    await Promise.all(tabs.map((tab) => tab.close()));
  });

  const page = `${url}style.css`; // an address of the same site without scripts
  await step(`${KILLS} kills of enrolment or report keep the drawn rounds, and one report in a block`, async () => {
    const profile = mkdtempSync(join(tmpdir(), "taskveil-kills-"));
    const people = [];
    const met = { joining: 0, drawn: 0 };
    received.length = 0;
    try {
      for (let kill = 0; kill <= KILLS; kill++) {
        const browser = await start(profile, page);
        try {
          await check(browser.tab, people, met);
          if (kill === KILLS) break;
          const last = people.at(-1);
          const going = last !== undefined && last.next < ROUNDS.length;
          const person = people.length - (going ? 1 : 0);
          await browser.tab.evaluate(liveOn, { person, place: going ? last.next : null, x: X });
          await moment(received, kill % 2 === 0);
        } finally {
          browser.kill();
          await browser.gone;
        }
        for (const { body } of received.splice(0)) note(people, JSON.parse(body));
      }
      const reports = people.reduce((sum, { sent }) => sum + Object.keys(sent).length, 0);
      console.log(
        `  ${KILLS} kills of ${people.length} devices, ${met.joining} before a first answer, ${met.drawn} of these with drawn ` +
          `rounds; ${reports} reports`,
      );
      assert.ok(reports > 0 && people.length > 1);
    } finally {
      rmSync(profile, { recursive: true, force: true, maxRetries: 5 });
    }
  });
}

/** Wait until a device is in the midst of joining, or of its reports: however slow the machine is, something was heard. */
async function moment(received, joining) {
  const wanted = 1 + Math.floor(Math.random() * 20);
  const joins = () => received.some(({ body }) => JSON.parse(body).joins);
  const end = Date.now() + 120_000;
  while (joining ? !joins() : received.length < wanted) {
    assert.ok(Date.now() < end, "nothing was heard of the page");
    await pause(1);
  }
  await pause(Math.random() * (joining ? 25 : 20));
}

/** What the page says has left the device: {person, place, joins} before it joins, {person, place, report} then. */
function note(people, { person, place, joins, report }) {
  if (joins) people[person] = { joins: place, next: place, sent: {}, silent: [], checked: false };
  else {
    const one = people[person];
    one.next = place + 1;
    one.checked = false;
    if (report === null) one.silent.push(place);
    else {
      assert.equal(one.sent[ROUNDS[place]] ?? report, report, "a retry changed what had been sent");
      one.sent[ROUNDS[place]] = report;
    }
  }
}

/** Nothing was lost, nobody reports out of turn or twice in a block; the drawn rounds are those of before. */
function judge({ sent, silent, joins, drawn, ledger, before }) {
  assert.ok(before === undefined || before === drawn, "the drawn rounds were lost or replaced");
  assert.ok(Object.entries(sent).every(([round, report]) => ledger[round] === report), "a report that was sent is not in the ledger");
  const places = Object.keys(ledger).map((round) => ROUNDS.indexOf(round));
  if (drawn === null) {
    assert.deepEqual([places, silent], [[], []], "a device was asked, and no rounds are drawn");
    return;
  }
  const turns = new Map(drawn.split(",").filter(Boolean).map((place) => [blockOf(Number(place)), Number(place)]));
  const first = REPORTS - turns.size;
  assert.deepEqual([...turns.keys()], Array.from(turns, (_, i) => first + i));
  assert.ok([joins].flat().some((place) => first === Math.ceil((place * REPORTS) / ROUNDS.length)), "joined in another round");
  assert.equal(new Set(places.map(blockOf)).size, places.length, "two reports in a block");
  for (const place of places) assert.ok(turns.get(blockOf(place)) <= place, "a report before the drawn round");
  for (const place of silent) assert.ok(!places.includes(place), "a silent round has a report");
}

/** Every device of which something was heard, against what its ledger holds after the kill. */
async function check(tab, people, met) {
  for (const [person, one] of people.entries()) {
    if (one.checked) continue;
    const found = await tab.evaluate(recorded, `person ${person}`);
    judge({ ...one, ...found, before: one.drawn });
    const rounds = Object.keys(one.sent);
    assert.ok(Object.keys(found.ledger).length <= rounds.length + 1); // at most one that was recorded and not sent
    if (one.next === one.joins) met.joining++;
    if (one.next === one.joins && found.drawn !== null) met.drawn++;
    assert.deepEqual(await tab.evaluate(askAgain, { person, rounds, x: X }), Object.values(one.sent));
    if (found.drawn !== null) one.drawn = found.drawn;
    one.checked = one.next === ROUNDS.length;
  }
}

/** A Chromium of our own, whose processes can be killed all at once, with a page of the site. */
async function start(profile, url) {
  const options = [...args, "--headless", "--remote-debugging-port=0", `--user-data-dir=${profile}`, "about:blank"];
  const process_ = spawn(executablePath, options, { detached: true, stdio: ["ignore", "ignore", "pipe"] });
  const gone = new Promise((done) => process_.on("exit", done));
  const kill = () => {
    try {
      process.kill(-process_.pid, "SIGKILL");
    } catch {
      // it is gone
    }
  };
  try {
    const address = await new Promise((found, refuse) => {
      let said = "";
      process_.stderr.on("data", (part) => {
        said += part;
        const [, at] = said.match(/DevTools listening on (ws:\S+)/) ?? [];
        if (at) found(at);
      });
      process_.on("exit", () => refuse(new Error(`Chromium did not start: ${said}`)));
    });
    const browser = await chromium.connectOverCDP(address);
    const tab = await browser.contexts()[0].newPage();
    await tab.goto(url);
    return { tab, kill, gone };
  } catch (error) {
    kill();
    throw error;
  }
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// In the page:

/** All rounds in order, from one on and around. */
async function reportEverywhere({ ledger, from, x }) {
  const { Client } = await import("/taskveil.js");
  const client = await Client.load("/release/client/", { ledger });
  const { rounds } = client.panel;
  const made = [];
  for (const round of [...rounds.slice(from), ...rounds.slice(0, from)]) {
    const report = await client.report(x, { round });
    if (report) made.push([round, Array.from(report.toBytes(), (v) => v.toString(16).padStart(2, "0")).join("")]);
  }
  client.close();
  return made;
}

/** What a ledger holds: the drawn rounds, and the reports by round. */
async function recorded(name) {
  const asked = (request) => new Promise((done, fail) => ((request.onsuccess = () => done(request.result)), (request.onerror = fail)));
  const db = await asked(indexedDB.open(name));
  if (!db.objectStoreNames.contains("drawn")) return { drawn: null, ledger: {} };
  const transaction = db.transaction(["drawn", "reports"]);
  const [drawn, rows] = await Promise.all(["drawn", "reports"].map((store) => asked(transaction.objectStore(store).getAll())));
  db.close();
  const written = rows.map(({ round, bytes }) => [round, Array.from(bytes, (v) => v.toString(16).padStart(2, "0")).join("")]);
  return { drawn: drawn[0] ?? null, ledger: Object.fromEntries(written) };
}

async function askAgain({ person, rounds, x }) {
  const { Client } = await import("/taskveil.js");
  const client = await Client.load("/release/client/", { ledger: `person ${person}` });
  const made = [];
  for (const round of rounds) made.push(Array.from((await client.report(x, { round })).toBytes(), (v) => v.toString(16).padStart(2, "0")).join(""));
  client.close();
  return made;
}

/** One device after another joins and reports, until the browser is killed. The first may be in the midst of it. */
async function liveOn({ person, place, x }) {
  const { Client } = await import("/taskveil.js");
  const send = (told) => fetch("/v1/reports", { method: "POST", body: JSON.stringify(told) });
  const live = async () => {
    for (; ; person++) {
      const client = await Client.load("/release/client/", { ledger: `person ${person}`, cap: 1e6 });
      const { rounds } = client.panel;
      if (place === null) {
        place = Math.random() < 0.7 ? 0 : Math.floor(Math.random() * 8);
        await send({ person, place, joins: true });
      }
      for (; place < rounds.length; place++) {
        const made = await client.report(x, { round: rounds[place] });
        const report = made && Array.from(made.toBytes(), (v) => v.toString(16).padStart(2, "0")).join("");
        await send({ person, place, report });
      }
      place = null;
      client.close();
    }
  };
  void live();
}
