/**
 * Groups of latents that are reported together: by a table, by cyclic blocks, or by lines of a plane; see `level_groups.py`.
 *
 * Every level, every entry of a row and every favoured output is looked at, whichever is found. What is drawn in public (the
 * group, the block, the form) is drawn before the record is looked at.
 */
import { byLot, type Source, uniformBelow } from "./entropy.js";
import { sum } from "./exact.js";
import { MOST_STEPS } from "./networks.js";
import type { Box } from "./regions.js";
import { type Response, respond } from "./response.js";

/** Of all tables and blocks together, and rows of a group: no release makes a report slow. */
export const MOST_ENTRIES = 2 ** 20;

interface Any {
  places: Float64Array;
  outputs: number;
  /** Numbers that count towards `MOST_ENTRIES`. */
  entries: number;
  /** How often the group is drawn beside the others. */
  chance: number;
}

/** The levels of each latent, in grid steps, and whether it is rounded down instead of at random. */
export interface Scales {
  places: Float64Array;
  scales: Float64Array[];
  binned: boolean[];
  /** Choices of one level of each latent; the first latent's level is the highest digit of a row's number. */
  rows: number;
}

/** An output from the row of a table that belongs to the levels. */
export interface LevelGroup extends Any, Scales {
  kind: "level_group";
  table: Float64Array;
  /** The sum of every row. */
  total: number;
}

/** A block in public, then a response that favours the row less the residues of the block. */
export interface BlockGroup extends Any, Scales {
  kind: "block_group";
  blocks: Float64Array;
  response: Response;
}

/** A form in public, then a response that favours the residues up to that of a point. */
export interface PlaneGroup extends Any {
  kind: "plane_group";
  prime: number;
  response: Response;
}

export type Group = LevelGroup | BlockGroup | PlaneGroup;

const different = (list: Float64Array): boolean => new Set(list).size === list.length;

/** The scales of some latents, or null unless they begin at the region's low and, if not binned, end at its high. */
export function scalesOf({ low, high }: Box, places: Float64Array, counts: Float64Array, levels: Float64Array, binned: boolean[]): Scales | null {
  let start = 0;
  const scales = Array.from(counts, (count) => levels.slice(start, (start += count)));
  const rows = counts.reduce((all, count) => (count >= 1 ? all * count : NaN), 1);
  let sound = places.length <= MOST_STEPS && different(places) && start === levels.length && rows <= MOST_ENTRIES;
  sound &&= scales.every((scale, i) => {
    const place = places[i]!; // where there is no such latent, no level is its lowest
    const top = scale.at(-1)!;
    const ends = binned[i] ? top <= high[place]! : top === high[place];
    return ends && scale.every((v, j) => (j ? v > scale[j - 1]! : v === low[place]));
  });
  return sound ? { places, scales, binned, rows } : null;
}

/** A group with a table, or null unless its rows have one sum. */
export function levelGroup(scaled: Scales, table: Float64Array, outputs: number, chance: number): LevelGroup | null {
  const total = sum(table.subarray(0, outputs));
  let sound = scaled.rows * outputs === table.length && table.length <= MOST_ENTRIES;
  sound &&= total < 2 ** 53 && table.every((v) => v >= 1);
  for (let at = 0; sound && at < table.length; at += outputs) sound = sum(table.subarray(at, at + outputs)) === total;
  return sound ? { kind: "level_group", ...scaled, table, outputs, total, entries: table.length, chance } : null;
}

/** A group with blocks of so many residues, or null unless they are different ones of the rows. */
export function blockGroup(scaled: Scales, blocks: Float64Array, width: number, response: Response, chance: number): BlockGroup | null {
  const { rows, scales } = scaled;
  let sound = blocks.length <= MOST_ENTRIES && blocks.every((d) => d >= 0 && d < rows);
  sound &&= response.size === BigInt(rows) && response.favoured === width;
  for (let at = 0; sound && at < blocks.length; at += width) sound = different(blocks.subarray(at, at + width));
  const entries = blocks.length + sum(scales.map(({ length }) => length));
  return sound ? { kind: "block_group", ...scaled, blocks, response, outputs: (blocks.length / width) * rows, entries, chance } : null;
}

