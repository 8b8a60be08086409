/** What travels from a device to the collector; the same bytes as `wire.py`. */
import { bitLength } from "./entropy";
import { fail } from "./errors";
import { digits, type Mechanism } from "./mechanisms";
import { l1Diameter } from "./regions";

const VERSION = 1;
export const BINARY = "application/vnd.taskveil.reports";
export const PROBLEM = "application/problem+json";

/** What leaves a device: `payload` is randomised, `id` is random, `release` is public. */
export class Report {
  constructor(
    readonly release: Uint8Array,
    readonly id: Uint8Array,
    readonly payload: Uint8Array,
  ) {}

  toBytes(): Uint8Array<ArrayBuffer> {
    return join(head(1, this.release), this.id, this.payload);
  }

  static fromBytes(raw: Uint8Array): Report {
    if (raw.length < 53 || raw[0] !== 0x54 || raw[1] !== 0x56 || raw[2] !== VERSION || raw[3] !== 1) {
      fail("wire", "this is no taskveil report of version 1.");
    }
    return new Report(raw.slice(4, 36), raw.slice(36, 52), raw.slice(52));
  }
}

/** Reports of one release, in bytes. */
export function packBatch(reports: readonly Report[]): Uint8Array<ArrayBuffer> {
  const first = reports[0];
  const same = (r: Report): boolean => r.payload.length === first!.payload.length && hex(r.release) === hex(first!.release);
  if (!first || reports.length > 1 << 20 || !reports.every(same)) {
    fail("wire", "a batch holds 1 to 1048576 reports of one release.");
  }
  const counts = new DataView(new ArrayBuffer(6));
  counts.setUint16(0, first.payload.length, true);
  counts.setUint32(2, reports.length, true);
  const items = reports.flatMap((r) => [r.id, r.payload]);
  return join(head(2, first.release), new Uint8Array(counts.buffer), ...items);
}

/** The least and largest value of every number of a report. */
export type Layout = { low: bigint; high: bigint; bytes: number }[];

export function layoutOf(mechanism: Mechanism): Layout {
  const between = (low: bigint, high: bigint): Layout[number] => {
    return { low, high, bytes: Math.max(1, Math.ceil(bitLength(high - low) / 8)) };
  };
  if (mechanism.kind === "laplace") {
    const { region } = mechanism;
    const reach = Math.ceil(45 * mechanism.scale);
    if (region.kind === "box_region") {
      return Array.from(region.low, (low, i) => between(BigInt(low - reach), BigInt(region.high[i]! + reach)));
    }
    const far = l1Diameter(region) + reach;
    return Array.from(region.center, (center) => between(BigInt(center - far), BigInt(center + far)));
  }
  if (mechanism.kind === "codebook") return mechanism.stages.map((stage) => between(0n, stage.response.size - 1n));
  const { size } = mechanism.response;
  return digits(size - 1n, size).map((top, i) => between(0n, i ? (1n << 62n) - 1n : top));
}

export function packPayload(layout: Layout, numbers: bigint[]): Uint8Array {
  const parts = layout.map(({ low, high, bytes }, i) => {
    const k = numbers[i]!;
    let value = (k < low ? low : k > high ? high : k) - low;
    const part = new Uint8Array(bytes);
    for (let at = 0; at < bytes; at++, value >>= 8n) part[at] = Number(value & 255n);
    return part;
  });
  return join(...parts);
}

export const hex = (raw: Uint8Array): string => Array.from(raw, (v) => v.toString(16).padStart(2, "0")).join("");

export const unhex = (text: string): Uint8Array => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

const head = (kind: number, release: Uint8Array): Uint8Array => join(Uint8Array.of(0x54, 0x56, VERSION, kind), release);

export function join(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
