/**
 * Codewords that are sums of one term from each of a few lists, searched one after the other; see `sum_codebook.py`.
 *
 * Every record takes the same steps: as many branches, scores and comparisons.
 */

/** More than any design makes: no release makes a report slow. */
export const MOST_BRANCHES = 16;
export const MOST_CODEWORDS = 2 ** 14;

export interface Sums {
  /** Codewords of every stage, one after the other, in grid steps. */
  stages: Float64Array[];
  /** |c|² of each of them. */
  squares: Float64Array[];
  branches: number;
}

interface Branch {
  /** 2 k·s − |s|² for the sum s so far. */
  score: number;
  /** k − s. */
  left: Float64Array;
  numbers: number[];
}

export function sums(codewords: Float64Array, sizes: Float64Array, branches: number, d: number): Sums {
  let start = 0;
  const stages = Array.from(sizes, (size) => codewords.slice(start * d, (start += size) * d));
  const squares = stages.map((stage) => {
    const squared = new Float64Array(stage.length / d);
    stage.forEach((v, i) => (squared[Math.floor(i / d)]! += v * v));
    return squared;
  });
  return { stages, squares, branches };
}

/** The largest score there can be for latents within ± reach: below 2^53 all of them are exact. */
export function largestScore(of: Sums, reach: Float64Array): number {
  const d = reach.length;
  const far = reach.slice();
  let score = 0;
  of.stages.forEach((stage, place) => {
    let most = 0;
    of.squares[place]!.forEach((square, j) => {
      let sum = square;
      for (let i = 0; i < d; i++) sum += 2 * Math.abs(stage[j * d + i]!) * far[i]!;
      most = Math.max(most, sum);
    });
    score += most;
    for (let i = 0; i < d; i++) {
      let longest = 0;
      for (let at = i; at < stage.length; at += d) longest = Math.max(longest, Math.abs(stage[at]!));
      far[i]! += longest;
    }
  });
  return score;
}

/** The code numbers of a sum near k. Ties go to the earlier branch, then to the lower number. */
export function nearestSum(of: Sums, k: Float64Array): number[] {
  let branches: Branch[] = [{ score: 0, left: k, numbers: [] }];
  of.stages.forEach((stage, place) => {
    const size = of.squares[place]!.length;
    const scores = extended(branches, stage, of.squares[place]!);
    const count = place + 1 < of.stages.length ? Math.min(of.branches, scores.length) : 1;
    const kept: Branch[] = [];
    while (kept.length < count) {
      let best = 0;
      for (let j = 1; j < scores.length; j++) if (scores[j]! > scores[best]!) best = j;
      const [from, number] = [branches[Math.floor(best / size)]!, best % size];
      const left = from.left.map((v, i) => v - stage[number * k.length + i]!);
      kept.push({ score: scores[best]!, left, numbers: [...from.numbers, number] });
      scores[best] = -Infinity; // taken: below anything a score can be
    }
    branches = kept;
  });
  return branches[0]!.numbers;
}

/** The score of every branch with every codeword of the next stage. */
function extended(branches: Branch[], stage: Float64Array, squares: Float64Array): Float64Array {
  const size = squares.length;
  const scores = new Float64Array(branches.length * size);
  branches.forEach(({ left, score }, b) => {
    for (let j = 0; j < size; j++) {
      let product = 0;
      for (let i = 0; i < left.length; i++) product += left[i]! * stage[j * left.length + i]!;
      scores[b * size + j] = score + 2 * product - squares[j]!;
    }
  });
  return scores;
}

/** The number of a sum among all, its code numbers being the digits, the first stage's the highest. */
export const placeOf = (of: Sums, numbers: number[]): bigint =>
  numbers.reduce((place, number, s) => place * BigInt(of.squares[s]!.length) + BigInt(number), 0n);

/** The code numbers of the sum of that number. */
export function numbersOf(of: Sums, place: bigint): bigint[] {
  const numbers: bigint[] = [];
  for (const { length } of [...of.squares].reverse()) {
    numbers.unshift(place % BigInt(length));
    place /= BigInt(length);
  }
  return numbers;
}
