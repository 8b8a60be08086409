// The collector's pages in real Chromium: `node browser/collector.mjs [folder for screenshots]`.
import assert from "node:assert/strict";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { args, executablePath } from "./chromium.mjs";
import { checkDoor } from "./collector/door.mjs";
import { checkLive } from "./collector/live.mjs";
import { checkLooks } from "./collector/looks.mjs";
import { checkOverTime } from "./collector/over_time.mjs";
import { checkReal, prepareReal } from "./collector/real.mjs";
import { checkShown } from "./collector/shown.mjs";
import { serveCollector, TOKEN } from "./collector/server.mjs";

const prepared = prepareReal();
const pictures = process.argv[2];
const browser = await chromium.launch({ executablePath, args });
const server = await serveCollector();
const errors = [];
const abroad = []; // what was asked of other machines

/** Pages that can reach this machine only. */
async function confined() {
  const context = await browser.newContext({ acceptDownloads: true });
  const isAbroad = (wanted) => wanted.hostname !== "127.0.0.1" && !["blob:", "data:"].includes(wanted.protocol);
  await context.route(isAbroad, (route) => abroad.push(route.request().url()) && route.abort());
  return context;
}
const [usual, held] = [await confined(), await confined()];
await held.clock.install({ time: "2026-11-16T08:00:00Z" });
await held.clock.pauseAt("2026-11-16T09:00:00Z"); // it runs when a test says so

/** A tab of its own. `clock` lets a test hold its time; `token` null meets the door. */
async function visit({
  url = server.url,
  token = TOKEN,
  width = 1240,
  height = 900,
  clock = false,
  ready = "true",
  ...media
} = {}) {
  const page = await (clock ? held : usual).newPage();
  await page.setViewportSize({ width, height });
  await page.emulateMedia(media);
  page.on("pageerror", (error) => errors.push(error));
  page.on("console", (message) => {
    // Problems are answers here, and a collector that is gone is a test.
    if (message.type() === "error" && !/status of [45]|ERR_EMPTY_RESPONSE|ERR_CONNECTION/.test(message.text()))
      errors.push(message.text());
  });
  await page.goto(token === null ? url : `${url}#token=${token}`);
  await page.waitForSelector(`body[data-ready=${ready}]`);
  return page;
}

/** Until the estimate that is shown is that of this release, round, earlier round and assumption. */
async function estimated(page, release, round = "", since = "", assume = "") {
  const key = JSON.stringify([release, round, since, assume]);
  await page.waitForFunction((wanted) => document.body.dataset.estimates === wanted, key);
}

async function picture(page, name, fullPage = true) {
  if (!pictures) return;
  await page.waitForTimeout(450); // bars move
  await page.screenshot({ path: join(pictures, name), fullPage });
}

/** Runs a test; tabs that it opened are closed after it, those that were open before stay for the next. */
async function step(name, work) {
  const start = performance.now();
  const before = new Set([...usual.pages(), ...held.pages()]);
  await work();
  for (const page of [...usual.pages(), ...held.pages()]) if (!before.has(page)) await page.close();
  console.log(`✓ ${name} (${Math.round(performance.now() - start)} ms)`);
}

const tools = { step, visit, estimated, picture, server };
try {
  await checkDoor(tools);
  await checkShown(tools);
  await checkLive(tools);
  await checkLooks(tools);
  await checkOverTime(tools);
  await checkReal(tools, prepared);
  assert.deepEqual(errors, []);
  assert.deepEqual(abroad, [], "the pages need nobody but the collector");
} finally {
  await browser.close();
  server.close();
  prepared?.close();
}
