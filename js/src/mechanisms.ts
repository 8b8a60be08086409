/** The randomisers. Each is (ε, δ)-LDP for every input; the arguments are in the Python modules of the same names. */
import { drawScores, type Seeded } from "./ball.js";
import { epsilonBound } from "./concentrated.js";
import type { Source } from "./entropy.js";
import { fraction, logRatio, roundUp } from "./exact.js";
import { type Lattice, nearest } from "./lattice.js";
import { drawOutput, type Group, worstOf } from "./levels.js";
import { discreteGaussian, discreteLaplace } from "./noise.js";
import { type Ball, type Box, enforce, l1Diameter, type L1Region } from "./regions.js";
import { type Response, respond } from "./response.js";
import { nearestSum, numbersOf, placeOf, type Sums } from "./sums.js";

export interface Stage {
  vectors: Float64Array;
  offsets: Float64Array;
  response: Response;
}

export type Mechanism =
  | { kind: "laplace"; region: L1Region; scale: number }
  | { kind: "gaussian"; region: Ball; scale: number; delta: number; order: number }
  | { kind: "codebook"; region: Box; stages: [Stage] }
  | { kind: "lattice_codebook"; region: Box; lattice: Lattice; response: Response }
  | { kind: "sum_codebook"; region: Box; sums: Sums; response: Response }
  | { kind: "level_response"; region: Box; groups: Group[] }
  | { kind: "ball_response"; region: Box; codewords: Seeded; centred: boolean; response: Response };

/** Any floats → the numbers of a report. */
export function randomise(mechanism: Mechanism, latents: Float64Array, source: Source): bigint[] {
  const k = enforce(mechanism.region, latents);
  switch (mechanism.kind) {
    case "laplace":
    case "gaussian": {
      const noise = (mechanism.kind === "laplace" ? discreteLaplace : discreteGaussian)(source, mechanism.scale, k.length);
      return noise.map((z, i) => BigInt(k[i]! + z));
    }
    case "codebook":
      return mechanism.stages.map((stage) => respond(stage.response, favoured(stage, k), source));
    case "level_response":
      return [drawOutput(mechanism.groups, k, source)];
    case "lattice_codebook":
      return digits(respond(mechanism.response, [nearest(mechanism.lattice, k)], source), mechanism.response.size);
    case "ball_response": {
      const { centred, codewords, region, response } = mechanism;
      const [seed, scores, own] = drawScores(codewords, region, k, centred, source);
      const nearest = best(scores, response.favoured);
      const centre = nearest.map((_, i) => codewords.size + i); // the last codewords stand for it
      return [...seed, respond(response, centred && !own ? centre : nearest, source)];
    }
    case "sum_codebook": {
      const { sums, response } = mechanism;
      return numbersOf(sums, respond(response, [placeOf(sums, nearestSum(sums, k))], source));
    }
  }
}

/** The m outputs of the highest score; ties go to the lower number. */
export function favoured(stage: Stage, k: Float64Array): number[] {
  const scores = stage.offsets.map((start, j) => {
    let sum = start;
    for (let i = 0; i < k.length; i++) sum += k[i]! * stage.vectors[j * k.length + i]!;
    return sum;
  });
  return best(scores, stage.response.favoured);
}

/** The numbers of the highest scores, which are overwritten; ties go to the lower number. */
function best(scores: Float64Array, count: number): number[] {
  if (count > 8) {
    return Array.from(ranked(scores).subarray(0, count));
  }
  const found: number[] = [];
  while (found.length < count) {
    let top = 0;
    for (let j = 1; j < scores.length; j++) if (scores[j]! > scores[top]!) top = j;
    found.push(top);
    scores[top] = -Infinity; // taken: below anything a score can be
  }
  return found;
}

/** Numbers by falling score, ties by rising number. Runs are merged, so no order of the scores is much quicker. */
function ranked(scores: Float64Array): Uint32Array {
  const count = scores.length;
  let from = Uint32Array.from(scores.keys());
  let to = new Uint32Array(count);
  for (let run = 1; run < count; run *= 2) {
    for (let start = 0; start < count; start += 2 * run) {
      const [middle, stop] = [Math.min(start + run, count), Math.min(start + 2 * run, count)];
      for (let at = start, i = start, j = middle; at < stop; at++) {
        const first = j >= stop || (i < middle && scores[from[i]!]! >= scores[from[j]!]!);
        to[at] = from[first ? i++ : j++]!;
      }
    }
    [from, to] = [to, from];
  }
  return from;
}

/** A codeword's number in digits of 62 bits, the highest first, as many as the largest number needs. */
export function digits(place: bigint, size: bigint): bigint[] {
  const out: bigint[] = [];
  for (let most = size - 1n; most > 0n || !out.length; most >>= 62n, place >>= 62n) out.unshift(place & ((1n << 62n) - 1n));
  return out;
}

/** The privacy loss between any two inputs, rounded up: the same double as Python's. */
export function epsilonOf(mechanism: Mechanism): number {
  if (mechanism.kind === "laplace") {
    const [n, d] = fraction(mechanism.scale);
    return roundUp(l1Diameter(mechanism.region) * d, n);
  }
  if (mechanism.kind === "gaussian") {
    const [n, d] = fraction(mechanism.scale);
    return epsilonBound(2n * BigInt(mechanism.region.squaredRadius) * d * d, n * n, mechanism.delta, mechanism.order);
  }
  if (mechanism.kind === "level_response") return logRatio(...worstOf(mechanism.groups));
  const { a, b } = (mechanism.kind === "codebook" ? mechanism.stages[0] : mechanism).response;
  return logRatio(a, b);
}

/** The probability with which that bound may fail. */
export const deltaOf = (mechanism: Mechanism): number => (mechanism.kind === "gaussian" ? mechanism.delta : 0);
