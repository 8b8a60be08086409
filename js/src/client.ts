import { encode } from "./encoders.js";
import { type Source, system } from "./entropy.js";
import { fail } from "./errors.js";
import { Ledger } from "./ledger.js";
import { favoured, randomise } from "./mechanisms.js";
import { enforce } from "./regions.js";
import type { Files } from "./files.js";
import { type Device, readDevice } from "./release.js";
import { hex, packPayload, Report } from "./wire.js";

export type Values = Readonly<Record<string, number>> | ArrayLike<number>;

export interface Options {
  /** Name of the IndexedDB database that remembers what was spent; all releases of a page share one. */
  ledger?: string;
  /** The most a person spends in all rounds and releases; by default this release's ε: one report. */
  cap?: number;
  /** 32 bytes, Ed25519: only releases signed by this key are accepted. */
  verifyKey?: Uint8Array<ArrayBuffer>;
}

const OPTIONS = ["ledger", "cap", "verifyKey"];

/** Makes the reports of one person for one release. Every number that leaves has been through the mechanism. */
export class Client {
  private constructor(
    private readonly device: Device,
    private readonly ledger: Ledger,
    readonly cap: number,
    /** Whether the browser promised not to evict the ledger; without that, a forgotten ledger lets a person report anew. */
    readonly persistent: boolean,
  ) {}

  /** Read and check a release: the address of its `client/` folder, or its files. */
  static async load(release: string | URL | Files, options: Options = {}): Promise<Client> {
    const unknown = Object.keys(options).filter((name) => !OPTIONS.includes(name));
    if (unknown.length) fail("data", `unknown options [${unknown}]; there are [${OPTIONS}].`); // a misspelt key checks nothing
    const files = typeof release === "string" || release instanceof URL ? await fetchFiles(release, options) : release;
    const device = await readDevice(files, options.verifyKey);
    const cap = options.cap ?? device.epsilon;
    if (!(cap > 0 && Number.isFinite(cap))) fail("budget", `the cap must be a finite number above zero, got ${cap}.`);
    return new Client(device, await Ledger.open(options.ledger), cap, await Ledger.keep());
  }

  get epsilon(): number {
    return this.device.epsilon;
  }

  get statement(): string {
    return this.device.statement;
  }

  get columns(): readonly string[] | null {
    return this.device.columns;
  }

  get units(): readonly string[] | null {
    return this.device.units;
  }

  spent(): Promise<number> {
    return this.ledger.spent();
  }

  /** The report of this round: made now from the record, or the one that was made before, byte for byte. */
  async report(values: Values, { round = "0" }: { round?: string | number } = {}): Promise<Report> {
    const x = record(this.device, values);
    const { release, epsilon } = this.device;
    const make = (): Uint8Array => draw(this.device, x, system).toBytes();
    return Report.fromBytes(await this.ledger.once(hex(release), String(round), epsilon, this.cap, make));
  }

  /**
   * For releases with one stage of codewords: the exact probability of every report this record can lead to. It is a
   * function of the record that no mechanism has touched: show it to the person, never send it.
   */
  odds(values: Values): number[] | null {
    const { mechanism, encoder } = this.device;
    if (mechanism.kind !== "codebook" || mechanism.stages.length > 1) return null;
    const stage = mechanism.stages[0]!;
    const { a, b, size, total } = stage.response;
    const likely = new Set(favoured(stage, enforce(mechanism.region, encode(encoder, record(this.device, values)))));
    return Array.from({ length: Number(size) }, (_, k) => Number(likely.has(k) ? a : b) / Number(total));
  }
}

/** A fresh report. Only the ledger leads here; tests pass their own bits. */
export function draw(device: Device, x: ArrayLike<number>, source: Source): Report {
  const id = source(16);
  const numbers = randomise(device.mechanism, encode(device.encoder, x), source);
  return new Report(device.release, id, packPayload(device.layout, numbers));
}

/** The numbers of a record in the release's order; its form is checked, never its values. */
export function record({ columns, encoder }: Device, values: Values): number[] {
  const width = encoder.low.length;
  let list: unknown[];
  if (Array.isArray(values) || ArrayBuffer.isView(values)) {
    list = Array.from(values as ArrayLike<unknown>);
  } else {
    if (values === null || typeof values !== "object") fail("data", `a record is ${width} numbers or an object of them.`);
    if (!columns) fail("data", `this release names no columns: pass ${width} numbers in its order.`);
    const given = Object.keys(values);
    const missing = columns.filter((name) => !Object.hasOwn(values, name));
    const extra = given.filter((name) => !columns.includes(name));
    if (missing.length || extra.length) {
      fail("data", `the record must have exactly the release's columns: missing [${missing}], extra [${extra}].`);
    }
    list = columns.map((name) => (values as Record<string, unknown>)[name]);
  }
  if (list.length !== width) fail("data", `a record of this release is ${width} numbers, got ${list.length}.`);
  for (const value of list) {
    if (value == null) fail("data", "a value is missing. Pass NaN where a sensor gave nothing.");
    if (typeof value !== "number") fail("data", `a record holds numbers only, got a ${typeof value}.`);
  }
  return list as number[];
}

async function fetchFiles(folder: string | URL, { verifyKey }: Options): Promise<Files> {
  const base = new URL(folder, globalThis.location?.href);
  if (!base.pathname.endsWith("/")) base.pathname += "/";
  const get = async (name: string): Promise<Uint8Array<ArrayBuffer>> => {
    let answer: Response;
    try {
      answer = await fetch(new URL(name, base));
    } catch (error) {
      return fail("release", `cannot fetch ${name}: ${error}.`);
    }
    if (!answer.ok) fail("release", `cannot fetch ${name}: status ${answer.status}. Is this a release's client folder?`);
    return new Uint8Array(await answer.arrayBuffer());
  };
  const [manifest, weights] = await Promise.all([get("manifest.json"), get("weights.safetensors")]);
  return { manifest, weights, signature: verifyKey === undefined ? undefined : await get("manifest.sig") };
}
