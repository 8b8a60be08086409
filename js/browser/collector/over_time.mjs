// A release that plans its rounds: what a person spends in all of them, and every row over the rounds.
import assert from "node:assert/strict";
import { contrasts } from "../page.mjs";
import { overTime, recorded } from "./server.mjs";

export async function checkOverTime({ step, visit, picture, server }) {
  const { world, asked } = server;
  const { release, series } = overTime;

  await step("releases with fewer than three rounds have no line", async () => {
    const before = asked.length;
    const page = await visit();
    await page.waitForFunction(() => document.body.dataset.estimates);
    assert.equal(await page.isVisible("#course"), false);
    assert.equal(asked.slice(before).filter((path) => path.startsWith("/v1/estimates/series")).length, 0);
  });

  world.collections = [structuredClone(overTime)];
  const page = await visit();
  await page.waitForSelector("#series figure");

  await step("a person's reports in all planned rounds and so far", async () => {
    const lines = await page.$$eval("#together li", (all) => all.map((one) => one.textContent.replaceAll("\u00a0", " ")));
    assert.deepEqual(lines, [
      "A person makes at most 2 reports in 26 planned rounds, in total ε = 4 (odds of at most 54.6 to 1).",
      "In 18 rounds so far a person made at most 2 reports: ε = 4 (odds of at most 54.6 to 1).",
    ]);
  });

  await step("every row is a line with a band and a mark for each round, and its numbers are in the table", async () => {
    const titles = await page.$$eval("#series figcaption", (all) => all.map((one) => one.textContent));
    assert.deepEqual(titles, series.rows.map(({ title }) => title));
    const marks = await page.$$eval("#series figure", (all) => all.map((one) => one.querySelectorAll("circle").length));
    assert.deepEqual(marks, series.rows.map(() => series.rounds.length));
    const points = await page.$eval("#series .band", (band) => band.getAttribute("points").split(" ").length);
    assert.equal(points, 2 * series.rounds.length);
    assert.equal(await page.$$eval("#series figure:first-child .apart", (all) => all.length), 1);
    await page.click("#series summary");
    const cells = await page.$$eval("#series tbody tr", (all) => all.map((line) => line.children.length));
    assert.deepEqual(cells, series.rounds.map(() => 2 + series.rows.length));
    const [first] = await page.$$eval("#series tbody tr:last-child td", (all) => all.slice(1).map((one) => one.textContent));
    const { mean, low, high } = series.rows[0];
    const said = (value) => value.toFixed(1);
    assert.equal(first, `${said(mean[0])}${said(low[0])} … ${said(high[0])}`);
    assert.ok((await page.textContent("#series")).includes(series.statement));
  });

  await step("with the number of people, the response", async () => {
    await page.fill("#people-asked", "21000");
    await page.press("#people-asked", "Enter");
    await page.waitForFunction(() => document.querySelector("#series figcaption").textContent.startsWith("Response"));
    assert.ok(asked.some((path) => path.includes("people=21000")));
    assert.match(await page.textContent("#series tbody td"), /^1,500of 1,615$/);
  });

  await step("it can be read and fits, in the light and in the dark", async () => {
    for (const colorScheme of ["dark", "light"])
      for (const width of [320, 390, 700, 1280]) {
        await page.setViewportSize({ width, height: 844 });
        await page.emulateMedia({ colorScheme });
        await page.waitForTimeout(120); // charts fit themselves
        const pale = (await contrasts(page)).filter(({ contrast }) => contrast < 4.5);
        assert.deepEqual(pale, [], `${colorScheme}, ${width} pixels`);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.equal(wide, 0, `${width} pixels`);
        if (width === 390 || width === 1280)
          await picture(page, `over-time-${width}${colorScheme === "dark" ? "-dark" : ""}.png`);
      }
  });

  await step("a round without estimate leaves a gap, and a problem is shown", async () => {
    const gap = structuredClone(overTime);
    for (const row of gap.series.rows) for (const name of ["mean", "low", "high"]) row[name][3] = null;
    world.collections = [gap];
    const other = await visit();
    await other.waitForSelector("#series figure");
    assert.equal(await other.$$eval("#series figure:first-child circle", (all) => all.length), series.rounds.length - 1);
    delete gap.series;
    const third = await visit();
    await third.waitForSelector("#series .callout");
    assert.match(await third.textContent("#series"), /There is nothing here/);
  });

  world.collections = structuredClone(recorded);
  assert.equal(release.panel.rounds.length, 26);
}
