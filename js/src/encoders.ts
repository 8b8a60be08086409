/** From a record to its latent, in whole numbers held in doubles: the same bits in every language. */
import { powerOfTwo } from "./exact.js";
import { type NetworkLayer, run } from "./networks.js";
import { MOST_KNOTS, type Trees, treeSums } from "./trees.js";

export interface Layer {
  /** Row after row: outputs × inputs. */
  weights: Float64Array;
  offset: Float64Array;
}

/** A table per attribute: the levels of values at the knots, and straight lines between. */
export interface Tables {
  /** Row after row: attributes × knots. */
  knots: Float64Array;
  levels: Float64Array;
}

export interface PlainEncoder {
  /** What it gets for values are the levels of these tables, if there are any. */
  tables?: Tables;
  low: Float64Array;
  high: Float64Array;
  hidden?: Layer & { shift: Float64Array; skip: Float64Array };
  /** Instead of layers: then `output` is their offset alone. */
  trees?: Trees;
  output: Layer;
  step: Float64Array;
  softmax: boolean;
}

export interface LayeredEncoder {
  low: Float64Array;
  high: Float64Array;
  layers: NetworkLayer[];
  step: Float64Array;
  start: Float64Array;
  softmax: boolean;
}

/** Several whose mean it is. */
export interface MeanEncoder {
  /** Those of the first: as many as attributes and latents. */
  low: Float64Array;
  high: Float64Array;
  step: Float64Array;
  encoders: (PlainEncoder | LayeredEncoder)[];
  weights: Float64Array;
}

/** Attributes as they are, seen from the middle of their ranges. */
export interface AttributeEncoder {
  low: Float64Array;
  high: Float64Array;
  step: Float64Array;
  places: Float64Array;
}

export type Encoder = PlainEncoder | LayeredEncoder | MeanEncoder | AttributeEncoder;

export const LEVELS = 2 ** 20;

export function encode(encoder: Encoder, x: ArrayLike<number>): Float64Array {
  if ("encoders" in encoder) {
    const each = encoder.encoders.map((one) => encode(one, x));
    return each[0]!.map((_, i) => each.reduce((sum, latents, one) => sum + latents[i]! * encoder.weights[one]!, 0));
  }
  if ("layers" in encoder) return throughLayers(encoder, x);
  if ("places" in encoder) {
    const levelled = levels(x, encoder.low, encoder.high);
    return encoder.places.map((place, i) => (levelled[place]! - LEVELS / 2) * encoder.step[i]!);
  }
  const { tables, low, high, hidden, output, step, trees } = encoder;
  if (trees) {
    const sums = treeSums(trees, x, low, high, output.offset).map((v, i) => v * step[i]!);
    return encoder.softmax ? softmax(sums) : sums;
  }
  const q = levels(tables ? tableLevels(x, tables, low.length) : x, low, high);
  let latents: Float64Array;
  if (hidden) {
    const units = affine(q, hidden).map((v, i) => Math.floor(Math.max(v, 0) * powerOfTwo(-hidden.shift[i]!)));
    const skipped = affine(q, { weights: hidden.skip, offset: new Float64Array(step.length) });
    latents = affine(units, output).map((v, i) => (v + skipped[i]!) * step[i]!);
  } else {
    latents = affine(q, output).map((v, i) => v * step[i]!);
  }
  return encoder.softmax ? softmax(latents) : latents;
}

function throughLayers({ low, high, layers, step, start, softmax: shares }: LayeredEncoder, x: ArrayLike<number>): Float64Array {
  const q = levels(x, low, high).map((v) => (Number.isNaN(v) ? LEVELS / 2 : v)); // ranges that a double cannot divide by or hold
  const latents = run(layers, q).map((v, i) => v * step[i]! + start[i]!);
  return shares ? softmax(latents) : latents;
}

/** Whole numbers 0 … 2^20: where each value lies between low and high; outside is clipped, NaN is the middle. */
function levels(x: ArrayLike<number>, low: Float64Array, high: Float64Array): Float64Array {
  return low.map((from, i) => {
    const to = high[i]!;
    const value = Number.isNaN(x[i]!) ? from + (to - from) / 2 : x[i]!;
    const gain = to > from ? LEVELS / (to - from) : 0;
    return Math.min(Math.floor((Math.min(Math.max(value, from), to) - from) * gain + 0.5), LEVELS);
  });
}

/** The levels of a record's values: those of the ends beyond the knots, the middle one for NaN. */
function tableLevels(x: ArrayLike<number>, { knots, levels }: Tables, width: number): Float64Array {
  const count = knots.length / width;
  return new Float64Array(width).map((_, i) => {
    if (Number.isNaN(x[i]!)) return LEVELS / 2;
    const first = i * count;
    const last = first + count - 1;
    const value = Math.min(Math.max(x[i]!, knots[first]!), knots[last]!);
    let place = first; // of the last knot that is not above the value; as many steps for any value
    for (let jump = MOST_KNOTS / 2; jump >= 1; jump /= 2) {
      if (place + jump <= last && knots[place + jump]! <= value) place += jump;
    }
    if (place === last) return levels[last]!;
    const share = (value - knots[place]!) / (knots[place + 1]! - knots[place]!);
    return levels[place]! + Math.floor(share * (levels[place + 1]! - levels[place]!) + 0.5);
  });
}

function affine(q: Float64Array, { weights, offset }: Layer): Float64Array {
  const width = q.length;
  return offset.map((start, row) => {
    let sum = start;
    for (let i = 0; i < width; i++) sum += q[i]! * weights[row * width + i]!;
    return sum;
  });
}

/** Class probabilities from additions, products and divisions alone, which round alike on every machine. */
function softmax(z: Float64Array): Float64Array {
  const largest = z.reduce((most, v) => Math.max(most, v), -Infinity); // one argument each would fill the stack
  if (!Number.isFinite(largest)) return z.fill(NaN); // an overflow somewhere: the region brings NaN inside
  const e = z.map((v) => {
    const shifted = Math.max(v - largest, -700);
    const power = Math.floor(shifted * 1.4426950408889634 + 0.5);
    const rest = shifted - power * 0.693147180369123816490 - power * 1.90821492927058770002e-10;
    let sum = 1 / 6227020800;
    for (const d of [479001600, 39916800, 3628800, 362880, 40320, 5040, 720, 120, 24, 6, 2, 1, 1]) {
      sum = sum * rest + 1 / d;
    }
    return sum * powerOfTwo(power);
  });
  let total = 0;
  for (const v of e) total += v;
  return e.map((v) => v / total);
}
