/** Clients with a ledger of their own. */
import "fake-indexeddb/auto";
import { Client, type Options, type Report } from "../src/index.js";
import { files } from "./files.js";

let number = 0;
/** The name of a ledger that does not exist yet. */
export const fresh = (): string => `ledger-${number++}`;

export const load = (name = "lattice", options: Options = {}): Promise<Client> =>
  Client.load(files(name), { ledger: fresh(), cap: 1e9, ...options });

export const RECORD = { a: 0.1, b: 0.2, c: 0.3, d: 0.4, e: 0.5 };

export const never = (): never => {
  throw new Error("a second report was made, or none at all");
};

/** The report of a round that is this device's turn. */
export async function made(report: Promise<Report | null>): Promise<Report> {
  return (await report) ?? never();
}
