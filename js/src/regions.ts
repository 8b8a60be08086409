/**
 * Where a latent may lie, enforced in integers whatever the encoder computed; see `regions.py`.
 *
 * How long that takes does not depend on the record: every step towards the center is taken and tested, also after one of
 * them was found inside, so a forged thin region makes every report slow and tells nothing.
 */
import { bitLength } from "./exact.js";

/** Latents are held within ±2^40 grid steps, and there are at most 2^16: every sum of them is exact. */
export const LARGEST = 2 ** 40;
export const MOST_LATENTS = 2 ** 16;
/** Sign vectors double with every latent. */
export const MOST_SIGNED_LATENTS = 10;

/** Passes of short steps, which repair what rounding did; the passes after them halve. */
const SHORT = 4;

/** Those with an ℓ1 diameter. */
export type L1Region = Box | Signs | Diamond;
export type Region = L1Region | Ball;

export interface Box {
  kind: "box_region";
  step: number;
  low: Float64Array;
  high: Float64Array;
}

/**
 * below ≤ s · (k − center) ≤ above for every sign vector s that starts with +. Entry n belongs to the vector that has −
 * in place i where bit i − 1 of n is set.
 */
export interface Signs {
  kind: "sign_region";
  step: number;
  center: Float64Array;
  below: Float64Array;
  above: Float64Array;
}

export interface Diamond {
  kind: "diamond_region";
  step: number;
  center: Float64Array;
  radius: number;
}

/** ‖k − center‖₂² ≤ squaredRadius, 2^52 at most: sums of squares are exact up to twice that, and never smaller once rounded. */
export interface Ball {
  kind: "ball_region";
  step: number;
  center: Float64Array;
  squaredRadius: number;
}

export const dim = (region: Region): number => (region.kind === "box_region" ? region.low : region.center).length;

export function l1Diameter(region: L1Region): bigint {
  switch (region.kind) {
    case "box_region":
      // 2^16 widths of up to 2^41 add up to more than a double holds exactly.
      return region.high.reduce((sum, high, i) => sum + BigInt(high - region.low[i]!), 0n);
    case "sign_region":
      return BigInt(region.above.reduce((most, above, n) => Math.max(most, above - region.below[n]!), 0));
    case "diamond_region":
      return BigInt(2 * region.radius);
  }
}

/** No coordinate of a member is farther from the center's than this. */
export const farthest = (region: Exclude<Region, Box>): bigint =>
  region.kind === "ball_region" ? BigInt(Math.floor(Math.sqrt(region.squaredRadius))) : l1Diameter(region);

/**
 * The region lower ≤ signs · k ≤ upper, its vectors brought into the order above; null unless there is exactly one bound
 * for every sign vector (up to a common sign) and the center lies inside.
 */
export function signRegion(
  step: number,
  center: Float64Array,
  signs: Float64Array,
  lower: Float64Array,
  upper: Float64Array,
): Signs | null {
  const d = center.length;
  const count = 2 ** (d - 1);
  const [below, above] = [new Float64Array(count).fill(NaN), new Float64Array(count)];
  const from = products(center);
  for (let row = 0; row < count; row++) {
    const first = signs[row * d]!;
    let n = 0;
    for (let i = 0; i < d; i++) {
      const sign = signs[row * d + i]!;
      if (Math.abs(sign) !== 1) return null;
      if (i && sign !== first) n += 2 ** (i - 1);
    }
    if (!Number.isNaN(below[n]!)) return null; // this vector was there before, so another one is missing
    below[n] = (first > 0 ? lower[row]! : -upper[row]!) - from[n]!;
    above[n] = (first > 0 ? upper[row]! : -lower[row]!) - from[n]!;
    if (!(below[n]! <= 0 && above[n]! >= 0)) return null;
  }
  return { kind: "sign_region", step, center, below, above };
}

