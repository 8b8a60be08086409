import { encode } from "./encoders.js";
import { type Source, system } from "./entropy.js";
import { fail } from "./errors.js";
import { bitLength } from "./exact.js";
import { drawPlace, type Family, type FamilyFiles, familyStatement, isFamily, type Member, offered, readFamily, readManifest, single } from "./families.js";
import { expand, type Field } from "./fields.js";
import type { Files } from "./files.js";
import { Ledger } from "./ledger.js";
import { favoured, randomise } from "./mechanisms.js";
import { abortSignal, addressOf, duration, onlyKnown, roundName } from "./options.js";
import { type Panel, timesCost, written } from "./panels.js";
import { download } from "./patience.js";
import { roundedUp, together } from "./promise.js";
import { enforce } from "./regions.js";
import { type Device, readDevice } from "./release.js";
import { hex, packPayload, Report } from "./wire.js";

/**
 * What a person or a sensor gave, or one of the ways to say that nothing was given (NaN is another). Releases without fields
 * take numbers, true and false only; a `Date` counts in universal time.
 */
export type Value = number | bigint | boolean | string | Date | null | undefined;

/** Values by column name: any object or interface whose properties are values or missing. */
export type Named<T extends object> = { readonly [K in keyof T]: Value };

/** A record: values by column name, or in the release's order. */
export type Values<T extends object = Record<string, Value>> = (ArrayLike<Value> & object) | Named<T>;

/** What a round of collection is called; 1 and "1" are the same round. */
export type Round = string | number;

export interface Options {
  /** Name of the IndexedDB database that remembers what was spent; all releases of a page share one. */
  ledger?: string | undefined;
  /**
   * The most a person spends in all rounds and releases; by default this release's ε, one report, or the lifetime of a release
   * over time.
   */
  cap?: number | undefined;
  /** Ed25519, 32 bytes or PEM (text, or its bytes): only releases signed by this key are accepted. */
  verifyKey?: Uint8Array | string | undefined;
  /**
   * The choice, in a family from which people choose their ε. It is visible to the collector, and must not depend on the
   * record.
   */
  epsilon?: number | undefined;
  /** Milliseconds without a byte until fetching the release counts as failed; 10,000 by default. */
  timeout?: number | undefined;
  /** Stops fetching the release; the error then has the code "aborted". */
  signal?: AbortSignal | undefined;
}

export interface ReportOptions {
  /** "0" by default. Every round has one report, and costs ε again. */
  round?: Round | undefined;
}

/** Budgets in six digits, rounded up. */
export interface Spent {
  /** What all recorded reports cost, in every release that shares the ledger. */
  soFar: number;
  /** What the reports of this release cost, those to come included. */
  planned: number;
  /** The cap. */
  lifetime: number;
}

const OPTIONS = ["ledger", "cap", "verifyKey", "epsilon", "timeout", "signal"];

/**
 * Makes the reports of one person for one release or family. Every number that leaves has been through the mechanism.
 *
 * Of a release over time, the device draws its rounds when it joins: with its first report, or with `enrol`. In all other
 * rounds `report` gives null.
 */
export class Client {
  private constructor(
    private readonly family: Family,
    private readonly offered: readonly Member[],
    private readonly ledger: Ledger,
    private readonly storage: { kept: boolean },
    readonly cap: number,
  ) {}

  /** Read and check a release: the address of its `client/` folder or of a `family.json`, or the files of either. */
  static async load(release: string | URL | Files | FamilyFiles, options: Options = {}): Promise<Client> {
    onlyKnown(options, OPTIONS);
    const { ledger = "taskveil", verifyKey } = options;
    if (typeof ledger !== "string") fail("ledger", "the ledger is named by a text.");
    const files = typeof release === "string" || release instanceof URL ? await fetchFiles(release, options) : release;
    const family = isFamily(files) ? await readFamily(files, verifyKey) : single(await readDevice(files, verifyKey));
    const candidates = offered(family, options.epsilon);
    const cap = options.cap ?? planned(candidates, null, []);
    if (!(cap > 0 && Number.isFinite(cap))) fail("budget", "the cap must be a finite number above zero.");
    // Browsers may ask the person, who may never answer: the answer is noted when it comes.
    const storage = { kept: false };
    void Ledger.keep().then((kept) => (storage.kept = kept));
    return new Client(family, candidates, await Ledger.open(ledger), storage, cap);
  }

  /**
   * Whether the browser has promised not to evict the ledger; false until it does. Without that promise, a forgotten
   * ledger lets a person report anew.
   */
  get persistent(): boolean {
    return this.storage.kept;
  }

  /** The chosen member's, or the first one's if the device draws: all members take the same record. */
  private get device(): Device {
    return this.offered[0]!.device;
  }

  /** What one report costs: the largest ε of a family's members if the device draws. */
  get epsilon(): number {
    return costOf(this.offered);
  }

  /** The probability with which one report may reveal more than that, mostly 0. Those of several reports add up. */
  get delta(): number {
    return Math.max(...this.offered.map(({ device }) => device.delta));
  }

