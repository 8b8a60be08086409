/** How long a report takes must not tell the record it was made from, whatever release an attacker made up. */
import { describe, expect, test } from "vitest";
import { draw, record } from "../src/client.js";
import { system } from "../src/entropy.js";
import type { Files } from "../src/files.js";
import { type Diamond, enforce, l1, type Signs } from "../src/regions.js";
import { type Device, readDevice } from "../src/release.js";
import { devices, files, mixed } from "./files.js";
import { I64, linear, release, rows, thin } from "./forge.js";

/** Of the slowest record to the quickest; each record counts with the quickest of several runs. */
const MOST = 3;
const ODD = [NaN, Infinity, -Infinity, 1e308, -1e308, 1e-308, 5e-324, -5e-324, 0, -0, 1e18, -1e18, 2 ** 53];

/** The same numbers in every run, from 0 to 1. */
function* numbers(): Generator<number, never> {
  for (let state = 1n; ; state = (state * 6364136223846793005n + 1442695040888963407n) % (1n << 64n))
    yield Number(state >> 11n) / 2 ** 53;
}

function hostile(device: Device): number[][] {
  const { low, high } = device.encoder;
  const width = low.length;
  const next = numbers();
  const drawn = (make: (i: number, u: number) => number): number[] =>
    Array.from({ length: width }, (_, i) => make(i, next.next().value));
  const one = [1e300, -1e300, Infinity, NaN].map((v) => Array.from({ length: width }, (_, i) => (i ? 0 : v)));
  const mixed = Array.from({ length: 40 }, () => drawn((_, u) => ODD[Math.floor(u * ODD.length)]!));
  const inside = Array.from({ length: 60 }, () => drawn((i, u) => low[i]! + (1.2 * u - 0.1) * (high[i]! - low[i]!)));
  return [...ODD.map((v) => Array<number>(width).fill(v)), ...one, ...mixed, ...inside];
}

function slowestToQuickest<X>(device: Device, records: X[], numbersOf: (x: X) => number[]): number {
  const best = records.map(() => Infinity);
  const run = (x: X, times: number): number => {
    const start = performance.now();
    for (let i = 0; i < times; i++) draw(device, numbersOf(x), system);
    return (performance.now() - start) / times;
  };
  for (const x of records) run(x, 3); // first the compiler's time
  const times = Math.max(1, Math.min(20, Math.floor(0.3 / run(records[0]!, 20))));
  for (let round = 0; round < 12; round++) records.forEach((x, i) => (best[i] = Math.min(best[i]!, run(x, times))));
  const [most, least] = [Math.max(...best), Math.min(...best)];
  console.log(
    `quickest ${(1e3 * least).toFixed(1)} µs, slowest ${(1e3 * most).toFixed(1)} µs: ${(most / least).toFixed(2)} times`,
  );
  return most / least;
}

/** Levels near the region for some records, far beyond what doubles square exactly for others. */
function farLattice(): Files {
  const d = 9;
  const box = (v: number) => I64(...Array(d).fill(v));
  const levels = Array.from({ length: d }, () => [-(2 ** 24), 0, 2 ** 24]).flat();
  const lengths = Array.from({ length: d }, () => [1, 0, 1]).flat();
  const lattice = { kind: "lattice", levels: I64(...levels), lengths: I64(...lengths), counts: box(3), budget: 60 };
  const response = { kind: "response", size: 3 ** d, favoured: 1, a: 2, b: 1 };
  const region = { kind: "box_region", step: 1, low: box(-(2 ** 24)), high: box(2 ** 24) };
  const gain = Array.from({ length: d }, (_, i) => [i < 5 ? 32 : 1, 0]);
  return release({
    encoder: linear(gain),
    mechanism: { kind: "lattice_codebook", region, lattice, response },
    epsilon: "0.6931471805599454",
  });
}

/** Many levels and hardly any budget: numbering codewords is all the work, and it grows with the numbers. */
function longLattice(): Files {
  const [d, count] = [12, 600];
  const levels = Array.from({ length: d * count }, (_, n) => 1000 * (n % count) - 300_000);
  const lattice = {
    kind: "lattice",
    levels: I64(...levels),
    lengths: I64(...Array(d * count).fill(0)),
    counts: I64(...Array(d).fill(count)),
    budget: 0,
  };
  const response = { kind: "response", size: { integer: String(BigInt(count) ** BigInt(d)) }, favoured: 1, a: 2, b: 1 };
  const region = { kind: "box_region", step: 1, low: I64(...Array(d).fill(-(2 ** 20))), high: I64(...Array(d).fill(2 ** 20)) };
  return release({
    encoder: linear(Array.from({ length: d }, () => [1, 0])),
    mechanism: { kind: "lattice_codebook", region, lattice, response },
    epsilon: "0.6931471805599454",
  });
}

