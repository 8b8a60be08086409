/** Doubles as the fractions they are: what privacy costs is computed exactly and rounded against ourselves. */

/** How many binary digits a whole number has. Hexadecimal digits are quick to write; the first tells the rest. */
export function bitLength(value: bigint): number {
  const digits = value.toString(16);
  return 4 * (digits.length - 1) + (32 - Math.clz32(parseInt(digits[0]!, 16)));
}

/** The sum of numbers of 0 or more; of whole ones it is exact if it is below 2^53. */
export function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const n of numbers) total += n;
  return total;
}

/** 2^n for −1022 ≤ n ≤ 1023, exactly: from its bits, since engines may round `**`. */
export function powerOfTwo(n: number): number {
  return new Float64Array(new BigUint64Array([BigInt(n + 1023) << 52n]).buffer)[0]!;
}

/** A power of two between 2^-1000 and 2^900: what is counted in such steps is finite, and dividing by one is exact. */
export function isStep(v: unknown): boolean {
  return typeof v === "number" && v >= powerOfTwo(-1000) && v <= powerOfTwo(900) && (bits(v) & ((1n << 52n) - 1n)) === 0n;
}

const bits = (v: number): bigint => new BigUint64Array(new Float64Array([v]).buffer)[0]!;

const fromBits = (raw: bigint): number => new Float64Array(new BigUint64Array([raw]).buffer)[0]!;

/** The next double above v ≥ 0. */
export const nextUp = (v: number): number => fromBits(bits(v + 0) + 1n);

/** a + b for numbers that are not negative, rounded up: a total is never smaller than its parts together. */
export function addUp(a: number, b: number): number {
  const sum = a + b;
  const added = sum - a;
  const lost = a - (sum - added) + (b - added); // what rounding took away, exactly (Knuth)
  return lost > 0 ? nextUp(sum) : sum;
}

/** numerator / denominator of a double that is not negative; the denominator is a power of two. */
export function fraction(v: number): [bigint, bigint] {
  const raw = bits(v + 0);
  const exponent = Number(raw >> 52n);
  const digits = (raw & ((1n << 52n) - 1n)) | (exponent ? 1n << 52n : 0n);
  const shift = Math.max(exponent, 1) - 1075;
  return shift < 0 ? [digits, 1n << BigInt(-shift)] : [digits << BigInt(shift), 1n];
}

/** The least double that is not below n / d, for whole numbers n ≥ 0 and d > 0 of moderate ratio. */
export function roundUp(n: bigint, d: bigint): number {
  if (n === 0n) return 0;
  const scaled = (shift: number): bigint => {
    const [over, under] = shift < 0 ? [n, d << BigInt(-shift)] : [n << BigInt(shift), d];
    return (over + under - 1n) / under;
  };
  let shift = 53 - bitLength(n) + bitLength(d);
  if (scaled(shift) > 1n << 53n) shift--;
  return Number(scaled(shift)) * powerOfTwo(-shift);
}

/** The least double certified to be at least ln(a/b), for a ≥ b ≥ 1: the same as `Response.epsilon` in Python. */
export function logRatio(a: bigint, b: bigint): number {
  if (a === b) return 0;
  const guess = a < 2n * b ? Math.log1p(Number(a - b) / Number(b)) : log(a) - log(b);
  // Any engine's logarithms are far better than this; between the two, doubles are ordered as their bits are.
  let [below, enough] = [bits(guess * (1 - 2 ** -40)), bits(guess * (1 + 2 ** -40))];
  while (enough - below > 1n) {
    const middle = (below + enough) >> 1n;
    if (floorExpTimes(fromBits(middle), b) >= a) enough = middle;
    else below = middle;
  }
  return fromBits(enough);
}

/** An integer a ≤ e^epsilon · b, short of the largest by a relative 2^-80 at most; nothing is rounded up. */
export function floorExpTimes(epsilon: number, b: bigint): bigint {
  const [numerator, denominator] = fraction(epsilon);
  const scale = 1n << 128n;
  let total = scale;
  for (let term = scale, j = 1n; term > 0n; j++) {
    term = (term * numerator) / (denominator * j);
    total += term;
  }
  return (b * total) / scale;
}

function log(v: bigint): number {
  const extra = Math.max(0, bitLength(v) - 1000); // beyond what a double reaches
  return Math.log(Number(v >> BigInt(extra))) + extra * Math.LN2;
}
