// The demo page and the client in real Chromium: `node browser/run.mjs [folder for screenshots]`.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { args, executablePath } from "./chromium.mjs";
import { checkClient, X } from "./client.mjs";
import { checkMixed } from "./mixed.mjs";
import { checkPage } from "./page.mjs";
import { checkPanels } from "./panels.mjs";
import { serve } from "./server.mjs";

const server = await serve();
const profile = mkdtempSync(join(tmpdir(), "taskveil-browser-"));
const pictures = process.argv[2] ?? profile;
const open = () => chromium.launchPersistentContext(profile, { executablePath, args, viewport: { width: 1240, height: 1080 } });

let context = await open();
const errors = [];
async function visit(viewport) {
  const page = await context.newPage();
  if (viewport) await page.setViewportSize(viewport);
  page.on("pageerror", (error) => errors.push(error));
  page.on(
    "console",
    (message) => message.type() === "error" && !/status of [45]/.test(message.text()) && errors.push(message.text()),
  );
  await page.goto(server.url);
  await page.waitForSelector("body[data-ready=true]");
  return page;
}
const text = (page, id) => page.locator(`#${id}`).textContent();
const heights = (page) => page.$$eval("#chart i:nth-child(1)", (bars) => bars.map((bar) => bar.style.height).join());
/** Whether it is this device's turn in the week that the page shows. */
async function ask(page) {
  await page.click("#make");
  await page.waitForFunction(() => document.getElementById("status").textContent);
  return page.locator("#submit").isEnabled();
}
async function next(page) {
  await page.click("#next");
  await page.waitForFunction(() => !document.getElementById("status").textContent);
}
const budget = (page) => Promise.all(["spent", "planned", "cap"].map((id) => text(page, id)));
async function picture(page, name, fullPage = false) {
  await page.waitForTimeout(300); // bars move
  await page.screenshot({ path: join(pictures, name), fullPage });
  assert.ok(statSync(join(pictures, name)).size > 10_000);
}
async function step(name, work) {
  const start = performance.now();
  await work();
  console.log(`✓ ${name} (${Math.round(performance.now() - start)} ms)`);
}

