/** One list of forged and broken releases, written by the Python tests: what Python refuses, the browser refuses too. */
import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { readDevice } from "../src/release.js";
import { cpuTime } from "./cpu.js";

interface Forgery {
  why: string;
  manifest: string;
  weights: string;
}

const forgeries: Forgery[] = JSON.parse(readFileSync(new URL("vectors/forged.json", import.meta.url), "utf8"));
const bytes = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(text, "base64"));

test("there are forgeries to refuse", () => expect(forgeries.length).toBeGreaterThan(30));

test.each(forgeries)("$why", async ({ manifest, weights }) => {
  const started = cpuTime();
  const reading = readDevice({ manifest: bytes(manifest), weights: bytes(weights) });
  const error: unknown = await reading.then(() => "believed", (refusal) => refusal);
  expect(error).toMatchObject({ name: "TaskveilError" });
  expect(["release", "version"]).toContain((error as { code: string }).code);
  expect(cpuTime() - started).toBeLessThan(2000);
});
