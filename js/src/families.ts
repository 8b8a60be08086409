/**
 * Families: several releases with one id and one entry in the ledger, of which a round uses one; as `families.py` has them.
 *
 * Where the device draws, the member comes from entropy and the weights alone, before the record is looked at. So the pair of
 * member and report keeps the largest ε of the members, which is what a round costs. Where people choose, the choice is
 * visible, and the promise says nothing about it: it must not depend on the record.
 */
import { type Json, parseCanonical } from "./canonical.js";
import { type Source, uniformBelow } from "./entropy.js";
import { fail, TaskveilError } from "./errors.js";
import { bytes, characters, digestLine, type Files, MOST_MANIFEST, MOST_WEIGHTS, need, verify } from "./files.js";
import { promise, roundedUp, wayOf } from "./promise.js";
import { type Device, readDevice } from "./release.js";
import { hex, unhex } from "./wire.js";

/** What the folder of a family holds for devices, in bytes: `family.json`, and the `client/` files of every member by name. */
export interface FamilyFiles {
  family: Uint8Array;
  members: Readonly<Record<string, Files>>;
  /** `family.sig`; needed when a key is given. */
  signature?: Uint8Array | undefined;
}

export interface Member {
  name: string;
  weight: bigint;
  device: Device;
}

export interface Family {
  /** The digest that identifies it, in bytes: the key of its reports in the ledger. */
  release: Uint8Array;
  kind: "drawn" | "chosen";
  members: readonly Member[];
}

/** The newest `family.json` that is read here. */
const VERSION = 1;
const NAME = /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/;
const RESERVED = ["client", "family.json", "family.sig", "server"];
const CHOICE = /^[0-9]+(?:\.[0-9]+)?(?:e-[0-9]+)?$/;
/** An ε counts as kept to 12 digits. */
const SLACK = 2 ** -40;

export const isFamily = (files: Files | FamilyFiles): files is FamilyFiles =>
  typeof files === "object" && files !== null && "family" in files;

/** A release alone: nothing is drawn, and reports are recorded under its own id. */
export const single = (device: Device): Family => ({
  release: device.release,
  kind: "drawn",
  members: [{ name: "release", weight: 1n, device }],
});

/** The members in the files of a family, after all checks. With a `verifyKey`, `family.json` must carry its signature. */
export async function readFamily(files: FamilyFiles, verifyKey?: Uint8Array | string): Promise<Family> {
  try {
    const { digest, kind, members } = await readManifest(files.family, files.signature, verifyKey);
    need(typeof files.members === "object" && files.members !== null, "the members of a family are given by name");
    const found: Member[] = [];
    let left = MOST_WEIGHTS;
    for (const { name, weight, release, epsilon } of members) {
      need(Object.hasOwn(files.members, name), `the member ${name} is missing`);
      const own = files.members[name]!;
      left -= bytes(own?.weights, "weights").length + bytes(own?.manifest, "manifest").length;
      need(left >= 0, "the members are too large together");
      const device = await readDevice(own);
      need(hex(device.release) === release, `${name} is another release than family.json names`);
      need(device.epsilon === epsilon, `the epsilon that family.json states for ${name} is not the one that it keeps`);
      found.push({ name, weight, device });
    }
    const first = asked(found[0]!.device);
    need(found.every(({ device }) => asked(device) === first), "the members of a family take the same record in the same rounds");
    return { release: unhex(digest), kind, members: found };
  } catch (error) {
    if (error instanceof TaskveilError) throw error;
    fail("release", `these files are no family: ${error}. Fetch it again, or ask its publisher.`);
  }
}

