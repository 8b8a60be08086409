/** Vectors in a ball: what a device does must not show which direction was taken. */
import { expect, test, vi } from "vitest";
import { drawScores, seeded } from "../src/ball.js";

test("the same work is done for either direction", () => {
  const [low, high] = [-1, 1].map((side) => new Float64Array(3).fill(64 * side)) as [Float64Array, Float64Array];
  const region = { kind: "box_region" as const, step: 1, low, high };
  const code = seeded(region, 0, 8, Float64Array.of(1, 2))!;
  const mapped = vi.spyOn(Float64Array.prototype, "map");
  const work = [0, 255].map((bits) => {
    mapped.mockClear();
    // A vector of no length takes its direction with the smallest draw, and the other one with the largest.
    const [, , own] = drawScores(code, region, new Float64Array(3), false, (count) => new Uint8Array(count).fill(bits));
    return [own, mapped.mock.calls.length];
  });
  mapped.mockRestore();
  expect(work).toEqual([[true, work[0]![1]], [false, work[0]![1]]]);
});
