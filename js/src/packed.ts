/** How a manifest writes fields and numbers. Each is taken in one spelling only, so that all clients read the same. */
import type { Json } from "./canonical.js";
import { need } from "./files.js";

/** A part of this kind (of any, where others have looked at it) has these fields and no others. */
export function fields(part: Json, names: string, kind = part.kind): void {
  const expected = `kind ${names}`.split(" ");
  const found = Object.keys(part);
  need(part.kind === kind && found.length === expected.length && expected.every((name) => Object.hasOwn(part, name)), `fields of a ${kind}`);
}

/** A list of so many parts, each as `read` reads it. */
export function list<T>(packed: Json, least: number, most: number, what: string, read: (part: Json) => T): T[] {
  need(Array.isArray(packed) && packed.length >= least && packed.length <= most, `${least} to ${most} ${what}`);
  return packed.map((part: Json) => read(part));
}

/** A number of any spelling. */
export function real(packed: Json): number {
  const exact = typeof packed === "bigint" && Number.isSafeInteger(Number(packed));
  need(typeof packed === "number" || exact, "number");
  return Number(packed);
}

/** A number spelled as a whole one: 4, never 4.0. */
export function whole(packed: Json, least: number, most: number, what: string): number {
  need(typeof packed === "bigint" && packed >= least && packed <= most, what);
  return Number(packed);
}

/** A whole number of any size: plain where a double holds it, in decimal digits otherwise. */
export function integer(packed: Json): bigint {
  if (typeof packed === "bigint") {
    need(Number.isSafeInteger(Number(packed)), "whole number");
    return packed;
  }
  const digits = Object.keys(packed).join() === "integer" && packed.integer;
  need(typeof digits === "string" && /^\d{1,600}$/.test(digits) && BigInt(digits) >= 2n ** 53n, "whole number");
  return BigInt(digits);
}
