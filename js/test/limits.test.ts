/** What Python refuses, the browser refuses: releases whose digests are right and whose numbers are not. */
import { describe, expect, test } from "vitest";
import { encode } from "../src/encoders.js";
import { logRatio, nextUp, roundUp, addUp, fraction } from "../src/exact.js";
import { epsilonOf } from "../src/mechanisms.js";
import { readDevice } from "../src/release.js";
import { devices, files } from "./files.js";
import { F64, I64, type Json, linear, Numbers, release, rows } from "./forge.js";

const LN2 = "0.6931471805599454"; // the least double certified to be at least ln 2
const big = (v: bigint): Json => ({ integer: String(v) });
const fill = (count: number, v: number): Numbers => I64(...Array(count).fill(v));
const table = (outputs: number, inputs: number, v: number): Numbers =>
  new Numbers("I64", [outputs, inputs], Array(outputs * inputs).fill(v));

type Content = { encoder: Json; mechanism: Json; epsilon: string; schema?: number };

function laplace(region: Json = { kind: "box_region", step: 1, low: I64(-5), high: I64(5) }): Content {
  return { encoder: linear([[1]]), mechanism: { kind: "laplace", region, scale: 5 }, epsilon: "2.0" };
}

function codebook(): Content {
  const response = { kind: "response", size: 3, favoured: 1, a: 2, b: 1 };
  const stage = {
    kind: "stage",
    vectors: rows("I64", [[1], [2], [3]]),
    offsets: I64(0, 0, 0),
    shifts: rows("I64", [[0], [0], [0]]),
    response,
  };
  const region = { kind: "box_region", step: 1, low: I64(-5), high: I64(5) };
  return { encoder: linear([[1]]), mechanism: { kind: "codebook", region, stages: [stage] }, epsilon: LN2 };
}

function lattice(): Content {
  const points = { kind: "lattice", levels: I64(-5, 0, 5), lengths: I64(1, 0, 1), counts: I64(3), budget: 1 };
  const response = { kind: "response", size: 3, favoured: 1, a: 2, b: 1 };
  const region = { kind: "box_region", step: 1, low: I64(-5), high: I64(5) };
  return { encoder: linear([[1]]), mechanism: { kind: "lattice_codebook", region, lattice: points, response }, epsilon: LN2 };
}

function levels(count = 1, outputs = 2): Content {
  const alike = Array(outputs - 2).fill(1);
  const table = rows("I64", [[1, 2, ...alike], [2, 1, ...alike]]);
  const group = { kind: "level_group", places: I64(0), counts: I64(2), levels: I64(-5, 5), table, chance: 1 };
  const region = { kind: "box_region", step: 1, low: I64(-5), high: I64(5) };
  const mechanism = { kind: "level_response", region, groups: Array(count).fill(group) };
  return { encoder: linear([[1]]), mechanism, epsilon: LN2, schema: 5 };
}

function blocks(count = 1, width = 2): Content {
  const all = new Numbers("I64", [count, width], Array.from({ length: count * width }, (_, n) => n % width));
  const scale = { places: I64(0), counts: I64(4), levels: I64(-5, 0, 3, 5), binned: new Numbers("BOOL", [1], [0]) };
  const response = { kind: "response", size: 4, favoured: width, a: 2, b: 1 };
  const region = { kind: "box_region", step: 1, low: I64(-5), high: I64(5) };
  const group = { kind: "block_group", ...scale, blocks: all, response, chance: 1 };
  return { encoder: linear([[1]]), mechanism: { kind: "level_response", region, groups: [group] }, epsilon: LN2, schema: 8 };
}

function plane(prime = 5): Content {
  const response = { kind: "response", size: prime, favoured: 1, a: 2, b: 1 };
  const region = { kind: "box_region", step: 1, low: I64(0, 0), high: I64(prime - 1, prime - 1) };
  const group = { kind: "plane_group", places: I64(0, 1), prime, response, chance: 1 };
  return { encoder: linear([[1], [1]]), mechanism: { kind: "level_response", region, groups: [group] }, epsilon: LN2, schema: 8 };
}

function hidden(): Content {
  const { kind: _, ...shared } = linear([[1]]);
  const layer = { hidden_weights: rows("I64", [[1]]), hidden_offset: I64(0), hidden_shift: I64(0), skip: rows("I64", [[0]]) };
  return { ...laplace(), encoder: { kind: "hidden_encoder", ...shared, ...layer, softmax: false } };
}

const made = { laplace, codebook, lattice, levels: () => levels(), blocks: () => blocks(), plane: () => plane(), hidden };
type Edit = (content: Content) => void;

