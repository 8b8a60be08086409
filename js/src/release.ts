/** Reads `client/` of a release: digests, signature, schema, shapes and finite numbers are checked before any report. */
import type { Encoder } from "./encoders";
import { fail, TaskveilError } from "./errors";
import { lattice, size } from "./lattice";
import { epsilonOf, type Mechanism, type Response, type Stage } from "./mechanisms";
import { contains, dim, LARGEST, type Region } from "./regions";
import { hex, join, type Layout, layoutOf, unhex } from "./wire";

const SCHEMA = 1;

export interface Device {
  encoder: Encoder;
  mechanism: Mechanism;
  columns: string[] | null;
  units: string[] | null;
  /** The digest that identifies the release, in bytes. */
  release: Uint8Array;
  layout: Layout;
  epsilon: number;
  statement: string;
}

export interface Files {
  manifest: Uint8Array<ArrayBuffer>;
  weights: Uint8Array<ArrayBuffer>;
  signature?: Uint8Array<ArrayBuffer> | undefined;
}

type Json = any; // eslint-disable-line -- what a manifest holds is checked field by field below
type Tensor = { shape: number[]; dtype: string; data: Float64Array };

/** Device of a release's files. With a `verifyKey` (32 bytes, Ed25519) the manifest must carry that key's signature. */
export async function readDevice(files: Files, verifyKey?: Uint8Array<ArrayBuffer>): Promise<Device> {
  if (!globalThis.crypto?.subtle) fail("release", "digests can only be checked on pages served over https or from localhost.");
  if (verifyKey !== undefined) await verify(files, verifyKey);
  // A manifest is ASCII with one top-level entry a line, so the digest's own line can be taken out of the bytes.
  const text = Array.from(files.manifest, (byte) => String.fromCharCode(byte)).join("");
  const line = /^ "digest": "([0-9a-f]{64})",\n/m.exec(text);
  let manifest: Json;
  try {
    manifest = JSON.parse(text);
  } catch {
    fail("release", "manifest.json is not a taskveil manifest.");
  }
  if (!(Number.isInteger(manifest?.schema) && manifest.schema <= SCHEMA)) {
    fail("version", `the release has schema ${manifest?.schema}; this client reads up to ${SCHEMA}. Update taskveil.`);
  }
  const body = line && join(files.manifest.slice(0, line.index), files.manifest.slice(line.index + line[0].length));
  if (!body || (await sha256(body)) !== line[1] || manifest.digest !== line[1]) {
    fail("release", "manifest.json was altered: its digest does not match. Fetch the release again.");
  }
  if ((await sha256(files.weights)) !== manifest.weights_sha256) {
    fail("release", "weights.safetensors was altered or cut short. Fetch the release again.");
  }
  try {
    return device(manifest, safetensors(files.weights));
  } catch (error) {
    if (error instanceof TaskveilError) throw error;
    fail("release", `the release holds no valid veil: ${error}`);
  }
}

async function verify({ manifest, signature }: Files, key: Uint8Array<ArrayBuffer>): Promise<void> {
  if (!(key instanceof Uint8Array && key.length === 32)) fail("signature", "the key must be 32 bytes (Ed25519).");
  if (!signature) fail("signature", "the release is not signed.");
  let good = false;
  try {
    const imported = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
    const message = join(new TextEncoder().encode("taskveil release signature v1\n"), manifest);
    good = await crypto.subtle.verify("Ed25519", imported, signature, message);
  } catch (error) {
    fail("signature", `this browser cannot check the signature (${error}); the release was not used.`);
  }
  if (!good) fail("signature", "the release was not signed with this key. Fetch it from its publisher.");
}

const sha256 = async (raw: Uint8Array<ArrayBuffer>): Promise<string> =>
  hex(new Uint8Array(await crypto.subtle.digest("SHA-256", raw)));

