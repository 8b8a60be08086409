/** Ensembles of decision trees: values become ranks among knots; from there on whole numbers are compared and added. */
import { need } from "./files.js";

export interface Trees {
  /** Attribute after attribute, rising; those of attribute i end before `ends[i]`. */
  knots: Float64Array;
  ends: Float64Array;
  /** Of every node: what a split compares, and the two nodes that it leads to; leaves lead to themselves. */
  attribute: Int32Array;
  rank: Int32Array;
  below: Int32Array;
  /** Which leaf a node is, if it is one, and what leaves add, `perLeaf` numbers each. */
  leaf: Uint32Array;
  values: Float64Array;
  perLeaf: number;
  /** Of every tree: its root, the steps down to its deepest leaf, and the first latent that its leaves add to. */
  roots: number[];
  depths: number[];
  output: Float64Array;
}

export type Written = Pick<Trees, "knots" | "values" | "perLeaf" | "output"> & Record<"attribute" | "rank" | "counts", Float64Array>;

const MOST_NODES = 2 ** 20;
const MOST_DEPTH = 256;
/** Of one attribute, also in a table of levels. */
export const MOST_KNOTS = 2 ** 15;

/**
 * Trees as they are written: one after the other, each node before what lies to its left, and that before what lies to its
 * right. −1 is a leaf; splits alone have a rank.
 */
export function plant({ knots, counts, attribute, rank, values, perLeaf, output }: Written): Trees {
  const count = attribute.length;
  need(count >= 3 && count <= MOST_NODES, "number of nodes");
  let end = 0;
  const ends = counts.map((n) => (end += n));
  need(counts.every((n) => n >= 0 && n <= MOST_KNOTS) && end === knots.length, "counts of knots");
  const firsts = new Set(ends);
  need(
    knots.every((v, i) => i === 0 || firsts.has(i) || v > knots[i - 1]!),
    "the knots of an attribute must rise",
  );
  const [below, ranks] = [new Int32Array(2 * count), new Int32Array(count)];
  const [leaf, depth] = [new Uint32Array(count), new Uint32Array(count)];
  const roots: number[] = [];
  const depths: number[] = [];
  const waiting: number[] = []; // splits whose right side has not begun
  let leaves = 0;
  attribute.forEach((looked, i) => {
    let parent: number | undefined = i - 1;
    if (!(attribute[parent]! >= 0)) {
      parent = waiting.pop();
      if (parent === undefined) roots.push(i);
      else below[2 * parent + 1] = i;
    }
    depth[i] = parent === undefined ? 0 : depth[parent]! + 1;
    depths[roots.length - 1] = Math.max(depths[roots.length - 1] ?? 0, depth[i]!);
    if (looked < 0) {
      below[2 * i] = below[2 * i + 1] = i;
      leaf[i] = leaves++;
    } else {
      below[2 * i] = i + 1;
      ranks[i] = rank[i - leaves]!;
      need(looked < counts.length && ranks[i]! >= 0 && ranks[i]! < counts[looked]!, "a split's knot");
      waiting.push(i);
    }
  });
  need(attribute.every((v) => v >= -1) && !waiting.length && depths.every((d) => d <= MOST_DEPTH), "shape of trees");
  need(rank.length === count - leaves && values.length === leaves * perLeaf && output.length === roots.length, "numbers of trees");
  // In memory a tree lies level by level: every way down then leads as far through it. As trees are written, the ways to
  // the left lie closer together, and processors take them more quickly.
  const order: number[] = [];
  for (const root of roots) {
    order.push(root);
    for (let at = order.length - 1; at < order.length; at++) {
      const i = order[at]!;
      if (attribute[i]! >= 0) order.push(below[2 * i]!, below[2 * i + 1]!);
    }
  }
  const number = new Int32Array(count);
  order.forEach((i, n) => (number[i] = n));
  return {
    ...{ knots, ends, attribute: Int32Array.from(order, (i) => Math.max(attribute[i]!, 0)) },
    rank: Int32Array.from(order, (i) => ranks[i]!),
    below: Int32Array.from(below, (_, place) => number[below[2 * order[place >> 1]! + (place & 1)]!]!),
    leaf: Uint32Array.from(order, (i) => leaf[i]!),
    ...{ values, perLeaf, roots, depths, output },
  };
}

/** The largest sums that leaves can add up to, of every latent. */
export function reaches({ below, leaf, values, perLeaf, roots, output }: Trees, latents: number): Float64Array {
  need(
    output.every((z) => z >= 0 && z + perLeaf <= latents),
    "latents of trees",
  );
  const reach = new Float64Array(latents);
  roots.forEach((_, tree) => {
    for (let place = 0; place < perLeaf; place++) {
      let most = 0;
      for (let i = roots[tree]!; i < (roots[tree + 1] ?? leaf.length); i++) {
        if (below[2 * i] === i) most = Math.max(most, Math.abs(values[leaf[i]! * perLeaf + place]!));
      }
      reach[output[tree]! + place]! += most;
    }
  });
  return reach;
}

/**
 * The sums of the leaves that a record reaches, from `offset` on: as many steps for any record. No step down branches on
 * the record: processors take longer for branches that they cannot foresee.
 */
export function treeSums(trees: Trees, x: ArrayLike<number>, low: Float64Array, high: Float64Array, offset: Float64Array): Float64Array {
  const { ends, attribute, rank, below, perLeaf } = trees;
  const ranks = Int32Array.from(low, (from, i) => {
    const to = high[i]!;
    const value = Math.min(Math.max(Number.isNaN(x[i]!) ? from + (to - from) / 2 : x[i]!, from), to);
    const first = i ? ends[i - 1]! : 0;
    let less = 0; // knots below the value
    for (let jump = MOST_KNOTS; jump >= 1; jump /= 2) {
      const place = first + less + jump;
      if (place <= ends[i]! && trees.knots[place - 1]! < value) less += jump;
    }
    return less;
  });
  const sums = offset.slice();
  trees.roots.forEach((root, tree) => {
    let node = root;
    for (let step = trees.depths[tree]!; step > 0; step--) {
      node = below[2 * node + ((rank[node]! - ranks[attribute[node]!]!) >>> 31)]!; // the sign: 1 if the rank is above
    }
    for (let place = 0; place < perLeaf; place++) {
      sums[trees.output[tree]! + place]! += trees.values[trees.leaf[node]! * perLeaf + place]!;
    }
  });
  return sums;
}
