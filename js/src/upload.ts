/**
 * Sends reports as they are, again and again if the network fails; a retry is never randomised anew. An answer of success
 * counts only if it is the collector's and accounts for every report.
 */
import type { Json } from "./canonical.js";
import { system } from "./entropy.js";
import { fail, type Rejection } from "./errors.js";
import { abortSignal, addressOf, duration, LONGEST_TEXT, onlyKnown, whole } from "./options.js";
import { body, Patience, pauseFor } from "./patience.js";
import { alike, BINARY, isReport, packBatch, type Report } from "./wire.js";

export interface UploadOptions {
  /** What the collector's owner gave out for uploads, if it takes one. It appears in no error. */
  token?: string | undefined;
  /** Reports sent at once; 1000 by default. */
  batch?: number | undefined;
  /** How often a batch is sent before giving up; 6 by default. */
  attempts?: number | undefined;
  /** Milliseconds until an attempt counts as failed; 10,000 by default. */
  timeout?: number | undefined;
  /** Milliseconds before the first retry; 500 by default. It doubles every time. */
  pause?: number | undefined;
  /** Stops the upload: the error then has the code "aborted", and says how many reports were accepted before. */
  signal?: AbortSignal | undefined;
}

interface Settings {
  token: string | undefined;
  batch: number;
  attempts: number;
  timeout: number;
  pause: number;
  signal: AbortSignal | undefined;
}

const OPTIONS = ["token", "batch", "attempts", "timeout", "pause", "signal"];
const LONGEST = 60_000;
/** Reports in one request. */
const MOST_POSTED = 20_000;

/**
 * Send all reports to `url` (…/v1/reports); resolves to their number, or throws with the server's reason.
 *
 * Reports of several releases are sent in their order, a batch of one release at a time. Should the collector reject some
 * by themselves, all others are sent before the error says which (`rejected`) and how many were accepted (`sent`).
 */
export async function upload(reports: readonly Report[], url: string | URL, options: UploadOptions = {}): Promise<number> {
  onlyKnown(options, OPTIONS);
  const settings: Settings = {
    token: word(options.token),
    batch: whole("batch", options.batch ?? 1000, 1, MOST_POSTED),
    attempts: whole("attempts", options.attempts ?? 6, 1, 1000),
    timeout: duration("timeout", options.timeout ?? 10_000, 1),
    pause: duration("pause", options.pause ?? 500, 0),
    signal: abortSignal(options.signal),
  };
  const target = address(url);
  if (!Array.isArray(reports) || !reports.every(isReport)) fail("data", "upload takes a list of reports: upload([report], url).");
  const all = [...reports]; // a list that changes meanwhile is sent as it was
  const rejected: Rejection[] = [];
  for (let done = 0; done < all.length; ) {
    let stop = done + 1;
    while (stop < all.length && stop < done + settings.batch && alike(all[done]!, all[stop]!)) stop++;
    await send(all.slice(done, stop), done, target, settings, rejected);
    done = stop;
  }
  const [first] = rejected;
  if (first) {
    const message = `the collector rejected ${rejected.length} of ${all.length} reports. The first reason: ${first.reason}`;
    fail("upload", message, { sent: all.length - rejected.length, rejected });
  }
  return all.length;
}

/** A token as RFC 6750 has it. */
function word(token: unknown): string | undefined {
  const good = token === undefined || (typeof token === "string" && /^[\w.~+/=-]+$/.test(token));
  return good ? token : fail("data", "the token must be a word.");
}

function address(url: string | URL): URL {
  const target =
    addressOf(url) ??
    fail("upload", "the collector's address is no URL; give it in full, as in https://collector.example/v1/reports.");
  if (target.username || target.password) fail("upload", "reports are sent to an address without a name or password in it.");
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(target.hostname);
  if (target.protocol !== "https:" && !(target.protocol === "http:" && local)) {
    fail("upload", `reports are sent over https only, got ${target}.`);
  }
  return target;
}

