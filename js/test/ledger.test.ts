/** The ledger remembers: one report a round, a cap that holds, and nothing that cannot be believed. */
import { describe, expect, test, vi } from "vitest";
import { Ledger } from "../src/ledger.js";
import { fresh, load, never, RECORD } from "./clients.js";

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

  test.each(["1", -5, NaN, Infinity, null])("records no cost that is none: %o", async (epsilon) => {
    const ledger = await Ledger.open(fresh());
    await expect(ledger.once("one", "0", epsilon as never, 1, never)).rejects.toMatchObject({ code: "budget" });
    expect(await ledger.spent()).toBe(0);
  });

  test.each(["1", -5, NaN, Infinity, undefined, null, {}])(
    "whose total is %o is not believed, and says what to do",
    async (total) => {
      const name = fresh();
      const ledger = await Ledger.open(name);
      const made = Uint8Array.of(1);
      await ledger.once("one", "0", 1, 9, () => made);
      await tamper(name, "totals", (store) => (total === undefined ? store.delete("spent") : store.put(total, "spent")));
      await expect(ledger.spent()).rejects.toMatchObject({
        name: "TaskveilError",
        code: "ledger",
        message: expect.stringContaining("Clear this site's data"),
      });
      await expect(ledger.once("two", "0", 1, 99, never)).rejects.toMatchObject({ code: "ledger" });
      expect(await ledger.once("one", "0", 1, 9, never)).toEqual(made); // what was made can still be sent again
    },
  );

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
    expect((await client.spent()).soFar).toBe(0);
  });
});

test.each([
  [[], 0],
  [[2, 2, 2], 6],
  [[1 / 3, 1 / 3], 0.666667],
  [[2.0000004], 2.00001],
  [[0.1, 0.1, 0.1], 0.300001], // the doubles are a little more than their names say
  [[1234567.5, 0.25], 1234570],
  [[2.0000000000000004, 2, 2], 6.00001], // the nearest double of the sum is 6
])("what %j cost together is told in six digits, rounded up as in Python: %d", async (costs, told) => {
  const ledger = fresh();
  const client = await load("lattice", { ledger });
  const open = await Ledger.open(ledger);
  for (const [i, cost] of costs.entries()) await open.once("one", `${i}`, cost, 1e9, () => Uint8Array.of(1));
  expect((await client.spent()).soFar).toBe(told);
});

describe("a ledger of the first version", () => {
  test("is taken over with what was spent", async () => {
    const name = fresh();
    await firstVersion(
      name,
      Array.from({ length: 300 }, (_, i) => row(i, 0.1)),
    );
    const ledger = await Ledger.open(name);
    expect(await ledger.spent()).toBeCloseTo(30, 9);
    expect(await ledger.spent()).toBeGreaterThanOrEqual(30);
    expect(await ledger.once("one", "7", 0.1, 30, never)).toEqual(Uint8Array.of(7));
    await expect(ledger.once("one", "new", 0.1, 30, never)).rejects.toMatchObject({ code: "budget" });
    await ledger.once("one", "new", 0.1, 30.1, () => Uint8Array.of(1));
    ledger.close();
    expect(await (await Ledger.open(name)).spent()).toBeCloseTo(30.1, 9);
  });

  test.each(["1", -5, NaN, null, undefined])("is refused when it holds a cost of %o", async (epsilon) => {
    const name = fresh();
    await firstVersion(name, [row(0, 1), row(1, epsilon), row(2, 1)]);
    for (let again = 0; again < 2; again++) {
      await expect(load("lattice", { ledger: name })).rejects.toMatchObject({
        code: "ledger",
        message: expect.stringContaining("Clear this site's data"),
      });
    }
  });

  test("that another tab holds open is not waited for", async () => {
    const name = fresh();
    const held = await firstVersion(name, [row(0, 1)], false);
    await expect(Ledger.open(name)).rejects.toMatchObject({ code: "ledger", message: expect.stringContaining("another tab") });
    held!.close();
    await new Promise((later) => setTimeout(later, 20));
    expect(await (await Ledger.open(name)).spent()).toBe(1);
  });
});

describe("beside other tabs", () => {
  test("a newer version is not blocked, and the older one says to load again", async () => {
    const name = fresh();
    const client = await load("lattice", { ledger: name });
    await new Promise<void>((done, fail) => {
      const request = indexedDB.open(name, 4);
      request.onsuccess = () => (request.result.close(), done());
      request.onblocked = () => fail(new Error("blocked"));
    });
    await expect(client.report(RECORD)).rejects.toMatchObject({
      code: "ledger",
      message: expect.stringContaining("load the page again"),
    });
    await expect(client.spent()).rejects.toMatchObject({ code: "ledger" });
    await expect(load("lattice", { ledger: name })).rejects.toMatchObject({
      code: "ledger",
      message: expect.stringContaining("newer version"),
    });
  });

  test("a closed client makes no report", async () => {
    const client = await load();
    client.close();
    await expect(client.report(RECORD)).rejects.toMatchObject({ code: "ledger" });
  });

  test("a question about storage that nobody answers holds nothing up", async () => {
    vi.stubGlobal("navigator", { storage: { persist: () => new Promise(() => {}) } });
    const client = await load();
    await client.report(RECORD);
    expect(client.persistent).toBe(false);
    vi.unstubAllGlobals();
  });

  test("the answer is noted when it comes", async () => {
    let answer = (_: boolean): void => {};
    vi.stubGlobal("navigator", { storage: { persist: () => new Promise<boolean>((resolve) => (answer = resolve)) } });
    const client = await load();
    expect(client.persistent).toBe(false);
    answer(true);
    await new Promise((later) => setTimeout(later));
    expect(client.persistent).toBe(true);
    vi.unstubAllGlobals();
  });
});

test("a report reads two entries of the ledger, however many there are", async () => {
  const all = vi.spyOn(IDBObjectStore.prototype, "getAll");
  const get = vi.spyOn(IDBObjectStore.prototype, "get");
  const client = await load();
  all.mockClear();
  get.mockClear();
  for (let round = 0; round < 20; round++) await client.report(RECORD, { round });
  await client.spent();
  expect(all).not.toHaveBeenCalled();
  expect(get).toHaveBeenCalledTimes(41);
  all.mockRestore();
  get.mockRestore();
});

const row = (round: number, epsilon: unknown): object => ({
  release: "one",
  round: String(round),
  epsilon,
  bytes: Uint8Array.of(round),
});

/** The database as the first version of this client made it. */
function firstVersion(name: string, rows: object[], close = true): Promise<IDBDatabase | null> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => {
      const store = request.result.createObjectStore("reports", { keyPath: ["release", "round"] });
      for (const each of rows) store.add(each);
    };
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      if (close) request.result.close();
      resolve(close ? null : request.result);
    };
  });
}

function tamper(name: string, store: string, change: (store: IDBObjectStore) => unknown): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name);
    request.onerror = () => reject(request.error);
    request.onsuccess = () => {
      const transaction = request.result.transaction(store, "readwrite");
      change(transaction.objectStore(store));
      transaction.oncomplete = () => (request.result.close(), resolve());
    };
  });
}
