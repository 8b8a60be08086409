/** Dates as whole seconds, and where they lie in their cycles: the grammar, calendar and quotients of `client/values.py`. */

export const DAY = 86_400;

/** Seconds of what comes again. */
export const CYCLES = new Map([
  ["year", 366 * DAY],
  ["week", 7 * DAY],
  ["day", DAY],
]);

const WRITTEN = /^(\d{4})([-/.])(\d\d)\2(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;
const LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** Seconds since the beginning of 1970, and those of the year's beginning. */
export interface Moment {
  seconds: number;
  newYear: number;
}

/** What a text or a `Date` (in universal time) says; null for whatever is no date. Never an error. */
export function moment(value: unknown): Moment | null {
  let text = value;
  try {
    if (value && typeof value === "object") text = Date.prototype.toISOString.call(value);
  } catch {
    // another object, or a Date that is none
  }
  const written = typeof text === "string" && WRITTEN.exec(text);
  if (!written) return null;
  const [year, month, day, hour, minute, second] = [1, 3, 4, 5, 6, 7].map((part) => Number(written[part] ?? 0)) as Six;
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const sound = year && day >= 1 && day <= LENGTHS[month - 1]! - (month === 2 && !leap ? 1 : 0);
  if (!(sound && hour < 24 && minute < 60 && second < 60)) return null;
  return { seconds: days(year, month, day) * DAY + hour * 3600 + minute * 60 + second, newYear: days(year, 1, 1) * DAY };
}

/** Whether it is a `Date` that holds none: nothing was given. Never an error. */
export function isNoDate(value: unknown): boolean {
  try {
    return Number.isNaN(Date.prototype.getTime.call(value));
  } catch {
    return false; // no Date at all
  }
}

type Six = [number, number, number, number, number, number];

/** Days since the beginning of 1970, in the calendar that begins its years in March: leap days come last. */
function days(year: number, month: number, day: number): number {
  const y = month < 3 ? year - 1 : year;
  const ofYear = Math.floor((153 * ((month + 9) % 12) + 2) / 5) + day - 1;
  return 365 * y + Math.floor(y / 4) - Math.floor(y / 100) + Math.floor(y / 400) + ofYear - 719_468;
}

/** The day so many days after the beginning of 1970 as 2026-11-16; empty outside the years 1 to 9999. */
export function dateOf(day: number): string {
  const [from, to] = [days(1, 1, 1), days(9999, 12, 31)];
  return day >= from && day <= to ? new Date(day * DAY * 1000).toISOString().slice(0, 10) : "";
}

/** Where in a cycle a moment lies, from −1 to 1 each: near enough to cosine and sine. */
export function waves({ seconds, newYear }: Moment, cycle: string): [number, number] {
  const period = CYCLES.get(cycle)!;
  const phase = cycle === "year" ? seconds - newYear : seconds + (cycle === "week" ? 3 * DAY : 0); // 1970 began on a Thursday
  return [wave(phase + period / 4, period), wave(phase, period)];
}

/** Bhaskara's fraction 16 p (h − p) / (5 h² − 4 p (h − p)) for a half wave of length h. All but the quotient is exact. */
function wave(phase: number, period: number): number {
  const half = period / 2;
  const place = phase - period * Math.floor(phase / period);
  const arch = (place % half) * (half - (place % half));
  return ((place < half ? 16 : -16) * arch) / (5 * half * half - 4 * arch);
}