/** Any floats → integers inside the region. */
export function enforce(region: Region, latents: Float64Array): Float64Array {
  const { step } = region;
  if (region.kind === "box_region") {
    return region.low.map((low, i) => {
      const high = region.high[i]!;
      return Math.min(Math.max(toGrid(latents[i]!, step, low + Math.floor((high - low) / 2)), low), high);
    });
  }
  const offset = region.center.map((center, i) => toGrid(latents[i]!, step, center) - center);
  const share = reach(region, offset);
  const scaled = offset.map((v) => (share < 1 ? Math.floor(v * share + 0.5) : v));
  const inside = pullInside(region, scaled);
  return inside.map((v, i) => v + region.center[i]!);
}

/** How much of the way from the center can be gone before the first face is met, 1 at most. */
function reach(region: Exclude<Region, Box>, offset: Float64Array): number {
  if (region.kind === "ball_region") return Math.sqrt(region.squaredRadius / Math.max(squares(offset), 1));
  if (region.kind === "diamond_region") return Math.min(region.radius / Math.max(l1(offset), 1), 1);
  let share = 1;
  products(offset).forEach((product, n) => {
    const room = (product > 0 ? region.above : region.below)[n]! / (product || 1);
    share = Math.min(share, product === 0 ? 1 : room);
  });
  return share;
}

/**
 * The first of these that lies inside: the offset; after each of four passes that take |v| / 4096, but at least 1, off
 * every number; after passes that halve every number towards zero, until nothing is left: the center itself.
 */
function pullInside(region: Exclude<Region, Box>, offset: Float64Array): Float64Array {
  let found: Float64Array | undefined;
  let at = offset;
  for (let pass = 0, passes = mostPasses(region); pass <= passes; pass++) {
    const inside = holds(region, at);
    found ??= inside ? at : undefined;
    at = at.map((v) => {
      const size = Math.abs(v);
      return Math.sign(v) * (pass < SHORT ? size - Math.max(Math.floor(size / 4096), Math.min(size, 1)) : Math.floor(size / 2));
    });
  }
  return found!;
}

/**
 * Enough to reach the center: a scaled offset is at most one rounding longer than the diameter, and every halving takes
 * one binary digit away. A matter of the region alone; 46 at most.
 */
function mostPasses(region: Exclude<Region, Box>): number {
  return SHORT + bitLength(farthest(region) + 1n);
}

/** Whether an offset from the center lies in the region; looks at every bound, however early one fails. */
function holds(region: Exclude<Region, Box>, offset: Float64Array): boolean {
  if (region.kind === "ball_region") return squares(offset) <= region.squaredRadius;
  if (region.kind === "diamond_region") return l1(offset) <= region.radius;
  const { below, above } = region;
  let outside = 0;
  products(offset).forEach((product, n) => (outside += Number(product < below[n]!) + Number(product > above[n]!)));
  return outside === 0;
}

function toGrid(latent: number, step: number, fallback: number): number {
  const scaled = Number.isNaN(latent) ? fallback : latent / step;
  return Math.floor(Math.min(Math.max(scaled, -LARGEST), LARGEST) + 0.5);
}

/** The sum of absolute values, rounded once: 2^16 numbers of up to 2^41 are more than a double adds up exactly. */
export function l1(v: Float64Array): number {
  let [high, low] = [0, 0];
  for (const k of v) {
    const size = Math.abs(k);
    const top = Math.floor(size / 2 ** 20);
    high += top;
    low += size - top * 2 ** 20;
  }
  return high * 2 ** 20 + low;
}

/** The sum of squares, added up in order. */
const squares = (v: Float64Array): number => v.reduce((sum, k) => sum + k * k, 0);

/** s · v for every sign vector s that starts with +, in the order of `Signs`: one addition each. */
function products(v: Float64Array): Float64Array {
  const out = new Float64Array(2 ** (v.length - 1));
  out[0] = v[0]!;
  for (let i = 1, size = 1; i < v.length; i++, size *= 2) {
    for (let n = 0; n < size; n++) {
      out[n + size] = out[n]! - v[i]!;
      out[n]! += v[i]!;
    }
  }
  return out;
}
