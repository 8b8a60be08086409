// Records of natural values in a real browser: Python's numbers, bit for bit, and whatever a page may hand over.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const COUNT = 2000;
const vectors = (path) => readFileSync(new URL(`../test/vectors/${path}`, import.meta.url));

/** What the vectors are held against, in one file: the client's own code and the reader of the vectors. */
async function checker() {
  const contents = `
    export { record } from "./src/client.ts";
    export { readDevice } from "./src/release.ts";
    export { bitsOf, parseMixed } from "./test/mixed.ts";`;
  const stdin = { contents, resolveDir: fileURLToPath(new URL("..", import.meta.url)), loader: "ts" };
  const { outputFiles } = await build({ stdin, bundle: true, format: "esm", write: false });
  return outputFiles[0].text;
}

export async function checkMixed({ step, page }) {
  await step(`${COUNT} mixed records become Python's numbers in this browser`, async () => {
    await page.route("**/checker.js", async (route) => route.fulfill({ contentType: "text/javascript", body: await checker() }));
    for (const name of ["mixed", "mixed_strange"]) {
      const { wrong, count } = await page.evaluate(
        async ({ manifest, weights, lines }) => {
          const { bitsOf, parseMixed, readDevice, record } = await import("/checker.js");
          const device = await readDevice({ manifest: Uint8Array.from(manifest), weights: Uint8Array.from(weights) });
          const parsed = lines.map(parseMixed);
          return { wrong: parsed.filter(({ values, numbers }) => bitsOf(record(device, values)) !== numbers).length, count: parsed.length };
        },
        {
          manifest: [...vectors(`${name}/manifest.json`)],
          weights: [...vectors(`${name}/weights.safetensors`)],
          lines: vectors(`${name}/vectors.jsonl`).toString().split("\n").slice(0, COUNT),
        },
      );
      assert.deepEqual({ wrong, count }, { wrong: 0, count: COUNT }, name);
    }
  });

  await step("a mixed record of anything a page may have is one report", async () => {
    const { lengths, kinds, same } = await page.evaluate(async () => {
      const { Client } = await import("/taskveil.js");
      const client = await Client.load("/unplanned/client/", { ledger: "mixed", cap: 1e9 });
      const people = [
        { age: 52, "resting pulse": 61.5, sleep: 7, household: 2n, sport: "cycling", smokes: true, "last check-up": new Date() },
        { age: "52", "resting pulse": null, sleep: NaN, household: undefined, sport: 4, smokes: "TRUE", "last check-up": "2024-02-30" },
        { age: 1e400, "resting pulse": {}, sleep: [], household: Symbol("s"), sport: () => {}, smokes: 7, "last check-up": document },
      ];
      const reports = await Promise.all(people.map((person, round) => client.report(person, { round })));
      const odds = (day) => client.odds({ ...people[0], "last check-up": day }).join();
      const input = document.createElement("input");
      Object.assign(input, { type: "date", value: "2024-02-29" });
      return {
        lengths: reports.map((report) => report.toBytes().length),
        kinds: client.fields.map((field) => field.kind),
        same: new Set([input.value, input.valueAsDate, new Date("2024-02-29"), "2024/02/29 00:00"].map(odds)).size,
      };
    });
    assert.deepEqual(lengths, [53, 53, 53]);
    assert.deepEqual(kinds, ["number", "number", "number", "count", "category", "flag", "date"]);
    assert.equal(same, 1);
  });
}
