/** Ensembles of trees: every way down takes as many steps, as far through memory. */
import { describe, expect, test } from "vitest";
import { plant, treeSums } from "../src/trees.js";

/** A tree of so many levels of splits that compare attribute 0 with its one knot, and leaves numbered from the left. */
function full(levels: number): { attribute: number[]; leaves: number } {
  if (!levels) return { attribute: [-1], leaves: 1 };
  const { attribute, leaves } = full(levels - 1);
  return { attribute: [0, ...attribute, ...attribute], leaves: 2 * leaves };
}

describe("trees in memory", () => {
  const { attribute, leaves } = full(6);
  const count = 20;
  const trees = plant({
    knots: Float64Array.of(0.5),
    counts: Float64Array.of(1),
    attribute: Float64Array.from(Array<number[]>(count).fill(attribute).flat()),
    rank: new Float64Array(count * (leaves - 1)),
    values: Float64Array.from({ length: count * leaves }, (_, i) => i % leaves),
    perLeaf: 1,
    output: new Float64Array(count),
  });

  test("have both ways down from a split side by side, each level after the one above", () => {
    trees.roots.forEach((root, tree) => {
      const end = trees.roots[tree + 1] ?? trees.leaf.length;
      for (let node = root, last = root; node < end; node++) {
        const [left, right] = [trees.below[2 * node]!, trees.below[2 * node + 1]!];
        if (left === node) continue; // a leaf
        expect([left, right]).toEqual([last + 1, last + 2]);
        last = right;
      }
    });
  });

  test("lead to the leaves that were written", () => {
    const [low, high, offset] = [Float64Array.of(0), Float64Array.of(1), Float64Array.of(0)];
    expect(treeSums(trees, [0.2], low, high, offset)[0]).toBe(0);
    expect(treeSums(trees, [0.7], low, high, offset)[0]).toBe(count * (leaves - 1));
  });
});
