/** Nothing altered, malformed, newer or unsigned is believed. */
import { generateKeyPairSync, sign } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import type { Files } from "../src/files.js";
import { chance, promise, roundedUp, statement, together } from "../src/promise.js";
import { readDevice } from "../src/release.js";
import { cpuTime } from "./cpu.js";
import { devices, files, read } from "./files.js";
import { forge, forgeBulk, forgeHeader, forgeWeights, type Json } from "./forge.js";

const refused = (given: Files, code: string, key?: Uint8Array<ArrayBuffer> | string): Promise<void> =>
  expect(readDevice(given, key)).rejects.toMatchObject({ name: "TaskveilError", code });

const LONG = "  0,\n".repeat(150_000);

test("the forger of these tests can repair digests", async () => {
  const device = await readDevice(forge("codebook", (text) => text.replace('"kW"', '"MW"')));
  expect(device.units?.[0]).toBe("MW");
  expect((await readDevice(forgeWeights("laplace_sign_hidden", () => {}))).epsilon).toBeCloseTo(2.5, 9);
});

test.each<[string, (header: Json) => void]>([
  ["a length in words", (h) => (h["mechanism.region.center"].shape = ["3"])],
  ["no shape", (h) => delete h["mechanism.region.center"].shape],
  ["a shape in words", (h) => (h["mechanism.region.center"].shape = "3")],
  ["another shape of as many", (h) => (h["mechanism.region.signs"].shape = [3, 4])],
  ["one dimension more", (h) => (h["mechanism.region.center"].shape = [3, 1])],
  ["a negative length", (h) => (h["mechanism.region.signs"].shape = [-4, -3])],
  ["places in words", (h) => (h["encoder.step"].data_offsets = h["encoder.step"].data_offsets.map(String))],
  ["places before the start", (h) => (h["encoder.step"].data_offsets = [-24, 0])],
  ["a place too many", (h) => h["encoder.step"].data_offsets.push(0)],
  ["a length of 0", (h) => (h["mechanism.region.nothing"] = { dtype: "I64", shape: [2 ** 28, 0], data_offsets: [0, 0] })],
])("weights with %s are refused even with repaired digests", (_, edit) => refused(forgeWeights("laplace_sign_hidden", edit), "release"));

