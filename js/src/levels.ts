/**
 * Latents rounded by lot to one of the two levels around each, and an output drawn from the row of a table that belongs to
 * these levels; see `level_response.py`.
 *
 * Every level and every entry of the row is looked at, whichever is found.
 */
import { byLot, type Source, uniformBelow } from "./entropy.js";
import { sum } from "./exact.js";
import { MOST_STEPS } from "./networks.js";
import type { Box } from "./regions.js";

/** Of all tables together: no release makes a report slow. */
export const MOST_ENTRIES = 2 ** 20;

/** Some latents that are reported together. */
export interface Group {
  places: Float64Array;
  /** The levels of each of these latents, in grid steps. */
  scales: Float64Array[];
  /** A row for every choice of levels, the first latent's number being the highest digit of the row's. */
  table: Float64Array;
  outputs: number;
  /** The sum of every row. */
  total: number;
  /** How often the group is drawn beside the others. */
  chance: number;
}

/** A group, or null unless its levels reach from end to end of the region and its rows have one sum. */
export function levelGroup(
  { low, high }: Box,
  places: Float64Array,
  counts: Float64Array,
  levels: Float64Array,
  table: Float64Array,
  outputs: number,
  chance: number,
): Group | null {
  let start = 0;
  const scales = Array.from(counts, (count) => levels.slice(start, (start += count)));
  const total = sum(table.subarray(0, outputs));
  let sound = places.length <= MOST_STEPS && new Set(places).size === places.length && start === levels.length;
  sound &&= counts.reduce((rows, count) => (count >= 1 ? rows * count : NaN), outputs) === table.length;
  sound &&= table.length <= MOST_ENTRIES && total < 2 ** 53 && table.every((v) => v >= 1);
  for (let at = 0; sound && at < table.length; at += outputs) sound = sum(table.subarray(at, at + outputs)) === total;
  sound &&= scales.every((scale, i) => {
    const place = places[i]!; // where there is no such latent, no level is its lowest
    return scale.at(-1) === high[place] && scale.every((v, j) => (j ? v > scale[j - 1]! : v === low[place]));
  });
  return sound ? { places, scales, table, outputs, total, chance } : null;
}

/** A code number: the outputs of all groups numbered through. */
export function drawOutput(groups: Group[], k: Float64Array, source: Source): bigint {
  let drawn = Number(uniformBelow(source, BigInt(sum(groups.map(({ chance }) => chance)))));
  let [number, output] = [0, 0];
  for (; drawn >= groups[number]!.chance; number++) {
    drawn -= groups[number]!.chance;
    output += groups[number]!.outputs;
  }
  const { places, scales, table, outputs, total } = groups[number]!;
  let row = 0;
  scales.forEach((levels, i) => {
    const v = k[places[i]!]!;
    const below = levels.reduce((count, level) => count + Number(level <= v), -1);
    const from = levels[below]!;
    row = row * levels.length + below + Number(byLot(source, BigInt(v - from), BigInt((levels[below + 1] ?? from + 1) - from)));
  });
  drawn = Number(uniformBelow(source, BigInt(total)));
  let reached = 0;
  for (const entry of table.subarray(row * outputs, (row + 1) * outputs)) output += Number((reached += entry) <= drawn);
  return BigInt(output);
}

/** The largest and the least entry of the column in which they have the largest ratio. */
export function worstColumn(groups: Group[]): [bigint, bigint] {
  let worst: [bigint, bigint] = [1n, 1n];
  for (const { table, outputs } of groups) {
    for (let column = 0; column < outputs; column++) {
      let [most, least] = [0, Infinity];
      for (let at = column; at < table.length; at += outputs) {
        most = Math.max(most, table[at]!);
        least = Math.min(least, table[at]!);
      }
      const [a, b] = [BigInt(most), BigInt(least)];
      if (a * worst[1] > worst[0] * b) worst = [a, b];
    }
  }
  return worst;
}
