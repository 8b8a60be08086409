/**
 * Codewords too many to list: one level per direction, total code length within a budget; see `lattice.py`.
 *
 * The work of finding and numbering a codeword is the lattice's, not the record's: no way through it is shorter.
 */
import { bitLength } from "./exact.js";
import type { Box } from "./regions.js";

/** Levels and latents are held within ±2^24 grid steps, and there are fewer directions than this: squares stay exact. */
export const FARTHEST = 2 ** 24;
export const MOST_DIRECTIONS = 2 ** 10;
/** The most levels of a direction, and the largest budget. */
export const MOST_LEVELS = 2 ** 15;
/** (budget + 1) times all levels, and times directions: what is counted and searched stays small. */
export const MOST_CHOICES = 2 ** 23;
export const MOST_STATES = 2 ** 18;
/** Of the number of codewords. More are no lattice. */
const MOST_BITS = 1500;

export interface Lattice {
  directions: { levels: Float64Array; lengths: Float64Array }[];
  budget: number;
  /** within[i][l]: choices in directions i, i + 1, … that use at most l. */
  within: bigint[][];
  /** Whether squared distances from the region's points add up to less than 2^53, so that doubles are exact. */
  near: boolean;
}

export function lattice(region: Box, levels: Float64Array, lengths: Float64Array, counts: Float64Array, budget: number): Lattice | null {
  const directions: Lattice["directions"] = [];
  let start = 0;
  for (const count of counts) {
    directions.push({ levels: levels.slice(start, start + count), lengths: lengths.slice(start, start + count) });
    start += count;
  }
  let current: bigint[] = Array(budget + 1).fill(1n);
  const within = [current];
  for (const direction of [...directions].reverse()) {
    const next: bigint[] = Array(budget + 1).fill(0n);
    for (const used of direction.lengths) {
      for (let left = used; left <= budget; left++) next[left]! += current[left - used]!;
    }
    within.unshift((current = next));
    if (bitLength(current[budget]!) > MOST_BITS) return null; // before the numbers of later directions fill the memory
  }
  const farthest = directions.reduce((sum, direction, i) => {
    const distances = direction.levels.map((level) => Math.max(level - region.low[i]!, region.high[i]! - level));
    return sum + distances.reduce((most, v) => Math.max(most, v), 0) ** 2;
  }, 0);
  return { directions, budget, within, near: farthest < 2 ** 53 };
}

export const size = (of: Lattice): bigint => of.within[0]![of.budget]!;

/** The number of the codeword of least squared distance to k. */
export function nearest(of: Lattice, k: Float64Array): bigint {
  // Beyond what doubles add up exactly, the same steps in BigInt: slower, so never chosen by the record.
  return rank(of, of.near ? knapsack<number>(of, k, Number, Infinity) : knapsack<bigint>(of, k, BigInt, 1n << 90n));
}

/** Ties go to the lower level number, then to the shorter total. */
function knapsack<T extends number | bigint>(of: Lattice, k: Float64Array, exact: (v: number) => T, far: T): number[] {
  const width = of.budget + 1;
  let cost: T[] = Array(width).fill(far);
  cost[0] = exact(0);
  const choices: Int16Array[] = [];
  of.directions.forEach(({ levels, lengths }, i) => {
    const next: T[] = Array(width).fill(far);
    const choice = new Int16Array(width);
    levels.forEach((level, number) => {
      const used = lengths[number]!;
      const square = exact((k[i]! - level) ** 2);
      for (let spent = used; spent < width; spent++) {
        const candidate = ((cost[spent - used] as number) + (square as number)) as T;
        if (candidate < next[spent]!) {
          next[spent] = candidate;
          choice[spent] = number;
        }
      }
    });
    cost = next;
    choices.push(choice);
  });
  let spent = 0;
  cost.forEach((c, s) => {
    if (c < cost[spent]!) spent = s;
  });
  const numbers: number[] = [];
  for (let i = of.directions.length - 1; i >= 0; i--) {
    const number = choices[i]![spent]!;
    numbers.unshift(number);
    spent -= of.directions[i]!.lengths[number]!;
  }
  return numbers;
}

/** The number of a codeword among all, in lexicographic order. */
function rank(of: Lattice, numbers: number[]): bigint {
  let left = of.budget;
  const sums = { before: 0n, after: 0n };
  numbers.forEach((number, i) => {
    const { lengths } = of.directions[i]!;
    // All levels are added up somewhere: a codeword of high numbers must not take longer.
    lengths.forEach((length, level) => {
      sums[level < number ? "before" : "after"] += length <= left ? of.within[i + 1]![left - length]! : 0n;
    });
    left -= lengths[number]!;
  });
  return sums.before;
}
