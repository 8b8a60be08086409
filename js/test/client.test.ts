/** Records in, reports out. */
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { draw, record } from "../src/client.js";
import { Client, packBatch, Report, TaskveilError, type Values } from "../src/index.js";
import type { Stage } from "../src/mechanisms.js";
import { roundedUp, together } from "../src/promise.js";
import { readDevice } from "../src/release.js";
import { hex } from "../src/wire.js";
import { fresh, load, made, RECORD } from "./clients.js";
import { cpuTime } from "./cpu.js";
import { devices, files, replay } from "./files.js";

describe("reports", () => {
  test("have one length and fresh ids", async () => {
    const client = await load();
    const reports = await Promise.all(Array.from({ length: 100 }, (_, round) => made(client.report(RECORD, { round }))));
    expect(new Set(reports.map((r) => r.toBytes().length)).size).toBe(1);
    expect(new Set(reports.map((r) => hex(r.id))).size).toBe(100);
    expect(new Set(reports.map((r) => hex(r.payload))).size).toBeGreaterThan(5);
  });

  test("of a round are made once, whatever the record says later", async () => {
    const client = await load();
    const [first, again] = await Promise.all([made(client.report(RECORD)), made(client.report([9, 9, 9, 9, 9]))]);
    expect(hex(again.toBytes())).toBe(hex(first.toBytes()));
    expect(hex((await made(client.report(RECORD, { round: 1 }))).id)).not.toBe(hex(first.id));
  });

  test.each([
    [[1, 2, 3], "5 numbers"],
    ["abcde", "numbers"],
    [null, "numbers"],
    [7, "numbers"],
    [["1", 2, 3, 4, 5], "numbers only"],
    [{ ...RECORD, f: 1 }, "extra [f]"],
    [{ a: 1 }, "missing [b,c,d,e]"],
    [{ ...RECORD, e: "high" }, "numbers only"],
    [Object.create(RECORD), "missing [a"],
  ])("of the wrong form are refused and cost nothing: %o", async (record, says) => {
    const client = await load();
    await expect(client.report(record as never)).rejects.toThrow(says as string);
    await expect(client.report(record as never)).rejects.toMatchObject({ code: "data" });
    expect((await client.spent()).soFar).toBe(0);
  });

  test("take whole numbers of any size, true and false as Python does", async () => {
    const device = await readDevice(files("lattice"));
    expect(record(device, [true, false, 5n, 10n ** 30n, -(10n ** 400n)])).toEqual([1, 0, 5, 1e30, -Infinity]);
    expect(record(device, { ...RECORD, e: true })).toEqual([0.1, 0.2, 0.3, 0.4, 1]);
  });

  test.each<[string, Values]>([
    ["null in a list", [1, 2, 3, 4, null]],
    ["undefined in a list", [1, 2, 3, 4, undefined]],
    ["a hole in a list", [1, 2, 3, 4, ,]], // eslint-disable-line no-sparse-arrays
    ["null by name", { ...RECORD, e: null }],
    ["undefined by name", { ...RECORD, e: undefined }],
  ])("are made of records with missing values, which are NaN: %s", async (_, values) => {
    const device = await readDevice(files("lattice"));
    const numbers = record(device, values);
    expect(numbers.map(Number.isNaN)).toEqual([false, false, false, false, true]);
    const bits = new Uint8Array(256).fill(7);
    const withNaN = draw(device, [...numbers.slice(0, 4), NaN], replay(bits));
    expect(draw(device, numbers, replay(bits))).toEqual(withNaN);
    const client = await load();
    await client.report(values);
    expect((await client.spent()).soFar).toBe(Number(roundedUp(client.epsilon)));
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
    const start = cpuTime();
    for (let round = 0; round < 50; round++) await client.report(record, { round });
    const each = (cpuTime() - start) / 50;
    console.log(`one report with its (simulated) ledger: ${each.toFixed(3)} ms`);
    expect(each).toBeLessThan(2);
  });

  test("survive bytes and back", async () => {
    const report = await made((await load()).report(RECORD));
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

  test("have odds whatever ε is", async () => {
    const client = await load("codebook");
    const [stage] = (client as unknown as { device: { mechanism: { stages: Stage[] } } }).device.mechanism.stages;
    const { size, favoured } = stage!.response;
    const a = 2n ** 1082n; // ε = 750
    stage!.response = { ...stage!.response, a, b: 1n, total: BigInt(favoured) * a + size - BigInt(favoured) };
    const odds = client.odds(Array(30).fill(0))!;
    expect(odds.filter((chance) => chance === 1 / favoured).length).toBe(favoured);
    expect(odds.filter((chance) => chance === 0).length).toBe(64 - favoured);
  });
});

test("a misspelt option is refused, not forgotten", () =>
  expect(load("lattice", { verify_key: new Uint8Array(32) } as never)).rejects.toThrow("unknown options [verify_key]"));

describe("rounds", () => {
  const names = [NaN, null, {}, [], 1.5, Infinity, 2 ** 53, true, 3n, Symbol("s")];
  const texts = ["", "x".repeat(1001), "\u03b5".repeat(501), "half a character: \ud83d"];
  test.each([...names, ...texts])(
    "that are no names are refused: %o",
    async (round) => {
      const client = await load();
      await expect(client.report(RECORD, { round: round as never })).rejects.toMatchObject({ code: "data" });
      await expect(client.recorded(round as never)).rejects.toMatchObject({ code: "data" });
      expect((await client.spent()).soFar).toBe(0);
    },
  );

  test.each([{ rounds: 1 }, { round: "1", cap: 3 }, "7", 7, null, ["round"]])(
    "do not come from misspelt options: %o",
    async (options) => {
      const client = await load();
      await expect(client.report(RECORD, options as never)).rejects.toMatchObject({ code: "data" });
      expect((await client.spent()).soFar).toBe(0);
    },
  );

  test('are texts or whole numbers, and 1 is "1"', async () => {
    const client = await load();
    const one = await client.report(RECORD, { round: 1 });
    expect(await client.report(RECORD, { round: "1" })).toEqual(one);
    expect(await client.report(RECORD, { round: -0 })).toEqual(await client.report(RECORD));
    await client.report(RECORD, { round: "2025, week 7" });
    await client.report(RECORD, { round: -3 });
    for (const round of ["x".repeat(1000), "\u03b5".repeat(500), "\ufeff\ud83d\ude00"]) {
      expect(await client.report(RECORD, { round })).toEqual(await client.recorded(round));
    }
    expect((await client.spent()).soFar).toBeCloseTo(7 * client.epsilon, 9);
  });

  test("that were recorded can be fetched without the record", async () => {
    const client = await load();
    expect(await client.recorded()).toBeNull();
    expect(await client.recorded("week 7")).toBeNull();
    const report = await client.report(RECORD, { round: "week 7" });
    expect(await client.recorded("week 7")).toEqual(report);
    expect(await client.recorded("week 8")).toBeNull();
    expect((await client.spent()).soFar).toBe(Number(roundedUp(client.epsilon)));
  });
});

test("the statement follows the ledger, also when another tab reports", async () => {
  const ledger = fresh();
  const [client, tab] = [await load("lattice", { ledger, cap: 60 }), await load("lattice", { ledger, cap: 60 })];
  const alone = (await readDevice(files("lattice"))).statement;
  expect(await client.statement).toBe(`${alone} ${together(0, 60)}`);
  await client.report(RECORD);
  await client.report(RECORD); // the same round
  await tab.report(RECORD, { round: 1 });
  expect(await client.statement).toBe(`${alone} ${together(2 * client.epsilon, 60)}`);
  expect(await client.statement).toContain(`so far (ε = ${(await client.spent()).soFar})`);
});

describe("bytes from Node", () => {
  const pooled = (raw: Uint8Array): Buffer => Buffer.from(raw); // a view of a pool larger than itself

  test("are taken as they are", async () => {
    const { manifest, weights } = files("lattice");
    const client = await Client.load({ manifest: pooled(manifest), weights: pooled(weights) }, { ledger: fresh() });
    const report = await made(client.report(RECORD));
    expect(Report.fromBytes(pooled(report.toBytes()))).toEqual(report);
    expect(new Report(pooled(report.release), pooled(report.id), pooled(report.payload))).toEqual(report);
  });

  test("that change later change no report", async () => {
    const raw = (await made((await load()).report(RECORD))).toBytes();
    const report = Report.fromBytes(raw);
    const before = hex(report.toBytes());
    raw.fill(0);
    expect(hex(report.toBytes())).toBe(before);
  });

  test.each([undefined, null, "x", {}, [1, 2], new Uint16Array(8)])("and anything else are told apart: %o", async (bad) => {
    const { weights } = files("lattice");
    await expect(Client.load({ manifest: bad as never, weights })).rejects.toMatchObject({ code: "release" });
    expect(() => Report.fromBytes(bad as never)).toThrow(TaskveilError);
    expect(() => new Report(bad as never, new Uint8Array(16), new Uint8Array(1))).toThrow(TaskveilError);
  });
});

describe("fetching a release", () => {
  let server: Server;
  let url: string;
  let answer: (path: string, response: ServerResponse) => void;

  beforeEach(async () => {
    server = createServer((request, response) => answer(request.url!, response));
    await new Promise<void>((ready) => server.listen(0, "127.0.0.1", ready));
    url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/client`;
  });

  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const good = (path: string): Uint8Array => files("lattice")[path.includes("manifest") ? "manifest" : "weights"];

  test("works, also when it is slow but alive", async () => {
    answer = (path, response) => {
      const raw = good(path);
      response.writeHead(200);
      const parts = 12; // 2.2 s in all, more than the time limit, which a busy machine does not reach between two parts
      const send = (part: number): void => {
        if (part === parts) return void response.end();
        response.write(raw.subarray(Math.floor((part * raw.length) / parts), Math.floor(((part + 1) * raw.length) / parts)));
        setTimeout(send, 200, part + 1);
      };
      send(0);
    };
    const client = await Client.load(url, { ledger: fresh(), timeout: 2000 });
    expect(client.epsilon).toBeCloseTo(6, 9);
  });

  test("says that a body was cut midway", async () => {
    answer = (path, response) => {
      response.writeHead(200, { "Content-Length": good(path).length });
      response.write(good(path).subarray(0, 100), () => response.destroy());
    };
    await expect(Client.load(url)).rejects.toMatchObject({ name: "TaskveilError", code: "release" });
  });

  test.each(["before", "after"])("ends when the server stalls %s the first bytes", async (when) => {
    answer = (path, response) => {
      if (when === "before") return;
      response.writeHead(200);
      response.write(good(path).subarray(0, 100));
    };
    await expect(Client.load(url, { timeout: 100 })).rejects.toMatchObject({ code: "release" });
  });

  test("stops when it is told to", async () => {
    answer = () => {};
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 50);
    await expect(Client.load(url, { signal: controller.signal })).rejects.toMatchObject({ code: "aborted" });
    await expect(Client.load(url, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: "aborted" });
  });

  test.each([{ timeout: 0 }, { timeout: "9" }, { timeout: 2 ** 31 }, { signal: {} }, { ledger: 7 }, { cap: "3" }])(
    "takes no senseless options: %o",
    async (options) => {
      answer = (path, response) => void response.end(good(path));
      await expect(Client.load(url, options as never)).rejects.toMatchObject({ name: "TaskveilError" });
    },
  );
});
