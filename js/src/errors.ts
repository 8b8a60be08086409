/** Why no report was made, or why reports were not accepted. */
export type Code = "release" | "version" | "signature" | "data" | "budget" | "ledger" | "entropy" | "wire" | "upload";

/** Every error raised on purpose: `code` says which kind, the message says what to do. */
export class TaskveilError extends Error {
  readonly code: Code;
  /** Of an upload: how many reports were accepted before, and the server's last status. */
  readonly sent: number;
  readonly status: number | undefined;

  constructor(code: Code, message: string, sent = 0, status?: number) {
    super(message);
    this.name = "TaskveilError";
    this.code = code;
    this.sent = sent;
    this.status = status;
  }
}

export function fail(code: Code, message: string): never {
  throw new TaskveilError(code, message);
}