try {
  let page = await visit();
  await step("another record changes the chances, and nothing is sent", async () => {
    const before = await heights(page);
    assert.match(await text(page, "statement"), /7\.39 times as likely/);
    assert.match(await text(page, "statement"), /report\. You will be asked 3 times in 12 rounds \(every 7 days\)\. When you join,/);
    assert.match(await text(page, "statement"), /budget\. Reports add up\. With all reports that the cap of ε = 6 allows, .* at most 404 to 1\.$/);
    await page.fill("#field-0", "80");
    const older = await heights(page);
    assert.notEqual(older, before);
    await page.selectOption("#field-4", "running");
    await page.fill("#field-6", "2018-11-16");
    assert.notEqual(await heights(page), older);
    assert.match(await text(page, "tell"), /No report can ever reach more than 7\.39 times/);
    assert.equal(server.received.length, 0);
    await picture(page, "browser-form.png");
  });

  let bytes = "";
  let week = 1;
  await step("this device's turn comes within four weeks, and its report is drawn once, whatever the form says", async () => {
    assert.deepEqual(await budget(page), ["0.0", "6.0", "6.0"]);
    for (; !(await ask(page)); week++) {
      assert.ok(week < 4, "no turn in the first four weeks");
      assert.match(await text(page, "turn"), /not this device's turn/);
      assert.equal(await text(page, "bytes"), "Nothing has been drawn yet.");
      assert.deepEqual(await budget(page), ["0.0", "6.0", "6.0"]);
      if (week === 1) await picture(page, "browser-silent.png");
      await next(page);
    }
    assert.equal(await text(page, "turn"), "It is this device's turn.");
    assert.match(await text(page, "statement"), /When you joined, the device drew the rounds at random/);
    bytes = await text(page, "bytes");
    assert.match(bytes, /^53 bytes/);
    await page.fill("#field-0", "20");
    assert.ok(await ask(page));
    assert.equal(await text(page, "bytes"), bytes);
    assert.deepEqual(await budget(page), ["2.0", "6.0", "6.0"]);
  });

  await step("it is sent as drawn, again after trouble, without cookies or referrer", async () => {
    server.script.push(503, 429);
    await page.click("#submit");
    await page.waitForFunction(() => document.getElementById("status").textContent.startsWith("Sent"));
    assert.match(await text(page, "status"), /The collector answered \{"accepted":1,"duplicate":0,"rejected":\[\]\}\./);
    assert.deepEqual(
      server.received.map((r) => r.status),
      [503, 429, 200],
    );
    const [body, ...others] = server.received.map((r) => r.body.toString("hex"));
    assert.ok(others.every((other) => other === body));
    assert.equal(body.length / 2, 4 + 32 + 6 + 16 + 1);
    assert.ok(bytes.includes(body.slice(84, 116)), "the id on the page is the id that was sent");
    assert.ok(server.received.every((r) => !r.headers.cookie && !r.headers.referer));
    const date = await text(page, "date");
    assert.ok(server.received.every((r) => r.round === date), "the upload names the week");
    await picture(page, "browser-sent.png");
  });

  await step("a refusal shows the server's reason", async () => {
    server.script.push(403);
    await page.click("#submit");
    await page.waitForFunction(() => document.getElementById("status").textContent.includes("this round is closed"));
  });

  await step("the report survives another tab and a restart of the browser", async () => {
    const other = await visit();
    await other.click("#make");
    await other.waitForSelector("#submit:enabled");
    assert.equal(await text(other, "bytes"), bytes);
    await context.close();
    context = await open();
    page = await visit();
    assert.deepEqual([await text(page, "round"), await text(page, "spent")], [`${week}`, "2.0"]);
    await page.click("#make");
    await page.waitForSelector("#submit:enabled");
    assert.equal(await text(page, "bytes"), bytes);
  });

  await step("in twelve weeks there are three reports, one in every four weeks, and then the budget is spent", async () => {
    const turns = [week];
    while (await page.locator("#next").isEnabled()) {
      await next(page);
      if (await ask(page)) {
        turns.push(Number(await text(page, "round")));
        assert.notEqual(await text(page, "bytes"), bytes);
      }
      assert.equal(await text(page, "spent"), (2 * turns.length).toFixed(1));
    }
    assert.equal(await text(page, "round"), "12");
    assert.deepEqual(
      turns.map((turn) => Math.ceil(turn / 4)),
      [1, 2, 3],
    );
    const shown = await page.$$eval("#weeks .report", (all) => all.map((one) => Number(one.textContent)));
    assert.deepEqual(shown, turns);
    assert.deepEqual(await budget(page), ["6.0", "6.0", "6.0"]);
    assert.match(await text(page, "statement"), /so far \(ε = 6\), even odds .* at most 404 to 1\. The cap of ε = 6 is reached\.$/);
    await picture(page, "browser-weeks.png");
  });

  await step("two tabs at once share one report", async () => {
    const tabs = [page, await visit()];
    const drawn = await Promise.all(
      tabs.map((tab) =>
        tab.evaluate(async (x) => {
          const { Client } = await import("/taskveil.js");
          const client = await Client.load("/unplanned/client/", { ledger: "race", cap: 1e6 });
          const reports = [];
          for (let round = 0; round < 50; round++) reports.push((await client.report(x, { round })).id.join());
          return reports;
        }, X),
      ),
    );
    assert.deepEqual(drawn[0], drawn[1]);
    assert.equal(new Set(drawn[0]).size, 50);
  });

  // No step: how long a report takes depends on what else the machine does.
  const { plain, quick } = await page.evaluate(async (x) => {
    const { Client } = await import("/taskveil.js");
    const client = await Client.load("/unplanned/client/", { ledger: "timing", cap: 1e9 });
    const times = [];
    for (let round = 0; round < 60; round++) {
      const start = performance.now();
      await client.report(x, { round });
      times.push(performance.now() - start);
    }
    const start = performance.now();
    for (let i = 0; i < 2000; i++) client.odds(x);
    return { plain: (performance.now() - start) / 2000, quick: times.sort((a, b) => a - b)[15] };
  }, X);
  console.log(
    `  encode, bound and score ${plain.toFixed(4)} ms; a report recorded durably in IndexedDB, lower quartile ${quick.toFixed(2)} ms`,
  );
  await checkPage({ step, visit, picture, open: async () => context, url: server.url });
  await checkClient({ step, page });
  await checkMixed({ step, page });
  await checkPanels({ step, visit, url: server.url, received: server.received });
  assert.deepEqual(errors, []);
} finally {
  await context.close();
  server.close();
  rmSync(profile, { recursive: true, force: true });
}
