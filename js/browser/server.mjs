// Serves the demo page and accepts its reports, on this machine only: `npm run demo`.
import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";

const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".json": "application/json" };
/** As strict as a page can have it: nothing the client does needs more. */
const POLICY = "default-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'";
const release = new URL("../demo/", import.meta.url);
const pages = new URL("../../src/taskveil/collector/pages/demo/", import.meta.url);

/** The demo's release without planned rounds, at /unplanned/client/: for tests that report in rounds of any name. */
function unplanned(manifest) {
  const text = manifest.toString().replace(/^ "panel": \{[^]*?^ \},\n/m, "").replace('"schema": 10', '"schema": 4');
  const bare = text.replace(/^ "digest": "[0-9a-f]{64}",\n/m, "");
  return text.replace(/^ "digest": "[0-9a-f]{64}"/m, ` "digest": "${createHash("sha256").update(bare).digest("hex")}"`);
}

/** Resolves to { url, received, script, close }: `received` are the bodies, `script` the next answers' status codes. */
export async function serve(port = 0) {
  const received = [];
  const script = [];
  const server = createServer(async (request, response) => {
    const { pathname: path, searchParams } = new URL(request.url, "http://localhost");
    if (request.method === "POST" && path === "/v1/reports") {
      const parts = [];
      for await (const part of request) parts.push(part);
      const status = script.shift() ?? 200;
      received.push({ status, body: Buffer.concat(parts), headers: request.headers, round: searchParams.get("round") });
      response.writeHead(status, { "Content-Type": status < 300 ? "application/json" : "application/problem+json" });
      const refused = { title: "Refused", detail: "this round is closed" };
      response.end(JSON.stringify(status < 300 ? { accepted: 1, duplicate: 0, rejected: [] } : refused));
      return;
    }
    const asked = path === "/" ? "index.html" : path.slice(1);
    const file = asked.replace(/^unplanned\//, "release/");
    try {
      let body = await readFile(new URL(file, file.startsWith("release/") ? release : pages));
      if (file !== asked && file.endsWith("manifest.json")) body = unplanned(body);
      response.writeHead(200, {
        "Content-Type": TYPES[extname(file)] ?? "application/octet-stream",
        "Content-Security-Policy": POLICY,
      });
      response.end(body);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => server.listen(port, "127.0.0.1", ready));
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}/`, received, script, close };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(`demo page: ${(await serve(8000)).url}`);
