/** Options are checked by name and type: a misspelt cap, key or timeout must not silently protect nothing. */
import { fail } from "./errors.js";

export function onlyKnown(options: unknown, known: readonly string[]): void {
  if (options === null || typeof options !== "object" || Array.isArray(options)) {
    fail("data", `options are given as an object with some of [${known}].`);
  }
  const unknown = Object.keys(options).filter((name) => !known.includes(name));
  if (unknown.length) fail("data", `unknown options [${unknown}]; there are [${known}].`);
}

/** A whole number from `least` to `most`. */
export function whole(name: string, value: unknown, least: number, most: number): number {
  const good = Number.isSafeInteger(value) && (value as number) >= least && (value as number) <= most;
  return good ? (value as number) : fail("data", `${name} must be a whole number from ${least} to ${most}.`);
}

/** The longest that browsers can wait; their clocks start anew beyond it. */
const LONGEST = 2 ** 31 - 1;

/** Milliseconds. */
export function duration(name: string, value: unknown, least: number): number {
  const good = typeof value === "number" && value >= least && value <= LONGEST;
  return good ? value : fail("data", `${name} must be a number of milliseconds from ${least} to ${LONGEST}.`);
}

export function abortSignal(value: unknown): AbortSignal | undefined {
  const good =
    value === undefined || (typeof value === "object" && value !== null && "aborted" in value && "addEventListener" in value);
  return good ? (value as AbortSignal | undefined) : fail("data", "signal must be an AbortSignal.");
}

/** Bytes of a round's name, and characters of a category's value and of a reason that a collector gives. */
export const LONGEST_TEXT = 1000;

/** Whether a text can be a round's name; halves of characters have no bytes. */
export function isRoundName(name: unknown): name is string {
  const length = typeof name === "string" && !/\p{Surrogate}/u.test(name) ? new TextEncoder().encode(name).length : 0;
  return length > 0 && length <= LONGEST_TEXT;
}

/** The name of a round, as Python takes it. Numbers are whole, since 1 and 1.0000000000000001 would be one round and NaN none. */
export function roundName(round: unknown): string {
  const name = Number.isSafeInteger(round) ? String(round) : round;
  return isRoundName(name)
    ? name
    : fail("data", `a round is text or a whole number of 1 to ${LONGEST_TEXT} characters. No report was made.`);
}

/** An address, relative to the page where there is one; null where it is none. */
export function addressOf(url: string | URL): URL | null {
  try {
    return new URL(url, globalThis.location?.href);
  } catch {
    return null;
  }
}
