/**
 * What a record consists of, as people have it, and the encoder's numbers of it: as `fields.py` has them, bit for bit.
 *
 * Every value is an input like any other. What is missing, unknown, out of range or of another type becomes some number and
 * never an error, which would tell of it.
 */
import type { Json } from "./canonical.js";
import { CYCLES, DAY, isNoDate, moment, waves } from "./dates.js";
import { LEVELS } from "./encoders.js";
import { need } from "./files.js";
import { LONGEST_TEXT } from "./options.js";
import { fields as only, real, whole } from "./packed.js";
import { sha256 } from "./hash.js";
import { hex } from "./wire.js";

interface Any {
  readonly name: string;
  /** Whether the release expects that it may be missing. Whatever is given, a record may lack it. */
  readonly missing: boolean;
}

/** A number, or a whole one; `fill` counts where it is missing. */
export interface NumberField extends Any {
  readonly kind: "number" | "count";
  readonly low: number;
  readonly high: number;
  readonly unit: string;
  readonly fill: number;
}

/** One of some values, or anything else. */
export interface CategoryField extends Any {
  readonly kind: "category";
  readonly values: readonly string[];
}

/** True or false; `fill` counts where it is missing. */
export interface FlagField extends Any {
  readonly kind: "flag";
  readonly fill: boolean;
}

/** A date or a time, between two that are written as text. */
export interface DateField extends Any {
  readonly kind: "date";
  readonly low: string;
  readonly high: string;
  readonly cycles: readonly string[];
}

/** A text of an open vocabulary: a point of a plane with `prime`² points, by a hash with the `salt`. */
export interface WordsField extends Any {
  readonly kind: "words";
  readonly prime: number;
  readonly salt: string;
}

export type Field = NumberField | CategoryField | FlagField | DateField | WordsField;

const BOUNDED = "low high unit missing fill";
const KINDS = new Map([
  ["number", BOUNDED],
  ["count", BOUNDED],
  ["category", "values missing"],
  ["flag", "missing fill"],
  ["date", "low high missing cycles"],
  ["words", "prime salt"],
]);
/** Numbers that a record may become. */
const MOST_COLUMNS = 2 ** 16;

/** The fields of a manifest, checked as the Python classes check themselves. */
export function readFields(packed: Json): Field[] {
  need(packed.kind === "fields", "fields");
  only(packed, "names fields");
  const { names, fields } = packed;
  need(texts(names) && names.length && Array.isArray(fields) && names.length === fields.length, "names of fields");
  const read: Field[] = names.map((name, i) => readField(fields[i], name));
  need(widthOf(read) <= MOST_COLUMNS, "a record of too many numbers");
  return read;
}

/** How many numbers a record becomes. */
export const widthOf = (fields: readonly Field[]): number => fields.reduce((sum, field) => sum + expandOne(field, null).length, 0);

/** Natural values of any quality, in the fields' order, as the numbers that an encoder takes. */
export const expand = (fields: readonly Field[], values: readonly unknown[]): number[] =>
  fields.flatMap((field, i) => expandOne(field, values[i]));

function readField(packed: Json, name: string): Field {
  const { kind, missing, low, high, fill, values, cycles } = packed;
  need(KINDS.has(kind) && (kind === "words" || typeof missing === "boolean"), "a field");
  only(packed, KINDS.get(kind)!);
  const field = { ...packed, name };
  if (kind === "words") {
    // A missing text is a point, so that no number says it.
    const prime = whole(packed.prime, 2, LEVELS, "points of words");
    for (let i = 2; i * i <= prime; i++) need(prime % i !== 0, "points of words, whose side is a prime number");
    Object.assign(field, { missing: false, prime });
    need(typeof packed.salt === "string" && packed.salt.length <= LONGEST_TEXT, "salt of words");
  } else if (kind === "flag") need(typeof fill === "boolean", "fill of a flag");
  else if (kind === "category") {
    need(texts(values) && values.length && !values.includes(NO_VALUE), "values of a category");
    need(values.every((text) => text.length <= LONGEST_TEXT), "a category whose values are too long");
  } else if (kind === "date") {
    const [first, last] = [moment(low), moment(high)];
    need(first && last && first.seconds <= last.seconds, "bounds of a date");
    need(texts(cycles) && cycles.every((cycle) => CYCLES.has(cycle)), "cycles of a date");
  } else {
    Object.assign(field, { low: real(low), high: real(high), fill: real(fill) });
    need(field.low <= field.fill && field.fill <= field.high && field.high - field.low < Infinity, `bounds of a ${kind}`);
    const whole = (bound: number): boolean => bound % 1 === 0 && Math.abs(bound) <= 2 ** 53;
    need(kind === "number" || (whole(field.low) && whole(field.high)), "bounds of a count");
    need(typeof field.unit === "string", "unit");
  }
  return field;
}