test.each([
  ["a length spelled as a fraction", /"shape":\[3\]/, '"shape":[3.0]'],
  ["a length with an exponent", /"shape":\[3\]/, '"shape":[3e0]'],
  ["places spelled as fractions", /"data_offsets":\[0,/, '"data_offsets":[0.0,'],
  ["bytes that are no text", /^\{/, '{"\xff":[],'],
  ["a comma too many", /\} *$/, ",}"],
  ["a comma too few", /\},"/, '}"'],
  ["a length with a zero in front", /"shape":\[3\]/, '"shape":[03]'],
])("weights with %s are refused even with repaired digests", (_, from, to) =>
  refused(forgeHeader("laplace_sign_hidden", (text) => text.replace(from, to)), "release"),
);

test("a header may end in blanks", () => readDevice(forgeHeader("laplace_sign_hidden", (text) => `${text.trimEnd()}     `)));

test("a release is read as it was written", async () => {
  const device = await readDevice(files("codebook"));
  expect(device.columns?.length).toBe(30);
  expect(device.units?.[0]).toBe("kW");
  expect(device.epsilon).toBeCloseTo(3, 9);
});

describe.each(["manifest", "weights"] as const)("%s", (part) => {
  test("any flipped bit or cut is refused", async () => {
    const good = files("laplace_sign_hidden");
    const length = good[part].length;
    for (let i = 0; i < 400; i++) {
      const place = Math.floor((i * 8 * length) / 400) + (i % 8);
      const bad = good[part].slice();
      bad[place >> 3]! ^= 1 << (place & 7);
      await expect(readDevice({ ...good, [part]: bad })).rejects.toMatchObject({ name: "TaskveilError" });
    }
    for (const cut of [0, 1, 7, 8, length >> 1, length - 1]) {
      await expect(readDevice({ ...good, [part]: good[part].slice(0, cut) })).rejects.toMatchObject({ name: "TaskveilError" });
    }
  });
});

test("without digests nothing is believed", async () => {
  const subtle = vi.spyOn(crypto, "subtle", "get").mockReturnValue(undefined as never);
  await refused(files("codebook"), "release");
  subtle.mockRestore();
});

test("a newer schema is named as such", () =>
  refused(forge("codebook", (text) => text.replace('"schema": 1', '"schema": 99')), "version"));

test.each<[string, string, [string | RegExp, string]]>([
  ["less noise", "laplace_box", [/"scale": [0-9.]+/, '"scale": 2.0']],
  ["no noise", "laplace_box", [/"scale": [0-9.]+/, '"scale": 0.0']],
  ["noise in words", "laplace_box", [/"scale": [0-9.]+/, '"scale": "none"']],
  ["another epsilon", "codebook", [/"epsilon": [0-9.]+/, '"epsilon": 1.0']],
  ["an epsilon in words", "codebook", [/"epsilon": ([0-9.]+)/, '"epsilon": "$1"']],
  ["an epsilon in a list", "codebook", [/"epsilon": ([0-9.]+)/, '"epsilon": [$1]']],
  ["no statement", "codebook", ['"statement": "Whatever a', '"statement": null, "text": "Whatever a']],
  ["a delta", "codebook", ['"delta": 0.0', '"delta": 0.5']],
  ["a wrong size", "codebook", ['"size": 64', '"size": 63']],
  ["no favoured output", "codebook", ['"favoured": 4', '"favoured": 0']],
  ["all outputs favoured", "codebook", ['"favoured": 4', '"favoured": 64']],
  ["half an output", "codebook", ['"favoured": 4', '"favoured": 1.5']],
  ["no unlikely output", "codebook", [/"b": \d+/, '"b": 0']],
  ["a negative weight", "codebook", [/"b": \d+/, '"b": -5']],
  ["a step that is no power of two", "codebook", [/"step": 0.000244140625/, '"step": 0.3']],
  ["a missing tensor", "codebook", ["mechanism.region.low", "mechanism.region.nowhere"]],
  ["another tensor", "codebook", ['"tensor": "mechanism.region.low"', '"tensor": "encoder.low"']],
  ["an unknown mechanism", "codebook", ['"kind": "codebook"', '"kind": "telepathy"']],
  ["an unknown encoder", "codebook", ['"kind": "linear_encoder"', '"kind": "telepathy"']],
  ["a codebook on another region", "codebook", ['"kind": "box_region"', '"kind": "diamond_region"']],
  ["a lattice of another size", "lattice", [/"budget": \d+/, '"budget": 11']],
  ["a lattice of no budget", "lattice", [/"budget": \d+/, '"budget": -1']],
  ["a favoured number spelled as a fraction", "codebook", ['"favoured": 4', '"favoured": 4.0']],
  ["a radius spelled as a fraction", "laplace_diamond", [/"radius": (\d+)/, '"radius": $1.0']],
  ["a budget spelled as a fraction", "lattice", [/"budget": (\d+)/, '"budget": $1.0']],
  ["a size spelled as a fraction", "codebook", ['"size": 64', '"size": 64.0']],
  ["a delta spelled as a whole number", "codebook", ['"delta": 0.0', '"delta": 0']],
  ["a schema spelled as a fraction", "codebook", ['"schema": 1', '"schema": 1.0']],
  ["a schema of true", "codebook", ['"schema": 1', '"schema": true']],
  ["a tensor beside something else", "codebook", ['"tensor": "encoder.low"', '"tensor": "encoder.low",\n   "x": 1']],
  ["an unknown key", "codebook", [' "units": ', ' "unheard": 1,\n "units": ']],
  ["a long list under an unknown key", "codebook", [' "units": ', ` "unheard": [\n${LONG}  0\n ],\n "units": `]],
  ["an unknown promise", "codebook", ['  "statement": ', '  "nothing": 0,\n  "statement": ']],
  ["a blank too many", "codebook", ['"units": [', '"units":  [']],
  ["a key that repeats", "codebook", [' "schema": 1,', ' "schema": 1,\n "schema": 1,']],
  ["no newline at the end", "codebook", [/\n$/, ""]],
  ["a newline too many", "codebook", [/\n$/, "\n\n"]],
  ["characters beyond ASCII", "codebook", ['"statement": "', '"statement": "\u03b5']],
  ["an escape that is not needed", "codebook", ['"statement": "W', '"statement": "\\u0057']],
  ["digits that are not needed", "codebook", ['"delta": 0.0', '"delta": 0.00']],
  ["too few names", "codebook", [' "columns": [\n  "a",', ' "columns": [']],
  ["names that repeat", "codebook", ['  "a",', '  "b",']],
])("%s is refused even with repaired digests", (_, name, [from, to]) =>
  refused(
    forge(name, (text) => {
      const changed = text.replace(from, to);
      expect(changed).not.toBe(text);
      return changed;
    }),
    "release",
  ),
);

test("a tensor that no part asks for is refused before its numbers are read", async () => {
  const given = forgeBulk("codebook", 2 ** 25 - 2 ** 20);
  const started = cpuTime();
  await refused(given, "release");
  expect(cpuTime() - started).toBeLessThan(2000);
});

test("a newer schema may be written in any way", () =>
  refused(forge("codebook", (text) => `${text.replace('"schema": 1', '"schema":   99')}\n`), "version"));

test("signatures are checked when a key is given", async () => {
  const good = files("codebook");
  const pair = generateKeyPairSync("ed25519");
  const raw = (key: typeof pair): Uint8Array<ArrayBuffer> =>
    new Uint8Array(Buffer.from((key.publicKey.export({ format: "jwk" }) as Json).x, "base64url"));
  const message = Buffer.concat([Buffer.from("taskveil release signature v1\n"), good.manifest]);
  const signature = new Uint8Array(sign(null, message, pair.privateKey));
  const device = await readDevice({ ...good, signature }, raw(pair));
  expect(device.epsilon).toBeCloseTo(3, 9);
  await refused(good, "signature", raw(pair));
  await refused({ ...good, signature }, "signature", raw(generateKeyPairSync("ed25519")));
  await refused({ ...good, signature }, "signature", new Uint8Array(5));
  for (const none of ["", null, 0, false]) await refused({ ...good, signature }, "signature", none as never);
  const bad = signature.slice();
  bad[10]! ^= 1;
  await refused({ ...good, signature: bad }, "signature", raw(pair));
});

const small = ["00".repeat(32), `01${"00".repeat(31)}`, ...["ec", "ed", "ee"].map((last) => `${last}${"ff".repeat(30)}7f`)];
small.push("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05");
small.push("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a");

test.each(small)("a key of small order signs nothing: %s", async (text) => {
  const signature = new Uint8Array(64).fill(1, 0, 1); // of any message, for the neutral element
  for (const sign of [0, 128]) {
    const key = new Uint8Array(Buffer.from(text, "hex"));
    key[31]! |= sign;
    await expect(readDevice({ ...files("codebook"), signature }, key)).rejects.toThrow("small order");
  }
});

test("a key may be given in PEM, as text or in bytes, and must then be an Ed25519 public key", async () => {
  const good = files("codebook");
  const pair = generateKeyPairSync("ed25519");
  const message = Buffer.concat([Buffer.from("taskveil release signature v1\n"), good.manifest]);
  const signed = { ...good, signature: new Uint8Array(sign(null, message, pair.privateKey)) };
  const pem = pair.publicKey.export({ format: "pem", type: "spki" }) as string;
  const raw = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);
  for (const key of [pem, pem.replaceAll("\n", "\r\n"), pem.trim(), raw(pem)]) {
    expect((await readDevice(signed, key)).epsilon).toBeCloseTo(3, 9);
  }
  const other = generateKeyPairSync("ed25519").publicKey.export({ format: "pem", type: "spki" }) as string;
  const agreement = generateKeyPairSync("x25519").publicKey.export({ format: "pem", type: "spki" }) as string;
  const secret = pair.privateKey.export({ format: "pem", type: "pkcs8" }) as string;
  const longer = pem.replace("MCowBQYDK2VwAyEA", "MCowBQYDK2VwAyEAAAAA");
  for (const key of [other, agreement, secret, longer, pem.replace("A", "*"), pem.slice(0, -30), "k".repeat(32)]) {
    await refused(signed, "signature", key);
    await refused(signed, "signature", raw(key.padEnd(40)));
  }
});

