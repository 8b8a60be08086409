/** Releases made up for tests: whatever they hold, their digests are right. */
import { createHash } from "node:crypto";
import type { Files } from "../src/files.js";
import { files } from "./files.js";

export type Json = any;

const sha256 = (raw: string | Uint8Array): string => createHash("sha256").update(raw).digest("hex");

/** A manifest's text with the digest it should have. Python's form: sorted keys, one space of indent, ASCII. */
function sealed(text: string): Uint8Array {
  const bare = text.replace(/^ "digest": "[0-9a-f]{64}",\n/m, "");
  return new TextEncoder().encode(bare.replace(/^ "encoder": /m, ` "digest": "${sha256(bare)}",\n "encoder": `));
}

/** A release of the Python client with its manifest edited. Floats must be kept as they were written. */
export function forge(name: string, edit: (text: string) => string): Files {
  const good = files(name);
  return { ...good, manifest: sealed(edit(new TextDecoder().decode(good.manifest))) };
}

/** The same for the header of the weights. */
export const forgeWeights = (name: string, edit: (header: Json) => void): Files =>
  forgeHeader(name, (text) => {
    const header = JSON.parse(text);
    edit(header);
    return JSON.stringify(header);
  });

/** The same for the text of that header; its characters are bytes. */
export function forgeHeader(name: string, edit: (text: string) => string): Files {
  const [text, data] = split(files(name).weights);
  return reweighed(name, safetensors(edit(text), data));
}

/** A release with a tensor of so many bytes beside its own, under a name that the manifest uses where no part looks. */
export function forgeBulk(name: string, bytes: number): Files {
  const [text, data] = split(files(name).weights);
  const bulk = { dtype: "I8", shape: [bytes], data_offsets: [data.length, data.length + bytes] };
  const header = JSON.stringify({ ...JSON.parse(text), bulk });
  const padded = new Uint8Array(data.length + bytes);
  padded.set(data);
  return reweighed(name, safetensors(header, padded), (manifest) =>
    manifest.replace(/^  "statement"/m, '  "more": {\n   "tensor": "bulk"\n  },\n  "statement"'),
  );
}

function split(weights: Uint8Array): [header: string, data: Uint8Array] {
  const length = Number(new DataView(weights.buffer).getBigUint64(0, true));
  return [Buffer.from(weights.subarray(8, 8 + length)).toString("latin1"), weights.slice(8 + length)];
}

function reweighed(name: string, weights: Uint8Array, edit = (text: string): string => text): Files {
  const digest = `"weights_sha256": "${sha256(weights)}"`;
  return { ...forge(name, (text) => edit(text).replace(/"weights_sha256": "[0-9a-f]{64}"/, digest)), weights };
}

function safetensors(header: string, data: Uint8Array): Uint8Array {
  const size = new BigUint64Array([BigInt(header.length)]);
  return new Uint8Array(Buffer.concat([new Uint8Array(size.buffer), Buffer.from(header, "latin1"), data]));
}

/** Numbers that go to the weights file. */
export class Numbers {
  constructor(
    readonly dtype: "F64" | "I64" | "I8" | "BOOL",
    readonly shape: number[],
    readonly data: number[],
  ) {}
}

export const F64 = (...data: number[]): Numbers => new Numbers("F64", [data.length], data);
export const I64 = (...data: number[]): Numbers => new Numbers("I64", [data.length], data);
export const rows = (dtype: "I64" | "I8", table: number[][]): Numbers =>
  new Numbers(dtype, [table.length, table[0]!.length], table.flat());

/** A release of these parts, wherever they came from. ε is given as it is to be written. */
export function release(content: { encoder: Json; mechanism: Json; epsilon: string; columns?: string[]; schema?: number }): Files {
  const header: Json = {};
  const parts: Uint8Array[] = [];
  let at = 0;
  const pack = (value: Json, name: string): Json => {
    if (value instanceof Numbers) {
      const { dtype, shape, data } = value;
      const array =
        dtype === "F64" ? new Float64Array(data) : dtype === "I64" ? new BigInt64Array(data.map(BigInt)) : new Int8Array(data);
      const raw = new Uint8Array(array.buffer);
      header[name] = { dtype, shape, data_offsets: [at, (at += raw.length)] };
      parts.push(raw);
      return { tensor: name };
    }
    if (Array.isArray(value)) return value.map((item, i) => pack(item, `${name}.${i}`));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(
      Object.keys(value)
        .sort()
        .map((key) => [key, pack(value[key], `${name}.${key}`)]),
    );
  };
  const [encoder, mechanism] = [pack(content.encoder, "encoder"), pack(content.mechanism, "mechanism")];
  const weights = safetensors(JSON.stringify(header), new Uint8Array(Buffer.concat(parts)));
  const guarantee = { delta: 0, epsilon: "EPSILON", statement: "for tests" };
  const manifest = {
    columns: content.columns ?? null,
    encoder,
    guarantee,
    mechanism,
    schema: content.schema ?? 1,
    units: null,
    weights_sha256: sha256(weights),
  };
  const text = JSON.stringify(manifest, null, 1).replace('"EPSILON"', content.epsilon).replace('"delta": 0', '"delta": 0.0');
  return { manifest: sealed(`${text}\n`), weights };
}

/** φ = gain · (position of each attribute between ±1, times 2^19), one latent for every row of `gain`. */
export function linear(gain: number[][]): Json {
  const width = gain[0]!.length;
  const half = 2 ** 19;
  return {
    kind: "linear_encoder",
    low: F64(...Array(width).fill(-1)),
    high: F64(...Array(width).fill(1)),
    weights: rows("I64", gain),
    offset: I64(...gain.map((row) => -half * row.reduce((a, b) => a + b, 0))),
    step: F64(...gain.map(() => 1)),
  };
}

/**
 * A region as thin as a sheet: one sign vector allows nothing but 0, all others much. Latents that lie in the sheet leave
 * it when they are scaled and rounded, and are far from its center then.
 */
export function thin(): Files {
  const signs = [
    [1, 1, 1],
    [1, 1, -1],
    [1, -1, 1],
    [1, -1, -1],
  ];
  const wide = 2 ** 30 + 1; // odd: half of it is no whole number
  const bounds = signs.map((_, n) => (n === 1 ? 0 : wide));
  const region = {
    kind: "sign_region",
    step: 1,
    signs: rows("I8", signs),
    lower: I64(...bounds.map((v) => 0 - v)),
    upper: I64(...bounds),
    center: I64(0, 0, 0),
  };
  const gain = 2 ** 15;
  return release({
    encoder: linear([
      [gain, 0],
      [0, gain],
      [gain, gain],
    ]),
    mechanism: { kind: "laplace", region, scale: wide },
    epsilon: "2.0",
  });
}
