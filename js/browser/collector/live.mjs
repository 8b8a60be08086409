// Live without reload: counts grow, estimates follow when they are worth it, and trouble is said and passes by itself.
import assert from "node:assert/strict";
import { recorded } from "./server.mjs";

/** Lets the page's clock run and its questions be answered; then the `check` holds, or soon, on a machine that is busy. */
async function wait(page, milliseconds, check = () => {}) {
  const under = new Set();
  const [begin, end] = [(request) => under.add(request), (request) => under.delete(request)];
  const events = { request: begin, requestfinished: end, requestfailed: end };
  for (const [event, note] of Object.entries(events)) page.on(event, note);
  for (let left = milliseconds; left > 0; left -= 2000) {
    await page.clock.runFor(Math.min(left, 2000)); // not past the time in which an answer must come
    for (let quiet = 0; quiet < 2; quiet = under.size === 0 ? quiet + 1 : 0) {
      await page.evaluate(() => Promise.resolve());
      await page.waitForTimeout(10);
    }
  }
  for (const [event, note] of Object.entries(events)) page.off(event, note);
  for (const started = Date.now(); ; await page.waitForTimeout(50)) {
    try {
      return await check();
    } catch (error) {
      if (Date.now() - started > 5000) throw error;
    }
  }
}

export async function checkLive({ step, visit, estimated, picture, server }) {
  const { world, asked } = server;
  const id = recorded[0].release.id;
  const estimates = () => asked.filter((path) => path.startsWith("/v1/estimates")).length;
  const lists = () => asked.filter((path) => path === "/v1/releases").length;
  const grow = (by) => {
    const { release } = world.collections[0];
    release.rounds.at(-1).reports += by;
    release.reports += by;
  };
  const restore = () =>
    Object.assign(world, { collections: structuredClone(recorded), problem: null, few: null, deaf: false, delay: 0 });

  const page = await visit({ clock: true, height: 600 });
  await estimated(page, id, "2026-W46");
  await page.waitForSelector(".chart");

  await step("counts grow without a reload; focus, selection, scrolling and what is open stay", async () => {
    await page.click("#curve summary");
    await page.focus("#round");
    await page.evaluate(() => {
      window.same = document.querySelector(".estimates tbody tr");
      getSelection().selectAllChildren(document.querySelector("#promise p:last-child"));
      scrollTo(0, 400);
    });
    const before = estimates();
    grow(100); // less than 5%
    await wait(page, 2000, async () => assert.equal(await page.textContent("#total"), "12,600"));
    assert.equal(await page.textContent("#rounds .now .number"), "8,100");
    assert.match(await page.textContent("[role=tab] .total"), /^12,600/);
    assert.equal(estimates(), before, "a few more reports are no reason for another estimate at once");
    grow(1000);
    await wait(page, 2000, async () => assert.match(await page.textContent("#estimates"), /9,100 reports\. The intervals stay valid/));
    assert.equal(estimates(), before + 1);
    const state = await page.evaluate(() => [
      document.activeElement.id,
      getSelection().toString().slice(0, 8),
      scrollY,
      document.querySelector("#curve details").open,
      window.same === document.querySelector(".estimates tbody tr"),
    ]);
    assert.deepEqual(state, ["round", "Whatever", 400, true, true]);
    grow(1);
    await wait(page, 2000);
    assert.equal(estimates(), before + 1);
    await wait(page, 10_000, () => assert.equal(estimates(), before + 2, "after ten seconds one report is reason enough"));
    await wait(page, 12_000);
    assert.equal(estimates(), before + 2, "and without any there is none");
    restore();
  });

  await step("rounds and releases come and go", async () => {
    await wait(page, 2000);
    await page.selectOption("#round", "2026-W45");
    await estimated(page, id, "2026-W45");
    const { release } = world.collections[0];
    release.rounds.push({ name: "2026-W47", open: true, reports: 0 });
    release.current = "2026-W47";
    const names = () => page.$$eval("#rounds .name", (all) => all.map((name) => name.textContent));
    await wait(page, 2000, async () => assert.deepEqual(await names(), ["2026-W47", "2026-W46", "2026-W45"]));
    assert.equal(await page.inputValue("#round"), "2026-W45");
    release.rounds.shift(); // forgotten for good
    await wait(page, 2000, async () => assert.equal(await page.inputValue("#round"), "2026-W47"));
    world.collections = [world.collections[2]];
    await wait(page, 2000, async () => assert.equal(await page.textContent("#title h2"), "electricity"));
    world.collections = [];
    await wait(page, 2000, async () => assert.match(await page.textContent("main"), /No release yet\. Add one with taskveil serve RELEASE/));
    assert.equal(await page.isVisible("#release"), false);
    restore();
    await wait(page, 2000, async () => assert.equal(await page.textContent("#title h2"), "wellbeing"));
  });

  await step("too few reports: the reason; nothing to add up or no curve: what to do", async () => {
    const [one] = world.collections;
    const detail = "9 reports are too few for a population estimate: at least 10 are needed.";
    world.few = { status: 409, title: "There are too few reports to say anything", detail };
    one.release.frontier = false;
    grow(-7000);
    await wait(page, 2000);
    await page.waitForSelector("#reason");
    assert.equal(await page.textContent("#reason"), `There are too few reports to say anything. ${detail}`);
    assert.match(await page.textContent("#curve"), /has no curve.*frontier\.json/s);
    world.few = null;
    await wait(page, 10_000); // it is asked for again, whether or not there are more
    await page.waitForSelector(".estimates");
    one.release.estimates = false;
    await wait(page, 2000, async () => assert.match(await page.textContent("#estimates"), /no population estimates.*Design it again/s));
    restore();
  });

  await step("a collector that is gone: said once, asked less and less often, and found again", async () => {
    await wait(page, 12_000, async () => assert.equal(await page.textContent("#total"), "12,500"));
    await page.waitForSelector(".estimates");
    world.deaf = true;
    const said = /^The collector does not answer\. The page shows data from \d\d:\d\d:\d\d\. It will try again\.$/;
    await wait(page, 2000, async () => assert.match(await page.textContent("#connection"), said));
    const words = await page.textContent("#connection");
    assert.equal(await page.textContent("#total"), "12,500");
    await picture(page, "collector-lost.png", false);
    const before = lists();
    await wait(page, 60_000);
    const questions = lists() - before;
    assert.ok(questions >= 3 && questions <= 5, `${questions} questions in a minute`);
    assert.equal(await page.textContent("#connection"), words, "it is not said again and again");
    restore();
    grow(7);
    await wait(page, 30_000, async () => assert.equal(await page.textContent("#total"), "12,507"));
    assert.equal(await page.textContent("#connection"), "Live");
    restore();
  });

  await step("of many lines the first forty, and all for those who ask", async () => {
    const [{ estimates: answers }] = world.collections;
    const answer = answers["2026-W46"];
    const [row, entry] = [answer.rows[0], answer.attributes[0]];
    const name = (place) => `attribute ${place}`;
    answer.rows = Array.from({ length: 60 }, (_, place) => ({ ...row, place, name: name(place) }));
    answer.attributes = Array.from({ length: 60 }, (_, place) => ({ ...entry, name: name(place), unit: "" }));
    grow(1000);
    const lines = () => page.$$eval(".estimates tbody tr", (all) => all.length);
    await wait(page, 2000, async () => assert.equal(await lines(), 40));
    await page.click("text=Show all 60 lines");
    assert.equal(await lines(), 60);
    grow(1000);
    await wait(page, 2000, async () => assert.equal(await page.textContent("#total"), "14,500"));
    assert.equal(await lines(), 60, "and they stay");
    restore();
  });

  await step("a busy collector is asked again when it says", async () => {
    await wait(page, 2000, async () => assert.equal(await page.textContent("#total"), "12,500"));
    world.problem = { status: 503, title: "The database does not answer", retry: 20 };
    const said = /^The database does not answer\. The page shows.* It will try again\.$/;
    await wait(page, 2000, async () => assert.match(await page.textContent("#connection"), said));
    world.problem = null;
    const before = lists();
    await wait(page, 19_000);
    assert.equal(lists(), before);
    await wait(page, 1100, async () => assert.equal(await page.textContent("#connection"), "Live"));
  });

  await step("nobody looks: nothing is asked", async () => {
    await wait(page, 2000);
    const turn = (hidden) =>
      page.evaluate((value) => {
        Object.defineProperty(document, "hidden", { value, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
    const before = lists() + 1;
    world.delay = 150;
    await page.clock.runFor(2000);
    while (lists() < before) await page.waitForTimeout(5);
    await turn(true); // while a question is under way
    await wait(page, 60_000);
    assert.equal(lists(), before);
    world.delay = 0;
    grow(5);
    await turn(false);
    await page.waitForFunction(() => document.getElementById("total").textContent === "12,505");
    assert.equal(lists(), before + 1);
    restore();
  });
}
