/** Ensembles of decision trees: values become ranks among knots; from there on whole numbers are compared and added. */
import { need } from "./files.js";

export interface Trees {
  /** Attribute after attribute, rising; those of attribute i end before `ends[i]`. */
  knots: Float64Array;
  ends: Float64Array;
  /** Of every node: what a split compares, and where it leads; leaves lead to themselves. */
  attribute: Float64Array;
  rank: Float64Array;
  left: Uint32Array;
  right: Uint32Array;
  /** Which leaf a node is, if it is one, and what leaves add, `perLeaf` numbers each. */
  leaf: Uint32Array;
  values: Float64Array;
  perLeaf: number;
  /** Of every tree: its root, the steps down to its deepest leaf, and the first latent that its leaves add to. */
  roots: number[];
  depths: number[];
  output: Float64Array;
}

export type Written = Pick<Trees, "knots" | "attribute" | "rank" | "values" | "perLeaf" | "output"> & { counts: Float64Array };

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
  const places = (): Uint32Array => new Uint32Array(count);
  const [left, right, leaf, depth, ranks] = [places(), places(), places(), places(), new Float64Array(count)];
  const roots: number[] = [];
  const depths: number[] = [];
  const waiting: number[] = []; // splits whose right side has not begun
  let leaves = 0;
  attribute.forEach((looked, i) => {
    let parent: number | undefined = i - 1;
    if (!(attribute[parent]! >= 0)) {
      parent = waiting.pop();
      if (parent === undefined) roots.push(i);
      else right[parent] = i;
    }
    depth[i] = parent === undefined ? 0 : depth[parent]! + 1;
    depths[roots.length - 1] = Math.max(depths[roots.length - 1] ?? 0, depth[i]!);
    if (looked < 0) {
      left[i] = right[i] = i;
      leaf[i] = leaves++;
    } else {
      left[i] = i + 1;
      ranks[i] = rank[i - leaves]!;
      need(looked < counts.length && ranks[i]! >= 0 && ranks[i]! < counts[looked]!, "a split's knot");
      waiting.push(i);
    }
  });
  need(attribute.every((v) => v >= -1) && !waiting.length && depths.every((d) => d <= MOST_DEPTH), "shape of trees");
  need(rank.length === count - leaves && values.length === leaves * perLeaf && output.length === roots.length, "numbers of trees");
  return {
    ...{ knots, ends, attribute: attribute.map((v) => Math.max(v, 0)), rank: ranks, left, right },
    ...{ leaf, values, perLeaf, roots, depths, output },
  };
}

/** The largest sums that leaves can add up to, of every latent. */
export function reaches({ leaf, values, perLeaf, roots, output }: Trees, latents: number): Float64Array {
  need(
    output.every((z) => z >= 0 && z + perLeaf <= latents),
    "latents of trees",
  );
  const reach = new Float64Array(latents);
  roots.forEach((_, tree) => {
    // The last node of a tree is a leaf, and so is the one before the next root.
    const first = tree ? leaf[roots[tree]! - 1]! + 1 : 0;
    const last = leaf[(roots[tree + 1] ?? leaf.length) - 1]!;
    for (let place = 0; place < perLeaf; place++) {
      let most = 0;
      for (let i = first; i <= last; i++) most = Math.max(most, Math.abs(values[i * perLeaf + place]!));
      reach[output[tree]! + place]! += most;
    }
  });
  return reach;
}

/** The sums of the leaves that a record reaches, from `offset` on: as many steps for any record. */
export function treeSums(trees: Trees, x: ArrayLike<number>, low: Float64Array, high: Float64Array, offset: Float64Array): Float64Array {
  const { ends, attribute, rank, left, right, perLeaf } = trees;
  const ranks = low.map((from, i) => {
    const to = high[i]!;
    const value = Math.min(Math.max(Number.isNaN(x[i]!) ? from + (to - from) / 2 : x[i]!, from), to);
    const first = i ? ends[i - 1]! : 0;
    let below = 0; // knots below the value
    for (let jump = MOST_KNOTS; jump >= 1; jump /= 2) {
      const place = first + below + jump;
      if (place <= ends[i]! && trees.knots[place - 1]! < value) below += jump;
    }
    return below;
  });
  const sums = offset.slice();
  trees.roots.forEach((root, tree) => {
    let node = root;
    for (let step = trees.depths[tree]!; step > 0; step--) {
      node = ranks[attribute[node]!]! > rank[node]! ? right[node]! : left[node]!;
    }
    for (let place = 0; place < perLeaf; place++) {
      sums[trees.output[tree]! + place]! += trees.values[trees.leaf[node]! * perLeaf + place]!;
    }
  });
  return sums;
}
