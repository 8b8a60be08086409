/**
 * The device's memory of what was reported, in IndexedDB: one report a round and release, recorded before it is returned.
 *
 * One read-write transaction looks, randomises, stores the report and adds its cost to a running total; the report is
 * returned when that transaction is complete (`durability: "strict"`), and the browser runs such transactions one at a
 * time across all tabs. So a report costs the same however many there were. The rounds that a device draws of a release over
 * time are stored in the same way before they are used.
 */
import { fail, TaskveilError } from "./errors.js";
import { addUp } from "./exact.js";

/** 1: reports alone. 2: their total beside them. 3: drawn rounds too. */
const VERSION = 3;
const REPORTS = "reports";
const TOTALS = "totals";
const DRAWN = "drawn";
const SPENT = "spent";
/** A cap counts as met to 12 digits, so that a cap of 3ε allows three reports however 3ε was rounded. */
const SLACK = 2 ** -40;

interface Row {
  release: string;
  round: string;
  epsilon: number;
  bytes: Uint8Array;
}

export class Ledger {
  private constructor(private readonly db: IDBDatabase) {
    // A newer version of the page, or somebody who clears the site's data, must not wait for this tab.
    db.onversionchange = () => db.close();
  }

  static open(name = "taskveil"): Promise<Ledger> {
    return told(
      new Promise((resolve, reject) => {
        let reason: unknown;
        const request = indexedDB.open(name, VERSION);
        request.onupgradeneeded = ({ oldVersion }) => {
          const upgrade = request.transaction!;
          request.result.createObjectStore(DRAWN);
          if (oldVersion > 1) return;
          const totals = request.result.createObjectStore(TOTALS);
          if (oldVersion < 1) request.result.createObjectStore(REPORTS, { keyPath: ["release", "round"] });
          const rows: IDBRequest<Row[]> = upgrade.objectStore(REPORTS).getAll();
          rows.onsuccess = () => {
            try {
              totals.put(sum(rows.result), SPENT);
            } catch (error) {
              reason = error;
              upgrade.abort();
            }
          };
        };
        request.onsuccess = () => {
          if (reason) request.result.close();
          else resolve(new Ledger(request.result));
        };
        request.onerror = () => reject(reason ?? request.error);
        request.onblocked = () =>
          reject((reason = new Error("another tab still runs an older version of this page: close it and load this one again")));
      }),
    );
  }

  /**
   * Ask the browser to keep the ledger when storage runs short; whether it will. Some browsers ask the person, who may
   * never answer, so nothing should wait for this. Where the browser will not (private windows, frames of other
   * sites, pages nobody returns to) a forgotten ledger lets a person report anew.
   */
  static async keep(): Promise<boolean> {
    try {
      return (await navigator.storage.persist()) === true;
    } catch {
      return false;
    }
  }

  /**
   * The recorded report of this round, or a new one from `make` if the cap allows it; null if another round of the `block`,
   * which has one report together, has a report.
   */
  once(
    release: string,
    round: string,
    epsilon: number,
    cap: number,
    make: () => Uint8Array,
    block: readonly string[] = [],
  ): Promise<Uint8Array | null> {
    return this.durably([REPORTS, TOTALS], (transaction) => {
      if (!isBudget(epsilon)) fail("budget", `a report cannot cost ε = ${epsilon}: no report was made.`);
      const [reports, totals] = [transaction.objectStore(REPORTS), transaction.objectStore(TOTALS)];
      const found: IDBRequest<Row | undefined> = reports.get([release, round]);
      const others = block.length ? reports.getAllKeys(ofRelease(release)) : null;
      const total: IDBRequest<unknown> = totals.get(SPENT);
      const give = (): Uint8Array | null => {
        if (found.result) return found.result.bytes;
        if ((others?.result as [string, string][] | undefined)?.some(([, other]) => block.includes(other))) return null;
        strict(transaction);
        const spent = budget(total.result);
        const after = addUp(spent, epsilon);
        if (!(after <= cap * (1 + SLACK))) {
          fail(
            "budget",
            `this report costs ε = ${short(epsilon)} and ${short(spent)} of ${short(cap)} are spent already: no report ` +
              "was made. Earlier rounds can be sent again as they are.",
          );
        }
        const bytes = make();
        reports.add({ release, round, epsilon, bytes } satisfies Row);
        totals.put(after, SPENT);
        return bytes;
      };
      return [total, give];
    });
  }

