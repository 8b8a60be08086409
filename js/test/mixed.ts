/** Records of natural values, which Python wrote in JSON with a tag for what JSON cannot say (`tests/mixed_records.py`). */
import { hex } from "../src/wire.js";

export interface Mixed {
  /** In the fields' order. */
  values: unknown[];
  numbers: string;
  bits: string;
  report: string;
}

const TAGS: Record<string, (told: any) => unknown> = {
  undefined: () => undefined,
  number: Number,
  bigint: BigInt,
  date: (milliseconds: number | null) => new Date(milliseconds ?? NaN),
  repeated: ([text, times]: [string, number]) => text.repeat(times),
  object: JSON.parse,
  other: (kind: string) => (kind === "symbol" ? Symbol("of no value") : () => "of no value"),
};

function untagged(told: unknown): unknown {
  if (told === null || typeof told !== "object") return told;
  const [[tag, content]] = Object.entries(told) as [[string, unknown]];
  return TAGS[tag]!(content);
}

/** A line of `vectors.jsonl`. */
export function parseMixed(line: string): Mixed {
  const vector = JSON.parse(line);
  return { ...vector, values: vector.values.map(untagged) };
}

/** Doubles in bytes, in hex, as Python writes them. */
export const bitsOf = (numbers: number[]): string => hex(new Uint8Array(Float64Array.from(numbers).buffer));
