/** Records in, reports out; the ledger remembers, uploads repeat. */
import "fake-indexeddb/auto";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { Client, packBatch, Report, TaskveilError, upload } from "../src/index.js";
import { Ledger } from "../src/ledger.js";
import { hex } from "../src/wire.js";
import { devices, files } from "./files.js";

let number = 0;
const fresh = (): string => `ledger-${number++}`;
const load = (name = "lattice", options = {}): Promise<Client> => Client.load(files(name), { ledger: fresh(), cap: 1e6, ...options });

const RECORD = { a: 0.1, b: 0.2, c: 0.3, d: 0.4, e: 0.5 };
const never = (): never => {
  throw new Error("a second report was made");
};

describe("reports", () => {
  test("have one length and fresh ids", async () => {
    const client = await load();
    const reports = await Promise.all(Array.from({ length: 100 }, (_, round) => client.report(RECORD, { round })));
    expect(new Set(reports.map((r) => r.toBytes().length)).size).toBe(1);
    expect(new Set(reports.map((r) => hex(r.id))).size).toBe(100);
    expect(new Set(reports.map((r) => hex(r.payload))).size).toBeGreaterThan(5);
  });

  test("of a round are made once, whatever the record says later", async () => {
    const client = await load();
    const [first, again] = await Promise.all([client.report(RECORD), client.report([9, 9, 9, 9, 9])]);
    expect(hex(again.toBytes())).toBe(hex(first.toBytes()));
    expect(hex((await client.report(RECORD, { round: 1 })).id)).not.toBe(hex(first.id));
  });

  test.each([
    [[1, 2, 3], "5 numbers"],
    ["abcde", "numbers"],
    [null, "numbers"],
    [7, "numbers"],
    [["1", 2, 3, 4, 5], "numbers only"],
    [[1, 2, 3, 4, 5n], "numbers only"],
    [[1, 2, 3, 4, null], "missing"],
    [[1, 2, 3, 4, undefined], "missing"],
    [{ ...RECORD, f: 1 }, "extra [f]"],
    [{ a: 1 }, "missing [b,c,d,e]"],
    [{ ...RECORD, e: "high" }, "numbers only"],
    [Object.create(RECORD), "missing [a"],
  ])("of the wrong form are refused and cost nothing: %o", async (record, says) => {
    const client = await load();
    await expect(client.report(record as never)).rejects.toThrow(says as string);
    await expect(client.report(record as never)).rejects.toMatchObject({ code: "data" });
    expect(await client.spent()).toBe(0);
  });

  test.each(devices())("are never refused for their values: %s", async (name) => {
    const client = await load(name);
    const width = client.columns!.length;
    for (const [round, value] of [NaN, Infinity, -Infinity, 1e308, -1e308, 5e-324, -0, 0].entries()) {
      await client.report(Array(width).fill(value), { round });
    }
  });

  test("take less than 2 ms", async () => {
    const client = await load("laplace_diamond");
    const record = Array(30).fill(0.5);
    await client.report(record, { round: "warm" });
    const start = performance.now();
    for (let round = 0; round < 50; round++) await client.report(record, { round });
    const each = (performance.now() - start) / 50;
    console.log(`one report with its (simulated) ledger: ${each.toFixed(3)} ms`);
    expect(each).toBeLessThan(2);
  });

  test("survive bytes and back", async () => {
    const report = await (await load()).report(RECORD);
    expect(Report.fromBytes(report.toBytes())).toEqual(report);
    for (const bad of [new Uint8Array(3), new Uint8Array(60), packBatch([report])]) {
      expect(() => Report.fromBytes(bad)).toThrow(TaskveilError);
    }
  });

  test("have odds that add up to one, with a ratio of e^ε", async () => {
    const client = await load("codebook");
    const odds = client.odds(Array(30).fill(0))!;
    expect(odds.length).toBe(64);
    expect(odds.reduce((a, b) => a + b)).toBeCloseTo(1, 12);
    expect(Math.log(Math.max(...odds) / Math.min(...odds))).toBeCloseTo(client.epsilon, 9);
    expect((await load("laplace_box")).odds(RECORD)).toBeNull();
  });
});

test("a misspelt option is refused, not forgotten", () =>
  expect(load("lattice", { verify_key: new Uint8Array(32) })).rejects.toThrow("unknown options [verify_key]"));

