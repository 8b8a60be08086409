// The same pages before a real collector: `taskveil serve`, reports as devices send them, and what the page makes of them.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { contrasts } from "../page.mjs";
import { quickest } from "./shown.mjs";

const root = fileURLToPath(new URL("../../../", import.meta.url));
const python = process.env.TASKVEIL_PYTHON ?? join(root, ".venv/bin/python");
const env = { ...process.env, PYTHONPATH: join(root, "src"), OMP_NUM_THREADS: "1" };

/** Starts to make the release while other tests run; null, and a word about it, where there is no Python for it. */
export function prepareReal() {
  if (!existsSync(python)) {
    if (process.env.CI === "true") throw new Error(`no ${python}: make venv, or set TASKVEIL_PYTHON`);
    console.log("SKIPPED: the pages before a real collector need .venv (make venv) or TASKVEIL_PYTHON");
    return null;
  }
  const folder = mkdtempSync(join(tmpdir(), "taskveil-collector-"));
  const making = spawn(python, [join(root, "js/browser/collector/make_real.py"), folder], {
    env,
    stdio: ["ignore", "inherit", "inherit"],
  });
  const made = new Promise((done) => making.on("exit", done));
  const close = () => {
    making.kill();
    rmSync(folder, { recursive: true, force: true });
  };
  return { folder, made, close };
}

/** A collector for the release, on a free port, with the address of its page and the token for uploads. */
async function serve(folder) {
  const options = ["--db", `sqlite:///${join(folder, "reports.db")}`, "--port", "0", "--round", "first", "--print-tokens"];
  const collector = spawn(python, ["-m", "taskveil", "serve", join(folder, "release"), ...options], { env });
  let printed = "";
  const said = new Promise((done) => {
    for (const stream of [collector.stdout, collector.stderr]) {
      stream.on("data", (part) => {
        printed += part;
        if (/Uploads: .*\n/.test(printed)) done();
      });
    }
    collector.on("exit", done);
  });
  await said;
  const [, url, read] = printed.match(/(http:\S+\/)#token=(\w[\w-]*)/) ?? assert.fail(`no page: ${printed}`);
  const [, upload] = printed.match(/token="([^"]+)"/);
  const send = async (name) => {
    const headers = { Authorization: `Bearer ${upload}`, "Content-Type": "application/vnd.taskveil.reports" };
    const answer = await fetch(`${url}v1/reports`, { method: "POST", headers, body: readFileSync(join(folder, name)) });
    assert.equal(answer.status, 200, await answer.clone().text());
    return answer.json();
  };
  /** What the collector answers about its only release. */
  const estimate = async () => {
    const headers = { Authorization: `Bearer ${read}` };
    const [{ id }] = (await (await fetch(`${url}v1/releases`, { headers })).json()).releases;
    return (await fetch(`${url}v1/estimates?release=${id}&round=first`, { headers })).json();
  };
  const stop = () =>
    new Promise((done) => {
      if (collector.exitCode !== null) return done();
      collector.on("exit", done);
      collector.kill("SIGTERM");
    });
  return { url, read, send, estimate, stop };
}

export async function checkReal({ step, visit, picture }, prepared) {
  if (prepared === null) return;
  assert.equal(await prepared.made, 0, "the release was made");
  const { url, read, send, estimate, stop } = await serve(prepared.folder);
  const total = (page, text) => page.waitForFunction((wanted) => document.getElementById("total").textContent === wanted, text);
  try {
    await step("the viewer of the API shows every request of a real collector", async () => {
      const page = await visit({ url: `${url}docs`, token: null });
      const { paths, components } = await (await fetch(`${url}openapi.json`)).json();
      const wanted = Object.entries(paths).flatMap(([path, found]) => Object.keys(found).map((method) => `${method}-${path}`));
      const shown = await page.$$eval("details", (all) => all.map((one) => one.id));
      assert.deepEqual(shown.sort(), wanted.sort());
      const models = await page.$$eval("section", (all) => all.map((one) => one.id));
      assert.deepEqual(models, Object.keys(components.schemas));
      const links = await page.$$eval("a[href^='#']:not(.skip)", (all) => all.map((one) => one.getAttribute("href").slice(1)));
      assert.ok(links.length > 20 && links.every((name) => models.includes(name)));
      await page.$$eval("details", (all) => all.forEach((one) => (one.open = true)));
      for (const width of [320, 390, 1280]) {
        await page.setViewportSize({ width, height: 844 });
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, `${width} pixels`);
      }
      for (const colorScheme of ["dark", "light"]) {
        await page.emulateMedia({ colorScheme });
        const found = await contrasts(page);
        assert.ok(found.length > 100);
        assert.deepEqual(
          found.filter(({ contrast }) => contrast < 4.5),
          [],
        );
      }
      await page.$$eval("details", (all) => all.forEach((one, place) => (one.open = place === 0)));
      await picture(page, "docs.png");
      await page.setViewportSize({ width: 390, height: 844 });
      await page.emulateMedia({ colorScheme: "dark" });
      await picture(page, "docs-phone-dark.png");
    });

    await step("a real collector's page is ready within a second, and fills without a reload", async () => {
      const first = await visit({ url, token: read });
      const { ready } = await quickest(first);
      console.log(`  from navigation to releases and rounds ${ready.toFixed(0)} ms`);
      await first.close();
      const again = await visit({ url, token: read, clock: true });
      assert.equal(await again.textContent("#total"), "0");
      await again.waitForSelector("#reason");
      await again.waitForSelector(".chart");
      await again.evaluate(() => (window.same = true));
      assert.deepEqual(await send("few"), { accepted: 9, duplicate: 0, rejected: [] });
      await again.clock.runFor(2000);
      await total(again, "9");
      assert.match(await again.textContent("#reason"), /too few/);
      assert.deepEqual(await send("many"), { accepted: 3041, duplicate: 0, rejected: [] });
      assert.deepEqual(await send("few"), { accepted: 0, duplicate: 9, rejected: [] });
      await again.clock.runFor(2000);
      await total(again, "3,050");
      for (let patience = 0; patience < 50 && !(await again.$(".estimates")); patience++) {
        await again.clock.runFor(1000);
        await again.waitForTimeout(100);
      }
      const names = await again.$$eval(".estimates tbody th", (all) => all.map((cell) => cell.textContent));
      const answer = await estimate();
      assert.equal(answer.reports, 3050);
      assert.ok(answer.rows.length > 0);
      assert.deepEqual(
        names,
        answer.rows.map(({ name }) => name),
      );
      assert.match((await again.textContent(".crowd")).replaceAll("\u00a0", " "), /^Seen without order, time and sender, 3,000 honest reports .*central ε = 0\.\d+, δ = 0\.000001\./);
      assert.match(await again.textContent("#drift"), /volunteers/);
      const dots = await again.$$eval("circle.people[cx]", (all) => all.length);
      assert.equal(dots, answer.rows.length + 1); // and one in the legend
      assert.equal(await again.evaluate(() => window.same), true);
      const [download] = await Promise.all([again.waitForEvent("download"), again.click("#save")]);
      const file = readFileSync(await download.path());
      assert.deepEqual([file.subarray(0, 4).toString(), file.subarray(-4).toString()], ["PAR1", "PAR1"]);
      assert.ok(ready <= 1000, `${ready} ms`);
      await stop();
      await again.clock.runFor(2000);
      await again.waitForSelector("#connection.lost");
      assert.match(await again.textContent("#connection"), /The page shows data from/);
    });
  } finally {
    await stop();
  }
}
