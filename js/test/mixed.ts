/** Records of natural values, which Python wrote in JSON with a tag for what JSON cannot say (`tests/mixed_records.py`). */
import { read } from "./files.js";

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

export function* mixed(name: string): Generator<Mixed> {
  for (const line of new TextDecoder().decode(read(`${name}/vectors.jsonl`)).trimEnd().split("\n")) {
    const vector = JSON.parse(line);
    yield { ...vector, values: vector.values.map(untagged) };
  }
}

/** Doubles in bytes, in hex, as Python writes them. */
export const bitsOf = (numbers: number[]): string => Buffer.from(Float64Array.from(numbers).buffer).toString("hex");
