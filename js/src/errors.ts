/** Why no report was made, or why reports were not accepted. */
export type Code = "release" | "version" | "signature" | "data" | "budget" | "ledger" | "entropy" | "wire" | "upload" | "aborted";

/** A report that the collector will never take: its place in the list that was uploaded, and why. */
export interface Rejection {
  place: number;
  reason: string;
}

interface Details {
  sent?: number;
  rejected?: readonly Rejection[];
  status?: number | undefined;
  cause?: unknown;
}

/** Every error raised on purpose: `code` says which kind, the message says what to do. */
export class TaskveilError extends Error {
  readonly code: Code;
  /** Of an upload: how many reports were accepted. `reports.slice(error.sent + error.rejected.length)` are left. */
  readonly sent: number;
  /** Of an upload: reports that were refused by themselves. */
  readonly rejected: readonly Rejection[];
  /** Of an upload: the server's last status, if there was one. */
  readonly status: number | undefined;

  constructor(code: Code, message: string, { sent = 0, rejected = [], status, cause }: Details = {}) {
    super(message, { cause });
    this.name = "TaskveilError";
    this.code = code;
    this.sent = sent;
    this.rejected = rejected;
    this.status = status;
  }
}

export function fail(code: Code, message: string, details?: Details): never {
  throw new TaskveilError(code, message, details);
}
