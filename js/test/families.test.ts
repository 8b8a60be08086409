/** Families: the browser draws, charges, records and refuses as the Python client does. */
import "fake-indexeddb/auto";
import { generateKeyPairSync, sign } from "node:crypto";
import { afterEach, describe, expect, test, vi } from "vitest";
import { drawMember, record } from "../src/client.js";
import { drawPlace, type FamilyFiles, offered, readFamily } from "../src/families.js";
import { Client } from "../src/index.js";
import { hex, unhex } from "../src/wire.js";
import { fresh, made } from "./clients.js";
import { mixed, read, replay, size } from "./files.js";

const text = (path: string): string => new TextDecoder().decode(read(path));
const MEMBERS = { drawn: ["laplace", "codes", "levels", "gaussian"], chosen: ["4", "2.5"] };
type Kind = keyof typeof MEMBERS;

const family = (kind: Kind): FamilyFiles => ({
  family: read(`family.${kind}/family.json`),
  members: Object.fromEntries(
    MEMBERS[kind].map((name) => [
      name,
      {
        manifest: read(`family.${kind}/${name}/client/manifest.json`),
        weights: read(`family.${kind}/${name}/client/weights.safetensors`),
      },
    ]),
  ),
});

const said = (kind: Kind): Record<string, [statement: string, epsilon: number, release: string]> =>
  JSON.parse(text(`family.${kind}/said.json`));

const load = (kind: Kind, options: object = {}): Promise<Client> => Client.load(family(kind), { ledger: fresh(), cap: 1e6, ...options });
const values = (): unknown[] => mixed("family.drawn").next().value!.values;

afterEach(() => void vi.unstubAllGlobals());

describe.each(["drawn", "chosen"] as const)("%s", (kind) => {
  test(`identical members and bytes from identical bits on ${size().vectors} vectors`, async () => {
    const found = await readFamily(family(kind));
    const seen = new Set<string>();
    let count = 0;
    for (const { values, numbers, bits, report } of mixed(`family.${kind}`)) {
      const candidates = offered(found, numbers === "None" ? undefined : Number(numbers));
      const records = candidates.map(({ device }) => record(device, values as never));
      const source = replay(unhex(bits));
      const ours = drawMember(candidates, records, source);
      if (hex(ours.toBytes()) !== report || source.left()) throw new Error(`vector ${count}: ${hex(ours.toBytes())}, not ${report}`);
      seen.add(hex(ours.release));
      count++;
    }
    expect(count).toBe(size().vectors);
    expect(seen.size).toBe(MEMBERS[kind].length);
  });

  test("the same words, costs and key in the ledger", async () => {
    for (const [choice, [statement, epsilon, release]] of Object.entries(said(kind))) {
      const client = await load(kind, choice === "None" ? {} : { epsilon: Number(choice) });
      expect(await client.statement).toBe(statement);
      expect(client.epsilon).toBe(epsilon);
      expect(hex((client as any).family.release)).toBe(release);
    }
  });
});

test("a retry keeps the drawn member and costs nothing", async () => {
  const ledger = fresh();
  const first = await load("drawn", { ledger });
  const reports = await Promise.all(Array.from({ length: 40 }, (_, round) => made(first.report(values() as never, { round }))));
  expect(reports.length).toBe(40);
  const spent = (await first.spent()).soFar;
  expect(spent).toBeCloseTo(40 * first.epsilon, 3);
  const second = await load("drawn", { ledger });
  for (const [round, report] of reports.entries()) {
    expect(hex((await made(second.report(values() as never, { round }))).toBytes())).toBe(hex(report.toBytes()));
    expect(hex((await second.recorded(round))!.toBytes())).toBe(hex(report.toBytes()));
  }
  expect((await second.spent()).soFar).toBe(spent);
});

test("tabs that ask at once get one report", async () => {
  const ledger = fresh();
  const tabs = await Promise.all(Array.from({ length: 6 }, () => load("drawn", { ledger })));
  const reports = await Promise.all(tabs.map((tab) => made(tab.report(values() as never))));
  expect(new Set(reports.map((report) => hex(report.toBytes()))).size).toBe(1);
});

test("a round that was answered at one epsilon is answered", async () => {
  const ledger = fresh();
  const one = await load("chosen", { ledger, epsilon: 2.5 });
  const report = await made(one.report(values() as never));
  const spent = (await one.spent()).soFar;
  const other = await load("chosen", { ledger, epsilon: 4 });
  expect(hex((await made(other.report(values() as never))).toBytes())).toBe(hex(report.toBytes()));
  expect((await other.spent()).soFar).toBe(spent);
  expect(hex((await made(other.report(values() as never, { round: 1 }))).release)).not.toBe(hex(report.release));
});

test("people choose among what is offered, and nobody chooses what is drawn", async () => {
  for (const epsilon of [undefined, 3, "4", NaN]) {
    await expect(load("chosen", { epsilon })).rejects.toMatchObject({ code: "budget", message: expect.stringContaining("[2.5, 4]") });
  }
  await expect(load("drawn", { epsilon: 4 })).rejects.toMatchObject({ code: "budget" });
});

test("weights are exact shares of a uniform number", () => {
  for (const [u, place] of [[0, 0], [2, 0], [3, 1], [4, 2], [7, 2]]) {
    const word = new DataView(new ArrayBuffer(8));
    word.setBigUint64(0, BigInt(u!) << 61n, true); // three bits of the top decide
    expect(drawPlace([3n, 1n, 4n], () => new Uint8Array(word.buffer))).toBe(place);
  }
  expect(drawPlace([5n], () => expect.unreachable())).toBe(0);
});

const forged: [why: string, raw: string][] = JSON.parse(text("family.drawn/forged.json"));

test.each(forged)("refused: %s", async (why, raw) => {
  const files = { ...family("drawn"), family: new Uint8Array(Buffer.from(raw, "base64")) };
  await expect(readFamily(files)).rejects.toMatchObject({ code: why === "version 2" ? "version" : "release" });
});

test("members that were exchanged, are missing or broken are refused", async () => {
  const good = family("drawn");
  const { laplace, codes, levels, gaussian } = good.members as Record<string, any>;
  const exchanged = { laplace: codes, codes: laplace, levels, gaussian };
  for (const members of [exchanged, { laplace, codes, gaussian }, {}, null, { laplace, codes, levels: null, gaussian }]) {
    await expect(readFamily({ ...good, members } as never)).rejects.toMatchObject({ code: "release" });
  }
});

test("one signature covers all members", async () => {
  const { publicKey, privateKey } = generateKeyPairSync("ed25519");
  const key = publicKey.export({ type: "spki", format: "pem" }) as string;
  const good = family("drawn");
  const message = Buffer.concat([Buffer.from("taskveil release signature v1\n"), good.family]);
  const signature = new Uint8Array(sign(null, message, privateKey));
  await readFamily({ ...good, signature }, key);
  await expect(readFamily(good, key)).rejects.toMatchObject({ code: "signature" });
  signature[5]! ^= 1;
  await expect(readFamily({ ...good, signature }, key)).rejects.toMatchObject({ code: "signature" });
});

test("a family is fetched by the address of its family.json", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", async (url: URL) => {
    asked.push(String(url));
    return new Response(read(String(url).replace("https://a.example/f/", "family.drawn/")));
  });
  const client = await Client.load("https://a.example/f/family.json", { ledger: fresh() });
  expect(client.epsilon).toBe(said("drawn")["None"]![1]);
  expect(asked.length).toBe(9);
  expect(asked).toContain("https://a.example/f/codes/client/weights.safetensors");
});
