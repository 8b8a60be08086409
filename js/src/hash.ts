/** SHA-256 at once: browsers' own is asynchronous, and a record becomes numbers without waiting. */

/** The first 32 bits of the fractional parts of the cube roots, or square roots, of the first primes (FIPS 180-4). */
const [ROUNDS, START] = constants();

function constants(): [Uint32Array, Uint32Array] {
  const [rounds, start] = [new Uint32Array(64), new Uint32Array(8)];
  for (let n = 2, found = 0; found < 64; n++) {
    let prime = true;
    for (let divisor = 2; divisor * divisor <= n; divisor++) prime &&= n % divisor !== 0;
    if (!prime) continue;
    rounds[found] = Number(root(BigInt(n) << 96n, 3n) & 0xffffffffn);
    if (found < 8) start[found] = Number(root(BigInt(n) << 64n, 2n) & 0xffffffffn);
    found++;
  }
  return [rounds, start];
}

/** The largest whole number whose power is not above `value`: engines may round roots differently. */
function root(value: bigint, power: bigint): bigint {
  let found = 0n;
  for (let bit = 1n << 40n; bit > 0n; bit >>= 1n) if ((found + bit) ** power <= value) found += bit;
  return found;
}

const turn = (v: number, by: number): number => (v >>> by) | (v << (32 - by));

/** The 32 bytes of the digest. */
export function sha256(message: Uint8Array): Uint8Array {
  const padded = new Uint8Array(Math.ceil((message.length + 9) / 64) * 64);
  padded.set(message);
  padded[message.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setBigUint64(padded.length - 8, BigInt(message.length) * 8n);
  const [state, w] = [START.slice(), new Uint32Array(64)];
  for (let at = 0; at < padded.length; at += 64) {
    for (let i = 0; i < 64; i++) {
      if (i < 16) {
        w[i] = view.getUint32(at + 4 * i);
        continue;
      }
      const [one, other] = [w[i - 15]!, w[i - 2]!];
      const low = turn(one, 7) ^ turn(one, 18) ^ (one >>> 3);
      w[i] = w[i - 16]! + low + w[i - 7]! + (turn(other, 17) ^ turn(other, 19) ^ (other >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
    for (let i = 0; i < 64; i++) {
      const first = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i]! + w[i]!) | 0;
      const second = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((v, i) => (state[i]! += v));
  }
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((v, i) => out.setUint32(4 * i, v));
  return new Uint8Array(out.buffer);
}
