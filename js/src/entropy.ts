/** Random bits, asked anew from the browser for every report; nothing is buffered, nothing is seeded. */
import { fail } from "./errors.js";
import { bitLength } from "./exact.js";

/** Gives that many random bytes. Only tests have another one than `system`. */
export type Source = (bytes: number) => Uint8Array;

export const system: Source = (bytes) => {
  const out = new Uint8Array(bytes);
  try {
    // The browser gives 65,536 bytes at most in one call.
    for (let at = 0; at < bytes; at += 65536) crypto.getRandomValues(out.subarray(at, at + 65536));
  } catch (error) {
    fail("entropy", `the browser gave no randomness (${error}); no report was made.`);
  }
  return out;
};

/** `count` uniform 64-bit words, little-endian. */
export function words(source: Source, count: number): DataView {
  const raw = source(8 * count);
  return new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
}

/** A uniform integer in [0, bound), by rejection: the top bits of as many words as it takes. */
export function uniformBelow(source: Source, bound: bigint): bigint {
  const bits = Math.max(bitLength(bound - 1n), 1);
  const count = Math.ceil(bits / 64);
  for (;;) {
    const drawn = words(source, count);
    let candidate = 0n;
    for (let i = 0; i < count; i++) candidate = (candidate << 64n) | drawn.getBigUint64(8 * i, true);
    candidate >>= BigInt(64 * count - bits);
    if (candidate < bound) return candidate;
  }
}

/** Whether what has probability part / whole happens, exactly: 63 digits of a uniform number against the fraction's. */
export function byLot(source: Source, part: bigint, whole: bigint): boolean {
  const drawn = words(source, 1).getBigUint64(0, true) >> 1n;
  const digits = (part << 63n) / whole;
  return drawn === digits ? byLot(source, (part << 63n) % whole, whole) : drawn < digits;
}