describe("the ledger", () => {
  test("keeps the cap across releases and rounds", async () => {
    const ledger = await Ledger.open(fresh());
    const made = Uint8Array.of(1);
    await ledger.once("one", "0", 1, 2.5, () => made);
    await ledger.once("two", "0", 1, 2.5, () => made);
    await expect(ledger.once("two", "1", 1, 2.5, never)).rejects.toMatchObject({ code: "budget" });
    expect(await ledger.once("one", "0", 1, 0.1, never)).toEqual(made);
    expect(await ledger.spent()).toBe(2);
    await expect(ledger.once("two", "1", NaN, 2.5, never)).rejects.toMatchObject({ code: "budget" });
  });

  test("allows one report when no cap is given", async () => {
    const client = await load("lattice", { cap: undefined });
    const first = await client.report(RECORD);
    await expect(client.report(RECORD, { round: 1 })).rejects.toMatchObject({ code: "budget" });
    expect(await client.report(RECORD)).toEqual(first);
    for (const cap of [0, -1, NaN, Infinity]) await expect(load("lattice", { cap })).rejects.toMatchObject({ code: "budget" });
  });

  test("is shared by all clients of a page and survives reopening", async () => {
    const ledger = fresh();
    const first = await (await load("lattice", { ledger })).report(RECORD);
    expect(await (await load("lattice", { ledger })).report(RECORD)).toEqual(first);
  });

  test("records nothing when nothing was made", async () => {
    const ledger = await Ledger.open(fresh());
    await expect(ledger.once("one", "0", 1, 1, never)).rejects.toMatchObject({ code: "ledger" });
    expect(await ledger.spent()).toBe(0);
  });

  test("that holds no budgets is not believed", async () => {
    for (const epsilon of ["1", -5]) {
      const ledger = await Ledger.open(fresh());
      const make = (): Uint8Array => Uint8Array.of(1);
      await ledger.once("one", "0", epsilon as never, 1, make);
      await expect(ledger.once("two", "0", 1, 99, make)).rejects.toMatchObject({ code: "ledger" });
    }
  });

  test("returns nothing where the browser does not store durably", async () => {
    const ledger = await Ledger.open(fresh());
    const { transaction } = IDBDatabase.prototype;
    const lax = vi.spyOn(IDBDatabase.prototype, "transaction").mockImplementation(function (this: IDBDatabase, stores, mode) {
      return transaction.call(this, stores, mode); // an older browser, which does not know the option
    });
    await expect(ledger.once("one", "0", 1, 1, never)).rejects.toThrow("durably");
    lax.mockRestore();
    expect(await ledger.spent()).toBe(0);
  });

  test.each([true, false])("says whether the browser will keep it: %s", async (kept) => {
    vi.stubGlobal("navigator", { storage: { persist: async () => kept } });
    expect((await load()).persistent).toBe(kept);
    vi.stubGlobal("navigator", {});
    expect((await load()).persistent).toBe(false);
    vi.unstubAllGlobals();
  });

  test("returns nothing when it cannot write", async () => {
    const ledger = await Ledger.open(fresh());
    ledger.close();
    await expect(ledger.once("one", "0", 1, 1, never)).rejects.toMatchObject({ code: "ledger" });
    const full = await Ledger.open(fresh());
    const add = vi.spyOn(IDBObjectStore.prototype, "add").mockImplementation(() => {
      throw new DOMException("no room", "QuotaExceededError");
    });
    await expect(full.once("one", "0", 1, 1, () => Uint8Array.of(1))).rejects.toMatchObject({ code: "ledger" });
    add.mockRestore();
    expect(await full.spent()).toBe(0);
  });

  test("no entropy, no report", async () => {
    const client = await load();
    const broken = vi.spyOn(crypto, "getRandomValues").mockImplementation(() => {
      throw new Error("no entropy");
    });
    await expect(client.report(RECORD)).rejects.toMatchObject({ code: "entropy" });
    broken.mockRestore();
    expect(await client.spent()).toBe(0);
  });
});

describe("uploads", () => {
  const reports = Array.from({ length: 10 }, (_, i) => new Report(new Uint8Array(32), new Uint8Array(16).fill(i), Uint8Array.of(i)));
  let server: Server;
  let url: string;
  let script: (number | "drop" | "delay")[];
  let bodies: string[];

  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      bodies.push(Buffer.concat(parts).toString("hex"));
      const step = script.shift() ?? 202;
      if (step === "drop") return void request.socket.destroy();
      if (step === "delay") return;
      response.writeHead(step, { "Content-Type": "application/problem+json", Location: "/elsewhere" });
      response.end(step === 202 ? "" : JSON.stringify({ title: "No", detail: "this release was withdrawn" }));
    });
  };

  beforeEach(async () => {
    [script, bodies] = [[], []];
    server = createServer(answer);
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/reports`;
  });

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  test("go in batches", async () => {
    expect(await upload(reports, url, { batch: 4 })).toBe(10);
    expect(bodies.join()).toBe([0, 4, 8].map((at) => hex(packBatch(reports.slice(at, at + 4)))).join());
  });

  test.each(["drop", "delay", 429, 500, 503] as const)("repeat the same bytes after %s", async (trouble) => {
    script = [trouble, trouble];
    expect(await upload(reports, url, { pause: 5, timeout: 200 })).toBe(10);
    expect(bodies.length).toBe(3);
    expect(new Set(bodies).size).toBe(1);
  });

  test.each([400, 403, 404, 409, 413, 422])("stop at %i with the server's reason", async (status) => {
    script = [202, status];
    const failed = upload(reports, url, { batch: 4, pause: 5 });
    await expect(failed).rejects.toThrow("this release was withdrawn");
    await expect(failed).rejects.toMatchObject({ code: "upload", status, sent: 4 });
    expect(bodies.length).toBe(2);
  });

  test("do not follow redirects and give up in the end", async () => {
    script = [302];
    await expect(upload(reports, url)).rejects.toMatchObject({ code: "upload" });
    script = [503, 503, 503];
    await expect(upload(reports, url, { attempts: 3, pause: 5 })).rejects.toThrow("after 3 attempts");
    expect(bodies.length).toBe(4);
  });

  test.each(["http://example.org/v1/reports", "ftp://localhost/x", "file:///etc/passwd"])("are encrypted: %s", async (bad) => {
    await expect(upload(reports, bad)).rejects.toThrow("https only");
  });
});