test("the promise is made from what the mechanism keeps, in Python's words", async () => {
  for (const name of devices()) {
    const given = files(name);
    const written = JSON.parse(new TextDecoder().decode(given.manifest)).guarantee.statement;
    expect((await readDevice(given)).statement).toBe(written);
  }
  const lying = forge("codebook", (text) => text.replace(/"statement": ".*"/, '"statement": "Nobody learns anything (\\u03b5 = 0.001)."'));
  expect((await readDevice(lying)).statement).toContain("20.1 times as likely");
});

test("above ε = 5 the promise says in odds how weak it is", async () => {
  const { mechanism } = await readDevice(files("codebook"));
  expect(statement(mechanism, 5)).not.toContain("weak");
  expect(statement(mechanism, 5.01)).toContain("(ε = 5.01). This is weak protection: a report can turn even odds");
  expect(statement(mechanism, 8)).toContain("between two possible records into odds of up to 2,981 to 1. The report is a code");
  expect(statement(mechanism, 40)).toContain("odds of up to e^40 to 1.");
  const stated = await Promise.all(devices().map(async (name) => (await readDevice(files(name))).statement));
  const weak = stated.filter((text) => text.includes("weak"));
  expect(weak.length).toBeGreaterThan(0); // so that Python's words are compared above, both ways
  expect(weak.length).toBeLessThan(stated.length);
});

