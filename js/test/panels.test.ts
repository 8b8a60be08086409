/** Reports over time: the browser draws, says, records and refuses as the Python client does. */
import { describe, expect, test, vi } from "vitest";
import { type FamilyFiles, readFamily } from "../src/families.js";
import { Client, type Options, type Report } from "../src/index.js";
import { Ledger } from "../src/ledger.js";
import { Panel, timesCost, written } from "../src/panels.js";
import { readDevice } from "../src/release.js";
import { hex, unhex } from "../src/wire.js";
import { fresh, never, RECORD } from "./clients.js";
import { files, read, replay, size } from "./files.js";

const SIZE = size();
const PLANNED = "panels.release";
const text = (path: string): string => new TextDecoder().decode(read(path));
const lines = (path: string): any[] => text(path).trimEnd().split("\n").map((line) => JSON.parse(line));
const load = (options: Options = {}): Promise<Client> => Client.load(files(PLANNED), { ledger: fresh(), ...options });
const ROUNDS = JSON.parse(text(`${PLANNED}/manifest.json`)).panel.rounds as string[]; // 12 of them, three blocks of four
const NAMED = new Panel(3, ["a", "b", "c", "d", "e", "f", "g"], 0); // blocks of 2, 2 and 3 rounds

test(`identical draws, blocks, days and words on ${SIZE.vectors} panels`, () => {
  const seen = { refused: 0, found: 0, again: 0, late: 0, years: new Set<string>() };
  const vectors = lines("panels.jsonl");
  for (const [i, one] of vectors.entries()) {
    const panel = new Panel(one.reports, one.rounds, one.days);
    const source = replay(unhex(one.bits));
    const drawn = panel.drawPlaces(one.place, source);
    const roundOn = (): string | null => {
      try {
        return panel.roundOn(one.day);
      } catch {
        return null;
      }
    };
    const block = panel.block(one.place);
    const ours = {
      drawn: written(drawn),
      read: panel.read(one.drawn),
      left: source.left(),
      place: panel.place(one.rounds[one.place]),
      block,
      start: panel.start(block),
      block_rounds: panel.blockRounds(block),
      first_block: panel.firstBlock(one.place),
      statement: panel.statement(one.epsilon, one.joined, [], one.delta),
      round_on: roundOn(),
    };
    const { block_rounds, first_block, statement, round_on, place, start } = one;
    const theirs = { drawn: one.drawn, read: drawn, left: 0, place, block: one.block, start, block_rounds, first_block, statement, round_on };
    if (JSON.stringify(ours) !== JSON.stringify(theirs)) throw new Error(`panel ${i}: ${JSON.stringify(ours)}, not ${JSON.stringify(theirs)}`);
    seen.refused += round_on === null ? 1 : 0;
    seen.found += round_on === null ? 0 : 1;
    seen.again += one.bits.length > 16 * drawn.length ? 1 : 0;
    seen.late += drawn.length ? 0 : 1;
    if (one.days) seen.years.add(one.rounds[0].slice(0, 4));
  }
  expect(vectors.length).toBe(SIZE.vectors);
  expect(Math.min(seen.refused, seen.found, seen.again)).toBeGreaterThan(SIZE.vectors / 10);
  expect(seen.late).toBeGreaterThan(SIZE.vectors / 100);
  expect(seen.years.size).toBeGreaterThan(SIZE.vectors / 10);
});

test("the comparison notices one changed bit of entropy", () => {
  let changed = 0;
  for (const one of lines("panels.jsonl").slice(0, 500)) {
    const bits = unhex(one.bits);
    if (bits.length < 8) continue;
    bits[7]! ^= 0x80; // the highest bit of the first word
    try {
      changed += written(new Panel(one.reports, one.rounds, one.days).drawPlaces(one.place, replay(bits))) === one.drawn ? 0 : 1;
    } catch {
      changed++; // more words were asked for
    }
  }
  expect(changed).toBeGreaterThan(200);
});

test(`both clients read the same of ${SIZE.vectors} releases with changed panels`, async () => {
  const { weights } = files("lattice");
  let accepted = 0;
  for (const [i, one] of lines("panels.read.jsonl").entries()) {
    const manifest = new TextEncoder().encode(one.manifest);
    const found = await readDevice({ manifest, weights }).catch((error) => {
      if (!["release", "version"].includes(error.code)) throw error;
      return null;
    });
    if ((found && hex(found.release)) !== one.accepted) throw new Error(`release ${i}: ${found ? "believed" : "refused"}: ${one.manifest}`);
    if (!found) continue;
    accepted++;
    const { reports, rounds, days } = JSON.parse(one.manifest).panel;
    expect([found.panel!.reports, found.panel!.rounds, found.panel!.days]).toEqual([reports, rounds, days]);
  }
  expect(accepted).toBeGreaterThan(SIZE.vectors / 10);
  expect(accepted).toBeLessThan(SIZE.vectors / 1.1);
});

