import { readdirSync, readFileSync } from "node:fs";
import type { Source } from "../src/entropy.js";
import type { Files } from "../src/files.js";
import { type Mixed, parseMixed } from "./mixed.js";

/** Written by `python tests/vectors.py js/test/vectors`, which `make test` runs first, and `make test-all` with `--full`. */
const VECTORS = new URL("vectors/", import.meta.url);

export const devices = (): string[] => readdirSync(VECTORS).filter((name) => !name.includes(".")).sort();

export const read = (path: string): Uint8Array<ArrayBuffer> => new Uint8Array(readFileSync(new URL(path, VECTORS)));

/** How many vectors every device has, and how many reports were counted: small in `make test`, full in `make test-all`. */
export const size = (): { vectors: number; reports: number } => JSON.parse(new TextDecoder().decode(read("size.json")));

export const files = (name: string): Files => ({
  manifest: read(`${name}/manifest.json`),
  weights: read(`${name}/weights.safetensors`),
});

/** Records of natural values, with what Python made of them. */
export function* mixed(name: string): Generator<Mixed> {
  for (const line of new TextDecoder().decode(read(`${name}/vectors.jsonl`)).trimEnd().split("\n")) yield parseMixed(line);
}

/** Bits given in advance; asking for more than there are is an error. */
export function replay(bits: Uint8Array): Source & { left(): number } {
  let at = 0;
  const source = (count: number): Uint8Array => {
    if (at + count > bits.length) throw new Error("more bits were taken than the Python client took");
    return bits.slice(at, (at += count));
  };
  return Object.assign(source, { left: () => bits.length - at });
}
