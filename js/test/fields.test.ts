/** Natural values: whatever they are, they are inputs like any other. That they become Python's numbers, conformance tells. */
import { createHash } from "node:crypto";
import { describe, expect, test } from "vitest";
import { record } from "../src/client.js";
import { moment, waves } from "../src/dates.js";
import { expand, type Field, readFields } from "../src/fields.js";
import { sha256 } from "../src/hash.js";
import { type Device, readDevice } from "../src/release.js";
import { hex } from "../src/wire.js";
import { load } from "./clients.js";
import { files } from "./files.js";
import { forge } from "./forge.js";

const RECORD = {
  ...{ power: 120, income: null, doors: 4, children: 2, origin: "Europe", size: 4 },
  ...{ leased: false, insured: undefined, since: "2021-03-04", serviced: new Date("2024-05-06T07:08:09.5Z") },
};

const ordinary = (): Promise<Device> => readDevice(files("mixed"));
/** The numbers of the ordinary record with another value. */
const became = (device: Device, name: string, value: unknown): number[] => record(device, { ...RECORD, [name]: value } as never);

describe("a record of natural values", () => {
  test("becomes numbers", async () => {
    const device = await ordinary();
    const numbers = record(device, RECORD);
    expect(numbers.length).toBe(device.encoder.low.length);
    expect(numbers.slice(0, 18)).toEqual([120, 21000.5, 1, 4, 2, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1]);
    expect(numbers[18]).toBe(18690); // days from 1970 to 2021-03-04
    expect(numbers.at(-1)).toBe(0);
  });

  test.each([
    ["power", -5, 0],
    ["power", Infinity, 250],
    ["power", "120", 120],
    ["power", "1.2e2", 120],
    ["power", "1e999", 250],
    ["power", "120 hp", 125],
    ["power", " 120", 125],
    ["power", "0x10", 125],
    ["power", "1".repeat(41), 125],
    ["power", true, 1],
    ["power", 10n ** 400n, 250],
    ["power", -0, 0],
    ["doors", 4.9, 4],
    ["doors", {}, 3],
  ])("%s of %s counts as %d", async (name, value, counts) => {
    const device = await ordinary();
    expect(became(device, name, value)[name === "power" ? 0 : 3]).toBe(counts);
  });

  test("has text, whole numbers and truth values in categories, and anything else", async () => {
    const device = await ordinary();
    const size = (value: unknown): number[] => became(device, "size", value).slice(9, 15); // 3, 4, 5, other, true, missing
    for (const value of [4, 4n, "4", 4.0]) expect(size(value)).toEqual([0, 1, 0, 0, 0, 0]);
    for (const value of [true, "true"]) expect(size(value)).toEqual([0, 0, 0, 0, 1, 0]);
    for (const value of [null, undefined, NaN, ""]) expect(size(value)).toEqual([0, 0, 0, 0, 0, 1]);
    for (const value of ["4.0", 4.5, 2 ** 53, "\0", {}, ["4"], Symbol("4"), () => 4, new Date(4)]) {
      expect(size(value)).toEqual([0, 0, 0, 0, 0, 0]);
    }
  });

  test("is never an error, not even where the values themselves are", async () => {
    const device = await ordinary();
    const nothing = record(device, Object.fromEntries(device.columns!.map((name) => [name, null])));
    const thrower = { get: () => { throw new Error("the value is secret"); } }; // prettier-ignore
    const locked = Object.defineProperties({}, Object.fromEntries(device.columns!.map((name) => [name, { ...thrower, enumerable: true }])));
    expect(record(device, locked)).toEqual(nothing);
    const list = Object.defineProperty([...device.columns!].fill(null as never), 3, thrower);
    expect(record(device, list)).toEqual(nothing);
    const { proxy, revoke } = Proxy.revocable({}, {});
    revoke();
    const sly = Object.assign(new Date(0), { toISOString: thrower.get, valueOf: thrower.get, toString: thrower.get });
    for (const value of [proxy, sly, Object.create(null), new Proxy(new Date(0), {}), new Number(5), new String("Europe")]) {
      for (const name of device.columns!) expect(became(device, name, value).length).toBe(nothing.length);
    }
    expect(became(device, "since", sly)).toEqual(became(device, "since", "1970-01-01"));
  });

  test("is refused for its names and their number alone, and then costs nothing", async () => {
    const client = await load("mixed");
    const { power: _, ...less } = RECORD;
    for (const wrong of [less, { ...RECORD, more: 1 }, [1, 2, 3], [], "power", 7, null, undefined, new DataView(new ArrayBuffer(10))]) {
      await expect(client.report(wrong as never)).rejects.toMatchObject({ code: "data" });
    }
    expect((await client.spent()).soFar).toBe(0);
    await client.report(RECORD);
    expect((await client.spent()).soFar).toBe(client.epsilon);
  });

  test("may have the names of what every object has", async () => {
    const device = await readDevice(files("mixed_strange"));
    expect(device.columns).toContain("__proto__");
    expect(() => record(device, {} as never)).toThrow("missing [");
    const values = device.columns!.map((name) => [name, 1] as const);
    expect(record(device, Object.fromEntries(values))).toEqual(record(device, values.map(() => 1)));
  });
});

