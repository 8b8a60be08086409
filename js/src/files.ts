/** Release files, each checked before anything is believed: signature, digests, schema, and every number in the weights. */
import { type Json, parseCanonical } from "./canonical.js";
import { fail } from "./errors.js";
import { hex, join } from "./wire.js";

/** The newest that is read here. */
const SCHEMA = 11;
/** The schema from which on there is such an encoder, mechanism, group, field or panel; the others have been there from the first. */
const SINCE = new Map([
  ["tabled_encoder", 2],
  ["tree_encoder", 3],
  ["layered_encoder", 3],
  ["named_encoder", 3],
  ["mean_encoder", 3],
  ["sum_codebook", 3],
  ["level_response", 5],
  ["block_group", 8],
  ["plane_group", 8],
  ["words", 8],
  ["attribute_encoder", 8],
  ["ball_response", 8],
  ["centred_ball_response", 9],
  ["panel", 10],
  ["gaussian", 11],
]);
/** Bytes of a manifest, and of the weights' header. */
export const MOST_MANIFEST = 2 ** 20;
/** Bytes of the weights. */
export const MOST_WEIGHTS = 2 ** 25;
/** All there may be, since a key that this client does not know may change what the others mean. */
const KEYS = ["columns", "digest", "encoder", "fields", "guarantee", "mechanism", "panel", "schema", "units", "weights_sha256"];
const PROMISED = ["delta", "epsilon", "statement"];

/** What a release's `client/` folder holds, in bytes (Node's Buffers too). */
export interface Files {
  manifest: Uint8Array;
  weights: Uint8Array;
  /** Needed when a key is given. */
  signature?: Uint8Array | undefined;
}

type Bytes = Uint8Array<ArrayBuffer>;
/** Its numbers still in bytes: they are read when a part has agreed to the shape. */
export type Tensor = { name: string; shape: number[]; dtype: string; raw: Bytes };

/** Manifest and numbers of a release. With a `verifyKey` the manifest must carry that key's signature. */
export async function readFiles(
  files: Files,
  verifyKey?: Uint8Array | string,
): Promise<{ manifest: Json; tensors: Map<string, Tensor> }> {
  if (!globalThis.crypto?.subtle) fail("release", "digests can only be checked on pages served over https or from localhost.");
  const [raw, weights] = [bytes(files?.manifest, "manifest"), bytes(files?.weights, "weights")];
  need(raw.length <= MOST_MANIFEST && weights.length <= MOST_WEIGHTS, "files larger than any release");
  if (verifyKey !== undefined) await verify(raw, files.signature, verifyKey);
  const text = characters(raw);
  const manifest = parse(text);
  if (manifest.digest !== (await digestLine(raw, text))) {
    fail("release", "manifest.json was altered: its digest does not match. Fetch the release again.");
  }
  if ((await sha256(weights)) !== manifest.weights_sha256) {
    fail("release", "weights.safetensors was altered or cut short. Fetch the release again.");
  }
  const known = (part: Json, keys: string[]): boolean => Object.keys(part).every((key) => keys.includes(key));
  need(known(manifest, KEYS) && known(manifest.guarantee, PROMISED), "unknown keys of the manifest");
  const tensors = safetensors(weights);
  const used = tensorsOf(manifest); // names may hold anything, so that they are compared one by one
  const once = new Set(used).size === used.length && used.length === tensors.size && used.every((name) => tensors.has(name));
  need(once, "every tensor must be used by one part, and only one");
  return { manifest, tensors };
}

/** The digest that a canonical text states, if it is that of everything else in it; null if not. */
export async function digestLine(raw: Bytes, text: string): Promise<string | null> {
  // The text is ASCII with one top-level entry a line, so the digest's own line can be taken out of the bytes.
  const line = /^ "digest": "([0-9a-f]{64})",\n/m.exec(text);
  const body = line && join(raw.slice(0, line.index), raw.slice(line.index + line[0].length));
  return body && (await sha256(body)) === line[1] ? line[1] : null;
}

/** The content of a manifest of a schema that this client reads. */
function parse(text: string): Json {
  const none = "manifest.json is not a taskveil manifest";
  let schema: unknown;
  let canonical: Json;
  try {
    schema = JSON.parse(text).schema; // newer schemas may be written in other ways
    canonical = (schema as number) <= SCHEMA && parseCanonical(text);
  } catch (error) {
    fail("release", `${none} (${error}). Is this the client folder of a release?`);
  }
  if (Number.isInteger(schema) && (schema as number) > SCHEMA) {
    fail("version", `the release has schema ${schema}; this client reads up to ${SCHEMA}. Update taskveil.`);
  }
  const several = [canonical?.mechanism?.groups, canonical?.fields?.fields].flatMap((parts) => (Array.isArray(parts) ? parts : []));
  const since = [canonical?.encoder, canonical?.mechanism, canonical?.panel, ...several].map((part) => SINCE.get(part?.kind) ?? 1);
  const written = Math.max(...since, canonical?.fields === undefined ? 1 : 4); // until then a record was numbers
  if (canonical?.schema !== BigInt(written)) fail("release", `${none} of schema ${written}. Is this the client folder of a release?`);
  return canonical;
}

/** The names of tensors a manifest refers to, as often as it does. */
function tensorsOf(manifest: Json): string[] {
  const [found, waiting] = [[] as string[], [manifest]];
  while (waiting.length) {
    const item: Json = waiting.pop();
    if (item === null || typeof item !== "object") continue;
    if (Object.keys(item).join() === "tensor" && typeof item.tensor === "string") found.push(item.tensor);
    else for (const inner of Object.values(item)) waiting.push(inner);
  }
  return found;
}