const stage = (c: Content): Json => c.mechanism.stages[0];
/** So many stages like the first. */
function repeat(c: Content, count: number): void {
  c.mechanism.stages = Array.from({ length: count }, () => stage(codebook()));
  c.epsilon = String(nextUp(count * Number(LN2)));
}
const budgetOf = (a: bigint, b: bigint): string => String(logRatio(a, b));

async function read(kind: keyof typeof made, edit: Edit): Promise<number> {
  const content = made[kind]();
  edit(content);
  return (await readDevice(release(content))).epsilon;
}

test.each(Object.keys(made) as (keyof typeof made)[])("the %s of these tests is accepted as it is", async (kind) => {
  expect(await read(kind, () => {})).toBeGreaterThan(0.69);
});

test.each<[string, keyof typeof made, Edit]>([
  ["tables of 2^20 entries together", "levels", (c) => Object.assign(c, levels(16, 2 ** 15))],
  ["blocks and levels of 2^20 numbers", "blocks", (c) => Object.assign(c, blocks(2 ** 19 - 2))],
  ["a plane of nearly 2^53 outputs", "plane", (c) => Object.assign(c, plane(208_057))],
  ["a plane of 2 residues", "plane", (c) => Object.assign(c, plane(2))],
  ["a b of 2^64", "codebook", (c) => ((stage(c).response.a = big(2n ** 65n)), (stage(c).response.b = big(2n ** 64n)))],
  ["an a/b of 2^1500", "codebook", (c) => ((stage(c).response.a = big(2n ** 1500n)), (c.epsilon = budgetOf(2n ** 1500n, 1n)))],
  [
    "bounds of ±2^40",
    "laplace",
    (c) =>
      Object.assign(c.mechanism, { region: { ...c.mechanism.region, low: I64(-(2 ** 40)), high: I64(2 ** 40) }, scale: 2 ** 40 }),
  ],
  ["a step of 2^-1000", "laplace", (c) => (c.mechanism.region.step = 2 ** -1000)],
  ["a step of 2^900", "laplace", (c) => (c.mechanism.region.step = 2 ** 900)],
  ["levels of ±2^24", "lattice", (c) => (c.mechanism.lattice.levels = I64(-(2 ** 24), 0, 2 ** 24))],
  [
    "weights whose sums are below 2^53",
    "laplace",
    (c) => Object.assign(c.encoder, { weights: rows("I64", [[2 ** 32]]), offset: I64(2 ** 52 - 1) }),
  ],
])("%s is the last that is accepted", async (_, kind, edit) => {
  expect(await read(kind, edit)).toBeGreaterThanOrEqual(0);
});