function safetensors(raw: Uint8Array<ArrayBuffer>): Map<string, Tensor> {
  const length = Number(new DataView(raw.buffer, raw.byteOffset).getBigUint64(0, true));
  const header: Json = JSON.parse(new TextDecoder().decode(raw.subarray(8, 8 + length)));
  const tensors = new Map<string, Tensor>();
  for (const [name, entry] of Object.entries<Json>(header)) {
    if (name === "__metadata__") continue;
    // Whole numbers only: a length given as "3" would turn sums of places into joined strings.
    need(sizes(entry.shape) && sizes(entry.data_offsets) && entry.data_offsets.length === 2, `tensor ${name}`);
    const [start, stop] = entry.data_offsets;
    const bytes = raw.slice(8 + length + start, 8 + length + stop).buffer;
    const data =
      entry.dtype === "F64"
        ? new Float64Array(bytes)
        : Float64Array.from(entry.dtype === "I64" ? new BigInt64Array(bytes) : new Int8Array(bytes), Number);
    need(["F64", "I64", "I8"].includes(entry.dtype) && data.length === product(entry.shape), `tensor ${name}`);
    need(data.every((v) => (entry.dtype === "F64" ? Number.isFinite(v) : Number.isSafeInteger(v))), `numbers in ${name}`);
    tensors.set(name, { shape: entry.shape, dtype: entry.dtype, data });
  }
  return tensors;
}

const sizes = (list: unknown): list is number[] => Array.isArray(list) && list.every((n) => Number.isSafeInteger(n) && n >= 0);

const product = (shape: number[]): number => shape.reduce((all, n) => all * n, 1);

function need(condition: unknown, what: string): asserts condition {
  if (!condition) fail("release", `the release holds no valid veil: ${what}.`);
}