const isBytes = (given: unknown): given is Uint8Array =>
  ArrayBuffer.isView(given) && (given as Uint8Array).BYTES_PER_ELEMENT === 1;

/** Every byte as one character. */
export const characters = (raw: Uint8Array): string => Array.from(raw, (byte) => String.fromCharCode(byte)).join("");

/** A copy of its own: views of larger memory (Node's Buffers) and bytes that change later are both taken as they are now. */
export function bytes(given: unknown, what: string): Bytes {
  if (!isBytes(given)) fail("release", `the ${what} of a release must be given as a Uint8Array.`);
  return new Uint8Array(given);
}

/** An Ed25519 key in PEM: the same 12 bytes for all of them, then its own 32, in base64. */
const PEM = /PUBLIC KEY-----\s+MCowBQYDK2VwAyEA([A-Za-z\d+/]{43}=)\s+-----END/;

function publicKey(given: unknown): Bytes {
  if (isBytes(given) && given.length === 32) return new Uint8Array(given);
  const text = isBytes(given) ? characters(given) : String(given);
  const pem = PEM.exec(text) ?? fail("signature", "the key must be 32 bytes or PEM (Ed25519).");
  return Uint8Array.from(atob(pem[1]!), (character) => character.charCodeAt(0));
}

/** Whether anyone can sign for a key, because 8 times its point is the neutral element; see `reading.py`. */
function ofSmallOrder(key: Bytes): boolean {
  const prime = 2n ** 255n - 19n;
  const y = BigInt(`0x${hex(key.slice().reverse())}`) % 2n ** 255n;
  const square = (y * y) % prime;
  return (square * (square - 1n) * (121665n * square * square - 243332n * square + 121666n)) % prime === 0n;
}

export async function verify(manifest: Bytes, signature: unknown, verifyKey: unknown): Promise<void> {
  const key = publicKey(verifyKey);
  if (ofSmallOrder(key)) fail("signature", "the key is no publisher's: it is of small order, and anyone can sign for it.");
  if (!signature) fail("signature", "the release is not signed. Sign it with `taskveil sign`, or fetch a signed release.");
  let good = false;
  try {
    const imported = await crypto.subtle.importKey("raw", key, "Ed25519", false, ["verify"]);
    const message = join(new TextEncoder().encode("taskveil release signature v1\n"), manifest);
    good = await crypto.subtle.verify("Ed25519", imported, new Uint8Array(signature as Uint8Array), message);
  } catch (error) {
    fail("signature", `this browser cannot check the signature (${error}); the release was not used. Update the browser.`);
  }
  if (!good) fail("signature", "the release was not signed with this key. Fetch it from its publisher.");
}

const sha256 = async (raw: Bytes): Promise<string> => hex(new Uint8Array(await crypto.subtle.digest("SHA-256", raw)));

/** The arrays of each kind of number that releases hold. */
const STORED = new Map<
  string,
  typeof Float64Array | typeof BigInt64Array | typeof Int32Array | typeof Int16Array | typeof Int8Array | typeof Uint8Array
>([
  ["F64", Float64Array],
  ["I64", BigInt64Array],
  ["I32", Int32Array],
  ["I16", Int16Array],
  ["I8", Int8Array],
  ["BOOL", Uint8Array],
]);

/** The header as the safetensors library writes it: JSON readers differ about other texts. */
const HEADER = /^\{(?:"[\w.]+":\{"dtype":"\w+","shape":\[[\d,]{0,99}\],"data_offsets":\[[\d,]{3,40}\]\},?)*\} *$/;

/** The safetensors format: header length (u64), JSON header, then the arrays back to back, nothing between. */
function safetensors(raw: Bytes): Map<string, Tensor> {
  const length = Number(new DataView(raw.buffer).getBigUint64(0, true));
  const text = length <= MOST_MANIFEST ? characters(raw.subarray(8, 8 + length)) : "";
  need(HEADER.test(text), "weights header");
  const tensors = new Map<string, Tensor>();
  const entries = Object.entries<Json>(JSON.parse(text));
  entries.sort(([, one], [, other]) => one.data_offsets[0] - other.data_offsets[0]);
  let end = 0;
  for (const [name, { dtype, shape, data_offsets }] of entries) {
    const [start, stop] = data_offsets;
    need(start === end && data_offsets.length === 2, `places of tensor ${name}`);
    end = stop;
    // A length of 0 is refused, since the lengths beside it would promise memory that no byte pays for.
    need(!shape.includes(0) && stop - start === STORED.get(dtype)?.BYTES_PER_ELEMENT! * product(shape), `tensor ${name}`);
    tensors.set(name, { name, shape, dtype, raw: raw.subarray(8 + length + start, 8 + length + stop) });
  }
  need(8 + length + end === raw.length, "bytes that belong to no tensor");
  return tensors;
}

/** The numbers of a tensor, all of them finite and, if whole, exact in a double. */
export function numbers({ name, dtype, raw }: Tensor): Float64Array {
  const stored = new (STORED.get(dtype)!)(raw.slice().buffer);
  const data = stored instanceof BigInt64Array ? Float64Array.from(stored, Number) : new Float64Array(stored);
  need(data.every(dtype === "F64" ? Number.isFinite : Number.isSafeInteger), `numbers in ${name}`);
  need(dtype !== "BOOL" || data.every((v) => v <= 1), `truth values in ${name}`);
  return data;
}

const product = (shape: number[]): number => shape.reduce((all, n) => all * n, 1);

export function need(condition: unknown, what: string): asserts condition {
  if (!condition) fail("release", `the release holds no valid veil: ${what}. Fetch it again, or ask its publisher.`);
}
