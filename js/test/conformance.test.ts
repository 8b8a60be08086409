/** The browser client makes the reports of the Python client, bit by bit and in distribution. */
import { describe, expect, test } from "vitest";
import { draw, record } from "../src/client.js";
import { readDevice } from "../src/release.js";
import { hex, unhex } from "../src/wire.js";
import { devices, files, mixed, read, replay, size } from "./files.js";
import { bitsOf } from "./mixed.js";

const SIZE = size();

interface Vector {
  x: Float64Array;
  bits: Uint8Array;
  report: Uint8Array;
}

function* vectors(name: string, width: number): Generator<Vector> {
  const raw = read(`${name}/vectors.bin`);
  const view = new DataView(raw.buffer, raw.byteOffset);
  for (let at = 0; at < raw.length; ) {
    const x = new Float64Array(raw.slice(at, (at += 8 * width)).buffer);
    const [taken, length] = [view.getUint16(at, true), view.getUint16(at + 2, true)];
    at += 4;
    yield { x, bits: raw.slice(at, (at += taken)), report: raw.slice(at, (at += length)) };
  }
}

const MIXED = devices().filter((name) => name.startsWith("mixed"));
const NUMBERS = devices().filter((name) => !MIXED.includes(name));

test("every mechanism is there", () => {
  const kinds = ["laplace_box", "laplace_sign_hidden", "laplace_diamond", "codebook", "codebook_ties", "lattice", "sums", "levels"];
  const groups = ["gaussian", "gaussian_one", "ball", "ball_centre", "ball_centre_matrix", "blocks", "blocks_numbers", "blocks_binned", "blocks_sure", "plane", "mixed_words"];
  expect(devices()).toEqual(expect.arrayContaining([...kinds, ...groups]));
});

describe.each(NUMBERS)("%s", (name) => {
  test(`identical bytes from identical bits on ${SIZE.vectors} vectors`, async () => {
    const device = await readDevice(files(name));
    const least = SIZE.vectors / (device.encoder.low.length > 500 ? 10 : 1);
    let count = 0;
    let hostile = 0;
    const lengths = new Set<number>();
    for (const { x, bits, report } of vectors(name, device.encoder.low.length)) {
      const source = replay(bits);
      const ours = draw(device, x, source).toBytes();
      if (hex(ours) !== hex(report)) throw new Error(`vector ${count}: ${x} gave ${hex(ours)}, not ${hex(report)}`);
      if (source.left()) throw new Error(`vector ${count}: ${source.left()} bytes of entropy were not taken`);
      count++;
      hostile += x.some((v) => !Number.isFinite(v) || Object.is(v, -0) || (v !== 0 && Math.abs(v) < 1e-307)) ? 1 : 0;
      lengths.add(ours.length);
    }
    expect(count).toBeGreaterThanOrEqual(least);
    expect(hostile).toBeGreaterThan(least / 50);
    expect(lengths.size).toBe(1);
  });
});

describe.each(MIXED)("%s", (name) => {
  test(`identical numbers and bytes from ${SIZE.vectors} records of natural values`, async () => {
    const device = await readDevice(files(name));
    const names = device.columns!;
    let count = 0;
    const kinds = new Map<string, number>();
    const lengths = new Set<number>();
    for (const { values, numbers, bits, report } of mixed(name)) {
      // By name in another order, and in order by turns.
      const given = count % 2 ? Object.fromEntries(names.map((key, i) => [key, values[i]] as const).reverse()) : values;
      const x = record(device, given as never);
      if (bitsOf(x) !== numbers) throw new Error(`vector ${count}: ${values.map(String)} became ${x}`);
      const source = replay(unhex(bits));
      const ours = draw(device, x, source).toBytes();
      if (hex(ours) !== report) throw new Error(`vector ${count}: ${values.map(String)} gave ${hex(ours)}, not ${report}`);
      if (source.left()) throw new Error(`vector ${count}: ${source.left()} bytes of entropy were not taken`);
      count++;
      for (const value of values) {
        const kind = value instanceof Date ? "date" : value === null || Number.isNaN(value) ? "missing" : typeof value;
        kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      }
      lengths.add(ours.length);
    }
    expect(count).toBe(SIZE.vectors);
    expect(lengths.size).toBe(1);
    const all = ["bigint", "boolean", "date", "function", "missing", "number", "object", "string", "symbol", "undefined"];
    expect([...kinds.keys()].sort()).toEqual(all);
    expect(Math.min(...kinds.values())).toBeGreaterThan((SIZE.vectors * names.length) / 700);
  });
});

test("the comparison notices one changed bit of entropy", async () => {
  const device = await readDevice(files("laplace_box"));
  let changed = 0;
  for (const { x, bits, report } of vectors("laplace_box", device.encoder.low.length)) {
    bits[23]! ^= 0x40; // a high bit of the first noise word
    try {
      changed += hex(draw(device, x, replay(bits)).toBytes()) === hex(report) ? 0 : 1;
    } catch {
      changed++; // the exact arithmetic asked for other bits
    }
  }
  expect(changed).toBeGreaterThan(0.8 * SIZE.vectors);
});
