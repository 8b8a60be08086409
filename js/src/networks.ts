/** Small networks in whole numbers: dense layers, convolutions, ReLU and pooling, with the bits that Python computes. */
import { powerOfTwo } from "./exact.js";

/** A window on pictures of (channels, height, width), moved by its strides over padded edges. */
export interface Window {
  channels: number;
  height: number;
  width: number;
  rows: number;
  columns: number;
  row_stride: number;
  column_stride: number;
  row_padding: number;
  column_padding: number;
}

export interface Pooling {
  window: Window;
  /** The largest number under the window, or else the sum, halved `shift` times. */
  maximum: boolean;
  shift: number;
}

/** A dense layer; with a window, one on what lies under it wherever it stands. */
export interface Weighted {
  window?: Window;
  /** What the edges of each channel are padded with. */
  fill: Float64Array;
  /** Row after row: outputs × inputs of a group. */
  weights: Float64Array;
  offset: Float64Array;
  shift: Float64Array;
  top: number;
  relu: boolean;
  groups: number;
}

export type NetworkLayer = Weighted | Pooling;

/** A layer may take, give, or lay out side by side for one record. */
export const MOST_NUMBERS = 2 ** 22;
/** Layers of a network, encoders of a mean, stages of a sum, or latents of a group: they are computed one after the other. */
export const MOST_STEPS = 64;
/** Products that the networks or the codewords of a release may take for a record. */
export const MOST_OPERATIONS = 2 ** 28;
export const MOST_SHIFT = 52;

export const down = (w: Window): number => Math.floor((w.height + 2 * w.row_padding - w.rows) / w.row_stride) + 1;
export const across = (w: Window): number => Math.floor((w.width + 2 * w.column_padding - w.columns) / w.column_stride) + 1;
const places = (w: Window): number => down(w) * across(w);

/** How many numbers a layer takes and gives, its products for a record, and the largest sum and output there can be. */
export function measures(layer: NetworkLayer, largest: number) {
  if ("maximum" in layer) {
    const { window: w, maximum, shift } = layer;
    const [outputs, size] = [w.channels * places(w), w.rows * w.columns];
    const reach = maximum ? largest : largest * size;
    const most = Math.ceil(reach * powerOfTwo(-shift));
    return { inputs: w.channels * w.height * w.width, outputs, operations: outputs * size, reach, largest: most };
  }
  const { window, weights, offset, fill, groups } = layer;
  const most = fill.reduce((found, v) => Math.max(found, Math.abs(v)), largest);
  const count = window ? places(window) : 1;
  const length = weights.length / offset.length;
  const reach = offset.reduce((found, start, row) => {
    let sum = 0;
    for (let i = row * length; i < (row + 1) * length; i++) sum += Math.abs(weights[i]!);
    return Math.max(found, sum * most + Math.abs(start));
  }, 0);
  const inputs = window ? window.channels * window.height * window.width : length * groups;
  return { inputs, outputs: offset.length * count, operations: weights.length * count, reach, largest: Math.min(layer.top, reach) };
}

/** The last layer's numbers for a record's levels. */
export const run = (layers: NetworkLayer[], q: Float64Array): Float64Array =>
  layers.reduce((numbers, layer) => ("maximum" in layer ? pool(layer, numbers) : weigh(layer, numbers)), q);

function weigh(layer: Weighted, q: Float64Array): Float64Array {
  const { window, weights, offset, shift, top, relu, groups } = layer;
  const [outputs, length, count] = [offset.length / groups, weights.length / offset.length, window ? places(window) : 1];
  const pictures = window && padded(window, q, layer.fill);
  const patches = window ? new Float64Array(length * count) : q;
  const sums = new Float64Array(offset.length * count);
  for (let group = 0; group < groups; group++) {
    if (window) layOut(window, pictures!, (group * window.channels) / groups, window.channels / groups, patches);
    const start = window ? 0 : group * length;
    for (let row = group * outputs; row < (group + 1) * outputs; ) {
      const rows = row + 4 <= (group + 1) * outputs ? 4 : 1;
      for (let place = 0; place < count; ) {
        const two = rows === 4 && place + 2 <= count;
        (two ? eightSums : sumsOf)(weights, row * length, patches, start + place * length, length, sums, row * count + place, count, rows);
        place += two ? 2 : 1;
      }
      row += rows;
    }
  }
  for (let row = 0; row < offset.length; row++) {
    const scale = powerOfTwo(-shift[row]!);
    for (let i = row * count; i < (row + 1) * count; i++) {
      sums[i] = Math.min(Math.max(Math.floor((sums[i]! + offset[row]!) * scale), relu ? 0 : -top), top);
    }
  }
  return sums;
}

