/** Sends reports as they are, again and again if the network fails; a retry is never randomised anew. */
import { system } from "./entropy.js";
import { TaskveilError } from "./errors.js";
import { BINARY, packBatch, PROBLEM, type Report } from "./wire.js";

export interface UploadOptions {
  batch?: number;
  attempts?: number;
  /** Milliseconds until an attempt counts as failed. */
  timeout?: number;
  /** Milliseconds before the first retry; doubles every time. */
  pause?: number;
}

const LONGEST = 60_000;

/** Send all reports to `url` (…/v1/reports); resolves to their number, or throws with the server's reason. */
export async function upload(reports: readonly Report[], url: string | URL, options: UploadOptions = {}): Promise<number> {
  const { batch = 1000, attempts = 6, timeout = 10_000, pause = 500 } = options;
  const target = new URL(url, globalThis.location?.href);
  const local = ["localhost", "127.0.0.1", "[::1]"].includes(target.hostname);
  if (target.protocol !== "https:" && !(target.protocol === "http:" && local)) {
    throw new TaskveilError("upload", `reports are sent over https only, got ${target}.`);
  }
  for (let sent = 0; sent < reports.length; sent += batch) {
    const body = packBatch(reports.slice(sent, sent + batch));
    let reason = "";
    let status: number | undefined;
    let accepted = false;
    for (let attempt = 0, wait = 0; attempt < attempts && !accepted; attempt++) {
      if (attempt) await new Promise((done) => setTimeout(done, wait));
      wait = Math.min(pause * 2 ** attempt * (0.5 + system(1)[0]! / 512), LONGEST);
      try {
        const answer = await fetch(target, {
          method: "POST",
          headers: { "Content-Type": BINARY, Accept: PROBLEM },
          body,
          // Nothing goes along that could tell who is sending.
          credentials: "omit",
          referrerPolicy: "no-referrer",
          redirect: "manual",
          signal: AbortSignal.timeout(timeout),
        });
        accepted = answer.ok;
        if (accepted) break;
        status = answer.status;
        reason = await problem(answer);
        if (status !== 429 && status < 500) {
          throw new TaskveilError("upload", `the collector refused the reports (${status}): ${reason}`, sent, status);
        }
        wait = Math.max(wait, Math.min(1000 * (Number(answer.headers.get("Retry-After")) || 0), LONGEST));
      } catch (error) {
        if (error instanceof TaskveilError) throw error;
        [reason, status] = [String(error), undefined];
      }
    }
    if (!accepted) {
      const message = `the reports were not accepted after ${attempts} attempts (last: ${reason}). Send the same reports again later.`;
      throw new TaskveilError("upload", message, sent, status);
    }
  }
  return reports.length;
}

/** What an RFC 9457 problem document says, however little that is. */
async function problem(answer: Response): Promise<string> {
  try {
    const { title, detail } = (await answer.json()) as { title?: unknown; detail?: unknown };
    const said = [title, detail].filter((v) => typeof v === "string" && v);
    if (said.length) return said.join(": ");
  } catch {
    // no JSON: the status must do
  }
  return `status ${answer.status}`;
}
