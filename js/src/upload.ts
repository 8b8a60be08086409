/** Sends reports as they are, again and again if the network fails; a retry is never randomised anew. */
import { system } from "./entropy.js";
import { fail } from "./errors.js";
import { abortSignal, addressOf, duration, onlyKnown, whole } from "./options.js";
import { body, Patience, pauseFor } from "./patience.js";
import { alike, BINARY, isReport, MOST, packBatch, PROBLEM, type Report } from "./wire.js";

export interface UploadOptions {
  /** Reports sent at once, 1000 unless told otherwise. */
  batch?: number | undefined;
  /** How often a batch is sent before giving up, 6 unless told otherwise. */
  attempts?: number | undefined;
  /** Milliseconds until an attempt counts as failed, 10,000 unless told otherwise. */
  timeout?: number | undefined;
  /** Milliseconds before the first retry, 500 unless told otherwise; doubles every time. */
  pause?: number | undefined;
  /** Stops the upload: the error then has the code "aborted", and says how many reports were accepted before. */
  signal?: AbortSignal | undefined;
}

interface Settings {
  batch: number;
  attempts: number;
  timeout: number;
  pause: number;
  signal: AbortSignal | undefined;
}

const OPTIONS = ["batch", "attempts", "timeout", "pause", "signal"];
const LONGEST = 60_000;
/** Bytes of an answer that are read: enough for a reason. */
const LONGEST_ANSWER = 2 ** 16;

/**
 * Send all reports to `url` (…/v1/reports); resolves to their number, or throws with the server's reason.
 *
 * Reports of several releases are sent in their order, a batch of one release at a time. The error's `sent` says how many,
 * from the first on, were accepted.
 */
export async function upload(reports: readonly Report[], url: string | URL, options: UploadOptions = {}): Promise<number> {
  onlyKnown(options, OPTIONS);
  const settings: Settings = {
    batch: whole("batch", options.batch ?? 1000, 1, MOST),
    attempts: whole("attempts", options.attempts ?? 6, 1, 1000),
    timeout: duration("timeout", options.timeout ?? 10_000, 1),
    pause: duration("pause", options.pause ?? 500, 0),
    signal: abortSignal(options.signal),
  };
  const target = address(url);
  if (!Array.isArray(reports) || !reports.every(isReport)) fail("data", "upload takes a list of reports: upload([report], url).");
  const all = [...reports]; // a list that changes meanwhile is sent as it was
  for (let sent = 0; sent < all.length; ) {
    let stop = sent + 1;
    while (stop < all.length && stop < sent + settings.batch && alike(all[sent]!, all[stop]!)) stop++;
    await send(packBatch(all.slice(sent, stop)), target, settings, sent);
    sent = stop;
  }
  return all.length;
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

async function send(
  batch: Uint8Array<ArrayBuffer>,
  target: URL,
  { attempts, timeout, pause, signal }: Settings,
  sent: number,
): Promise<void> {
  let [reason, status, wait]: [string, number | undefined, number] = ["", undefined, 0];
  for (let attempt = 0; attempt < attempts; attempt++) {
    if (attempt) await pauseFor(wait, signal);
    if (signal?.aborted) aborted(signal, sent);
    wait = Math.min(pause * 2 ** attempt * (0.5 + system(1)[0]! / 512), LONGEST);
    const patience = new Patience(timeout, signal);
    try {
      const answer = await fetch(target, {
        method: "POST",
        headers: { "Content-Type": BINARY, Accept: PROBLEM },
        body: batch,
        // Nothing goes along that could tell who is sending.
        credentials: "omit",
        referrerPolicy: "no-referrer",
        redirect: "manual",
        signal: patience.signal,
      });
      if (answer.ok) {
        void answer.body?.cancel().catch(() => {}); // the status said it all
        return;
      }
      reason = await problem(answer);
      status = answer.status;
      wait = Math.max(wait, Math.min(1000 * (Number(answer.headers.get("Retry-After")) || 0), LONGEST));
    } catch (error) {
      if (signal?.aborted) aborted(signal, sent);
      [reason, status] = [String(error), undefined];
    } finally {
      patience.end();
    }
    if (status !== undefined && status !== 408 && status !== 429 && status < 500) {
      fail("upload", `the collector refused the reports (${status}): ${reason}`, { sent, status });
    }
  }
  const message = `the reports were not accepted after ${attempts} attempts (last: ${reason}). Send the same reports again later.`;
  fail("upload", message, { sent, status });
}

function aborted(signal: AbortSignal, sent: number): never {
  fail("aborted", "the upload was stopped by its signal. Reports that were not accepted can be sent later as they are.", {
    sent,
    cause: signal.reason,
  });
}

/** What an RFC 9457 problem document says, however little that is. */
async function problem(answer: Response): Promise<string> {
  if (answer.type === "opaqueredirect" || (answer.status >= 300 && answer.status < 400)) {
    return "it points to another address, which is not followed. Upload to the collector's final address.";
  }
  try {
    const { title, detail } = JSON.parse(new TextDecoder().decode(await body(answer, LONGEST_ANSWER))) as Record<string, unknown>;
    const said = [title, detail].filter((v) => typeof v === "string" && v);
    if (said.length) return said.join(": ");
  } catch {
    // no JSON, or half of it: the status must do
  }
  return `status ${answer.status}`;
}