  /** The rounds that were drawn for a release: those recorded, or new ones from `draw`, recorded before they are returned. */
  drawn(release: string, draw: () => string): Promise<unknown> {
    return this.durably([DRAWN], (transaction) => {
      const store = transaction.objectStore(DRAWN);
      const found: IDBRequest<unknown> = store.get(release);
      const give = (): unknown => {
        if (found.result !== undefined) return found.result;
        strict(transaction);
        const places = draw();
        store.add(places, release);
        return places;
      };
      return [found, give];
    });
  }

  /** The rounds that were drawn for a release; null if there are none. */
  rounds(release: string): Promise<unknown> {
    return this.look(DRAWN, release, (found: unknown) => found ?? null);
  }

  /** The recorded report of this round, if there is one. */
  recorded(release: string, round: string): Promise<Uint8Array | null> {
    return this.look(REPORTS, [release, round], (row: Row | undefined) => row?.bytes ?? null);
  }

  /** What each recorded report of a release costs. */
  costs(release: string): Promise<number[]> {
    return this.durably([REPORTS], (transaction) => {
      const rows: IDBRequest<Row[]> = transaction.objectStore(REPORTS).getAll(ofRelease(release));
      return [rows, () => rows.result.map((row) => budget(row.epsilon))];
    });
  }

  /** The budgets of all recorded reports together. */
  spent(): Promise<number> {
    return this.look(TOTALS, SPENT, budget);
  }

  close(): void {
    this.db.close();
  }

  /**
   * What `give` returns, when all that it wrote is on the disk. `ask` makes requests and returns the last one: they are answered
   * in order, so then all are. An error takes back what was written.
   */
  private durably<T>(names: string[], ask: (transaction: IDBTransaction) => [last: IDBRequest, give: () => T]): Promise<T> {
    return told(
      new Promise((resolve, reject) => {
        const transaction = this.db.transaction(names, "readwrite", { durability: "strict" });
        let result: T;
        let reason: unknown;
        transaction.oncomplete = () => resolve(result);
        transaction.onabort = () => reject(reason ?? transaction.error);
        const [last, give] = ask(transaction);
        last.onsuccess = () => {
          try {
            result = give();
          } catch (error) {
            reason = error;
            transaction.abort();
          }
        };
      }),
    );
  }

  private look<T, R>(store: string, key: IDBValidKey, read: (found: T) => R): Promise<R> {
    return told(
      new Promise((resolve, reject) => {
        const request: IDBRequest<T> = this.db.transaction(store).objectStore(store).get(key);
        request.onsuccess = () => {
          try {
            resolve(read(request.result));
          } catch (error) {
            reject(error);
          }
        };
        request.onerror = () => reject(request.error);
      }),
    );
  }
}

/** Refuse to write where the browser does not store durably. */
function strict({ durability }: IDBTransaction): void {
  if (durability !== "strict") throw new Error("this browser cannot store durably: update it");
}

/** The keys of a release: a list lies behind every text. */
const ofRelease = (release: string): IDBKeyRange => IDBKeyRange.bound([release], [release, []]);

const short = (v: number): number => Number(v.toPrecision(4));

const isBudget = (v: unknown): v is number => typeof v === "number" && Number.isFinite(v) && v >= 0;

function budget(stored: unknown): number {
  return isBudget(stored)
    ? stored
    : fail(
        "ledger",
        "what the ledger says was spent is no budget, so it cannot be believed and no report was made. Clear this site's data " +
          "to start anew; reports sent before then still count.",
      );
}

/** Rounded up at every step. */
const sum = (rows: Row[]): number => rows.reduce((total, row) => addUp(total, budget(row.epsilon)), 0);

/** What the browser's own errors mean for somebody with this page open. */
const ADVICE: Record<string, string> = {
  InvalidStateError: "It was closed, here or by a newer version of this page in another tab: load the page again.",
  VersionError: "It was written by a newer version of this page: load the page again, and update taskveil where it is built in.",
  QuotaExceededError: "The disk is full, or the browser gives this site no more room.",
};

async function told<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof TaskveilError) throw error;
    const advice = ADVICE[(error as Error | null)?.name ?? ""] ?? "Is storage allowed for this site?";
    return fail("ledger", `the ledger cannot be used (${error}); no report was made. ${advice}`, { cause: error });
  }
}