/** Scores in rising or falling order for some records, in none for others. */
function manyFavoured(): Files {
  const count = 2000;
  const next = numbers();
  const vectors = Array.from({ length: count }, (_, j) => [j, Math.floor(1000 * next.next().value)]);
  const response = { kind: "response", size: count, favoured: 500, a: 2, b: 1 };
  const shifts = rows(
    "I64",
    vectors.map(() => [0, 0]),
  );
  const stage = { kind: "stage", vectors: rows("I64", vectors), offsets: I64(...Array(count).fill(0)), shifts, response };
  const region = { kind: "box_region", step: 1, low: I64(-(2 ** 20), -(2 ** 20)), high: I64(2 ** 20, 2 ** 20) };
  return release({
    encoder: linear([
      [1, 0],
      [0, 1],
    ]),
    mechanism: { kind: "codebook", region, stages: [stage] },
    epsilon: "0.6931471805599454",
  });
}

const shipped = devices().map((name): [string, () => Files] => [name, () => files(name)]);
test.each<[string, () => Files]>([
  ...shipped,
  ["a forged thin sign region", thin],
  ["a lattice of far levels", farLattice],
  ["a lattice of many levels", longLattice],
  ["a codebook that favours hundreds", manyFavoured],
])("no record takes three times as long as another: %s", { retry: 2 }, async (_, make) => {
  const device = await readDevice(make());
  expect(slowestToQuickest(device, hostile(device), (x) => x)).toBeLessThan(MOST);
});

test.each(["mixed", "mixed_strange", "mixed_words"])("nor do natural values: %s", { retry: 2 }, async (name) => {
  const device = await readDevice(files(name));
  const records = [...mixed(name)].slice(0, 100).map(({ values }) => values);
  const same = [null, "", "Europe", "2021-03-04", 1, true, NaN, 10n ** 400n, "2021-03-04".repeat(1000), new Date(0), () => 1];
  records.push(...same.map((value) => Array<unknown>(device.fields!.length).fill(value)));
  expect(slowestToQuickest(device, records, (values) => record(device, values as never))).toBeLessThan(MOST);
});

describe("latents outside a region", () => {
  const thinRegion = async (): Promise<Signs> => {
    const { mechanism } = await readDevice(thin());
    return mechanism.region as Signs;
  };
  const plain = (v: Float64Array): number[] => Array.from(v, (k) => k + 0);

  test("are brought inside by four short passes, then by halves, as in Python", async () => {
    const region = await thinRegion();
    const outside = ([a, b, c]: number[]): boolean => a! + b! !== c! || a! + b! + c! > 2 ** 30 + 1;
    let halved = 0;
    for (let i = 0; i < 200; i++) {
      const [a, b] = [2 ** 30 + i, 2 ** 29 + 3 * i];
      const share = (2 ** 30 + 1) / (2 * (a + b)); // what the vector (1, 1, 1) allows
      let expected = [a, b, a + b].map((v) => Math.floor(v * share + 0.5));
      let pass = 0;
      while (outside(expected)) expected = expected.map((v) => (++pass <= 12 ? v - Math.max(v >> 12, Math.sign(v)) : v >> 1)); // three numbers a pass
      expect(plain(enforce(region, Float64Array.of(a, b, a + b)))).toEqual(expected);
      halved += pass > 12 ? 1 : 0;
    }
    expect(halved).toBeGreaterThan(20);
  });

  test("go to the center in the end", async () => {
    const region = await thinRegion();
    expect(plain(enforce(region, Float64Array.of(5, -3, 3)))).toEqual([0, 0, 0]);
    const point: Diamond = { kind: "diamond_region", step: 1, center: Float64Array.of(7, -7), radius: 0 };
    for (const v of [0, 1, -1, 2 ** 40, -Infinity, NaN]) expect(plain(enforce(point, Float64Array.of(v, v)))).toEqual([7, -7]);
  });

  test("are measured exactly, as 64-bit integers are in Python", () => {
    const many = Float64Array.from({ length: 2 ** 16 }, (_, i) => (i % 2 ? 1 : -1) * (2 ** 41 - 1 - (i % 3)));
    const exact = many.reduce((sum, v) => sum + BigInt(Math.abs(v)), 0n);
    expect(l1(many)).toBe(Number(exact));
    expect(many.reduce((sum, v) => sum + Math.abs(v), 0)).not.toBe(Number(exact));
  });

  test("are not moved when they are inside", async () => {
    const region = await thinRegion();
    expect(plain(enforce(region, Float64Array.of(-1000, 400, -600)))).toEqual([-1000, 400, -600]);
  });
});

test("a forged region cannot freeze a page", async () => {
  const device = await readDevice(thin());
  const start = performance.now();
  for (let i = 0; i < 100; i++) draw(device, [0.3 + i / 1000, 0.7], system);
  expect((performance.now() - start) / 100).toBeLessThan(5);
});
