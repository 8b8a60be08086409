/** Gaussian noise: its distribution, its single decisions, and the ε that is computed for it, against Python. */
import { expect, test } from "vitest";
import { epsilonBound } from "../src/concentrated.js";
import { fraction } from "../src/exact.js";
import { discreteGaussian, isBelow } from "../src/noise.js";
import { readDevice } from "../src/release.js";
import { alike, chiSquare, counted, LIMIT, tally } from "./distribution.js";
import { files, read, replay } from "./files.js";

type Kept = [word: string, size: number, scale: number, words: string[], kept: boolean];
type Bound = [squaredRadius: number, scale: number, delta: number, order: number, epsilon: number];
const given: { kept: Kept[]; bounds: Bound[] } = JSON.parse(new TextDecoder().decode(read("gaussian.json")));
const bytesOf = (words: bigint[]): Uint8Array => new Uint8Array(new BigUint64Array(words).buffer);

alike("gaussian");
alike("gaussian_one");

test("χ² rejects noise that is 3% too narrow", async () => {
  const { record, bucket, theirs } = counted("gaussian");
  const device = await readDevice(files("gaussian"));
  if (device.mechanism.kind !== "gaussian") throw new Error("not Gaussian");
  device.mechanism.scale *= 0.97;
  const total = [...theirs.values()].reduce((a, b) => a + b, 0);
  expect(chiSquare(tally(device, record, bucket, total), theirs)).toBeGreaterThan(LIMIT);
});

test("what a double cannot decide is decided as in Python, with as many words", () => {
  let more = 0;
  for (const [word, size, scale, words, kept] of given.kept) {
    const source = replay(bytesOf(words.map(BigInt)));
    expect(isBelow(BigInt(word), size, scale, source)).toBe(kept);
    expect(source.left()).toBe(0);
    more += words.length;
  }
  expect(more).toBeGreaterThan(500);
});

test("the exact decision is that of a double where a double decides", () => {
  for (const [word, size, scale, words, kept] of given.kept) {
    const drawn = Number(word) * 2 ** -64 - Math.exp(-0.5 * ((size - scale) / scale) ** 2);
    if (Math.abs(drawn) > 2 ** -38) expect([drawn < 0, words]).toEqual([kept, []]);
  }
});

test("ε is the double that Python finds", () => {
  const { bounds } = given;
  for (const [squaredRadius, scale, delta, order, epsilon] of bounds) {
    const [n, d] = fraction(scale);
    expect(epsilonBound(2n * BigInt(squaredRadius) * d * d, n * n, delta, order)).toBe(epsilon);
  }
  expect(bounds.filter(([, , , , epsilon]) => epsilon === 0).length).toBeGreaterThan(20);
  expect(bounds.filter(([, , , , epsilon]) => epsilon > 0).length).toBeGreaterThan(2000);
});

test("proposals that are not kept are drawn again, in order", () => {
  const third = 0x5555555555555555n;
  const zero = 2n ** 63n; // a proposal of 0, as its R is 1/2
  const far = 2n ** 50n; // of 9.7 scales and more
  const source = replay(bytesOf([zero, far, zero, far, third, third, third, third, zero, zero + 1n, third, third]));
  const noise = discreteGaussian(source, 1000, 4);
  expect(source.left()).toBe(0);
  expect(noise.map((v) => Math.abs(v) < 2000)).toEqual([true, true, true, true]);
  expect([noise[0], noise[1]]).toEqual([noise[2], noise[0]]);
  expect(noise[3]).toBe(-noise[1]!);
});
