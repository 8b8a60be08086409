/**
 * Manifests, read in the one way Python writes them: sorted keys, one blank of indent a level, ASCII, a newline at the end.
 *
 * Python takes nothing else, so that two clients never make two meanings of one text; `JSON.parse` would take blanks
 * anywhere, keys that repeat, and 1.0 for 1.
 */

/** Whole numbers are `bigint` and all others `number`, as they are spelled: Python's `int` and `float`. */
export type Json = any; // eslint-disable-line -- what a manifest holds is checked field by field in `parts.ts`

/** What a canonical text holds; a SyntaxError for any other text. */
export function parseCanonical(text: string): Json {
  let at = 0;

  const comes = (token: string): boolean => {
    const found = text.startsWith(token, at);
    if (found) at += token.length;
    return found;
  };
  const expect = (condition: unknown): void => {
    if (!condition) throw new SyntaxError(`not in canonical form at place ${at}`);
  };
  const match = (pattern: RegExp): string => {
    pattern.lastIndex = at;
    const token = pattern.exec(text)?.[0] ?? "";
    at += token.length;
    return token;
  };

  const string = (): string => {
    const token = match(/"(?:[ !#-[\]-~]|\\.)*"/y);
    const value: string = token && JSON.parse(token);
    expect(token && token === quoted(value));
    return value;
  };
  const number = (): number | bigint => {
    const token = match(/-?\d+(?:\.\d+)?(?:e[-+]\d+)?/y);
    const whole = /^-?\d{1,4300}$/.test(token); // as many digits as Python reads
    const value = whole ? BigInt(token) : Number(token);
    expect(token && token === (typeof value === "bigint" ? String(value) : spelled(value)));
    return value;
  };
  /** The items of a list or an object, up to its closing bracket. */
  const items = (indent: string, close: string, item: (inner: string) => void): void => {
    if (comes(close)) return;
    const inner = `${indent} `;
    do {
      expect(comes(inner));
      item(inner);
    } while (comes(","));
    expect(comes(indent) && comes(close));
  };
  const value = (indent: string): Json => {
    if (comes("null")) return null;
    if (comes("true")) return true;
    if (comes("false")) return false;
    if (text[at] === '"') return string();
    if (comes("[")) {
      const list: Json[] = [];
      items(indent, "]", (inner) => list.push(value(inner)));
      return list;
    }
    if (!comes("{")) return number();
    const entries: [string, Json][] = [];
    items(indent, "}", (inner) => {
      const key = string();
      const last = entries.at(-1);
      // UTF-16's order is Python's for ASCII, and no key that is known has other characters.
      expect((!last || last[0] < key) && comes(": "));
      entries.push([key, value(inner)]);
    });
    return Object.fromEntries(entries);
  };

  const all = value("\n");
  expect(comes("\n") && at === text.length);
  return all;
}

/** In ASCII, as Python escapes. */
const quoted = (text: string): string =>
  JSON.stringify(text).replace(/[\x7f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

/** A float as Python spells it. Both languages find the fewest digits; they differ in where they use exponents. */
function spelled(v: number): string {
  if (!Number.isFinite(v)) return "";
  const [digits, power] = v.toExponential().split("e") as [string, string];
  if (Number(power) < -4 || Number(power) >= 16) return `${digits}e${power[0]}${power.slice(1).padStart(2, "0")}`;
  const plain = Object.is(v, -0) ? "-0" : String(v);
  return plain.includes(".") ? plain : `${plain}.0`;
}
