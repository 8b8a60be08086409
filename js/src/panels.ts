/**
 * Panels: which of the planned rounds a person reports in, drawn before any record is read; as `panels.py` has them.
 *
 * The T rounds are cut into r blocks of consecutive rounds, block b from round ⌊bT/r⌋ on. A device draws one round of every
 * block that has not begun when it joins, from entropy alone. In each block it makes at most one report: in the drawn round or,
 * if nobody asked then, in the first later round of the block. So all its reports together are rε-LDP for any two sequences of
 * records; `panels.py` has the proof.
 */
import type { Json } from "./canonical.js";
import { dateOf, DAY, moment } from "./dates.js";
import { type Source, uniformBelow } from "./entropy.js";
import { fail } from "./errors.js";
import { addUp, fraction, roundUp } from "./exact.js";
import { need } from "./files.js";
import { isRoundName } from "./options.js";
import { fields, list, whole } from "./packed.js";
import { chance, odds, roundedUp } from "./promise.js";

/** The planned rounds in order, and in how many of them a person reports. */
export class Panel {
  /**
   * @param reports in how many of the rounds a person reports
   * @param rounds their names
   * @param days with a number above 0, rounds are named after the dates on which they begin, so many days apart
   */
  constructor(
    readonly reports: number,
    readonly rounds: readonly string[],
    readonly days: number,
  ) {
    need(new Set(rounds).size === rounds.length && rounds.every(isRoundName), "every round has a name of its own");
    const first = days && day(rounds[0]);
    need(first !== null && (!days || rounds.every((name, i) => name === dateOf(first + i * days))), "rounds named after their days");
    need(!days || dateOf(first + rounds.length * days), "rounds that end before the year 10000");
  }

  /** Where this round stands, from 0. */
  place(round: string): number {
    const { rounds } = this;
    const found = rounds.indexOf(round);
    if (found >= 0) return found;
    const [asked, first, last] = [round, rounds[0], rounds.at(-1)].map((name) => JSON.stringify(name));
    const planned = `round ${asked} is not one of the ${rounds.length} planned rounds, ${first} to ${last}`;
    return fail("data", `${planned}. No report was made.`);
  }

  /** The place of the first round of a block; of the block after the last one, the number of rounds. */
  start(block: number): number {
    return Math.floor((block * this.rounds.length) / this.reports);
  }

  /** The block that a round belongs to. */
  block(place: number): number {
    return Math.floor(((place + 1) * this.reports - 1) / this.rounds.length);
  }

  /** The names of the rounds of a block. */
  blockRounds(block: number): readonly string[] {
    return this.rounds.slice(this.start(block), this.start(block + 1));
  }

  /** The first block that has not begun before a round: with it, a device that joins in this round begins. */
  firstBlock(place: number): number {
    return Math.ceil((place * this.reports) / this.rounds.length);
  }

  /**
   * The round that a day belongs to: a text such as "2026-11-16", or a `Date`, which counts in universal time. A text with a time
   * is refused, since it may be of any time zone.
   */
  roundOn(date: string | Date): string {
    const { rounds, days } = this;
    if (!days) fail("data", "the rounds of this release have names without dates: name the round.");
    const asked = day(date) ?? fail("data", "a day is a date such as 2026-11-16.");
    return (
      rounds[Math.floor((asked - day(rounds[0])!) / days)] ??
      fail(
        "data",
        `no round is planned for ${dateOf(asked)}: the first begins on ${rounds[0]}, and the last takes ${days} days from ` +
          `${rounds.at(-1)} on.`,
      )
    );
  }

  /** The drawn rounds of a device that joins in the round at `place`: one of each block that has not begun. */
  drawPlaces(place: number, source: Source): number[] {
    return this.blocks(this.firstBlock(place)).map((block) => {
      const start = this.start(block);
      return start + Number(uniformBelow(source, BigInt(this.start(block + 1) - start)));
    });
  }

  /** The drawn rounds that a ledger holds: one of each of the last blocks. */
  read(raw: unknown): number[] {
    const places = typeof raw === "string" && raw ? raw.split(",").map(Number) : [];
    const blocks = this.blocks(this.reports - places.length);
    const held = places.join() === raw && places.every((place) => Number.isSafeInteger(place) && this.rounds[place] !== undefined);
    if (held && places.map((place) => this.block(place)).join() === blocks.join()) return places;
    return fail("ledger", "the ledger was altered: it holds drawn rounds that no device draws. No report was made.");
  }

  /**
   * What all reports of one person reveal together, in words.
   *
   * @param epsilon what one report costs
   * @param joined how many rounds were drawn when this device joined; null if it has not joined
   * @param others what reports cost that were made with another ε
   * @param delta of one report
   */
  statement(epsilon: number, joined: number | null, others: readonly number[] = [], delta = 0): string {
    const { rounds, days } = this;
    const count = joined ?? this.reports;
    const period = days > 1 ? ` (every ${days} days)` : days ? " (every day)" : "";
    if (!count) return `This device joined too late for the ${rounds.length} rounds${period} of this release and will not report.`;
    const [times, every] = count === 1 ? ["once", "this report"] : [`${count} times`, "all these reports together"];
    const total = timesCost(epsilon, count, others);
    const except = delta ? `, except with probability ${chance(delta, count)}` : "";
    return (
      `You will be asked ${times} in ${rounds.length} rounds${period}. ` +
      `${joined === null ? "When you join, the device draws" : "When you joined, the device drew"} the rounds at random, without ` +
      "looking at any record, and keeps them to itself; a round without a report says nothing about you. Whatever your records " +
      `contain and whenever they change, ${every} can turn even odds between two people's records into odds of at most ` +
      `${odds(total)} to 1 (ε = ${roundedUp(total)})${except}. After the last round this ends: to join again would be a new release ` +
      "with a new budget."
    );
  }

  /** The numbers of the blocks from one on. */
  private blocks(first: number): number[] {
    return Array.from({ length: Math.max(0, this.reports - first) }, (_, i) => first + i);
  }
}

/** As the ledger stores drawn rounds: their places as decimal digits with commas. */
export const written = (places: readonly number[]): string => places.join();

/**
 * What `count` reports cost together, rounded up.
 *
 * @param epsilon what one costs
 * @param others the costs of those of them that cost something else
 */
export function timesCost(epsilon: number, count: number, others: readonly number[]): number {
  const [n, d] = fraction(epsilon);
  return others.reduce(addUp, roundUp(BigInt(Math.max(count - others.length, 0)) * n, d));
}

/** A release's planned rounds. */
export function readPanel(packed: Json): Panel {
  fields(packed, "reports rounds days", "panel");
  const rounds = list(packed.rounds, 1, Infinity, "rounds", (name) => name);
  const reports = whole(packed.reports, 1, rounds.length, "a person reports in some of the rounds");
  return new Panel(reports, rounds, whole(packed.days, 0, Number.MAX_SAFE_INTEGER, "days between rounds"));
}

/** Days since the beginning of 1970; null if it is no date, or a text with a time. */
function day(date: unknown): number | null {
  const found = moment(date);
  return found && !((date as string).length > 10) ? Math.floor(found.seconds / DAY) : null; // a `Date` has no length
}
