/** With real entropy, the browser client's reports are distributed like the Python client's. */
import { existsSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { draw } from "../src/client";
import { system } from "../src/entropy";
import { type Device, readDevice } from "../src/release";
import { devices, files, read } from "./files";

/** Standard normal score of the two-sample χ² statistic (Wilson and Hilferty); cells are pooled until they hold 20. */
function chiSquare(ours: Map<number, number>, theirs: Map<number, number>): number {
  const keys = [...new Set([...ours.keys(), ...theirs.keys()])].sort((a, b) => a - b);
  let [statistic, cells, n, m] = [0, 0, 0, 0];
  const close = (): void => {
    statistic += (n - m) ** 2 / (n + m);
    cells++;
    [n, m] = [0, 0];
  };
  for (const key of keys) {
    n += ours.get(key) ?? 0;
    m += theirs.get(key) ?? 0;
    if (n + m >= 20) close();
  }
  if (n + m > 0) close();
  const k = cells - 1;
  return (Math.cbrt(statistic / k) - (1 - 2 / (9 * k))) / Math.sqrt(2 / (9 * k));
}

/** Five standard deviations: an honest client fails once in three million runs. */
const LIMIT = 5;

function tally(device: Device, x: number[], bucket: number, count: number): Map<number, number> {
  const counts = new Map<number, number>();
  const { low, bytes } = device.layout[0]!;
  for (let i = 0; i < count; i++) {
    const { payload } = draw(device, x, system);
    let value = 0;
    for (let at = bytes - 1; at >= 0; at--) value = value * 256 + payload[at]!;
    const key = Math.floor((value + Number(low)) / bucket);
    counts.set(key, (counts.get(key) ?? 0) + 1);
  }
  return counts;
}

describe.each(devices().filter((name) => existsSync(new URL(`vectors/${name}/counts.json`, import.meta.url))))(
  "%s with real entropy",
  (name) => {
    const described = JSON.parse(new TextDecoder().decode(read(`${name}/counts.json`)));
    const theirs = new Map<number, number>(Object.entries<number>(described.counts).map(([k, v]) => [Number(k), v]));

    test("1,000,000 reports of each language are distributed alike", async () => {
      const device = await readDevice(files(name));
      const total = [...theirs.values()].reduce((a, b) => a + b, 0);
      expect(total).toBe(1_000_000);
      const score = chiSquare(tally(device, described.record, described.bucket, total), theirs);
      console.log(`${name}: χ² over ${theirs.size} cells, standard score ${score.toFixed(2)}`);
      expect(score).toBeLessThan(LIMIT);
    });
  },
);

test("χ² rejects noise that is 3% too narrow", async () => {
  const described = JSON.parse(new TextDecoder().decode(read("laplace_box/counts.json")));
  const theirs = new Map<number, number>(Object.entries<number>(described.counts).map(([k, v]) => [Number(k), v / 2]));
  const device = await readDevice(files("laplace_box"));
  if (device.mechanism.kind !== "laplace") throw new Error("not Laplace");
  device.mechanism.scale *= 0.97;
  expect(chiSquare(tally(device, described.record, described.bucket, 500_000), theirs)).toBeGreaterThan(LIMIT);
});