test.each<[string, keyof typeof made, Edit]>([
  ["an epsilon of 0, even if it is kept,", "codebook", (c) => ((stage(c).response.a = 1), (c.epsilon = "0.0"))],
  [
    "a b beyond 2^64",
    "codebook",
    (c) => ((stage(c).response.a = big(2n ** 65n + 2n)), (stage(c).response.b = big(2n ** 64n + 1n))),
  ],
  [
    "an a/b beyond 2^1500",
    "codebook",
    (c) => ((stage(c).response.a = big(2n ** 1500n + 1n)), (c.epsilon = budgetOf(2n ** 1500n + 1n, 1n))),
  ],
  ["an a of 2^1990", "codebook", (c) => ((stage(c).response.a = big(2n ** 1990n)), (c.epsilon = String(1990 * Math.LN2)))],
  ["a whole number in words", "codebook", (c) => (stage(c).response.a = "2")],
  ["a whole number beside another field", "codebook", (c) => (stage(c).response.a = { integer: "2", more: 1 })],
  ["a size beyond doubles", "codebook", (c) => (stage(c).response.size = 2 ** 53)],
  ["an epsilon of 0 that is not kept", "codebook", (c) => (c.epsilon = "0.0")],
  [
    "a tiny budget stated as 0",
    "codebook",
    (c) => ((stage(c).response.a = big(2n ** 64n)), (stage(c).response.b = big(2n ** 64n - 1n)), (c.epsilon = "0.0")),
  ],
  [
    "a tiny budget stated as less than nothing",
    "codebook",
    (c) => ((stage(c).response.a = big(2n ** 64n)), (stage(c).response.b = big(2n ** 64n - 1n)), (c.epsilon = "-1e-13")),
  ],
  ["an epsilon above 0 where 0 is kept", "codebook", (c) => ((stage(c).response.a = 1), (c.epsilon = "1e-13"))],
  ["a negative epsilon", "laplace", (c) => (c.epsilon = "-2.0")],
  ["an epsilon one ulp short", "laplace", (c) => (c.epsilon = "1.9999999999999998")],
  ["an epsilon short in the tenth digit", "codebook", (c) => (c.epsilon = "0.69314718050")],
  ["an epsilon that is too large", "codebook", (c) => (c.epsilon = "0.6931471806")],
  ["an epsilon without a fraction", "laplace", (c) => (c.epsilon = "2")],
  ["an endless epsilon", "laplace", (c) => (c.epsilon = "1e999")],
  ["an unknown field of an encoder", "laplace", (c) => (c.encoder.dropout = 0.5)],
  ["an unknown field of a mechanism", "laplace", (c) => (c.mechanism.clip = false)],
  ["an unknown field of a response", "codebook", (c) => (stage(c).response.skew = 1)],
  [
    "bounds beyond 2^40",
    "laplace",
    (c) =>
      Object.assign(c.mechanism, {
        region: { ...c.mechanism.region, low: I64(-(2 ** 40) - 1), high: I64(2 ** 40 - 1) },
        scale: 2 ** 40,
      }),
  ],
  [
    "more than 2^16 latents",
    "laplace",
    (c) => {
      const count = 2 ** 16 + 1;
      Object.assign(c.encoder, { weights: table(count, 1, 1), offset: fill(count, 0), step: F64(...Array(count).fill(1)) });
      Object.assign(c.mechanism, {
        scale: count,
        region: { kind: "diamond_region", step: 1, center: fill(count, 0), radius: count },
      });
    },
  ],
  [
    "reports of more than 65,535 bytes",
    "laplace",
    (c) => {
      const count = 2 ** 15;
      Object.assign(c.encoder, { weights: table(count, 1, 1), offset: fill(count, 0), step: F64(...Array(count).fill(1)) });
      Object.assign(c.mechanism, {
        scale: 2 ** 20,
        region: { kind: "diamond_region", step: 1, center: fill(count, 0), radius: 2 ** 20 },
      });
    },
  ],
  ["a step beyond 2^900", "laplace", (c) => (c.mechanism.region.step = 2 ** 901)],
  ["a step below 2^-1000", "laplace", (c) => (c.mechanism.region.step = 2 ** -1001)],
  ["an encoder's step beyond 2^900", "laplace", (c) => (c.encoder.step = F64(2 ** 901))],
  ["an encoder's step below 2^-1000", "laplace", (c) => (c.encoder.step = F64(2 ** -1001))],
  ["an encoder's step that is no power of two", "laplace", (c) => (c.encoder.step = F64(3))],
  ["a step that is NaN in disguise", "laplace", (c) => (c.mechanism.region.step = null)],
  [
    "weights whose sums are not exact",
    "laplace",
    (c) => Object.assign(c.encoder, { weights: rows("I64", [[2 ** 32]]), offset: I64(2 ** 52) }),
  ],
  ["hidden weights whose sums are not exact", "hidden", (c) => (c.encoder.hidden_weights = rows("I64", [[2 ** 33]]))],
  ["output weights whose sums are not exact", "hidden", (c) => (c.encoder.weights = rows("I64", [[2 ** 33]]))],
  ["skipping weights whose sums are not exact", "hidden", (c) => (c.encoder.skip = rows("I64", [[2 ** 33]]))],
  ["scores that are not exact", "codebook", (c) => (stage(c).vectors = rows("I64", [[2 ** 51], [2], [3]]))],
  ["tables of more than 2^20 entries together", "levels", (c) => Object.assign(c, levels(17, 2 ** 15))],
  ["levels in a release of the first schema", "levels", (c) => (c.schema = 1)],
  ["blocks in a release of the fifth schema", "blocks", (c) => (c.schema = 5)],
  ["blocks and levels of more than 2^20 numbers", "blocks", (c) => Object.assign(c, blocks(2 ** 19 - 1))],
  ["bins in whole numbers", "blocks", (c) => (c.mechanism.groups[0].binned = I64(0))],
  ["a truth value of 2", "blocks", (c) => (c.mechanism.groups[0].binned = new Numbers("BOOL", [1], [2]))],
  ["a plane of 2^53 outputs", "plane", (c) => Object.assign(c, plane(208_067))],
  ["a plane of a square of residues", "plane", (c) => Object.assign(c, plane(449 ** 2))],
  ["a codebook of two stages", "codebook", (c) => repeat(c, 2)],
  ["a codebook of no stages", "codebook", (c) => repeat(c, 0)],
  ["levels of 2^53", "lattice", (c) => (c.mechanism.lattice.levels = I64(-5, 0, 2 ** 53 - 1))],
  ["levels beyond 2^24", "lattice", (c) => (c.mechanism.lattice.levels = I64(-5, 0, 2 ** 24 + 1))],
  ["a lattice's region beyond 2^24", "lattice", (c) => (c.mechanism.region.high = I64(2 ** 24 + 1))],
  ["a lattice's budget beyond 2^15", "lattice", (c) => (c.mechanism.lattice.budget = 2 ** 15 + 1)],
  [
    "a lattice of 1,024 directions",
    "lattice",
    (c) => {
      const count = 1024;
      Object.assign(c.encoder, { weights: table(count, 1, 1), offset: fill(count, 0), step: F64(...Array(count).fill(1)) });
      c.mechanism.region = { kind: "box_region", step: 1, low: fill(count, -5), high: fill(count, 5) };
      const lengths = I64(...Array.from({ length: count }, (_, i) => [0, i ? 1 : 0]).flat());
      c.mechanism.lattice = { kind: "lattice", levels: fill(2 * count, 0), lengths, counts: fill(count, 2), budget: 0 };
      c.mechanism.response.size = 2;
    },
  ],
])("%s is refused", async (_, kind, edit) => {
  await expect(read(kind, edit)).rejects.toMatchObject({ name: "TaskveilError", code: "release" });
});

