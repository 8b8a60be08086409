/** From concentrated to approximate privacy: the same double as `client/concentrated.py`, which has the formula and the proof. */
import { bitLength, fraction, powerOfTwo, roundUp } from "./exact.js";

/** Whether a bound can be computed for this δ and order of Rényi divergence. */
export const areBounded = (delta: number, order: number): boolean =>
  delta >= powerOfTwo(-100) && delta <= 0.5 && order >= 1 + powerOfTwo(-20) && order <= powerOfTwo(20);

/** A double that is at least the ε of ρ-zCDP at this δ and order, ρ = p/q; 0 if that ε is below 0. */
export function epsilonBound(p: bigint, q: bigint, delta: number, order: number): number {
  const [n, d] = fraction(order);
  const [part, whole] = fraction(delta);
  // What is added is rounded up, what is subtracted is rounded down.
  const [cost, of] = [(n * (n - d) * p) << 192n, d * d * q];
  const added = (cost + of - 1n) / of + floorLog(whole, part) + (1n << 16n);
  const subtracted = floorLog(n, d) + ((n - d) * floorLog(n, n - d)) / d;
  return added > subtracted ? roundUp((added - subtracted) * d, (n - d) << 192n) : 0;
}

/** 2^192 · ln(p/q), rounded down by less than 2^16, for p ≥ q. */
function floorLog(p: bigint, q: bigint): bigint {
  const exponent = BigInt(bitLength(p / q) - 1);
  return exponent * floorLogOf(1n << 193n) + floorLogOf((p << 192n) / (q << exponent));
}

/** 2^192 · ln(m/2^192) for m/2^192 from 1 to 2. */
function floorLogOf(m: bigint): bigint {
  const one = 1n << 192n;
  let power = ((m - one) << 192n) / (m + one);
  const square = (power * power) >> 192n;
  let total = 0n;
  for (let k = 1n; power > 0n; power = (power * square) >> 192n, k += 2n) total += power / k;
  return 2n * total;
}
