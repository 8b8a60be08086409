// The demo page as people meet it: on a phone, without its release, by ear, and with colours that can be read.
import assert from "node:assert/strict";

/** Every text that can be seen, with the contrast of its colour to what lies behind it (WCAG 2). */
export const contrasts = (page) =>
  page.evaluate(() => {
    const channels = (css) => css.match(/[\d.]+/g).map(Number);
    const luminance = ([r, g, b]) => {
      const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
      return 0.2126 * x + 0.7152 * y + 0.0722 * z;
    };
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const colour = channels(getComputedStyle(at).backgroundColor);
        if (colour.length === 3 || colour[3] === 1) return colour;
      }
      return [255, 255, 255];
    };
    return [...document.querySelectorAll("body *")]
      .filter(
        (element) => element.checkVisibility() && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()),
      )
      .map((element) => {
        const [a, b] = [luminance(channels(getComputedStyle(element).color)), luminance(behind(element))];
        return {
          what: element.id || element.className || element.tagName,
          contrast: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
        };
      });
  });

const LIVE = "output, [aria-live], [role=status], [role=alert], [role=log]";

export async function checkPage({ step, visit, picture, open, url }) {
  const page = await visit();

  await step("every text has a contrast of at least 4.5", async () => {
    const found = await contrasts(page);
    assert.ok(found.length > 40);
    assert.deepEqual(
      found.filter(({ contrast }) => contrast < 4.5),
      [],
    );
  });

  await step("the bars have a scale that they keep to", async () => {
    const { lines, bars } = await page.evaluate(() => {
      const middle = (line) => line.getBoundingClientRect().top + line.getBoundingClientRect().height / 2;
      const mine = window.taskveil.client.odds(window.taskveil.record);
      return {
        lines: [...document.querySelectorAll("#scale span")].map((line) => [parseFloat(line.dataset.share), middle(line)]),
        bars: [...document.querySelectorAll("#chart i:nth-child(1)")].map((bar, k) => [100 * mine[k], bar.getBoundingClientRect().top]),
      };
    });
    const [[none, bottom], [most, top]] = [lines[0], lines.at(-1)];
    assert.equal(none, 0);
    assert.ok(lines.length >= 3 && lines.length <= 6, `${lines.length} lines`);
    for (const [share, height] of [...lines, ...bars]) {
      assert.ok(Math.abs(bottom - (share / most) * (bottom - top) - height) < 1.5, `${share}% at ${height}`);
    }
  });

  await step("moving a slider announces its own value and nothing else", async () => {
    const live = await page.$$eval(LIVE, (all) => all.map((element) => element.id));
    assert.deepEqual(live, ["trouble", "status"]);
    const before = await page.$$eval(LIVE, (all) => all.map((element) => element.textContent));
    await page.fill("#field-2", "8.5");
    assert.equal(await page.getAttribute("#field-2", "aria-valuetext"), "8.5 hours");
    assert.deepEqual(await page.$$eval(LIVE, (all) => all.map((element) => element.textContent)), before);
    const names = await page.$$eval("#fields input, #fields select", (all) => all.map((e) => e.ariaLabel ?? e.labels[0].textContent));
    assert.deepEqual(
      names.filter((name) => !name.startsWith("no answer: ")),
      await page.evaluate(() => window.taskveil.client.fields.map((field) => field.name)),
    );
    assert.equal(new Set(names).size, names.length);
  });

  await step("a drop-down, a date and a field left empty are part of the record", async () => {
    const now = (name) => page.evaluate((name) => window.taskveil.record[name], name);
    const guess = (row) => page.locator(`#guess tbody tr:nth-child(${row}) td:nth-child(2)`).textContent();
    assert.equal(await now("resting pulse"), null);
    assert.ok(await page.locator("#field-1").isDisabled());
    await page.uncheck(".field:nth-child(2) .empty input");
    await page.fill("#field-1", "61");
    assert.deepEqual([await now("resting pulse"), await guess(2)], [61, "61.0 per minute"]);
    await page.check(".field:nth-child(2) .empty input");
    assert.deepEqual([await now("resting pulse"), await guess(2)], [null, "no answer"]);
    assert.equal(await page.getAttribute("#field-1", "aria-valuetext"), "no answer");

    const options = await page.$$eval("#field-4 option", (all) => all.map((option) => option.textContent));
    assert.deepEqual(options, ["none", "walking", "cycling", "running", "something else", "no answer"]);
    for (const [option, value] of options.map((text) => [text, text === "no answer" ? null : text])) {
      await page.selectOption("#field-4", option);
      assert.equal(await now("sport"), value);
    }
    for (const [option, value] of [["yes", true], ["no answer", null], ["no", false]]) {
      await page.selectOption("#field-5", option);
      assert.equal(await now("smokes"), value);
    }
    await page.fill("#field-6", "2020-02-29");
    assert.deepEqual([await now("last check-up"), await guess(7)], ["2020-02-29", "2020-02-29"]);
    await page.fill("#field-6", ""); // as browsers clear a date
    assert.equal(await now("last check-up"), null);
    await page.check(".field:nth-child(7) .empty input");
    assert.deepEqual([await now("last check-up"), await guess(7)], [null, "no answer"]);
    const report = await page.evaluate(() => window.taskveil.client.odds(window.taskveil.record));
    assert.ok(Math.abs(report.reduce((a, b) => a + b) - 1) < 1e-12);
  });
  await page.close();

  await step("a phone of 360 pixels shows all of it without sideways scrolling", async () => {
    for (const width of [320, 360, 768, 1280]) {
      const phone = await visit({ width, height: 780 });
      const wide = await phone.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(wide <= width, `${wide} pixels on a screen of ${width}`);
      const outside = await phone.$$eval(
        "body *",
        (all, most) =>
          all.filter((e) => e.checkVisibility() && e.getBoundingClientRect().right > most + 0.5).map((e) => e.id || e.tagName),
        width,
      );
      assert.deepEqual(outside, []);
      if (width === 360 || width === 1280) await picture(phone, width === 360 ? "browser-phone.png" : "browser-wide.png", true);
      await phone.close();
    }
  });

  await step("without its release the page says so, and nothing can be pressed", async () => {
    const context = await open();
    for (const missing of ["**/release/client/manifest.json", "**/release/shown.json", "**/weights.safetensors"]) {
      const lost = await context.newPage();
      await lost.route(missing, (route) => route.fulfill({ status: 404 }));
      await lost.goto(url);
      await lost.waitForSelector("body[data-ready=failed]");
      assert.match(await lost.locator("#trouble").textContent(), /cannot work now: cannot fetch .*404.*nothing was sent/s);
      assert.ok(await lost.locator("#trouble").isVisible());
      assert.equal(await lost.locator("main").isVisible(), false);
      assert.deepEqual(await lost.$$eval("button, select", (all) => all.filter((e) => !e.disabled).map((e) => e.id)), []);
      if (missing.includes("shown")) await picture(lost, "browser-missing.png", true);
      await lost.close();
    }
  });
}
