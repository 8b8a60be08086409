// How the page is met: by keyboard, on a phone, in the dark, by ear.
import assert from "node:assert/strict";
import { contrasts } from "../page.mjs";
import { recorded } from "./server.mjs";

export async function checkLooks({ step, visit, estimated, picture, server }) {
  const { world } = server;
  const ids = recorded.map(({ release }) => release.id);

  const page = await visit();
  await page.waitForSelector(".chart");

  /** At least so many texts, and a contrast of 4.5 for each, in the light and in the dark. */
  const readable = async (least) => {
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme });
      const found = await contrasts(page);
      assert.ok(found.length >= least, `${found.length} texts`);
      assert.deepEqual(
        found.filter(({ contrast }) => contrast < 4.5),
        [],
      );
    }
  };
  /** By how much the page is too wide, and what reaches beyond its edge. */
  const outside = () =>
    page.evaluate(() => {
      const wide = document.documentElement.clientWidth;
      const found = [...document.querySelectorAll("body *")].filter(
        (e) =>
          e.checkVisibility() &&
          !e.closest(".hidden, .skip") &&
          e.getBoundingClientRect().width > 0 &&
          e.getBoundingClientRect().right > wide + 0.5,
      );
      return [
        document.documentElement.scrollWidth - wide,
        ...found.map((e) => e.id || e.className.baseVal || e.className || e.tagName),
      ];
    });
  const fits = async () => {
    for (const width of [320, 390, 700, 920, 1240]) {
      await page.setViewportSize({ width, height: 844 });
      await page.waitForTimeout(60); // the curve fits itself
      assert.deepEqual(await outside(), [0], `${width} pixels`);
    }
  };

  await step("every text has a contrast of at least 4.5, in the light and in the dark", async () => {
    await page.selectOption("#round", "2026-W46");
    await page.selectOption("#since", "2026-W45");
    await estimated(page, ids[0], "2026-W46", "2026-W45");
    await page.click("#curve summary");
    await page.waitForTimeout(300); // it fades in
    await readable(100);
    await page.click("#curve summary");
    await page.selectOption("#since", "");
    await estimated(page, ids[0], "2026-W46");
    await page.click("#operate summary");
    await readable(100);
    for (const [width, end] of [[1280, ""], [390, "-phone"]])
      for (const colorScheme of ["dark", "light"]) {
        await page.setViewportSize({ width, height: 844 });
        await page.emulateMedia({ colorScheme });
        await page.evaluate(() => document.activeElement.blur());
        await picture(page, `collector${end}${colorScheme === "dark" ? "-dark" : ""}.png`);
      }
    await fits(); // with the form open
    await page.click("#operate summary");
  });

  await step("no width scrolls sideways", async () => {
    await page.selectOption("#round", "2026-W46");
    await page.selectOption("#since", "2026-W45");
    await estimated(page, ids[0], "2026-W46", "2026-W45");
    await page.click("#curve summary");
    await fits();
  });

  await step("the same of all rounds together, and of assumed rows", async () => {
    await page.selectOption("#round", "");
    await estimated(page, ids[0]);
    await readable(100);
    await fits();
    await picture(page, "collector-rounds.png");
    await page.click(`#tab-${ids[1]}`);
    await page.selectOption("#assume", "cells");
    await estimated(page, ids[1], "autumn", "", "cells");
    await readable(50);
    await fits();
    await picture(page, "collector-assumed.png");
    await page.emulateMedia({ colorScheme: "dark" });
    await picture(page, "collector-assumed-dark.png");
    await page.setViewportSize({ width: 390, height: 844 });
    await picture(page, "collector-assumed-phone.png");
    await page.emulateMedia({ colorScheme: "light" });
    await page.setViewportSize({ width: 1240, height: 844 });
  });

  await step("all of it by keyboard: skip link, tabs by arrows, visible focus in the order of the page", async () => {
    await page.reload(); // to begin at the top
    await page.waitForSelector(".chart");
    const focused = () =>
      page.evaluate(() => document.activeElement.id || document.activeElement.className || document.activeElement.tagName);
    const order = [];
    for (let press = 0; press < 8; press++) {
      await page.keyboard.press("Tab");
      order.push(await focused());
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineWidth);
      assert.equal(outline, "3px", order.at(-1));
    }
    assert.deepEqual(order.slice(0, 6), ["skip", "leave", `tab-${ids[0]}`, "SUMMARY", "round", "since"]);
    await page.focus(`#tab-${ids[0]}`);
    for (const [key, place] of [
      ["ArrowRight", 1],
      ["ArrowRight", 2],
      ["ArrowRight", 0],
      ["ArrowLeft", 2],
      ["Home", 0],
      ["End", 2],
    ]) {
      await page.keyboard.press(key);
      assert.equal(await focused(), `tab-${ids[place]}`);
      assert.equal(await page.getAttribute("[role=tab][aria-selected=true]", "id"), `tab-${ids[place]}`);
      assert.equal(await page.textContent("#title h2"), recorded[place].release.name);
    }
    assert.equal(await page.$$eval("[role=tab][tabindex='0']", (all) => all.length), 1);
    await page.focus(".skip");
    assert.ok(await page.$eval(".skip", (link) => link.getBoundingClientRect().top >= 0));
    await page.keyboard.press("Enter");
    assert.equal(await focused(), "main");
    assert.ok(await page.isVisible("#collection"), "the fragment of the skip link is no token");
  });

  await step("by ear: language, title, headings in order, tables with captions, and quiet while counts grow", async () => {
    const page = await visit({ clock: true });
    await estimated(page, ids[0], "2026-W46");
    await page.waitForSelector(".chart");
    assert.equal(await page.getAttribute("html", "lang"), "en");
    assert.equal(await page.title(), "wellbeing · taskveil collector");
    const levels = await page.$$eval("h1, h2, h3, h4", (all) =>
      all.filter((e) => e.checkVisibility()).map((e) => Number(e.tagName[1])),
    );
    assert.deepEqual([levels[0], levels[1]], [1, 2]);
    levels.reduce((before, level) => (assert.ok(level <= before + 1, `h${level} after h${before}`), level));
    const tables = await page.$$eval("table", (all) =>
      all.map((e) => [e.caption.textContent.length > 5, [...e.querySelectorAll("th")].every((th) => th.scope)]),
    );
    assert.equal(tables.length, 4);
    assert.ok(tables.flat().every(Boolean));
    const unnamed = await page.$$eval("button, select, input, [role=img], section", (all) =>
      all
        .filter(
          (e) =>
            e.checkVisibility() &&
            !(e.textContent && e.tagName === "BUTTON") &&
            !e.labels?.length &&
            !e.ariaLabel &&
            !document.getElementById(e.getAttribute("aria-labelledby")),
        )
        .map((e) => e.outerHTML),
    );
    assert.deepEqual(unnamed, []);
    const live = () => page.$$eval("[aria-live], [role=status], [role=alert]", (all) => all.map((e) => e.textContent));
    const before = await live();
    world.collections[0].release.reports += 3000;
    await page.clock.runFor(2000);
    await page.waitForFunction(() => document.getElementById("total").textContent === "15,500");
    assert.deepEqual(await live(), before);
    world.collections = structuredClone(recorded);
  });

  await step("nothing moves for those who want that", async () => {
    await page.emulateMedia({ reducedMotion: "reduce" });
    const moving = await page.$$eval(
      "body *",
      (all) =>
        all.filter((e) => getComputedStyle(e).transitionDuration !== "0s" || getComputedStyle(e).animationName !== "none").length,
    );
    assert.equal(moving, 0);
    await page.emulateMedia({ reducedMotion: "no-preference" });
    assert.ok(
      (await page.$$eval("#rounds i", (all) => all.filter((e) => getComputedStyle(e).transitionDuration !== "0s").length)) > 0,
    );
  });
}
