/** Manifests are read in the form that Python's json.dumps(sort_keys=True, indent=1) gives them, and in no other. */
import { expect, test } from "vitest";
import { parseCanonical } from "../src/canonical.js";

const refused = (text: string): void => expect(() => parseCanonical(text)).toThrow(SyntaxError);

test("whole numbers and others are told apart by their spelling", () => {
  const text = '{\n "a": [\n  1,\n  1.0,\n  -3,\n  null,\n  true,\n  false\n ],\n "b": {},\n "c": []\n}\n';
  expect(parseCanonical(text)).toEqual({ a: [1n, 1, -3n, null, true, false], b: {}, c: [] });
});

// Python's repr of these floats.
test.each([
  "0.0", "-0.0", "0.1", "-2.5", "0.0001", "1e-05", "1.5e-07", "1234567890123456.0", "1e+16", "1.5e+22", "5e-324",
  "9.332636185032189e-302", "1.7976931348623157e+308",
])(
  "%s is a float as Python spells it",
  (text) => expect(parseCanonical(`${text}\n`)).toBe(Number(text)),
);

test.each([
  "00", "-0", "01", "1.", ".5", "1.50", "1E5", "1e5", "1e-5", "0.00001", "1e16", "1e+016", "10000000000000000.0",
  "1e999", "-1e999", "NaN", "Infinity", "+1", "0x1", "5".repeat(4301),
])(
  "%s is no number that Python writes",
  (text) => refused(`${text}\n`),
);

test.each(['""', '"\\u03b5 \\ud83d\\ude00"', '"\\u007f\\u0000\\n\\t\\"\\\\/"', '"\\ud800"'])(
  "%s is a text as Python escapes it",
  (text) => expect(parseCanonical(`${text}\n`)).toBe(JSON.parse(text)),
);

test.each(['"\u03b5"', '"\\u03B5"', '"\\u0041"', '"\\/"', '"\x7f"', '"\t"', '"\\u000a"', '"', '"\\x"', "'a'"])(
  "%s is no text that Python writes",
  (text) => refused(`${text}\n`),
);

test.each([
  ["no newline at the end", "[]"],
  ["two newlines at the end", "[]\n\n"],
  ["blanks at the end", "[] \n"],
  ["blanks at the start", " []\n"],
  ["other line ends", "[\r\n 1\r\n]\r\n"],
  ["a list on one line", "[1]\n"],
  ["a list indented by two", "[\n  1\n]\n"],
  ["blanks in an empty list", "[ ]\n"],
  ["a blank before a comma", "[\n 1 ,\n 1\n]\n"],
  ["a comma too many", "[\n 1,\n]\n"],
  ["a list that does not end", "[\n 1\n"],
  ["another bracket", "[\n 1\n}\n"],
  ["no blank after a key", '{\n "a":1\n}\n'],
  ["two blanks after a key", '{\n "a":  1\n}\n'],
  ["a key that repeats", '{\n "a": 1,\n "a": 1\n}\n'],
  ["keys out of order", '{\n "b": 1,\n "a": 1\n}\n'],
  ["a key that is no text", "{\n 1: 1\n}\n"],
  ["nothing", ""],
])("%s is refused", (_, text) => refused(text));

test("__proto__ is a key like any other", () => {
  const found = parseCanonical('{\n "__proto__": 1,\n "a": 2\n}\n');
  expect(Object.entries(found)).toEqual([["__proto__", 1n], ["a", 2n]]);
});