  /**
   * The promise in words, for the person to read: what one report means, and what all reports in the ledger mean together,
   * those so far and those that the cap allows. It is a promise, because other tabs may have added reports meanwhile.
   */
  get statement(): Promise<string> {
    return this.said();
  }

  private async said(): Promise<string> {
    const words = [familyStatement(this.family, this.offered)];
    const delta = await this.largestDelta();
    if (this.panel) words.push(this.panel.statement(this.epsilon, ...(await this.known()), delta));
    return [...words, together(await this.ledger.spent(), this.cap, delta)].join(" ");
  }

  /** The largest δ of a report: of those to come and, if people choose, of those made with another choice. */
  private async largestDelta(): Promise<number> {
    const { members } = this.family;
    if (this.offered.length === members.length) return this.delta;
    const costs = await this.ledger.costs(this.key);
    return Math.max(this.delta, ...members.filter(({ device }) => costs.includes(device.epsilon)).map(({ device }) => device.delta));
  }

  /** The planned rounds of a release over time, to ask which round a day belongs to; null if rounds are not planned. */
  get panel(): Panel | null {
    return this.device.panel;
  }

  /** The names a record's numbers go by, in the release's order; null if it names none. */
  get columns(): readonly string[] | null {
    return this.device.columns;
  }

  /** What each of them is measured in. */
  get units(): readonly string[] | null {
    return this.device.units;
  }

  /** What a record consists of, to draw a form from: names, kinds, bounds, values. Null if it is numbers alone. */
  get fields(): readonly Field[] | null {
    return this.device.fields;
  }

  /** What was spent, what the reports of this release cost in the end, and the most that all may cost. */
  async spent(): Promise<Spent> {
    const total = planned(this.offered, ...(await this.known()));
    const [soFar, all, lifetime] = [await this.ledger.spent(), total, this.cap].map((v) => Number(roundedUp(v))) as Three;
    return { soFar, planned: all, lifetime };
  }

  /**
   * Join a release over time: the device draws the rounds in which it will report, and stores them. The first `report` does the
   * same. When a device joins must not depend on its records.
   *
   * @param round the round that takes place now; in the middle of a block of rounds, the device begins with the next block
   */
  async enrol(round: Round): Promise<void> {
    const { panel } = this;
    if (!panel) fail("data", "the rounds of this release are not planned: there is nothing to join.");
    await this.join(panel, panel.place(roundName(round)));
  }

  /**
   * The report of this round: made now from the record, or the one that was made before, byte for byte. Of a release over time,
   * null if it is not this device's turn.
   */
  async report<T extends object>(values: Values<T>, options: ReportOptions = {}): Promise<Report | null> {
    onlyKnown(options, ["round"]);
    const round = roundName(options.round === undefined ? "0" : options.round);
    // All members read the record first, so that what is wrong with its form is an error whatever will be drawn.
    const records = this.offered.map(({ device }) => record(device, values));
    const make = (): Uint8Array => drawMember(this.offered, records, system).toBytes();
    const { panel } = this;
    let block: readonly string[] = [];
    if (panel) {
      const place = panel.place(round);
      const own = panel.block(place);
      const turn = (await this.join(panel, place)).find((drawn) => panel.block(drawn) === own);
      if (turn === undefined || place < turn) return null;
      block = panel.blockRounds(own);
    }
    const raw = await this.ledger.once(this.key, round, this.epsilon, this.cap, make, block);
    return raw && Report.fromBytes(raw);
  }

  /** The report that was made for this round, to be sent again as it is; null if there is none. Costs nothing. */
  async recorded(round: Round = "0"): Promise<Report | null> {
    const raw = await this.ledger.recorded(this.key, roundName(round));
    return raw && Report.fromBytes(raw);
  }

  /** Of this release or family in the ledger. */
  private get key(): string {
    return hex(this.family.release);
  }

  /** The rounds that this device has drawn, or draws now. */
  private async join(panel: Panel, place: number): Promise<number[]> {
    return panel.read(await this.ledger.drawn(this.key, () => written(panel.drawPlaces(place, system))));
  }

  /**
   * How many rounds were drawn when this device joined, null if it has not, or if rounds are not planned; and what the reports of
   * planned rounds cost that were made with another ε, if people choose it.
   */
  private async known(): Promise<[joined: number | null, others: number[]]> {
    const { panel } = this;
    const raw = panel && (await this.ledger.rounds(this.key));
    if (raw === null) return [null, []];
    return [panel!.read(raw).length, (await this.ledger.costs(this.key)).filter((cost) => cost !== this.epsilon)];
  }

  /** Let go of the ledger, which is otherwise held until the page is left. No report can be made afterwards. */
  close(): void {
    this.ledger.close();
  }