/** A group with a plane, or null unless it has a prime number of residues, which both latents reach. */
export function planeGroup({ low, high }: Box, places: Float64Array, prime: number, response: Response, chance: number): PlaneGroup | null {
  const outputs = prime * (prime * prime - 1);
  let sound = places.length === 2 && different(places) && outputs < 2 ** 53 && response.size === BigInt(prime);
  for (let divisor = 2; sound && divisor * divisor <= prime; divisor++) sound = prime % divisor !== 0;
  sound &&= places.every((place) => low[place] === 0 && high[place] === prime - 1);
  return sound ? { kind: "plane_group", places, prime, response, outputs, entries: response.favoured, chance } : null;
}

/** A code number: the outputs of all groups numbered through. */
export function drawOutput(groups: Group[], k: Float64Array, source: Source): bigint {
  let drawn = Number(uniformBelow(source, BigInt(sum(groups.map(({ chance }) => chance)))));
  let [number, start] = [0, 0];
  for (; drawn >= groups[number]!.chance; number++) {
    drawn -= groups[number]!.chance;
    start += groups[number]!.outputs;
  }
  return BigInt(start) + drawFrom(groups[number]!, k, source);
}

function drawFrom(group: Group, k: Float64Array, source: Source): bigint {
  switch (group.kind) {
    case "level_group": {
      const { table, outputs } = group;
      const row = rowOf(group, k, source);
      const drawn = Number(uniformBelow(source, BigInt(group.total)));
      let [reached, output] = [0, 0];
      for (const entry of table.subarray(row * outputs, (row + 1) * outputs)) output += Number((reached += entry) <= drawn);
      return BigInt(output);
    }
    case "block_group": {
      const { blocks, rows, response } = group;
      const width = response.favoured;
      const block = Number(uniformBelow(source, BigInt(blocks.length / width)));
      const row = rowOf(group, k, source);
      const chosen = Array.from(blocks.subarray(block * width, (block + 1) * width), (d) => (row - d + rows) % rows);
      return BigInt(block * rows) + respond(response, chosen, source);
    }
    case "plane_group": {
      const { places, prime, response } = group;
      const form = Number(uniformBelow(source, BigInt(prime * prime - 1)));
      const [one, other] = [Math.floor((form + 1) / prime), (form + 1) % prime];
      const residue = (one * k[places[0]!]! + other * k[places[1]!]!) % prime;
      const chosen = Array.from({ length: response.favoured }, (_, d) => (residue - d + prime) % prime);
      return BigInt(form * prime) + respond(response, chosen, source);
    }
  }
}

/** The row of levels beside the latents, each rounded at random or, if it is binned, down. */
function rowOf({ places, scales, binned }: Scales, k: Float64Array, source: Source): number {
  let row = 0;
  scales.forEach((levels, i) => {
    const v = k[places[i]!]!;
    const below = levels.reduce((count, level) => count + Number(level <= v), -1);
    const from = levels[below]!;
    const above = BigInt(v - from) * BigInt(!binned[i]);
    row = row * levels.length + below + Number(byLot(source, above, BigInt((levels[below + 1] ?? from + 1) - from)));
  });
  return row;
}

/** The largest and the least weight of an output, in the group where they have the largest ratio. */
export function worstOf(groups: Group[]): [bigint, bigint] {
  let worst: [bigint, bigint] = [1n, 1n];
  const compare = (a: bigint, b: bigint): void => {
    if (a * worst[1] > worst[0] * b) worst = [a, b];
  };
  for (const group of groups) {
    if (group.kind !== "level_group") {
      compare(group.response.a, group.response.b);
      continue;
    }
    const { table, outputs } = group;
    for (let column = 0; column < outputs; column++) {
      let [most, least] = [0, Infinity];
      for (let at = column; at < table.length; at += outputs) {
        most = Math.max(most, table[at]!);
        least = Math.min(least, table[at]!);
      }
      compare(BigInt(most), BigInt(least));
    }
  }
  return worst;
}
