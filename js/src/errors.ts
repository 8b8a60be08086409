/** Why no report was made, or why reports were not accepted. */
export type Code = "release" | "version" | "signature" | "data" | "budget" | "ledger" | "entropy" | "wire" | "upload" | "aborted";

interface Details {
  sent?: number;
  status?: number | undefined;
  cause?: unknown;
}

/** Every error raised on purpose: `code` says which kind, the message says what to do. */
export class TaskveilError extends Error {
  readonly code: Code;
  /** Of an upload: how many reports, from the first on, were accepted before. `reports.slice(error.sent)` are left. */
  readonly sent: number;
  /** Of an upload: the server's last status, if there was one. */
  readonly status: number | undefined;

  constructor(code: Code, message: string, { sent = 0, status, cause }: Details = {}) {
    super(message, { cause });
    this.name = "TaskveilError";
    this.code = code;
    this.sent = sent;
    this.status = status;
  }
}

export function fail(code: Code, message: string, details?: Details): never {
  throw new TaskveilError(code, message, details);
}