// Small functions that are called often: engines compile them early, so that a page's first report is quick too.

/** Of some rows of weights with one patch, to places of `sums` that lie `apart`. */
function sumsOf(
  weights: Float64Array,
  from: number,
  patches: Float64Array,
  at: number,
  length: number,
  sums: Float64Array,
  to: number,
  apart: number,
  rows: number,
): void {
  for (let row = 0; row < rows; row++) {
    let sum = 0;
    for (let i = 0; i < length; i++) sum += weights[from + row * length + i]! * patches[at + i]!;
    sums[to + row * apart] = sum;
  }
}

/** Of four rows of weights with two patches: every number that is fetched counts two or four times. */
function eightSums(
  weights: Float64Array,
  from: number,
  patches: Float64Array,
  at: number,
  length: number,
  sums: Float64Array,
  to: number,
  apart: number,
): void {
  const second = from + length;
  const third = second + length;
  const fourth = third + length;
  const other = at + length;
  let a = 0;
  let b = 0;
  let c = 0;
  let d = 0;
  let e = 0;
  let f = 0;
  let g = 0;
  let h = 0;
  for (let i = 0; i < length; i++) {
    const u = patches[at + i]!;
    const v = patches[other + i]!;
    const first = weights[from + i]!;
    a += first * u;
    b += first * v;
    const next = weights[second + i]!;
    c += next * u;
    d += next * v;
    const more = weights[third + i]!;
    e += more * u;
    f += more * v;
    const last = weights[fourth + i]!;
    g += last * u;
    h += last * v;
  }
  sums[to] = a;
  sums[to + 1] = b;
  sums[to + apart] = c;
  sums[to + apart + 1] = d;
  sums[to + 2 * apart] = e;
  sums[to + 2 * apart + 1] = f;
  sums[to + 3 * apart] = g;
  sums[to + 3 * apart + 1] = h;
}

/** What lies under the window at every place, one patch after the other. */
function layOut(w: Window, pictures: Float64Array, first: number, channels: number, patches: Float64Array): void {
  const [tall, wide, right] = [w.height + 2 * w.row_padding, w.width + 2 * w.column_padding, across(w)];
  const length = channels * w.rows * w.columns;
  for (let place = 0, count = places(w); place < count; place++) {
    const y = Math.floor(place / right) * w.row_stride;
    const x = (place % right) * w.column_stride;
    for (let channel = 0; channel < channels; channel++) {
      for (let row = 0; row < w.rows; row++) {
        const from = ((first + channel) * tall + y + row) * wide + x;
        copy(pictures, from, patches, place * length + (channel * w.rows + row) * w.columns, w.columns);
      }
    }
  }
}

function copy(source: Float64Array, from: number, target: Float64Array, to: number, count: number): void {
  for (let i = 0; i < count; i++) target[to + i] = source[from + i]!;
}

function padded(w: Window, q: Float64Array, fill: Float64Array): Float64Array {
  const [tall, wide] = [w.height + 2 * w.row_padding, w.width + 2 * w.column_padding];
  const pictures = new Float64Array(w.channels * tall * wide);
  for (let channel = 0; channel < w.channels; channel++) {
    pictures.fill(fill[channel]!, channel * tall * wide, (channel + 1) * tall * wide);
    for (let row = 0; row < w.height; row++) {
      const to = (channel * tall + row + w.row_padding) * wide + w.column_padding;
      copy(q, (channel * w.height + row) * w.width, pictures, to, w.width);
    }
  }
  return pictures;
}

function pool({ window: w, maximum, shift }: Pooling, q: Float64Array): Float64Array {
  const pictures = padded(w, q, new Float64Array(w.channels).fill(maximum ? -Infinity : 0));
  const [count, length, scale] = [places(w), w.rows * w.columns, powerOfTwo(-shift)];
  const patches = new Float64Array(length * count);
  const out = new Float64Array(w.channels * count);
  for (let channel = 0; channel < w.channels; channel++) {
    layOut(w, pictures, channel, 1, patches);
    for (let place = 0; place < count; place++) {
      let found = maximum ? -Infinity : 0;
      for (let i = place * length; i < (place + 1) * length; i++) {
        found = maximum ? Math.max(found, patches[i]!) : found + patches[i]!;
      }
      out[channel * count + place] = maximum ? found : Math.floor(found * scale);
    }
  }
  return out;
}