/** All different. */
const texts = (list: Json): list is string[] =>
  Array.isArray(list) && list.every((text) => typeof text === "string") && new Set(list).size === list.length;

function expandOne(field: Field, value: unknown): number[] {
  let found: number[];
  let lost: boolean;
  if (field.kind === "category") {
    const text = textOf(value);
    lost = text === null || (text === "" && !field.values.includes(""));
    found = field.values.map((known) => Number(known === text)); // all of them, whichever it is
  } else if (field.kind === "words") {
    found = pointOf(field, textOf(value) ?? "");
    lost = false;
  } else if (field.kind === "date") {
    const given = moment(value);
    lost = given === null;
    const [first, last] = [field.low, field.high].map((end) => moment(end)!.seconds / DAY) as [number, number];
    const time = given ?? { seconds: 0, newYear: 0 };
    found = [
      lost ? first + (last - first) / 2 : Math.min(Math.max(time.seconds / DAY, first), last),
      ...field.cycles.flatMap((cycle) => waves(time, cycle).map((wave) => (lost ? 0 : wave))),
    ];
  } else {
    const flag = field.kind === "flag";
    const number = flag && typeof value === "string" ? truth(value) : numberOf(value);
    lost = flag ? number !== 0 && number !== 1 : Number.isNaN(number);
    const inside = flag ? number : Math.min(Math.max(number, field.low), field.high);
    found = [lost ? Number(field.fill) : field.kind === "count" ? Math.floor(inside) : inside];
  }
  if (field.missing) found.push(Number(lost));
  return found.map((v) => v + 0); // no −0
}

const TRUTHS = ["false", "False", "FALSE", "true", "True", "TRUE"];

/** 1 or 0 for the words that say so, else NaN. */
const truth = (word: string): number => (TRUTHS.includes(word) ? Number(TRUTHS.indexOf(word) > 2) : numberOf(word));

/** How a text of at most 40 characters writes a number. */
const DIGITS = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

/** Of numbers, truth values and texts in digits; NaN for everything else. */
const numberOf = (value: unknown): number =>
  (typeof value === "string" ? value.length <= 40 && DIGITS.test(value) : ["number", "bigint", "boolean"].includes(typeof value)) ? Number(value) : NaN;

/** The text that a value of a category goes by, null for a missing one. */
function textOf(value: unknown): string | null {
  if (typeof value === "string") return value.length <= LONGEST_TEXT ? value : NO_VALUE; // no more of it is read
  if (typeof value === "boolean") return String(value);
  if (value === null || value === undefined || Number.isNaN(value) || isNoDate(value)) return null;
  const number = numberOf(value);
  return Number.isSafeInteger(number) ? String(number) : NO_VALUE;
}

/** Two numbers for a text: both 0 for an empty one, else those that its hash gives. Every text takes as long. */
function pointOf({ prime, salt }: WordsField, text: string): number[] {
  const message = new DataView(new ArrayBuffer(2 * (salt.length + 1 + LONGEST_TEXT)));
  const letters = `${salt}${String.fromCharCode(text.length)}${text}`.padEnd(message.byteLength / 2, "\0");
  for (let i = 0; i < letters.length; i++) message.setUint16(2 * i, letters.charCodeAt(i), true);
  const hash = BigInt(`0x${hex(sha256(new Uint8Array(message.buffer)))}`);
  const number = (1 + Number(hash % BigInt(prime * prime - 1))) * Number(text !== "");
  return [Math.floor(number / prime), number % prime];
}

/** No category has it. */
const NO_VALUE = "\0";
