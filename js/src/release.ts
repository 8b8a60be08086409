/** A release's `client/` as the device it describes. Everything wrong with it is said here, before any report. */
import type { Json } from "./canonical.js";
import type { Encoder } from "./encoders.js";
import { fail, TaskveilError } from "./errors.js";
import { type Field, readFields, widthOf } from "./fields.js";
import { type Files, need, readFiles } from "./files.js";
import { deltaOf, epsilonOf, type Mechanism } from "./mechanisms.js";
import { type Panel, readPanel } from "./panels.js";
import { Parts } from "./parts.js";
import { statement } from "./promise.js";
import { dim } from "./regions.js";
import { type Layout, layoutOf, MOST_PAYLOAD, unhex } from "./wire.js";

export interface Device {
  encoder: Encoder;
  mechanism: Mechanism;
  columns: string[] | null;
  units: string[] | null;
  /** What a record of natural values consists of; null where it is the encoder's numbers. */
  fields: Field[] | null;
  /** The planned rounds of a release over time. */
  panel: Panel | null;
  /** The digest that identifies the release, in bytes. */
  release: Uint8Array;
  layout: Layout;
  /** The budget that one report costs, as the mechanism keeps it and the release states it. */
  epsilon: number;
  /** The probability with which that may not hold for one report. */
  delta: number;
  /** The promise in words, made from what the mechanism keeps. */
  statement: string;
}

/** Device of a release's files. With a `verifyKey` the manifest must carry that key's signature. */
export async function readDevice(files: Files, verifyKey?: Uint8Array | string): Promise<Device> {
  try {
    const { manifest, tensors } = await readFiles(files, verifyKey);
    return device(manifest, new Parts(tensors));
  } catch (error) {
    if (error instanceof TaskveilError) throw error;
    fail("release", `the release holds no valid veil: ${error}. Fetch it again, or ask its publisher.`);
  }
}

function device(manifest: Json, parts: Parts): Device {
  const encoder = parts.encoder(manifest.encoder);
  const mechanism = parts.mechanism(manifest.mechanism);
  need(encoder.step.length === dim(mechanism.region), "encoder and mechanism must agree on the latents");
  const fields = manifest.fields === undefined ? null : readFields(manifest.fields);
  need(!fields || widthOf(fields) === encoder.low.length, "fields and encoder must agree on the numbers");
  const values = fields ? fields.length : encoder.low.length;
  const columns = names(manifest.columns, "column names", values);
  need(columns === null || new Set(columns).size === columns.length, "column names must differ");
  const units = names(manifest.units, "units", values);
  need(
    !fields || fields.every((field, i) => field.name === columns?.[i] && ("unit" in field ? field.unit : "") === units?.[i]),
    "columns and units must be those of the fields",
  );
  const { epsilon, delta, statement: text } = manifest.guarantee;
  const [kept, chance] = [epsilonOf(mechanism), deltaOf(mechanism)];
  const honest = epsilon === kept && kept > 0 && Number.isFinite(kept);
  need(delta === chance && honest, "the stated epsilon and delta are not those that the mechanism keeps");
  need(typeof text === "string", "statement");
  const layout = layoutOf(mechanism);
  need(layout.reduce((sum, { bytes }) => sum + bytes, 0) <= MOST_PAYLOAD, "reports are longer than the wire format allows");
  return {
    encoder,
    mechanism,
    columns,
    units,
    fields,
    panel: manifest.panel === undefined ? null : readPanel(manifest.panel),
    release: unhex(manifest.digest),
    layout,
    epsilon: kept,
    delta: chance,
    statement: statement(mechanism, kept),
  };
}

function names(list: Json, what: string, count: number): string[] | null {
  need(list === null || (Array.isArray(list) && list.length === count && list.every((v) => typeof v === "string")), what);
  return list;
}
