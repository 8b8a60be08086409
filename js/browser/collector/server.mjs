// A stand-in for the collector: serves its real pages, and answers as it would from what `make_answers.py` recorded.
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";

const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css" };
const POLICY = "default-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; form-action 'none'";
export const TOKEN = "tv_reader_0123456789abcdef";
const pages = new URL("../../../src/taskveil/collector/pages/", import.meta.url);
export const recorded = JSON.parse(await readFile(new URL("answers.json", import.meta.url), "utf-8"));

/**
 * Resolves to { url, asked, world, close }. `asked` are the paths that were asked for; a test changes `world`: the
 * `collections` that there are, a `problem` that answers everything instead, one for estimates (`few`), or `deaf`.
 */
export async function serveCollector() {
  const world = { collections: structuredClone(recorded), problem: null, few: null, deaf: false, delay: 0 };
  const asked = [];
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, "http://localhost");
    asked.push(url.pathname + url.search);
    if (url.pathname === "/" || url.pathname.startsWith("/assets/")) return sendPage(response, url.pathname);
    if (world.deaf) return request.socket.destroy();
    if (world.delay) await new Promise((done) => setTimeout(done, world.delay));
    const problem = world.problem ?? refused(request.headers.authorization) ?? answer(url, world);
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

function refused(authorization) {
  if (authorization === `Bearer ${TOKEN}`) return null;
  return { status: 401, title: "The token is not known", detail: "Make one with `taskveil token create`." };
}

function answer(url, { collections, few }) {
  const json = (content) => ({ body: JSON.stringify(content) });
  const missing = { status: 404, title: "There is nothing here" };
  if (url.pathname === "/v1/releases") return json({ releases: collections.map(({ release }) => release) });
  const asked = ["release", "round", "since", "assume", "anytime"];
  const [id, round, since, assume, anytime] = asked.map((name) => url.searchParams.get(name) ?? "");
  const curve = url.pathname.match(/^\/v1\/releases\/(\w+)\/frontier$/);
  const found = collections.find(({ release }) => release.id === (curve ? curve[1] : id));
  if (!found) return missing;
  if (curve) return found.frontier ? json(found.frontier) : missing;
  if (url.pathname === "/v1/export") return { body: `PAR1 ${id} ${round}`, type: "application/vnd.apache.parquet" };
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
