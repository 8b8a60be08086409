/**
 * The device's memory of what was reported, in IndexedDB: one report a round and release, recorded before it is returned.
 *
 * One read-write transaction looks, adds up, randomises and stores; the report is returned when that transaction is
 * complete (`durability: "strict"`), and the browser runs such transactions one at a time across all tabs.
 */
import { fail, TaskveilError } from "./errors.js";

const STORE = "reports";
/** A cap counts as met to 12 digits, so that a cap of 3ε allows three reports however 3ε was rounded. */
const SLACK = 2 ** -40;

interface Row {
  release: string;
  round: string;
  epsilon: number;
  bytes: Uint8Array;
}

export class Ledger {
  private constructor(private readonly db: IDBDatabase) {}

  static open(name = "taskveil"): Promise<Ledger> {
    return told(
      new Promise((resolve, reject) => {
        const request = indexedDB.open(name, 1);
        request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: ["release", "round"] });
        request.onsuccess = () => resolve(new Ledger(request.result));
        request.onerror = () => reject(request.error);
        request.onblocked = () => reject(new Error("another tab holds an older version open"));
      }),
    );
  }

  /**
   * Ask the browser to keep the ledger when storage runs short; whether it will. Where it will not (private windows,
   * frames of other sites, pages nobody returns to) a forgotten ledger lets a person report anew.
   */
  static async keep(): Promise<boolean> {
    try {
      return await navigator.storage.persist();
    } catch {
      return false;
    }
  }

  /** The recorded report of this round, or a new one from `make` if the cap allows it. */
  once(release: string, round: string, epsilon: number, cap: number, make: () => Uint8Array): Promise<Uint8Array> {
    return told(
      new Promise((resolve, reject) => {
        const transaction = this.db.transaction(STORE, "readwrite", { durability: "strict" });
        const store = transaction.objectStore(STORE);
        let result: Uint8Array;
        let reason: unknown;
        transaction.oncomplete = () => resolve(result);
        transaction.onabort = () => reject(reason ?? transaction.error);
        const request: IDBRequest<Row[]> = store.getAll();
        request.onsuccess = () => {
          try {
            const rows = request.result;
            const found = rows.find((row) => row.release === release && row.round === round);
            if (found) {
              result = found.bytes;
              return;
            }
            if (transaction.durability !== "strict") throw new Error("this browser cannot store durably: update it");
            const spent = sum(rows);
            if (!(spent + epsilon <= cap * (1 + SLACK))) {
              fail("budget", `this report costs ε = ${short(epsilon)} and ${short(spent)} of ${short(cap)} are spent already: no report was made.`);
            }
            result = make();
            store.add({ release, round, epsilon, bytes: result } satisfies Row);
          } catch (error) {
            reason = error;
            transaction.abort();
          }
        };
      }),
    );
  }

  /** The budgets of all recorded reports together. */
  spent(): Promise<number> {
    return told(
      new Promise((resolve, reject) => {
        const request: IDBRequest<Row[]> = this.db.transaction(STORE).objectStore(STORE).getAll();
        request.onsuccess = () => resolve(sum(request.result));
        request.onerror = () => reject(request.error);
      }),
    );
  }

  close(): void {
    this.db.close();
  }
}

const short = (v: number): number => Number(v.toPrecision(4));

function sum(rows: Row[]): number {
  if (!rows.every((row) => Number.isFinite(row.epsilon) && row.epsilon >= 0)) throw new Error("it holds no budgets");
  return rows.reduce((total, row) => total + row.epsilon, 0);
}

async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof TaskveilError) throw error;
    return fail("ledger", `the ledger cannot be used (${error}); no report was made. Is storage allowed and not full?`);
  }
}
