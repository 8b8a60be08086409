/** What travels from a device to the collector; the same bytes as `client/wire.py`. */
import { fail } from "./errors.js";
import { bitLength, sum } from "./exact.js";
import { digits, type Mechanism } from "./mechanisms.js";
import { farthest } from "./regions.js";

const VERSION = 1;
export const BINARY = "application/vnd.taskveil.reports";
/** Bytes of a report's numbers, at most. */
export const MOST_PAYLOAD = 2 ** 16 - 1;

/** What leaves a device: `payload` is randomised, `id` is random, `release` is public. */
export class Report {
  readonly release: Uint8Array<ArrayBuffer>;
  readonly id: Uint8Array<ArrayBuffer>;
  readonly payload: Uint8Array<ArrayBuffer>;

  constructor(release: Uint8Array, id: Uint8Array, payload: Uint8Array) {
    if (release?.length !== 32 || id?.length !== 16 || !(payload?.length >= 1 && payload.length <= MOST_PAYLOAD)) {
      fail("wire", `a report has a release of 32 bytes, an id of 16 and a payload of 1 to ${MOST_PAYLOAD}.`);
    }
    this.release = new Uint8Array(release);
    this.id = new Uint8Array(id);
    this.payload = new Uint8Array(payload);
  }

  /** The report in bytes: the same in every language. */
  toBytes(): Uint8Array<ArrayBuffer> {
    return join(head(1, this.release), this.id, this.payload);
  }

  /** The report that `toBytes` wrote. */
  static fromBytes(raw: Uint8Array): Report {
    if (!(raw?.length >= 53) || raw[0] !== 0x54 || raw[1] !== 0x56 || raw[2] !== VERSION || raw[3] !== 1) {
      fail("wire", "this is no taskveil report of version 1. Pass the bytes that `toBytes` gave, as a Uint8Array.");
    }
    return new Report(raw.subarray(4, 36), raw.subarray(36, 52), raw.subarray(52));
  }
}

/** Whether something has what a report has; other copies of this code make reports too. */
export function isReport(given: unknown): given is Report {
  const { release, id, payload } = (given ?? {}) as Partial<Report>;
  return (
    release?.length === 32 && id?.length === 16 && payload !== undefined && payload.length >= 1 && payload.length <= MOST_PAYLOAD
  );
}

/** Whether two reports can travel in one batch. */
export function alike(one: Report, other: Report): boolean {
  return one.payload.length === other.payload.length && one.release.every((v, i) => v === other.release[i]);
}

/** Reports of one release, in bytes. */
export function packBatch(reports: readonly Report[]): Uint8Array<ArrayBuffer> {
  const first = reports[0];
  if (!first || !reports.every((report) => isReport(report) && alike(report, first))) {
    fail("wire", "a batch holds at least one report, and reports of one release only; pack those of other releases apart.");
  }
  const counts = new DataView(new ArrayBuffer(6));
  counts.setUint16(0, first.payload.length, true);
  counts.setUint32(2, reports.length, true);
  const start = join(head(2, first.release), new Uint8Array(counts.buffer));
  const each = 16 + first.payload.length;
  const out = new Uint8Array(start.length + reports.length * each);
  out.set(start);
  reports.forEach((report, i) => {
    out.set(report.id, start.length + i * each);
    out.set(report.payload, start.length + i * each + 16);
  });
  return out;
}

/** The least and largest value of every number of a report. */
export type Layout = { low: bigint; high: bigint; bytes: number }[];

export function layoutOf(mechanism: Mechanism): Layout {
  const between = (low: bigint, high: bigint): Layout[number] => {
    return { low, high, bytes: Math.max(1, Math.ceil(bitLength(high - low) / 8)) };
  };
  if (mechanism.kind === "laplace" || mechanism.kind === "gaussian") {
    const { region, scale } = mechanism;
    const reach = BigInt(Math.ceil((mechanism.kind === "laplace" ? 45 : 10) * scale));
    if (region.kind === "box_region") {
      return Array.from(region.low, (low, i) => between(BigInt(low) - reach, BigInt(region.high[i]!) + reach));
    }
    const far = farthest(region) + reach;
    return Array.from(region.center, (center) => between(BigInt(center) - far, BigInt(center) + far));
  }
  if (mechanism.kind === "codebook") return mechanism.stages.map((stage) => between(0n, stage.response.size - 1n));
  if (mechanism.kind === "sum_codebook") return mechanism.sums.squares.map(({ length }) => between(0n, BigInt(length - 1)));
  if (mechanism.kind === "level_response") return [between(0n, BigInt(sum(mechanism.groups.map(({ outputs }) => outputs)) - 1))];
  const { size } = mechanism.response;
  if (mechanism.kind === "ball_response") return [2n ** 32n, 2n ** 32n, size].map((count) => between(0n, count - 1n));
  return digits(size - 1n, size).map((top, i) => between(0n, i ? (1n << 62n) - 1n : top));
}

export function packPayload(layout: Layout, numbers: bigint[]): Uint8Array {
  const out = new Uint8Array(layout.reduce((sum, { bytes }) => sum + bytes, 0));
  let at = 0;
  layout.forEach(({ low, high, bytes }, i) => {
    const k = numbers[i]!;
    let value = (k < low ? low : k > high ? high : k) - low;
    for (const stop = at + bytes; at < stop; at++, value >>= 8n) out[at] = Number(value & 255n);
  });
  return out;
}

export const hex = (raw: Uint8Array): string => Array.from(raw, (v) => v.toString(16).padStart(2, "0")).join("");

export const unhex = (text: string): Uint8Array => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

const head = (kind: number, release: Uint8Array): Uint8Array => join(Uint8Array.of(0x54, 0x56, VERSION, kind), release);

/** Bytes one after the other. */
export function join(...parts: Uint8Array[]): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
