// The client where only a real browser can tell: its storage, its clock, its questions to the person.
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

/** The forged thin region of `test/forge.ts`, as lists that a page can be handed. */
async function thinRelease() {
  const folder = mkdtempSync(join(tmpdir(), "taskveil-forge-"));
  const outfile = join(folder, "forge.mjs");
  try {
    const entry = fileURLToPath(new URL("../test/forge.ts", import.meta.url));
    await build({ entryPoints: [entry], bundle: true, platform: "node", format: "esm", outfile });
    const { manifest, weights } = (await import(pathToFileURL(outfile).href)).thin();
    return { manifest: Array.from(manifest), weights: Array.from(weights) };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** A record of the demo's release, in its order. */
export const X = [50, null, 7.5, 2, "running", true, "2024-05-06"];

export async function checkClient({ step, page }) {
  await step("a report takes no longer with 2,000 others in the ledger", async () => {
    const { few, many } = await page.evaluate(async (x) => {
      const { Client } = await import("/taskveil.js");
      const [short, long] = await Promise.all(
        ["short", "long"].map((ledger) => Client.load("/unplanned/client/", { ledger, cap: 1e9 })),
      );
      // Recorded without waiting for one another: only their number matters here.
      await Promise.all(Array.from({ length: 2000 }, (_, i) => long.report(x, { round: 1000 + i })));
      const timed = async (client, round) => {
        const start = performance.now();
        await client.report(x, { round });
        return performance.now() - start;
      };
      // Turn and turn about, and the least of each: whatever else the machine does hits both, and seldom all of one.
      let [few, many] = [Infinity, Infinity];
      for (let round = 0; round < 60; round++) {
        few = Math.min(few, await timed(short, round));
        many = Math.min(many, await timed(long, round));
      }
      return { few, many };
    }, X);
    console.log(`  ${few.toFixed(2)} ms with 60 reports, ${many.toFixed(2)} ms with 2,060`);
    assert.ok(many < 3 * few + 10, `${many} ms against ${few} ms`); // reading all of them took 50 ms and more
  });

  await step("a ledger of the first version is taken over", async () => {
    const { spent, same, report } = await page.evaluate(async (x) => {
      const { Client } = await import("/taskveil.js");
      const client = await Client.load("/unplanned/client/", { ledger: "old", cap: 1e9 });
      const made = await client.report(x, { round: "a" });
      client.close();
      await new Promise((done) => (indexedDB.deleteDatabase("old").onsuccess = done));
      await new Promise((done) => {
        const request = indexedDB.open("old", 1);
        request.onupgradeneeded = () => {
          const store = request.result.createObjectStore("reports", { keyPath: ["release", "round"] });
          const release = Array.from(made.release, (v) => v.toString(16).padStart(2, "0")).join("");
          store.add({ release, round: "a", epsilon: 2, bytes: made.toBytes() });
          store.add({ release, round: "b", epsilon: 0.5, bytes: made.toBytes() });
        };
        request.onsuccess = () => (request.result.close(), done());
      });
      const again = await Client.load("/unplanned/client/", { ledger: "old", cap: 1e9 });
      return {
        spent: (await again.spent()).soFar,
        same: (await again.recorded("a")).id.join() === made.id.join(),
        report: made.toBytes().length,
      };
    }, X);
    assert.deepEqual({ spent, same, report }, { spent: 2.5, same: true, report: 53 });
  });

  await step("an unanswered question about storage holds nothing up", async () => {
    const { persistent, length } = await page.evaluate(async (x) => {
      const { Client } = await import("/taskveil.js");
      const { persist } = StorageManager.prototype;
      StorageManager.prototype.persist = () => new Promise(() => {});
      try {
        const client = await Client.load("/unplanned/client/", { ledger: "asked" });
        return { persistent: client.persistent, length: (await client.report(x)).toBytes().length };
      } finally {
        StorageManager.prototype.persist = persist;
      }
    }, X);
    assert.deepEqual({ persistent, length }, { persistent: false, length: 53 });
  });

  await step("a tab lets a newer version of the ledger pass", async () => {
    const said = await page.evaluate(async (x) => {
      const { Client } = await import("/taskveil.js");
      const client = await Client.load("/unplanned/client/", { ledger: "newer", cap: 1e9 });
      await new Promise((done, fail) => {
        const request = indexedDB.open("newer", 9);
        request.onsuccess = () => (request.result.close(), done());
        request.onblocked = () => fail(new Error("blocked"));
      });
      return client.report(x).catch((error) => `${error.code}: ${error.message}`);
    }, X);
    assert.match(said, /^ledger: .*load the page again/);
  });

  await step("a stalled collector is given up, and an upload can be stopped", async () => {
    const [late, stopped] = await page.evaluate(async (x) => {
      const { Client, upload } = await import("/taskveil.js");
      const client = await Client.load("/unplanned/client/", { ledger: "stalled" });
      const report = await client.report(x);
      const { fetch } = window;
      // A server that takes the request and never answers.
      window.fetch = (_, { signal }) => new Promise((_, refuse) => signal.addEventListener("abort", () => refuse(signal.reason)));
      const codes = [];
      try {
        await upload([report], "/v1/reports", { timeout: 50, attempts: 2, pause: 1 }).catch((error) => codes.push(error.code));
        const controller = new AbortController();
        setTimeout(() => controller.abort(), 50);
        await upload([report], "/v1/reports", { signal: controller.signal }).catch((error) => codes.push(error.code));
      } finally {
        window.fetch = fetch;
      }
      return codes;
    }, X);
    assert.deepEqual([late, stopped], ["upload", "aborted"]);
  });

  await step("a forged region freezes no page, whatever the record", async () => {
    const { usual, forged } = await page.evaluate(
      async ({ x: usualRecord, manifest, weights }) => {
        const { Client } = await import("/taskveil.js");
        const files = { manifest: Uint8Array.from(manifest), weights: Uint8Array.from(weights) };
        const clients = {
          usual: await Client.load("/unplanned/client/", { ledger: "both", cap: 1e9 }),
          forged: await Client.load(files, { ledger: "both", cap: 1e9 }),
        };
        const times = { usual: [], forged: [] };
        for (let round = 0; round < 40; round++) {
          for (const kind of ["usual", "forged"]) {
            const x = kind === "usual" ? usualRecord : [0.3 + round / 1000, 0.7];
            const start = performance.now();
            await clients[kind].report(x, { round });
            times[kind].push(performance.now() - start);
          }
        }
        return { usual: times.usual.sort((a, b) => a - b)[30], forged: times.forged.sort((a, b) => a - b)[30] };
      },
      { x: X, ...(await thinRelease()) },
    );
    console.log(
      `  three quarters of the reports take up to ${forged.toFixed(2)} ms, of an ordinary release ${usual.toFixed(2)} ms`,
    );
    assert.ok(forged < 3 * usual + 10);
  });
}