test("a form can be drawn from the release", async () => {
  const { fields, columns, units } = await load("mixed");
  expect(fields!.map(({ name }) => name)).toEqual(columns);
  expect(fields!.map((field) => ("unit" in field ? field.unit : ""))).toEqual(units);
  expect(fields![1]).toEqual({ kind: "number", name: "income", low: -1000, high: 80_000, unit: "EUR", missing: true, fill: 21_000.5 });
  expect(fields![4]).toEqual({ kind: "category", name: "origin", values: ["Europe", "Japan", "USA"], missing: false });
  expect(fields![7]).toEqual({ kind: "flag", name: "insured", missing: true, fill: true });
  expect(fields![8]).toMatchObject({ kind: "date", low: "2015-01-01", high: "2024-12-31", cycles: ["year", "week"] });
  expect((await load("lattice")).fields).toBeNull();
});

test.each([
  ["whole numbers for bounds", '"low": 0.0', '"low": 0'],
  ["a fill that is a half of a count", '"fill": 3.0', '"fill": 3.5'],
  ["a value without any character", '"Japan"', '""'],
  ["dates with times", '"high": "2024-12-31"', '"high": "2024.12.31 23:59:59.9+01:00"'],
])("what Python takes is taken: %s", async (_, from, to) => {
  const forged = forge("mixed", (text) => (expect(text).toContain(from), text.replace(from, to)));
  expect((await readDevice(forged)).fields!.length).toBe(10);
});

test("a record becomes no more than 65,536 numbers", () => {
  const values = Array.from({ length: 4096 }, (_, i) => String(i)); // sixteen of them make as many numbers as there may be
  const packed = (count: number, missing: boolean): object => ({
    kind: "fields",
    names: Array.from({ length: count }, (_, i) => String(i)),
    fields: Array(count).fill({ kind: "category", values, missing }),
  });
  expect(readFields(packed(16, false)).length).toBe(16);
  for (const much of [packed(17, false), packed(16, true)]) expect(() => readFields(much)).toThrow("too many numbers");
});

test("SHA-256 is Node's, for messages of every length up to three blocks", () => {
  for (let length = 0; length < 200; length++) {
    const message = Uint8Array.from({ length }, (_, i) => (i * 151 + length) % 256);
    expect(hex(sha256(message))).toBe(createHash("sha256").update(message).digest("hex"));
  }
});

describe("words", () => {
  const field: Field = { kind: "words", name: "search", prime: 3001, salt: "spring", missing: false };
  const point = (value: unknown): number[] => expand([field], [value]);

  test("are points of a plane, the same for the same text", () => {
    const points = Array.from({ length: 1000 }, (_, i) => point(`word ${i}`).join());
    expect(new Set(points).size).toBe(1000);
    for (const value of [4, 4n, "4"]) expect(point(value)).toEqual(point("4"));
    expect(point(true)).toEqual(point("true"));
    expect(point("a")).not.toEqual(point("a\0"));
    expect(expand([{ ...field, salt: "autumn" }], ["a"])).not.toEqual(point("a"));
  });

  test("that are missing or empty are the first point, and others never are", () => {
    for (const value of [null, undefined, NaN, "", new Date(NaN)]) expect(point(value)).toEqual([0, 0]);
    const small: Field = { ...field, prime: 2 };
    const found = new Set(Array.from({ length: 100 }, (_, i) => expand([small], [String(i)]).join()));
    expect([...found].sort()).toEqual(["0,1", "1,0", "1,1"]);
  });

  test("that are no texts, or too long, are one point", () => {
    for (const value of [{}, 4.5, "a".repeat(1001), () => 1, Symbol("a")]) expect(point(value)).toEqual(point("\0"));
  });
});

describe("dates", () => {
  test("follow the calendar, from 0001-01-01 to 9999-12-31", () => {
    let days = 0;
    const wrong: string[] = [];
    for (let time = Date.UTC(9999, 11, 31); time >= -62_135_596_800_000; time -= 864e5 * (time > 0 && time < 4e12 ? 1 : 13)) {
      const text = new Date(time).toISOString().slice(0, 10);
      if (moment(text)?.seconds !== time / 1000) wrong.push(text);
      days++;
    }
    expect(wrong).toEqual([]);
    expect(days).toBeGreaterThan(300_000);
  });

  test("lie near cosine and sine of their place in each cycle", () => {
    for (let hour = 0; hour < 24 * 400; hour += 7) {
      const now = moment(new Date(Date.UTC(2023, 0, 1, hour)))!;
      const shares = { year: (now.seconds - now.newYear) / (366 * 86_400), week: (now.seconds / 86_400 + 3) / 7, day: now.seconds / 86_400 };
      for (const [cycle, share] of Object.entries(shares)) {
        const [cos, sin] = waves(now, cycle);
        expect(Math.abs(cos - Math.cos(2 * Math.PI * share))).toBeLessThan(0.002);
        expect(Math.abs(sin - Math.sin(2 * Math.PI * share))).toBeLessThan(0.002);
      }
    }
  });

  test("have the same numbers in any time zone", () => {
    const field: Field = { kind: "date", name: "at", low: "2000-01-01", high: "2030-01-01", missing: false, cycles: ["day"] };
    const zone = process.env.TZ;
    const all = ["UTC", "Asia/Kathmandu", "America/St_Johns"].map((name) => {
      process.env.TZ = name;
      return [new Date(1_700_000_000_000), "2023-11-14T22:13:20"].map((value) => expand([field], [value]).join());
    });
    if (zone === undefined) delete process.env.TZ;
    else process.env.TZ = zone;
    expect(new Set(all.flat()).size).toBe(1);
  });
});
