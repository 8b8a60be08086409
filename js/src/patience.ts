/** Waits for servers no longer than agreed, and reads no more from them than expected. */
import { fail, TaskveilError } from "./errors.js";
import { join } from "./wire.js";

/** A signal for `fetch` that stops when the caller does or when time is up. Call `end` afterwards. */
export class Patience {
  private readonly controller = new AbortController();
  private readonly stop = (): void => this.controller.abort(this.outer!.reason);
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly timeout: number,
    private readonly outer: AbortSignal | undefined,
  ) {
    outer?.addEventListener("abort", this.stop);
    if (outer?.aborted) this.stop();
    this.renew();
  }

  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Something arrived: wait as long again. */
  renew(): void {
    clearTimeout(this.timer);
    const late = new DOMException(`nothing came for ${this.timeout} ms`, "TimeoutError");
    this.timer = setTimeout(() => this.controller.abort(late), this.timeout);
  }

  end(): void {
    clearTimeout(this.timer);
    this.outer?.removeEventListener("abort", this.stop);
  }
}

/** The body of an answer; throws when it is longer than `most` bytes or cut midway. */
export async function body(answer: Response, most: number, heard?: () => void): Promise<Uint8Array<ArrayBuffer>> {
  const reader = answer.body?.getReader();
  const parts: Uint8Array[] = [];
  for (let size = 0; reader; ) {
    const { done, value } = await reader.read();
    if (done) break;
    size += value.length;
    if (size > most) {
      await reader.cancel();
      throw new Error(`the answer is longer than ${most} bytes`);
    }
    parts.push(value);
    heard?.();
  }
  return join(...parts);
}

/** Far beyond any release: those are kept below a few megabytes by design. */
const LARGEST_FILE = 2 ** 28;

/** A file of a release. A server that sends nothing for `timeout` milliseconds, or half a file, is an error that says so. */
export async function download(url: URL, timeout: number, signal: AbortSignal | undefined): Promise<Uint8Array<ArrayBuffer>> {
  const name = url.pathname.split("/").pop();
  const patience = new Patience(timeout, signal);
  try {
    const answer = await fetch(url, { signal: patience.signal });
    if (!answer.ok) fail("release", `cannot fetch ${name}: status ${answer.status}. Is this a release's client folder?`);
    return await body(answer, LARGEST_FILE, () => patience.renew());
  } catch (error) {
    if (error instanceof TaskveilError) throw error;
    if (signal?.aborted) fail("aborted", "loading the release was stopped by its signal.", { cause: signal.reason });
    return fail("release", `cannot fetch ${name} (${error}). Load the release again when the network is better.`, {
      cause: error,
    });
  } finally {
    patience.end();
  }
}

/** Resolves after that time, or at once when the signal says to stop. */
export function pauseFor(milliseconds: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, milliseconds);
    signal?.addEventListener("abort", end);
    if (signal?.aborted) end();
  });
}
