// What the page asks the collector, and the token it asks with. The token comes with the address' fragment, which
// browsers send nowhere, or is typed in; it is kept for this tab only.

const KEY = "taskveil.token";
const PATIENCE = 10_000; // milliseconds for an answer

/** Not an answer: `status` 0 where the collector was not reached. `message` is for people. */
export class Refusal extends Error {
  constructor(status, message, retryAfter = 0) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter; // seconds
  }

  /** Whether another token is needed. */
  get ofToken() {
    return this.status === 401 || this.status === 403;
  }
}

/** The token of this tab, or null; one in the address is taken out of it. */
export function token() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    keep(given);
  }
  return sessionStorage.getItem(KEY);
}

export const keep = (given) => sessionStorage.setItem(KEY, given.trim());
export const forget = () => sessionStorage.removeItem(KEY);

/** The JSON at `path`; Refusal with the collector's own reason where there is none, or after `patience` milliseconds. */
export async function ask(path, parameters = {}, { signal, patience = PATIENCE } = {}) {
  const answer = await reach(path, parameters, [signal, AbortSignal.timeout(patience)]);
  try {
    return await answer.json();
  } catch {
    throw new Refusal(0, "The collector’s answer is incomplete.");
  }
}

/** The bytes at `path`, however long they take. */
export async function bytes(path, parameters = {}) {
  const answer = await reach(path, parameters);
  try {
    return await answer.blob();
  } catch {
    throw new Refusal(0, "The file is incomplete.");
  }
}

/** Changes something on the collector: with another token than this tab's, if one is given. */
export async function command(method, path, other) {
  await reach(path, {}, [AbortSignal.timeout(PATIENCE)], { method, ...(other && { other }) });
}

async function reach(path, parameters, ends = [], { method = "GET", other = sessionStorage.getItem(KEY) ?? "" } = {}) {
  const wanted = new URL(path, document.baseURI);
  for (const [name, value] of Object.entries(parameters)) if (value) wanted.searchParams.set(name, value);
  let answer;
  try {
    // Headers take Latin-1 only; a token never has anything else, and what is pasted may.
    const headers = { Authorization: `Bearer ${encodeURIComponent(other)}` };
    answer = await fetch(wanted, { method, headers, cache: "no-store", signal: AbortSignal.any(ends.filter(Boolean)) });
  } catch {
    throw new Refusal(0, "The collector does not answer.");
  }
  if (answer.ok) return answer;
  const problem = await answer.json().catch(() => ({}));
  const reason = [problem.title, problem.detail]
    .filter(Boolean)
    .map((part) => part.replace(/\.?$/, "."))
    .join(" ");
  throw new Refusal(
    answer.status,
    reason || `The collector answered with status ${answer.status}.`,
    Number(answer.headers.get("Retry-After")) || 0,
  );
}