describe("a panel", () => {
  test.each(["0", "0,1,4", "0,2,4,6", "-1,0,2,4", "0,2,04", "0,,2,4", "x", "0,2,7", "0,2,4 ", "0,2,4.0", "NaN", 4, null, undefined, [0, 2, 4]])(
    "refuses drawn rounds that no device draws: %o",
    (raw) => expect(() => NAMED.read(raw)).toThrow("drawn rounds that no device draws"),
  );

  test.each([[[]], [[4]], [[3, 6]], [[1, 2, 5]]])("reads drawn rounds as they were written: %j", (places) =>
    expect(NAMED.read(written(places))).toEqual(places));

  test("draws every round of a block equally often", () => {
    const counts = Array(7).fill(0);
    const source = (count: number): Uint8Array => crypto.getRandomValues(new Uint8Array(count));
    for (let i = 0; i < 2100; i++) for (const place of NAMED.drawPlaces(0, source)) counts[place]++;
    for (const [block, length] of [2, 2, 3].entries()) {
      const expected = 2100 / length;
      const found = counts.slice(NAMED.start(block), NAMED.start(block + 1));
      expect(found.reduce((a, b) => a + b)).toBe(2100);
      for (const count of found) expect(Math.abs(count - expected)).toBeLessThan(5.5 * Math.sqrt(expected));
    }
  });

  test("says which round a day belongs to, and refuses days outside", () => {
    const panel = new Panel(1, ["2026-12-28", "2027-01-04", "2027-01-11"], 7);
    expect(panel.roundOn("2027-01-03")).toBe("2026-12-28");
    expect(panel.roundOn(new Date("2027-01-17T23:59:59Z"))).toBe("2027-01-11");
    for (const day of ["2026-12-27", "2027-01-18"]) expect(() => panel.roundOn(day)).toThrow("no round is planned");
    for (const day of ["tomorrow", new Date(NaN), 7 as never]) expect(() => panel.roundOn(day)).toThrow("a day is a date");
    // Python refuses them too. The last one is in another round than the `Date` of the same moment.
    for (const day of ["20261228", "2026-W53-1", "2026-12-28T00:00", "2027-01-03T23:59-05:00"]) {
      expect(() => panel.roundOn(day)).toThrow("a day is a date");
    }
    expect(panel.roundOn(new Date("2027-01-03T23:59-05:00"))).toBe("2027-01-04");
    expect(() => NAMED.roundOn("2027-01-01")).toThrow("names without dates");
  });

  test.each([
    [4 / 3, 3],
    [0.1, 10],
    [4 / 52, 52],
    [0.7, 9],
    [2, 0],
  ])("never states a sum too small: %d, %d times", (epsilon, count) => {
    const total = timesCost(epsilon, count, []);
    expect(total).toBeGreaterThanOrEqual(epsilon * count * (1 - 2 ** -52));
    expect(total).toBeLessThanOrEqual(epsilon * count * (1 + 2 ** -50));
  });
});

