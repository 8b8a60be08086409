// A stand-in for the collector: serves its real pages, and answers as it would from what `make_answers.py` recorded.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };
const POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";
export const TOKEN = "tv_reader_0123456789abcdef";
export const ADMIN = "tv_admin_0123456789abcdef";
const TOGETHER = { rounds: 5, reports: 5, epsilon: 7, odds: "1,097" }; // all rounds of the recorded releases
const FATES = { accepted: 12_500, duplicate: 31, conflict: 2, closed: 0, refused: 5 };
const pages = new URL("../../../src/taskveil/collector/pages/", import.meta.url);
/** A release that plans its rounds, which a test adds to the collections. */
export const overTime = JSON.parse(await readFile(new URL("over_time.json", import.meta.url), "utf-8"));
export const recorded = JSON.parse(await readFile(new URL("answers.json", import.meta.url), "utf-8"));

/**
 * Resolves to { url, asked, world, close }. `asked` are the paths that were asked for; a test changes `world`: the
 * `collections` that there are, a `problem` that answers everything instead, one for estimates (`few`), `deaf`, or what
 * `/v1/status` says (`state`). The commands of an administrator go to `commands`.
 */
export async function serveCollector() {
  const world = { collections: structuredClone(recorded), problem: null, few: null, deaf: false, delay: 0, commands: [] };
  world.state = {
    hours: 700,
    releases: recorded.map(({ release }, place) => ({
      id: release.id,
      hours_since_report: [3, 60, null][place],
      fates: FATES,
    })),
    refused_requests: 12,
    database: { bytes: 1_234_567_890, free_bytes: 41_000_000_000 },
    token_expires: "2099-03-01T00:00:00Z",
    uploads_expire: null,
  };
  const asked = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    asked.push(url.pathname + url.search);
    if (url.pathname === "/" || url.pathname.startsWith("/assets/")) return sendPage(response, url.pathname);
    if (world.deaf) return request.socket.destroy();
    if (world.delay) await new Promise((done) => setTimeout(done, world.delay));
    const problem = world.problem ?? commanded(request, url, world) ?? refused(request.headers.authorization) ?? answer(url, world);
    if (problem.body) return response.writeHead(200, { "Content-Type": problem.type ?? "application/json" }).end(problem.body);
    const headers = { "Content-Type": "application/problem+json", ...(problem.retry && { "Retry-After": problem.retry }) };
    response.writeHead(problem.status, headers).end(JSON.stringify(problem));
  });
  await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, asked, world, close };
}

/** The answer to an administrator; null for readers. */
function commanded({ method, headers }, url, world) {
  if (method === "GET") return null;
  if (headers.authorization !== `Bearer ${ADMIN}`)
    return { status: 403, title: "The token does not allow this", detail: "This needs a token of scope admin." };
  world.commands.push(`${method} ${url.pathname}`);
  const [, id, name, close] = url.pathname.match(/^\/v1\/releases\/(\w+)\/rounds\/([^/]+)(\/close)?$/);
  const { release } = world.collections.find((one) => one.release.id === id);
  if (close) release.rounds.find((round) => round.name === decodeURIComponent(name)).open = false;
  else {
    release.rounds.push({ name: decodeURIComponent(name), open: true, reports: 0 });
    release.current = decodeURIComponent(name);
  }
  return { body: JSON.stringify(release) };
}

function refused(authorization) {
  if (authorization === `Bearer ${TOKEN}`) return null;
  return { status: 401, title: "The token is not known", detail: "Make one with `taskveil token create`." };
}

function answer(url, { collections, few, state }) {
  const json = (content) => ({ body: JSON.stringify(content) });
  const missing = { status: 404, title: "There is nothing here" };
  if (url.pathname === "/v1/releases") return json({ releases: collections.map(({ release }) => release), together: TOGETHER });
  if (url.pathname === "/v1/status") return json(state);
  const asked = ["release", "round", "since", "assume", "anytime"];
  const [id, round, since, assume, anytime] = asked.map((name) => url.searchParams.get(name) ?? "");
  const curve = url.pathname.match(/^\/v1\/releases\/(\w+)\/frontier$/);
  const found = collections.find(({ release }) => release.id === (curve ? curve[1] : id));
  if (!found) return missing;
  if (curve) return found.frontier ? json(found.frontier) : missing;
  if (url.pathname === "/v1/export") return { body: `PAR1 ${id} ${round}`, type: "application/vnd.apache.parquet" };
  if (url.pathname === "/v1/estimates/series")
    return found.series ? json(url.searchParams.get("people") ? found["series people"] : found.series) : missing;
  if (url.pathname !== "/v1/estimates") return missing;
  const reports = found.release.rounds.find(({ name }) => name === round)?.reports ?? found.release.reports;
  if (assume && anytime !== "false") return { status: 422, title: "A parameter is not as it should be" };
  const content = found.estimates[`${round}${since && ` since ${since}`}${assume && ` assume ${assume}`}`];
  return few ?? (content ? json({ ...content, reports }) : missing);
}

async function sendPage(response, path) {
  const file = path === "/" ? "index.html" : path.slice("/assets/".length);
  try {
    const body = await readFile(new URL(file, pages));
    response.writeHead(200, { "Content-Type": TYPES[extname(file)], "Content-Security-Policy": POLICY }).end(body);
  } catch {
    response.writeHead(404).end();
  }
}