  /**
   * For releases with one stage of codewords: the exact probability of every report this record can lead to. It is a
   * function of the record that no mechanism has touched: show it to the person, never send it.
   */
  odds<T extends object>(values: Values<T>): number[] | null {
    const { mechanism, encoder } = this.device;
    if (this.offered.length > 1 || mechanism.kind !== "codebook" || mechanism.stages.length > 1) return null;
    const stage = mechanism.stages[0]!;
    const { a, b, size, total } = stage.response;
    const likely = new Set(favoured(stage, enforce(mechanism.region, encode(encoder, record(this.device, values)))));
    const extra = BigInt(Math.max(0, bitLength(total) - 1000)); // beyond what a double reaches
    const odds = (weight: bigint): number => Number(weight >> extra) / Number(total >> extra);
    return Array.from({ length: Number(size) }, (_, k) => odds(likely.has(k) ? a : b));
  }
}

type Three = [number, number, number];

/** What the reports of a release cost: one, or those of the `joined` blocks, null before any rounds are drawn. */
function planned(candidates: readonly Member[], joined: number | null, others: readonly number[]): number {
  const { panel } = candidates[0]!.device;
  return timesCost(costOf(candidates), panel ? (joined ?? panel.reports) : 1, others);
}

const costOf = (candidates: readonly Member[]): number => Math.max(...candidates.map(({ device }) => device.epsilon));

/**
 * A fresh report of one of the `records`, which are the same record as each member reads it. The member is drawn first, and
 * from nothing but entropy. Only the ledger leads here; tests pass their own bits.
 */
export function drawMember(candidates: readonly Member[], records: readonly ArrayLike<number>[], source: Source): Report {
  const place = drawPlace(candidates.map(({ weight }) => weight), source);
  return draw(candidates[place]!.device, records[place]!, source);
}

/** A fresh report. Only the ledger leads here; tests pass their own bits. */
export function draw(device: Device, x: ArrayLike<number>, source: Source): Report {
  const id = source(16);
  const numbers = randomise(device.mechanism, encode(device.encoder, x), source);
  return new Report(device.release, id, packPayload(device.layout, numbers));
}

/**
 * The encoder's numbers of a record, in the release's order; its form is checked, never its values: whether a report exists
 * must not tell that a value is missing, so null and undefined are NaN, and natural values are whatever they are.
 */
export function record({ columns, encoder, fields }: Device, values: Values<object>): number[] {
  const [width, what] = fields ? [fields.length, "values"] : [encoder.low.length, "numbers"];
  let list: unknown[];
  if (Array.isArray(values) || ArrayBuffer.isView(values)) {
    list = Array.from({ length: (values as ArrayLike<unknown>).length }, (_, i) => valueAt(values, i));
  } else {
    if (values === null || typeof values !== "object") fail("data", `a record is ${width} ${what} or an object of them.`);
    if (!columns) fail("data", `this release names no columns: pass ${width} numbers in its order.`);
    const given = Object.keys(values);
    const missing = columns.filter((name) => !Object.hasOwn(values, name));
    const extra = given.filter((name) => !columns.includes(name));
    if (missing.length || extra.length) {
      const wrong = `missing [${missing}], extra [${extra}]. Pass null for a value that is not there`;
      fail("data", `the record must have exactly the release's columns: ${wrong}, and leave the others out.`);
    }
    list = columns.map((name) => valueAt(values, name));
  }
  if (list.length !== width) fail("data", `a record of this release is ${width} ${what}, got ${list.length}.`);
  if (fields) return expand(fields, list);
  return list.map((value) => {
    if (value === null || value === undefined) return NaN;
    if (["number", "bigint", "boolean"].includes(typeof value)) return Number(value);
    return fail("data", `a record holds numbers only, got a ${typeof value}.`);
  });
}

/** What an object that computes its values does not tell is missing. */
function valueAt(values: object, name: string | number): unknown {
  try {
    return (values as Record<string | number, unknown>)[name];
  } catch {
    return null;
  }
}

async function fetchFiles(address: string | URL, { verifyKey, ...options }: Options): Promise<Files | FamilyFiles> {
  const timeout = duration("timeout", options.timeout ?? 10_000, 1);
  const signal = abortSignal(options.signal);
  const base = addressOf(address) ?? fail("release", "the release's address is no URL; give it in full.");
  const folder = async (at: URL, signed: boolean): Promise<Files> => {
    const get = (name: string): Promise<Uint8Array> => download(new URL(name, at), timeout, signal);
    const [manifest, weights, signature] = await Promise.all([
      get("manifest.json"),
      get("weights.safetensors"),
      signed ? get("manifest.sig") : undefined,
    ]);
    return { manifest, weights, signature };
  };
  const signed = verifyKey !== undefined;
  if (base.pathname.endsWith("/family.json")) {
    const [family, signature] = await Promise.all([
      download(base, timeout, signal),
      signed ? download(new URL("family.sig", base), timeout, signal) : undefined,
    ]);
    // Names are checked before any of them becomes an address.
    const { members } = await readManifest(family, signature, verifyKey);
    const names: string[] = members.map(({ name }: { name: string }) => name);
    const found = await Promise.all(names.map((name) => folder(new URL(`./${name}/client/`, base), false)));
    return { family, signature, members: Object.fromEntries(names.map((name, i) => [name, found[i]!])) };
  }
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  return folder(base, signed);
}
