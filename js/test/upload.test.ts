/** Reports arrive as they were made, or an error says why not and how many did. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { packBatch, Report, upload } from "../src/index.js";
import { hex } from "../src/wire.js";

const told = (accepted: number, duplicate: number, ...rejected: [number, string][]): object => ({
  ...{ accepted, duplicate },
  rejected: rejected.map(([place, reason]) => ({ place, id: "00".repeat(16), reason })),
});

describe("uploads", () => {
  const reports = Array.from(
    { length: 10 },
    (_, i) => new Report(new Uint8Array(32), new Uint8Array(16).fill(i), Uint8Array.of(i)),
  );
  let server: Server;
  let url: string;
  let script: (number | "drop" | "delay" | "cut" | "stall" | "quote" | object)[];
  let bodies: string[];
  let tokens: (string | undefined)[];

  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => parts.push(part));
    request.on("end", () => {
      const all = Buffer.concat(parts);
      bodies.push(all.toString("hex"));
      tokens.push(request.headers.authorization);
      const step = script.shift() ?? 202;
      if (step === "drop") return void request.socket.destroy();
      if (step === "delay") return;
      if (step === "cut" || step === "stall") {
        response.writeHead(400, { "Content-Length": 1000 });
        response.write('{"title": "half of', () => step === "cut" && response.destroy());
        return;
      }
      if (step === "quote") return void response.writeHead(403).end(JSON.stringify({ title: `not ${tokens.at(-1)}` }));
      if (step instanceof Buffer) return void response.writeHead(200).end(step);
      if (typeof step === "object") return void response.writeHead(200).end(JSON.stringify(step));
      response.writeHead(step, { "Content-Type": "application/problem+json", Location: "/elsewhere" });
      const accepted = told(all.readUInt32LE(38), 0);
      response.end(JSON.stringify(step === 202 ? accepted : { title: "No", detail: "this release was withdrawn" }));
    });
  };

  beforeEach(async () => {
    [script, bodies, tokens] = [[], [], []];
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

  test.each(["drop", "delay", 408, 429, 500, 503] as const)("repeat the same bytes after %s", async (trouble) => {
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

  test.each(["cut", "stall"] as const)("end with the status when the reason is %s midway", async (trouble) => {
    script = [trouble];
    await expect(upload(reports, url, { timeout: 200 })).rejects.toMatchObject({ code: "upload", status: 400, sent: 0 });
    expect(bodies.length).toBe(1);
  });

  test("of several releases say how many were accepted, from the first on", async () => {
    const other = (id: number, size = 1): Report =>
      new Report(new Uint8Array(32).fill(9), new Uint8Array(16).fill(id), new Uint8Array(size));
    const mixed = [...reports.slice(0, 3), other(1), other(2), other(3), other(4, 2), ...reports.slice(3, 5)];
    expect(await upload(mixed, url, { batch: 2 })).toBe(9);
    const parts = [
      [0, 2],
      [2, 3],
      [3, 5],
      [5, 6],
      [6, 7],
      [7, 9],
    ].map(([from, to]) => hex(packBatch(mixed.slice(from, to))));
    expect(bodies).toEqual(parts);
    script = [202, 202, 202, 403];
    await expect(upload(mixed, url, { batch: 2 })).rejects.toMatchObject({ code: "upload", status: 403, sent: 5 });
  });

  test("of 70,000 reports fit in one batch", async () => {
    const many = Array.from(
      { length: 70_000 },
      (_, i) => new Report(new Uint8Array(32), new Uint8Array(16).fill(i % 251), Uint8Array.of(i % 256)),
    );
    expect(packBatch(many).length).toBe(42 + 70_000 * 17);
    await expect(upload(many, url, { batch: 70_000 })).rejects.toMatchObject({ code: "data" });
    expect(bodies.length).toBe(0); // more than a collector takes at once
    expect(await upload(many, url, { batch: 20_000 })).toBe(70_000);
    expect(bodies.map((body) => body.length / 2 - 42)).toEqual([20_000, 20_000, 20_000, 10_000].map((count) => 17 * count));
  });

  test("stop when they are told to, and say how many were accepted", async () => {
    const controller = new AbortController();
    script = [202, "delay"];
    setTimeout(() => controller.abort("enough"), 100);
    const failed = upload(reports, url, { batch: 4, signal: controller.signal });
    await expect(failed).rejects.toMatchObject({ name: "TaskveilError", code: "aborted", sent: 4, cause: "enough" });
    await expect(upload(reports, url, { signal: controller.signal })).rejects.toMatchObject({ code: "aborted", sent: 0 });
    expect(bodies.length).toBe(2);
  });

  test("stop while they wait", async () => {
    const controller = new AbortController();
    script = [503];
    setTimeout(() => controller.abort(), 100);
    const start = performance.now();
    await expect(upload(reports, url, { pause: 30_000, signal: controller.signal })).rejects.toMatchObject({ code: "aborted" });
    expect(performance.now() - start).toBeLessThan(5_000);
  });

  test.each([
    { batch: -1 },
    { batch: 0 },
    { batch: 1.5 },
    { batch: 2 ** 20 + 1 },
    { attempts: 0 },
    { attempts: "6" },
    { timeout: 0 },
    { timeout: NaN },
    { timeout: 2 ** 31 },
    { pause: -1 },
    { signal: true },
    { token: "" },
    { token: "two words" },
    { token: "line\r\nX-Other: 1" },
    { token: 5 },
    { retries: 3 },
    { Timeout: 3 },
  ])("take no option that means nothing: %o", async (options) => {
    await expect(upload(reports, url, options as never)).rejects.toMatchObject({ name: "TaskveilError", code: "data" });
    expect(bodies.length).toBe(0);
  });

  test.each([null, undefined, reports[0], "abc", [1], [null], [{}], [new Uint8Array(53)]])(
    "take lists of reports only: %o",
    async (bad) => {
      await expect(upload(bad as never, url)).rejects.toMatchObject({ name: "TaskveilError", code: "data" });
    },
  );

  test.each(["", "no address", "https://name:secret@collector.example/v1/reports", 7])(
    "take full addresses only: %s",
    async (bad) => {
      await expect(upload(reports, bad as never)).rejects.toMatchObject({ name: "TaskveilError", code: "upload" });
    },
  );

  test("say that a redirect is not followed", async () => {
    script = [307];
    await expect(upload(reports, url)).rejects.toThrow("final address");
    expect(bodies.length).toBe(1);
  });

  const token = "tv_0123abcd_secret-word";

  test("carry their token with every attempt", async () => {
    script = [503, told(4, 0), told(1, 3), told(2, 0)];
    expect(await upload(reports, url, { token, batch: 4, pause: 5 })).toBe(10);
    expect(tokens).toEqual(Array(4).fill(`Bearer ${token}`));
    await upload(reports, url);
    expect(tokens.at(-1)).toBeUndefined();
  });

  test.each([401, 503, "drop" as const, "quote" as const, told(9, 0, [0, `not ${token}`])])("never show their token: %o", async (trouble) => {
    script = [trouble];
    const error = await upload(reports, url, { token, attempts: 1 }).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "upload" });
    expect(`${String(error)} ${JSON.stringify(error)}`).not.toContain("secret");
  });

  test("that are rejected cost the others nothing", async () => {
    script = [told(3, 0, [2, "other bytes are stored under this id."]), told(2, 2), told(0, 1, [1, "no."])];
    const failed = upload(reports, url, { batch: 4 });
    await expect(failed).rejects.toThrow("rejected 2 of 10 reports. The first reason: other bytes are stored under this id.");
    const rejected = [
      { place: 2, reason: "other bytes are stored under this id." },
      { place: 9, reason: "no." },
    ];
    await expect(failed).rejects.toMatchObject({ code: "upload", sent: 8, rejected });
    expect(bodies.length).toBe(3);
    script = [told(3, 0, [2, "no."]), 403];
    await expect(upload(reports, url, { batch: 4 })).rejects.toMatchObject({ status: 403, sent: 3, rejected: [{ place: 2 }] });
  });

  test.each<object>([
    Buffer.from(""),
    Buffer.from("<html><body>Please log in</body></html>"),
    [[1]],
    { rejected: 3 },
    { rejected: [5, {}, null] },
    told(0, 0),
    told(9, 0),
    told(10, 1),
    told(-1, 11),
    { accepted: 10, rejected: [] },
    { accepted: "10", duplicate: 0, rejected: [] },
    { accepted: true, duplicate: 9, rejected: [] },
    told(8, 0, [-1, "no"], [10, "no"]),
    told(9, 0, [0.5, "no"]),
    told(9, 0, [10, "no"]),
    told(8, 0, [3, "no"], [3, "no"]),
    told(9, 0, [3, "no"], [3, "no"]),
    { accepted: 10, duplicate: 0, rejected: {} },
    { accepted: 10, duplicate: 0, rejected: "" },
    Buffer.from('{"accepted": 10, "duplicate": 0, "rejected": [], "more": NaN}'),
    { accepted: 9, duplicate: 0, rejected: [{ place: "1" }] },
    { accepted: 9, duplicate: 0, rejected: [null] },
  ])("are sent again until an answer of success accounts for all of them: %o", async (foreign) => {
    script = [foreign, foreign];
    expect(await upload(reports, url, { pause: 1 })).toBe(10);
    expect(bodies.length).toBe(3);
    expect(new Set(bodies).size).toBe(1);
    script = [foreign, foreign];
    const failed = upload(reports, url, { pause: 1, attempts: 2 });
    await expect(failed).rejects.toMatchObject({ code: "upload", sent: 0, rejected: [] });
    await expect(failed).rejects.toThrow("Send the same reports again later");
  });

  test.each(["0", "place", "rejected", "e"])("hear what was rejected whatever their token is: %s", async (word) => {
    script = [told(8, 0, [0, `no ${word}`], [7, "no"])];
    const failed = upload(reports, url, { token: word });
    await expect(failed).rejects.toMatchObject({ code: "upload", sent: 8, rejected: [{ place: 0, reason: "no …" }, { place: 7 }] });
  });

  test("read whole numbers however they are written, and reasons that are text", async () => {
    script = [Buffer.from('{"accepted": 8.0, "duplicate": 1e0, "rejected": [{"place": 3.0, "reason": {"toString": 1}}]}')];
    await expect(upload(reports, url)).rejects.toMatchObject({ sent: 9, rejected: [{ place: 3, reason: "none was given." }] });
  });

  test("cut long reasons, but not in the middle of their token", async () => {
    script = [told(9, 0, [0, "x".repeat(990) + token + "y".repeat(90)])];
    const reason = "x".repeat(990) + "…" + "y".repeat(9);
    await expect(upload(reports, url, { token })).rejects.toMatchObject({ rejected: [{ place: 0, reason }] });
    const broken = globalThis.fetch;
    globalThis.fetch = () => Promise.reject(new TypeError(`Bearer ${token}`));
    const error = await upload(reports, url, { token, attempts: 1 }).catch((caught: unknown) => caught);
    globalThis.fetch = broken;
    expect(String(error)).toContain("Bearer …");
  });

  test("let no reason steer a terminal", async () => {
    script = [told(9, 0, [2, "no \u001b[2J\u009b\u202e\u2028\ud800 ü"])];
    const reason = "no \ufffd[2J\ufffd\ufffd\ufffd\ufffd ü";
    await expect(upload(reports, url)).rejects.toMatchObject({ rejected: [{ place: 2, reason }] });
  });

  test("of nothing are nothing", async () => {
    expect(await upload([], url)).toBe(0);
    expect(bodies.length).toBe(0);
  });
});