test("class probabilities of as many classes as there may be latents are computed on a small stack", () => {
  const count = 2 ** 16 - 1;
  const zeros = (n: number): Float64Array => new Float64Array(n);
  const encoder = {
    ...{ low: zeros(1), high: zeros(1).fill(1), step: zeros(count).fill(1), softmax: true },
    hidden: { weights: zeros(1), offset: zeros(1), shift: zeros(1), skip: zeros(count) },
    output: { weights: zeros(count), offset: zeros(count) },
  };
  // Every call takes a little of the stack, as the frames of a page do.
  const deep = (calls: number): Float64Array => (calls ? deep(calls - 1) : encode(encoder, [0.5]));
  expect(deep(5000).every((share) => Math.abs(share * count - 1) < 1e-9)).toBe(true);
});

describe("epsilon", () => {
  test.each(devices())("of %s is computed to the last bit as Python states it", async (name) => {
    const { mechanism, epsilon } = await readDevice(files(name));
    expect(epsilonOf(mechanism)).toBe(epsilon);
  });

  test("is stated to the last bit as it is kept", async () => {
    expect(await read("codebook", (c) => (c.epsilon = LN2))).toBe(Number(LN2));
    const more = read("codebook", (c) => (c.epsilon = String(nextUp(Number(LN2)))));
    await expect(more).rejects.toMatchObject({ code: "release" });
  });

  test("of a box with more latents than doubles add up is exact", () => {
    const high = new Float64Array(2 ** 14).fill(2 ** 40);
    const low = high.map((v, i) => -v + (i === 0 ? 1 : 0));
    const exact = epsilonOf({ kind: "laplace", region: { kind: "box_region", step: 1, low, high }, scale: 2 ** 40 });
    expect(exact).toBe(2 ** 15); // 2^15 − 2^-40, rounded up
  });
});

describe("exact numbers", () => {
  test("fractions are what they stand for", () => {
    expect(fraction(0.75)).toEqual([3n << 51n, 1n << 53n]);
    expect(fraction(2 ** 70)).toEqual([2n ** 70n, 1n]);
    expect(fraction(0)[0]).toBe(0n);
  });

  test("quotients are rounded up", () => {
    expect(roundUp(1n, 3n)).toBe(0.33333333333333337);
    expect(roundUp(1n, 10n)).toBe(0.1);
    expect(roundUp(6n, 3n)).toBe(2);
    expect(roundUp(2n ** 53n + 1n, 1n)).toBe(2 ** 53 + 2);
    expect(roundUp(0n, 7n)).toBe(0);
  });

  test("sums are rounded up", () => {
    expect(addUp(1, 2)).toBe(3);
    expect(addUp(1, 2 ** -60)).toBe(1 + 2 ** -52);
    expect(addUp(2 ** -60, 1)).toBe(1 + 2 ** -52);
    expect(addUp(0, 0.3)).toBe(0.3);
  });

  test("logarithms are the least that is certified", () => {
    expect(logRatio(2n, 1n)).toBe(Number(LN2));
    expect(logRatio(5n, 5n)).toBe(0);
    expect(logRatio(2n ** 64n, 2n ** 64n - 1n)).toBeCloseTo(2 ** -64, 30);
  });
});