function device(manifest: Json, tensors: Map<string, Tensor>): Device {
  const get = (packed: Json, dtype: string, ...shape: number[]): Float64Array => {
    const tensor = tensors.get(packed.tensor);
    const fits = tensor?.dtype === dtype && tensor.shape.length === shape.length && tensor.shape.every((n, i) => n === shape[i]);
    need(tensor && fits, `shape of ${packed.tensor}`);
    return tensor.data;
  };
  const rows = (packed: Json): number[] => tensors.get(packed.tensor)!.shape;

  const encoderOf = (e: Json): Encoder => {
    need(e.kind === "linear_encoder" || e.kind === "hidden_encoder", `encoder ${e.kind}`);
    const layered = e.kind === "hidden_encoder";
    const [first, width] = rows(layered ? e.hidden_weights : e.weights) as [number, number];
    const latents = rows(e.offset)[0]!;
    const step = get(e.step, "F64", latents);
    need(step.every(isStep), "encoder steps");
    const shared = { low: get(e.low, "F64", width), high: get(e.high, "F64", width), step };
    const offset = get(e.offset, "I64", latents);
    if (!layered) return { ...shared, output: { weights: get(e.weights, "I64", latents, width), offset }, softmax: false };
    const shift = get(e.hidden_shift, "I64", first);
    need(shift.every((s) => s >= 0 && s < 64) && typeof e.softmax === "boolean", "hidden layer");
    return {
      ...shared,
      hidden: {
        weights: get(e.hidden_weights, "I64", first, width),
        offset: get(e.hidden_offset, "I64", first),
        shift,
        skip: get(e.skip, "I64", latents, width),
      },
      output: { weights: get(e.weights, "I64", latents, first), offset },
      softmax: e.softmax,
    };
  };

  const regionOf = (r: Json): Region => {
    need(isStep(r.step), "region step");
    if (r.kind === "box_region") {
      const d = rows(r.low)[0]!;
      const low = get(r.low, "I64", d);
      const high = get(r.high, "I64", d);
      need(d > 0 && within(low) && within(high) && low.every((v, i) => v <= high[i]!), "box region");
      return { kind: r.kind, step: r.step, low, high };
    }
    const d = rows(r.center)[0]!;
    const center = get(r.center, "I64", d);
    need(d > 0 && within(center), "region center");
    if (r.kind === "diamond_region") {
      need(Number.isSafeInteger(r.radius) && r.radius >= 0 && r.radius <= LARGEST, "diamond region");
      return { kind: r.kind, step: r.step, center, radius: r.radius };
    }
    need(r.kind === "sign_region" && d < 25, `region ${r.kind}`);
    const count = 2 ** (d - 1);
    const signs = get(r.signs, "I8", count, d);
    const every = new Set(Array.from({ length: count }, (_, s) => signs.subarray(s * d, s * d + d).map((v) => v * signs[s * d]!).join()));
    const region: Region = {
      kind: r.kind,
      step: r.step,
      signs,
      lower: get(r.lower, "I64", count),
      upper: get(r.upper, "I64", count),
      center,
    };
    need(signs.every((v) => Math.abs(v) === 1) && every.size === count, "sign vectors");
    need(within(region.lower) && within(region.upper) && contains(region, center), "sign region");
    return region;
  };

  const responseOf = (r: Json): Response => {
    need(r.kind === "response" && Number.isSafeInteger(r.favoured), "response");
    const [count, a, b, m] = [integer(r.size), integer(r.a), integer(r.b), BigInt(r.favoured)];
    const response = { size: count, favoured: r.favoured, a, b, total: m * a + (count - m) * b };
    need(1 <= r.favoured && BigInt(r.favoured) < response.size, "response size");
    need(1n <= response.b && response.b <= response.a, "response weights");
    return response;
  };

  const stageOf = (s: Json, d: number): Stage => {
    const response = responseOf(s.response);
    const count = Number(response.size);
    return {
      vectors: get(s.vectors, "I64", count, d),
      offsets: get(s.offsets, "I64", count),
      shifts: get(s.shifts, "I64", count, d),
      response,
    };
  };

  const mechanismOf = (m: Json): Mechanism => {
    const region = regionOf(m.region);
    if (m.kind === "laplace") {
      need(typeof m.scale === "number" && m.scale >= 2 ** -10 && m.scale <= LARGEST, "noise scale");
      return { kind: m.kind, region, scale: m.scale };
    }
    need(region.kind === "box_region", "codebook region");
    if (m.kind === "codebook") {
      need(Array.isArray(m.stages) && m.stages.length > 0, "stages");
      return { kind: m.kind, region, stages: m.stages.map((s: Json) => stageOf(s, dim(region))) };
    }
    need(m.kind === "lattice_codebook" && m.lattice.kind === "lattice", `mechanism ${m.kind}`);
    const counts = get(m.lattice.counts, "I64", dim(region));
    const all = counts.reduce((sum, n) => sum + n, 0);
    const lengths = get(m.lattice.lengths, "I64", all);
    const { budget } = m.lattice;
    need(Number.isInteger(budget) && budget >= 0 && budget <= 2 ** 15, "lattice budget");
    need(lengths.every((v) => v >= 0) && counts.every((v) => v >= 1 && v <= 2 ** 15), "lattice lengths");
    const points = lattice(get(m.lattice.levels, "I64", all), lengths, counts, budget);
    const response = responseOf(m.response);
    need(points.directions.every((d) => d.lengths.includes(0)), "lattice");
    need(response.size === size(points) && response.favoured === 1, "lattice response");
    return { kind: m.kind, region, lattice: points, response };
  };

  const names = (list: Json, what: string, count: number): string[] | null => {
    need(list == null || (Array.isArray(list) && list.length === count && list.every((v) => typeof v === "string")), what);
    return list ?? null;
  };

  const encoder = encoderOf(manifest.encoder);
  const mechanism = mechanismOf(manifest.mechanism);
  need(encoder.step.length === dim(mechanism.region), "encoder and mechanism must agree on the latents");
  const columns = names(manifest.columns, "column names", encoder.low.length);
  need(columns === null || new Set(columns).size === columns.length, "column names must differ");
  const { epsilon, delta, statement } = manifest.guarantee;
  // Python states the exact value, rounded up; logarithms here agree to about 12 digits.
  const kept = epsilonOf(mechanism);
  const stated = typeof epsilon === "number" && Math.abs(kept - epsilon) <= 1e-9 * kept + 1e-12;
  need(delta === 0 && stated, "the stated epsilon is not the one the mechanism keeps");
  need(typeof statement === "string", "statement");
  const layout = layoutOf(mechanism);
  need(layout.reduce((sum, { bytes }) => sum + bytes, 0) < 2 ** 16, "reports longer than the wire format allows");
  return {
    encoder,
    mechanism,
    columns,
    units: names(manifest.units, "units", encoder.low.length),
    release: unhex(manifest.digest),
    layout,
    epsilon,
    statement,
  };
}

const within = (bound: Float64Array): boolean => bound.every((v) => Math.abs(v) <= LARGEST);

/** A power of two that a double holds as a normal number. */
const isStep = (v: unknown): boolean => typeof v === "number" && v > 0 && Number.isFinite(v) && significand(v) === 0n;

const significand = (v: number): bigint => new BigUint64Array(new Float64Array([v]).buffer)[0]! & ((1n << 52n) - 1n);

function integer(packed: Json): bigint {
  const text = typeof packed === "object" ? packed.integer : packed;
  need(typeof text === "string" ? /^\d{1,600}$/.test(text) : Number.isSafeInteger(text), "whole number");
  return BigInt(text);
}
