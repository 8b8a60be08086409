// Bundles the browser client into one small file and refuses to let it grow.
import { build } from "esbuild";
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const LIMIT = 15_000;
const outfile = new URL("dist/taskveil.js", import.meta.url).pathname;
await build({
  entryPoints: [new URL("src/index.ts", import.meta.url).pathname],
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  outfile,
});
const size = gzipSync(readFileSync(outfile), { level: 9 }).length;
console.log(`dist/taskveil.js: ${size} bytes minified and gzipped (limit ${LIMIT})`);
if (size >= LIMIT) process.exit(1);
