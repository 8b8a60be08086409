// Writes dist/: modules with their types for bundlers and Node, and one small file for pages, which may not grow. With
// --page (`npm run page`), that file also goes to the demo page that the Python package ships.
import { build } from "esbuild";
import { execFileSync } from "node:child_process";
import { copyFileSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

// 19 KB until a record was numbers alone; reading categories, flags and dates as Python does takes 1.5 KB, responses
// between levels with all their checks 0.8 KB, answers that account for every report and keys of small order 0.4 KB, blocks,
// planes and hashed words 1.3 KB, directions of a ball and its center 0.9 KB, families of releases with the checks of
// their description 1.6 KB, planned rounds with their statement 1.75 KB, Gaussian noise on a ball with its certified ε and δ 1 KB.
const LIMIT = 29_300;
const here = (path) => fileURLToPath(new URL(path, import.meta.url));

rmSync(here("dist"), { recursive: true, force: true });
execFileSync(process.execPath, [here("node_modules/typescript/bin/tsc"), "-p", here("tsconfig.build.json")], {
  stdio: "inherit",
});
const how = { format: "esm", target: "es2022" };
const modules = readdirSync(here("src")).map((name) => here(`src/${name}`));
await build({ ...how, entryPoints: modules, outdir: here("dist") });
await build({ ...how, entryPoints: [here("src/index.ts")], bundle: true, minify: true, outfile: here("dist/taskveil.js") });
const size = gzipSync(readFileSync(here("dist/taskveil.js")), { level: 9 }).length;
console.log(`dist/taskveil.js: ${size} bytes minified and gzipped (limit ${LIMIT})`);
if (size >= LIMIT) process.exit(1);
if (process.argv.includes("--page")) {
  copyFileSync(here("dist/taskveil.js"), here("../src/taskveil/collector/pages/demo/taskveil.js"));
}