/** The content of `family.json`, checked. */
export async function readManifest(family: unknown, signature?: unknown, verifyKey?: Uint8Array | string): Promise<Json> {
  const raw = bytes(family, "family.json");
  need(raw.length <= MOST_MANIFEST, "family.json is larger than any");
  if (verifyKey !== undefined) await verify(raw, signature, verifyKey);
  const text = characters(raw);
  let manifest: Json;
  try {
    const version: unknown = JSON.parse(text).version; // newer versions may be written in other ways
    if (Number.isInteger(version) && (version as number) > VERSION) {
      fail("version", `the family has version ${version}; this client reads up to ${VERSION}. Update taskveil.`);
    }
    manifest = parseCanonical(text);
  } catch (error) {
    if (error instanceof TaskveilError) throw error;
    fail("release", `family.json describes no family (${error}).`);
  }
  const keys = (part: Json): string => (part !== null && typeof part === "object" ? Object.keys(part).join() : "");
  need(keys(manifest) === "digest,kind,members,version" && manifest.version === BigInt(VERSION), "family.json describes no family");
  if ((await digestLine(raw, text)) !== manifest.digest) {
    fail("release", "family.json was altered: its digest does not match. Fetch the family again.");
  }
  const { kind, members } = manifest;
  need(kind === "drawn" || kind === "chosen", "a family is drawn or chosen");
  need(Array.isArray(members) && members.length >= 2, "a family has at least two members");
  need(members.every((one: Json) => keys(one) === "epsilon,name,release,weight"), "a member of a family");
  const column = (key: string): Json[] => members.map((one: Json) => one[key]);
  const [names, releases, weights] = [column("name"), column("release"), column("weight")];
  need(names.every((name) => typeof name === "string" && NAME.test(name) && !RESERVED.includes(name)), "the name of a member");
  need(weights.every((weight) => typeof weight === "bigint" && weight > 0n), "weights are whole numbers above zero");
  need(sum(weights) < 2n ** 53n, "the weights have a sum below 2^53");
  need(releases.every((id) => typeof id === "string" && /^[0-9a-f]{64}$/.test(id)), "the release of a member");
  need([names, releases].every((list) => new Set(list).size === list.length), "every member is a release of its own");
  need(column("epsilon").every((epsilon) => typeof epsilon === "number"), "the epsilon of a member");
  if (kind === "chosen") {
    const choices = names.map(choiceOf);
    need(new Set(choices).size === choices.length && weights.every((weight) => weight === 1n), "people choose by ε");
    need(members.every((one: Json, i: number) => one.epsilon <= choices[i]! * (1 + SLACK)), "a choice costs more than it says");
  }
  return manifest;
}

/** The ε under which a member of this name is offered. */
function choiceOf(name: string): number {
  const choice = CHOICE.test(name) ? Number(name) : 0;
  need(choice > 0 && Number.isFinite(choice), "a member that people choose is named after its ε");
  return choice;
}

/** The members that a client may use: the chosen one, or all if the device draws. */
export function offered({ kind, members }: Family, epsilon: unknown): readonly Member[] {
  if (kind === "drawn") {
    const cost = roundedUp(Math.max(...members.map(({ device }) => device.epsilon)));
    if (epsilon !== undefined) fail("budget", `nobody chooses the ε of this release: it is ${cost}. Leave out epsilon.`);
    return members;
  }
  const found = members.filter(({ name }) => Number(name) === epsilon);
  const choices = members.map(({ name }) => Number(name)).sort((one, other) => one - other);
  return found.length ? found : fail("budget", `people choose the ε of this family: pass epsilon, one of [${choices.join(", ")}].`);
}

/** A place, drawn with probability weight / Σ weights; one weight needs no entropy. */
export function drawPlace(weights: readonly bigint[], source: Source): number {
  if (weights.length === 1) return 0;
  let left = uniformBelow(source, sum(weights));
  return weights.findIndex((weight) => (left -= weight) < 0n);
}

const sum = (weights: readonly bigint[]): bigint => weights.reduce((total, weight) => total + weight, 0n);

/** The names of a record's values, their kinds, and the planned rounds. */
const asked = ({ columns, fields, encoder, panel }: Device): string =>
  JSON.stringify([columns, fields ? fields.map(({ kind }) => kind) : Array(encoder.low.length).fill("number"), panel]);

/** The promise in words. Of one release it is the release's own. */
export function familyStatement({ kind, members }: Family, candidates: readonly Member[]): string {
  if (members.length === 1) return members[0]!.device.statement;
  const ways = [...new Set(candidates.map(({ device }) => wayOf(device.mechanism)))].join(" ");
  const most = (of: "epsilon" | "delta"): number => Math.max(...candidates.map(({ device }) => device[of]));
  const words = promise(ways, most("epsilon"), most("delta"));
  return kind === "chosen"
    ? `${words} You chose this ε. The choice itself is visible with the report, and is not protected: do not let it depend on ` +
        "your record."
    : `${words} In every round the device draws one of ${members.length} kinds of report at random, before it looks at the ` +
        "record. The choice itself is visible with the report, and says nothing about the record.";
}
