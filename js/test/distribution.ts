/** Two-sample χ² between the browser client's reports and the Python client's, both with real entropy. */
import { expect, test } from "vitest";
import { draw } from "../src/client.js";
import { system } from "../src/entropy.js";
import { type Device, readDevice } from "../src/release.js";
import { files, read, size } from "./files.js";

const SIZE = size();

/** Standard normal score of the two-sample χ² statistic (Wilson and Hilferty); cells are pooled until they hold 20. */
export function chiSquare(ours: Map<number, number>, theirs: Map<number, number>): number {
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
export const LIMIT = 5;

export function tally(device: Device, x: number[], bucket: number, count: number): Map<number, number> {
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

/** The counts that `tests/vectors.py` wrote, of `SIZE.reports` reports. */
export function counted(name: string): { record: number[]; bucket: number; theirs: Map<number, number> } {
  const { record, bucket, counts } = JSON.parse(new TextDecoder().decode(read(`${name}/counts.json`)));
  return { record, bucket, theirs: new Map(Object.entries<number>(counts).map(([k, v]) => [Number(k), v])) };
}

export function alike(name: string): void {
  test(`${name}: ${SIZE.reports} reports of each language are distributed alike`, async () => {
    const { record, bucket, theirs } = counted(name);
    const total = [...theirs.values()].reduce((a, b) => a + b, 0);
    expect(total).toBe(SIZE.reports);
    const score = chiSquare(tally(await readDevice(files(name)), record, bucket, total), theirs);
    console.log(`${name}: χ² over ${theirs.size} cells, standard score ${score.toFixed(2)}`);
    expect(score).toBeLessThan(LIMIT);
  });
}