const promises = () => JSON.parse(new TextDecoder().decode(read("promises.json")));

test("what all reports mean together is said in Python's words", () => {
  const said: [number, number, string][] = promises().together;
  for (const [spent, cap, words] of said) expect(together(spent, cap)).toBe(words);
  expect(said.length).toBeGreaterThan(100);
});

test("a δ is said in Python's words, in a promise, beside a cap, and of several reports", () => {
  const said: [number, number, string, string, string][] = promises().chances;
  for (const [delta, count, words, one, all] of said) {
    expect(chance(delta, count)).toBe(words);
    expect(promise("", 1, delta)).toBe(one);
    expect(together(0.3, 9, delta)).toBe(all);
  }
  expect(said.length).toBeGreaterThan(5000);
});

test("e^ε has the same digits as in Python, also where it is nearly whole", async () => {
  const { mechanism } = await readDevice(files("codebook"));
  const stated: [number, string][] = promises().one;
  for (const [epsilon, words] of stated) expect(statement(mechanism, epsilon).split(" times as")[0]).toBe(words);
  expect(stated.length).toBeGreaterThan(3000);
});

test.each([
  [1.4551915228260974e-11, "1.4552e-11"],
  [9.999894195994404e-9, "9.9999e-09"],
  [0.0000099999997, "1e-05"],
  [0.0001, "0.0001"],
  [2.0000004, "2.00001"],
  [999999, "999999"],
  [1234567, "1.23457e+06"],
  [0, "0"],
  [Infinity, "Infinity"],
])("%d is spelled as in Python: %s", (value, text) => expect(roundedUp(value)).toBe(text));
