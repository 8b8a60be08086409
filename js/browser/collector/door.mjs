// Who may look: the token in the address or in the form, kept for this tab, forgotten when told to or when refused.
import assert from "node:assert/strict";
import { contrasts } from "../page.mjs";
import { ADMIN, recorded, TOKEN } from "./server.mjs";

const kept = (page) => page.evaluate(() => sessionStorage.getItem("taskveil.token"));

export async function checkDoor({ step, visit, server, estimated }) {
  const [{ release }] = server.world.collections;

  await step("without a token the page asks for one, and says how to make one", async () => {
    const before = server.asked.length;
    const page = await visit({ token: null, ready: "door" });
    assert.match(await page.textContent("#door"), /taskveil token create NAME --scope read/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "token");
    for (const colorScheme of ["dark", "light"]) {
      await page.emulateMedia({ colorScheme });
      const found = await contrasts(page);
      assert.ok(found.length >= 6 && found.every(({ contrast }) => contrast >= 4.5), JSON.stringify(found));
    }
    assert.equal(await page.isVisible("#collection"), false);
    assert.ok(!server.asked.slice(before).some((path) => path.startsWith("/v1")), "nothing is asked without a token");
    await page.keyboard.type(`  ${TOKEN} `); // as pasted
    await page.keyboard.press("Enter");
    await page.waitForSelector("body[data-ready=true]");
    assert.equal(await page.isVisible("#door"), false);
    assert.equal(await kept(page), TOKEN);
  });

  await step("a token in the address is taken out of it, kept for the tab, and outlasts a reload", async () => {
    const page = await visit();
    assert.equal(page.url(), server.url);
    assert.equal(await page.evaluate(() => history.length), 2); // the blank page and this one: no entry has the token
    await page.reload();
    await page.waitForSelector("body[data-ready=true]");
    await estimated(page, release.id, release.current);
    assert.deepEqual(await page.evaluate(() => [document.cookie, localStorage.length]), ["", 0]);
    await page.click("#leave");
    assert.equal(await kept(page), null);
    assert.equal(await page.isVisible("#collection"), false);
    await page.goto(`${server.url}#token=${TOKEN}`); // into the page that is open: no reload
    await page.waitForSelector("body[data-ready=true]");
  });

  await step("a token that is refused leads back to the form, with the reason", async () => {
    const stranger = await visit({ token: "tv_wrong_token", ready: "door" });
    const refusal = "The token is not known. Make one with `taskveil token create`.";
    assert.equal(await stranger.textContent("#refusal"), refusal);
    assert.equal(await kept(stranger), null);
    await stranger.fill("#token", "žetón"); // which no header can carry as it is
    await stranger.keyboard.press("Enter");
    await stranger.waitForFunction((text) => document.getElementById("refusal").textContent === text, refusal);
    const page = await visit({ clock: true });
    await estimated(page, release.id, release.current);
    server.world.problem = { status: 401, title: "The token has expired" };
    await page.clock.runFor(2000);
    await page.waitForSelector("body[data-ready=door]");
    assert.equal(await page.textContent("#refusal"), "The token has expired.");
    server.world.problem = null;
    await page.fill("#token", TOKEN);
    await page.click("#door button");
    await page.waitForSelector("body[data-ready=true]");
    assert.equal(await page.textContent("#connection"), "Live");
  });

  await step("an admin token opens and ends rounds, and is kept nowhere", async () => {
    const page = await visit();
    await page.click("#operate summary");
    await page.fill("#new-round", "2026-W47/a");
    await page.click("#open-round"); // with the reader's token
    await page.waitForFunction(() => document.getElementById("operated").textContent.includes("scope admin"));
    assert.deepEqual(server.world.commands, []);
    await page.fill("#admin-token", ADMIN);
    await page.click("#open-round");
    await page.waitForFunction(() => document.getElementById("operated").textContent === "Round 2026-W47/a is open.");
    await page.waitForFunction(() => document.querySelector("#rounds tbody th").textContent.startsWith("2026-W47/a"));
    assert.deepEqual(await page.$$eval("#old-round option", (all) => all.map((one) => one.textContent)), ["2026-W47/a", "2026-W46"]);
    await page.selectOption("#old-round", "2026-W46");
    await page.click("#end-round");
    await page.waitForFunction(() => document.getElementById("operated").textContent === "Round 2026-W46 has ended.");
    await page.waitForFunction(() => document.querySelectorAll("#old-round option").length === 1);
    await page.fill("#new-round", "..");
    await page.press("#new-round", "Enter");
    assert.equal(await page.textContent("#operated"), "Give the round a name.");
    const base = `/v1/releases/${release.id}/rounds`;
    assert.deepEqual(server.world.commands, [`PUT ${base}/2026-W47%2Fa`, `POST ${base}/2026-W46/close`]);
    const stored = () => page.evaluate(() => JSON.stringify([{ ...sessionStorage }, { ...localStorage }, document.cookie, location.href]));
    assert.ok((await stored()).includes(TOKEN) && !(await stored()).includes(ADMIN));
    await page.click("#leave");
    assert.equal(await page.inputValue("#admin-token"), "");
    server.world.commands = [];
    server.world.collections = structuredClone(recorded);
  });
}