describe("a device", () => {
  const everywhere = async (client: Client): Promise<(Report | null)[]> => {
    const all: (Report | null)[] = [];
    for (const round of ROUNDS) all.push(await client.report(RECORD, { round }));
    return all;
  };

  test("reports once a block, in the drawn rounds", async () => {
    const ledger = fresh();
    const client = await load({ ledger });
    expect(await client.spent()).toEqual({ soFar: 0, planned: 18, lifetime: 18 });
    const reports = await everywhere(client);
    const places = reports.flatMap((report, place) => (report ? [place] : []));
    expect(places.map((place) => client.panel!.block(place))).toEqual([0, 1, 2]);
    expect(await drawnIn(ledger)).toEqual([written(places)]);
    expect(await client.spent()).toEqual({ soFar: 18, planned: 18, lifetime: 18 });
    // Asked again, in any order, with other records: the same bytes, and silence stays silence.
    for (const [place, round] of [...ROUNDS.entries()].reverse()) {
      expect(await client.report([9, 9, 9, 9, 9], { round })).toEqual(reports[place]);
      expect(await client.recorded(round)).toEqual(reports[place]);
    }
    await expect(client.report(RECORD, { round: "2027-02-08" })).rejects.toMatchObject({
      code: "data",
      message: expect.stringContaining('"2027-02-08" is not one of the 12 planned rounds, "2026-11-16" to "2027-02-01"'),
    });
    await expect(client.report(RECORD)).rejects.toMatchObject({ code: "data" });
  });

  test("makes up a round that was missed, in its block only", async () => {
    for (let again = 0; again < 12; again++) {
      const ledger = fresh();
      const client = await load({ ledger });
      await client.enrol(ROUNDS[0]!);
      const [first, second] = client.panel!.read((await drawnIn(ledger))[0]) as [number, number];
      if (first < 3) {
        expect(await client.report(RECORD, { round: ROUNDS[3]! })).not.toBeNull(); // off in the drawn round
        expect(await client.report(RECORD, { round: ROUNDS[first]! })).toBeNull();
      }
      expect(await client.report(RECORD, { round: ROUNDS[4]! })).toEqual(second === 4 ? expect.anything() : null);
      expect((await client.spent()).soFar).toBeLessThanOrEqual(12);
    }
  });

  test.each(ROUNDS.map((round, place) => [round, place] as const))("says the same as Python's when it joins in %s", async (round, place) => {
    const said = JSON.parse(text(`${PLANNED}/said.json`));
    const client = await load();
    const now = async (): Promise<unknown[]> => {
      const { soFar, planned, lifetime } = await client.spent();
      return [await client.statement, soFar, planned, lifetime];
    };
    expect(await now()).toEqual(said.None);
    await client.enrol(round);
    expect(await now()).toEqual(said[round]);
    const made = await everywhere(client);
    expect(made.filter((report) => report).length).toBe(3 - Math.ceil(place / 4));
    expect(made.slice(0, place).every((report) => report === null)).toBe(true);
  });

  test("keeps its rounds when it joins again, and after the page is left", async () => {
    const ledger = fresh();
    const client = await load({ ledger });
    await client.enrol(ROUNDS[0]!);
    const drawn = await drawnIn(ledger);
    for (const round of [1, 8]) await client.enrol(ROUNDS[round]!);
    client.close();
    await (await load({ ledger })).enrol(ROUNDS[5]!);
    expect(await drawnIn(ledger)).toEqual(drawn);
  });

  test("has one schedule and one report a block in three tabs at once", async () => {
    for (let again = 0; again < 10; again++) {
      const ledger = fresh();
      const tabs = await Promise.all([1, 2, 3].map(() => load({ ledger })));
      // In one order each: the tabs are in different rounds at a time.
      const orders = [ROUNDS, [...ROUNDS].reverse(), [...ROUNDS.slice(6), ...ROUNDS.slice(0, 6)]];
      const all = await Promise.all(
        tabs.map((tab, i) => Promise.all(orders[i]!.map(async (round) => [round, await tab.report(RECORD, { round })] as const))),
      );
      const seen = new Map<string, string>();
      for (const [round, report] of all.flat()) {
        if (!report) continue;
        expect(seen.get(round) ?? hex(report.toBytes())).toBe(hex(report.toBytes()));
        seen.set(round, hex(report.toBytes()));
      }
      const drawn = await drawnIn(ledger);
      expect(drawn.length).toBe(1);
      const places = tabs[0]!.panel!.read(drawn[0]);
      const blocks = [...seen.keys()].map((round) => tabs[0]!.panel!.block(ROUNDS.indexOf(round)));
      expect(new Set(blocks).size).toBe(blocks.length);
      for (const round of seen.keys()) {
        const place = ROUNDS.indexOf(round);
        expect(place).toBeGreaterThanOrEqual(places.find((drawn) => tabs[0]!.panel!.block(drawn) === tabs[0]!.panel!.block(place))!);
      }
      expect((await tabs[0]!.spent()).soFar).toBe(6 * seen.size);
    }
  });

  test("stores its rounds before it uses them, and draws none without entropy or durable storage", async () => {
    const ledger = fresh();
    const client = await load({ ledger });
    const broken = vi.spyOn(crypto, "getRandomValues").mockImplementation(() => {
      throw new Error("no entropy");
    });
    await expect(client.enrol(ROUNDS[0]!)).rejects.toMatchObject({ code: "entropy" });
    broken.mockRestore();
    const { transaction } = IDBDatabase.prototype;
    const lax = vi.spyOn(IDBDatabase.prototype, "transaction").mockImplementation(function (this: IDBDatabase, stores, mode) {
      return transaction.call(this, stores, mode); // an older browser, which does not know the option
    });
    await expect(client.enrol(ROUNDS[0]!)).rejects.toThrow("durably");
    lax.mockRestore();
    const full = vi.spyOn(IDBObjectStore.prototype, "add").mockImplementation(() => {
      throw new DOMException("no room", "QuotaExceededError");
    });
    await expect(client.report(RECORD, { round: ROUNDS[0]! })).rejects.toMatchObject({ code: "ledger" });
    full.mockRestore();
    expect(await drawnIn(ledger)).toEqual([]);
    expect((await client.spent()).soFar).toBe(0);
  });

  test("is refused where its drawn rounds were altered", async () => {
    const ledger = fresh();
    const client = await load({ ledger });
    await client.enrol(ROUNDS[0]!);
    await alter(ledger, "0,1,2");
    const round = ROUNDS[0]!;
    for (const work of [() => client.report(RECORD, { round }), () => client.spent(), () => client.statement, () => client.enrol(round)]) {
      await expect(work()).rejects.toMatchObject({ code: "ledger", message: expect.stringContaining("no device draws") });
    }
  });

  test("spends no more than its cap", async () => {
    const client = await load({ cap: 12 });
    const reports: unknown[] = [];
    for (const round of ROUNDS) reports.push(await client.report(RECORD, { round }).catch((error) => error.code));
    expect(reports.filter((report) => report && report !== "budget").length).toBe(2);
    expect(reports).toContain("budget");
    expect(await client.spent()).toEqual({ soFar: 12, planned: 18, lifetime: 12 });
  });

  test("joins nothing where rounds are not planned", async () => {
    const client = await Client.load(files("lattice"), { ledger: fresh() });
    expect(client.panel).toBeNull();
    await expect(client.enrol("1")).rejects.toMatchObject({ code: "data", message: expect.stringContaining("nothing to join") });
    expect(await client.spent()).toEqual({ soFar: 0, planned: 6, lifetime: 6 });
  });
});