/** Send one batch, before which `done` reports were answered; what is rejected of it is added to `rejected`. */
async function send(
  batch: readonly Report[],
  done: number,
  target: URL,
  { token, attempts, timeout, pause, signal }: Settings,
  rejected: Rejection[],
): Promise<void> {
  const before = { sent: done - rejected.length, rejected };
  const packed = packBatch(batch);
  let [reason, status, wait]: [string, number | undefined, number] = ["", undefined, 0];
  for (let attempt = 0; attempt < attempts; attempt++) {
    if (attempt) await pauseFor(wait, signal);
    if (signal?.aborted) aborted(signal, before);
    wait = Math.min(pause * 2 ** attempt * (0.5 + system(1)[0]! / 512), LONGEST);
    const patience = new Patience(timeout, signal);
    try {
      const answer = await fetch(target, {
        method: "POST",
        headers: { "Content-Type": BINARY, ...(token && { Authorization: `Bearer ${token}` }) },
        body: packed,
        // Nothing goes along that could tell who is sending.
        credentials: "omit",
        referrerPolicy: "no-referrer",
        redirect: "manual",
        signal: patience.signal,
      });
      status = answer.status;
      if (answer.ok) {
        const refused = rejections(await told(answer), batch.length);
        if (refused) {
          for (const { place, reason } of refused) rejected.push({ place: done + place, reason: shown(reason, token) });
          return;
        }
        reason = `an answer that does not say what became of ${batch.length} reports; another server's, or half of one`;
        continue;
      }
      reason = shown(await problem(answer), token);
      wait = Math.max(wait, Math.min(1000 * (Number(answer.headers.get("Retry-After")) || 0), LONGEST));
    } catch (error) {
      if (signal?.aborted) aborted(signal, before);
      [reason, status] = [shown(String(error), token), undefined];
    } finally {
      patience.end();
    }
    if (status! < 500 && ![408, 429].includes(status!)) {
      fail("upload", `the collector refused the reports (${status}): ${reason}`, { ...before, status });
    }
  }
  const message = `the reports were not accepted after ${attempts} attempts (last: ${reason}). Send the same reports again later.`;
  fail("upload", message, { ...before, status });
}

function aborted(signal: AbortSignal, before: { sent: number; rejected: Rejection[] }): never {
  fail("aborted", "the upload was stopped by its signal. Send the same reports again later.", {
    ...before,
    cause: signal.reason,
  });
}

/** What an answer says in JSON; nothing if it is another server's. */
async function told(answer: Response): Promise<Json> {
  const said = new TextDecoder().decode(await body(answer, LONGEST_TEXT * MOST_POSTED));
  try {
    return Object(JSON.parse(said));
  } catch {
    return {}; // the status must do
  }
}

/** What a collector's answer to `count` reports rejects, in order; null unless its numbers add up to all of them. */
function rejections({ accepted, duplicate, rejected }: Json, count: number): Rejection[] | null {
  const below = (n: unknown, most: number): boolean => Number.isInteger(n) && (n as number) >= 0 && (n as number) <= most;
  if (!Array.isArray(rejected) || !below(accepted, count) || !below(duplicate, count)) return null;
  const places = new Set(rejected.map((one) => one?.place));
  const sound = [...places].every((place) => below(place, count - 1)) && places.size === rejected.length;
  if (!sound || accepted + duplicate + places.size !== count) return null;
  const found = rejected.map(({ place, reason }) => ({ place, reason: (typeof reason === "string" && reason) || "none was given." }));
  return found.sort((one, other) => one.place - other.place);
}

/** The server's words without the token, should it quote it, and without codes that a terminal would obey. */
const shown = (words: string, token: string | undefined): string =>
  (token ? words.replaceAll(token, "…") : words).slice(0, LONGEST_TEXT).replace(/(?! )[\p{C}\p{Z}]/gu, "\ufffd");

/** What an RFC 9457 problem document says, however little that is. */
async function problem(answer: Response): Promise<string> {
  if (answer.status < 400) {
    // 3xx, or 0: a browser says no more
    return "it points to another address, which is not followed. Upload to the collector's final address.";
  }
  const { title, detail } = await told(answer).catch(() => ({}) as Json); // half of it
  return [title, detail].filter((v) => typeof v === "string" && v).join(": ") || `status ${answer.status}`;
}
