/**
 * Exact discrete Laplace noise by inversion: |x| = ⌊c − t ln R⌋ for a uniform real R, and a fair sign; from it, exact discrete
 * Gaussian noise by rejection.
 *
 * A double decides nearly every draw; whenever its error bound leaves doubt about the integer, more bits of R and
 * fixed-point arithmetic in BigInt settle it. The result depends on the bits alone: the Python client draws the same.
 */
import { type Source, words } from "./entropy.js";
import { bitLength } from "./exact.js";

/** `count` independent draws with scale `scale` (in grid steps, 2^-10 … 2^40). */
export function discreteLaplace(source: Source, scale: number, count: number): number[] {
  const drawn = words(source, count);
  const shift = -scale * Math.log1p(Math.expm1(-1 / scale) / 2);
  // See `noise.py` for the error bound; eight times as much is charged, which covers any log within a few ulps.
  const doubt = scale * 2 ** -42 + 2 ** -46;
  const noise: number[] = [];
  for (let i = 0; i < count; i++) {
    const low = drawn.getUint32(8 * i, true);
    const high = drawn.getUint32(8 * i + 4, true);
    const y = -scale * Math.log(Math.max(high * 2 ** 32 + low, 1) * 2 ** -64) + shift;
    let size = Math.floor(y);
    if (Math.abs(y - size - 0.5) > 0.5 - doubt || high < 2 ** 16) {
      size = settle(drawn.getBigUint64(8 * i, true) >> 1n, scale, source);
    }
    noise.push(low & 1 ? -size : size);
  }
  return noise;
}

/** `count` independent draws of the discrete Gaussian distribution; those that are not kept are proposed again, in order. */
export function discreteGaussian(source: Source, scale: number, count: number): number[] {
  const noise: number[] = [];
  let waiting = Array.from({ length: count }, (_, i) => i);
  while (waiting.length) {
    const proposed = discreteLaplace(source, scale, waiting.length);
    const drawn = words(source, waiting.length);
    waiting = waiting.filter((place, i) => {
      const size = Math.abs(proposed[i]!);
      const away = (size - scale) / scale;
      const uniform = (drawn.getUint32(8 * i + 4, true) * 2 ** 32 + drawn.getUint32(8 * i, true)) * 2 ** -64;
      const apart = Math.exp(-0.5 * (away * away)) - uniform;
      const kept = Math.abs(apart) < 2 ** -38 ? isBelow(drawn.getBigUint64(8 * i, true), size, scale, source) : apart > 0;
      if (kept) noise[place] = proposed[i]!;
      return !kept;
    });
  }
  return noise;
}

/** Whether U < e^(−γ), γ = (size − scale)²/(2·scale²), for a real U that starts with 64 bits `leading`, read on until it is certain. */
export function isBelow(leading: bigint, size: number, scale: number, source: Source): boolean {
  const t = BigInt(scale * 2 ** 62);
  const away = (BigInt(size) << 62n) - t;
  for (let bits = 64n, n = leading; ; bits += 64n, n = (n << 64n) | words(source, 1).getBigUint64(0, true)) {
    const f = bits + 130n; // bits after the point
    const edge = expNegative(((away * away) << f) / (2n * t * t), ln(2n << f, f), f);
    const slack = 1n << 40n; // far above what rounding adds up to
    if ((n + 1n) << 130n <= edge - slack) return true;
    if (n << 130n >= edge + slack) return false;
  }
}

/** ⌊c − scale · ln R⌋ for a real R that starts with 63 bits `leading`, read on until the floor is certain. */
export function settle(leading: bigint, scale: number, source: Source): number {
  const t = BigInt(scale * 2 ** 62); // exact: scale is a double of at least 2^-10
  for (let bits = 63n, n = leading; ; bits += 64n, n = (n << 64n) | words(source, 1).getBigUint64(0, true)) {
    if (n === 0n) continue; // ln 0: nothing is certain yet
    const f = bits + 130n; // bits after the point
    const one = 1n << f;
    const ln2 = ln(2n * one, f);
    const constant = ln2 - ln(one + expNegative((one << 62n) / t, ln2, f), f);
    const at = (m: bigint): bigint => {
      const e = BigInt(bitLength(m) - 1);
      return (t * (constant - ln(m << (f - e), f) - (e - bits) * ln2)) >> 62n;
    };
    // Each ln errs by less than 2^10 units in the last place; times 2^8 multiples of ln 2 and a scale of 2^40 that is
    // less than 2^60.
    const slack = 1n << 60n;
    const low = (at(n + 1n) - slack) >> f;
    if (low === (at(n) + slack) >> f) return Number(low);
  }
}

/** ln of a fixed-point number in [1, 2]: 2 artanh((v − 1)/(v + 1)). */
function ln(v: bigint, f: bigint): bigint {
  const one = 1n << f;
  const z = ((v - one) << f) / (v + one);
  const square = (z * z) >> f;
  let sum = 0n;
  for (let power = z, k = 1n; power > 0n; power = (power * square) >> f, k += 2n) sum += power / k;
  return 2n * sum;
}

/** e^(−x) of a fixed-point number x ≥ 0. */
function expNegative(x: bigint, ln2: bigint, f: bigint): bigint {
  const halvings = x / ln2;
  const rest = x - halvings * ln2;
  let sum = 0n;
  for (let term = 1n << f, k = 1n; term !== 0n; term = -(term * rest) / (k << f), k++) sum += term;
  return sum >> halvings;
}
