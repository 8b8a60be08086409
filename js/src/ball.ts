/**
 * Vectors in a ball: a public seed stands for random directions, and a report names one that leans towards the vector; see
 * `ball_response.py` and `seeded_codewords.py`.
 */
import { type Source, uniformBelow, words } from "./entropy.js";
import { MOST_NUMBERS } from "./networks.js";
import type { Box } from "./regions.js";

/** Whole numbers up to here are exact in a double. */
const EXACT = 2 ** 53;
/** A vector's length is in steps of this part of the grid's. */
const FINE = 2 ** 16;

/** Codewords for every seed. */
export interface Seeded {
  dim: number;
  /** Of the matrix that vectors are multiplied with first; 0 without one. */
  rows: number;
  size: number;
  /** The largest of the quantiles. */
  largest: number;
  /** Normal quantiles of both signs: 2 to 2^16 of them. */
  table: Float64Array;
}

/** Codewords for the vectors of a region, or null unless their scores are exact. */
export function seeded(region: Box, rows: number, size: number, quantiles: Float64Array): Seeded | null {
  const [dim, radius, entries] = [region.low.length, region.high[0]!, quantiles.length];
  const inner = rows || dim;
  let sound = size % 2 === 0 && (size / 2) * inner + rows * dim <= MOST_NUMBERS;
  sound &&= entries <= 2 ** 15 && Number.isInteger(Math.log2(entries)) && quantiles.every((v) => v >= 1);
  sound &&= radius >= 1 && region.low.every((v) => v === -radius) && region.high.every((v) => v === radius);
  const largest = quantiles.reduce((most, v) => Math.max(most, v), 0);
  const far = Math.ceil(Math.sqrt(dim)) * radius; // ‖k‖₁ ≤ √d · radius in the ball
  sound &&= Math.max(dim * radius ** 2, Math.max(rows, 1) * (far + 1) * largest, 2 * radius * FINE) < EXACT;
  const table = new Float64Array(2 * entries);
  table.set(quantiles);
  table.set(quantiles.map((v) => -v), entries);
  return sound ? { dim, rows, size, largest, table } : null;
}

/** A fresh seed, the scores of codewords for k's side or the other, and whether k favours its own. With codewords for the
 * centre, those are the other side, and the scores are k's own in any case. */
export function drawScores(code: Seeded, region: Box, k: Float64Array, centred: boolean, source: Source): [bigint[], Float64Array, boolean] {
  const drawn = words(source, 1);
  const seed: [number, number] = [drawn.getUint32(0, true), drawn.getUint32(4, true)];
  const radius = region.high[0]!;
  const vector = inside(k, radius);
  const whole = radius * FINE;
  const length = Math.min(Math.floor(Math.sqrt(squared(vector)) * FINE), whole);
  const other = centred ? 0 : whole;
  const own = Number(uniformBelow(source, BigInt(whole + other))) < other + length;
  const side = vector.map((v) => (own || centred ? v : -v)); // a copy in any case: the time does not say which
  return [seed.map(BigInt), scores(code, seed, side), own];
}

/** Whole numbers in the ball: those outside are pulled straight towards zero. */
function inside(k: Float64Array, radius: number): Float64Array {
  const square = squared(k);
  let length = Math.ceil(Math.sqrt(square));
  if (length ** 2 < square) length++;
  length = Math.max(length, radius);
  return k.map((v) => Math.sign(v) * Math.floor((Math.abs(v) * radius) / length));
}

/** The product of a vector with every codeword over its length; those of the second half have the other sign. */
function scores({ dim, rows, size, largest, table }: Seeded, seed: [number, number], vector: Float64Array): Float64Array {
  const half = size / 2;
  const [inner, row] = [rows || dim, new Float64Array(Math.max(rows, dim))];
  let shorter = vector;
  if (rows) {
    const start = half * Math.ceil(inner / 2);
    shorter = new Float64Array(rows).map((_, i) => {
      fill(row, dim, table, seed, start + i * Math.ceil(dim / 2));
      return Math.floor(product(row, vector, dim) / largest);
    });
  }
  const found = new Float64Array(size);
  for (let j = 0; j < half; j++) {
    fill(row, inner, table, seed, j * Math.ceil(inner / 2));
    found[j] = product(row, shorter, inner) / Math.sqrt(product(row, row, inner));
    found[half + j] = -found[j]!;
  }
  return found;
}

/** The first `width` numbers of a row: of the lower halves of its words, then of the upper halves. */
function fill(row: Float64Array, width: number, table: Float64Array, [first, second]: [number, number], start: number): void {
  const [count, mask] = [Math.ceil(width / 2), table.length - 1];
  for (let i = 0; i < count; i++) {
    const word = mix(mix((start + i + first) | 0) ^ second);
    row[i] = table[word & mask]!;
    if (count + i < width) row[count + i] = table[(word >>> 16) & mask]!;
  }
}

/** A bijection of 32-bit numbers. */
function mix(x: number): number {
  x = Math.imul(x ^ (x >>> 16), 0x21f0aaad);
  x = Math.imul(x ^ (x >>> 15), 0x735a2d97);
  return x ^ (x >>> 15);
}

function product(one: Float64Array, other: Float64Array, width: number): number {
  let sum = 0;
  for (let i = 0; i < width; i++) sum += one[i]! * other[i]!;
  return sum;
}

const squared = (k: Float64Array): number => product(k, k, k.length);