test("one report a block whatever was asked before", async () => {
  const ledger = await Ledger.open(fresh());
  const made = Uint8Array.of(1);
  const block = ["b", "c", "d"];
  expect(await ledger.once("one", "a", 1, 9, () => made, ["a"])).toEqual(made);
  expect(await ledger.once("two", "b", 1, 9, () => made, block)).toEqual(made);
  expect(await ledger.once("one", "c", 1, 9, () => made, block)).toEqual(made);
  for (const round of ["b", "d"]) expect(await ledger.once("one", round, 1, 9, never, block)).toBeNull();
  expect(await ledger.once("one", "c", 1, 9, never, block)).toEqual(made);
  expect(await ledger.spent()).toBe(3);
});

test("members of a family have the same rounds, and one schedule", async () => {
  const family = (name: string): FamilyFiles => ({
    family: read(`${name}/family.json`),
    members: Object.fromEntries(["member0", "member1"].map((member) => [member, files(`${name}/${member}/client`)])),
  });
  await expect(readFamily(family("panels.apart"))).rejects.toMatchObject({ code: "release", message: expect.stringContaining("same rounds") });
  const client = await Client.load(family("panels.family"), { ledger: fresh() });
  expect(client.panel!.rounds).toEqual(ROUNDS);
  const reports = [];
  for (const round of ROUNDS) reports.push(await client.report(RECORD, { round }));
  expect(reports.filter((report) => report).length).toBe(3);
  expect(await client.spent()).toEqual({ soFar: 18, planned: 18, lifetime: 18 });
});

test("who chooses another ε is told what all reports cost together", async () => {
  const { record, said } = JSON.parse(text("panels.chosen/said.json"));
  const choices = Object.keys(said).map(Number).sort((one, other) => one - other);
  const name = (epsilon: number): string => (Number.isInteger(epsilon) ? String(epsilon) : epsilon.toPrecision(17));
  const family: FamilyFiles = {
    family: read("panels.chosen/family.json"),
    members: Object.fromEntries(choices.map((epsilon) => [name(epsilon), files(`panels.chosen/${name(epsilon)}/client`)])),
  };
  const ledger = fresh();
  const first = await Client.load(family, { ledger, epsilon: choices[0]! });
  for (const round of [ROUNDS[0]!, ROUNDS[3]!]) await first.report(record, { round });
  for (const epsilon of choices) {
    const client = await Client.load(family, { ledger, epsilon, cap: 100 });
    const { soFar, planned, lifetime } = await client.spent();
    expect([await client.statement, soFar, planned, lifetime]).toEqual(Object.entries(said).find(([key]) => Number(key) === epsilon)![1]);
  }
  expect(said[String(choices[1])][0]).toContain("except with probability δ"); // the first choice's: the second has none
  // One report of the smaller ε, and two of the larger one.
  expect(said[String(choices[1])][2]).toBeCloseTo(choices[0]! + 2 * choices[1]!, 5);
});

/** What a ledger holds of drawn rounds. */
const drawnIn = (ledger: string): Promise<string[]> => at(ledger, "readonly", (store) => store.getAll());

const alter = (ledger: string, places: unknown): Promise<unknown> =>
  at(ledger, "readwrite", (store) => {
    const key = store.getAllKeys();
    key.onsuccess = () => store.put(places, key.result[0]);
    return key;
  });

function at<T>(ledger: string, mode: IDBTransactionMode, ask: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(ledger);
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const transaction = request.result.transaction("drawn", mode);
      const asked = ask(transaction.objectStore("drawn"));
      transaction.oncomplete = () => (request.result.close(), resolve(asked.result));
    };
  });
}
