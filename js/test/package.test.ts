/** What `npm pack` makes is what a web developer can install, import, type-check and bundle. */
import { execFileSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const TSC = join(ROOT, "node_modules/typescript/bin/tsc");

/** A page's code, with every way a record or key may be typed, and mistakes that the types must find. */
const PAGE = `
import { Client, packBatch, Report, TaskveilError, upload, type Field, type Options, type Panel, type Spent, type UploadOptions } from "taskveil";
import { Client as Bundled } from "taskveil/taskveil.js";

interface Household { power: number; gas: number }
interface Sensors { power: number | null; gas?: number }
interface Person { origin: string; since: Date | string | null; insured?: boolean; doors: bigint }
type Readings = { readonly power: number; readonly gas: number };

export async function page(household: Household, readings: Readings, sensors: Sensors, person: Person, key: Uint8Array, signal: AbortSignal): Promise<number> {
  const options: Options = { cap: 8, verifyKey: key, timeout: 5000, signal };
  const client: Client = await Client.load("/release/client/", options);
  await client.report(household, { round: 7 });
  await client.report(readings);
  await client.report({ power: 1.2, gas: 0.4 }, { round: "2026-W46" });
  await client.report([1.2, 0.4]);
  await client.report(sensors);
  await client.report({ power: null, gas: undefined });
  await client.report([null, undefined]);
  await client.report(new Float32Array(2));
  await client.report(person);
  await client.report(["Europe", 120, "2021-03-04", null, true]);
  const fields: readonly Field[] | null = client.fields;
  for (const field of fields ?? []) if (field.kind === "category") console.log(field.name, field.values.length, field.missing);
  const panel: Panel | null = client.panel;
  if (panel) await client.enrol(panel.roundOn(new Date()));
  const made: Report | null = await client.report(household, { round: panel?.rounds[0] });
  const { soFar, planned, lifetime }: Spent = await client.spent();
  if (made && soFar + planned > lifetime) await upload([made], "/v1/reports");
  const odds: number[] | null = client.odds(household);
  const again: Report | null = await client.recorded("2026-W46");
  // @ts-expect-error an object is no value
  await client.report({ power: { kW: 1.2 }, gas: 0.4 });
  // @ts-expect-error a text is no record
  await client.report("power");
  // @ts-expect-error this option is misspelt
  await client.report(household, { rounds: 7 });
  // @ts-expect-error so is this one
  await Client.load("/release/client/", { verify_key: key });
  // @ts-expect-error clients are loaded, not made
  new Client();
  const files = { manifest: key, weights: key };
  const other: Bundled = await Bundled.load(files, { ledger: "another", verifyKey: "-----BEGIN PUBLIC KEY-----" });
  const raw: Uint8Array = packBatch([Report.fromBytes(key)]);
  const how: UploadOptions = { attempts: 3, signal, token: "tv_a_b" };
  try {
    return (await upload(again ? [again] : [], new URL("https://collector.example/v1/reports"), how)) + raw.length + (odds?.length ?? 0);
  } catch (error) {
    if (error instanceof TaskveilError && error.code === "upload") return error.sent + error.rejected.reduce((sum, { place, reason }) => sum + place + reason.length, 0);
    throw error;
  } finally {
    client.close();
    other.close();
  }
}
`;

let home: string;
const installed = (path: string): string => join(home, "node_modules/taskveil", path);

function files(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: "utf8" }).filter((path) => statSync(join(folder, path)).isFile());
}

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), "taskveil-package-"));
  execFileSync("npm", ["pack", "--silent", "--pack-destination", home], { cwd: ROOT, stdio: ["ignore", "ignore", "pipe"] });
  const [tarball] = readdirSync(home);
  writeFileSync(join(home, "package.json"), JSON.stringify({ name: "consumer", type: "module", private: true }));
  execFileSync("npm", ["install", "--silent", "--offline", join(home, tarball!)], { cwd: home, stdio: ["ignore", "ignore", "pipe"] });
  writeFileSync(join(home, "page.ts"), PAGE);
}, 120_000); // however busy the machine is

afterAll(() => rmSync(home, { recursive: true, force: true }));

test("holds the code, its types, a README and the license, and nothing else", () => {
  const found = files(installed(""));
  const modules = readdirSync(join(ROOT, "src")).map((name) => `dist/${name.slice(0, -".ts".length)}`);
  const code = modules.flatMap((path) => [`${path}.js`, `${path}.d.ts`]);
  expect(found.sort()).toEqual([...code, "dist/taskveil.js", "package.json", "README.md", "LICENSE"].sort());
  expect(readFileSync(installed("LICENSE"), "utf8")).toBe(readFileSync(join(ROOT, "../LICENSE"), "utf8"));
});

test("is what the collector's demo page ships", () => {
  const page = join(ROOT, "../src/taskveil/collector/pages/demo/taskveil.js");
  const same = readFileSync(installed("dist/taskveil.js")).equals(readFileSync(page));
  expect(same, "run `npm run page` and commit what it writes").toBe(true);
});

test("says what it is and names no machine", () => {
  const about = JSON.parse(readFileSync(installed("package.json"), "utf8"));
  expect(about).toMatchObject({
    name: "taskveil",
    type: "module",
    license: "Apache-2.0",
    engines: { node: ">=20" },
    files: ["dist"],
    repository: { type: "git", directory: "js" },
    publishConfig: { access: "public", provenance: true },
  });
  // npm compares the address with that of the workflow that publishes, and refuses the package if they differ.
  expect(about.repository.url).toMatch(/^git\+https:\/\/github\.com\/[\w-]+\/taskveil\.git$/);
  for (const link of [about.homepage, about.bugs.url ?? about.bugs])
    expect(`git+${link}`).toContain(about.repository.url.slice(0, -".git".length));
  expect(about.private).toBeUndefined();
  expect(about.dependencies).toBeUndefined();
  for (const path of files(installed("")))
    expect(readFileSync(installed(path), "utf8")).not.toMatch(new RegExp(`${ROOT}|file://`));
});

describe.each([
  ["NodeNext", { module: "NodeNext", moduleResolution: "NodeNext" }],
  ["bundler", { module: "ESNext", moduleResolution: "bundler" }],
])("with module resolution %s", (name, resolution) => {
  test.each([true, false])("its types hold, exactOptionalPropertyTypes: %s", (exact) => {
    const config = join(home, `tsconfig.${name}.${exact}.json`);
    const compilerOptions = {
      ...resolution,
      target: "ES2022",
      lib: ["ES2023", "DOM"],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: exact,
      skipLibCheck: false,
      noEmit: true,
    };
    writeFileSync(config, JSON.stringify({ compilerOptions, files: ["page.ts"] }));
    try {
      execFileSync(process.execPath, [TSC, "-p", config], { encoding: "utf8" });
    } catch (error) {
      throw new Error((error as { stdout: string }).stdout);
    }
  });
});

test.each(["taskveil", "taskveil/taskveil.js"])("Node imports %s", (name) => {
  const script = `import * as all from ${JSON.stringify(name)};
    const report = new all.Report(new Uint8Array(32), Buffer.alloc(16), Buffer.from([7]));
    console.log(Object.keys(all).sort().join(), all.packBatch([report]).length);`;
  const said = execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: home, encoding: "utf8" });
  expect(said.trim()).toBe("Client,Report,TaskveilError,packBatch,upload 59");
});

test("bundlers take what is used and leave the rest", async () => {
  const bundle = async (code: string): Promise<string> => {
    const { outputFiles } = await build({
      stdin: { contents: code, resolveDir: home },
      bundle: true,
      minify: true,
      format: "esm",
      write: false,
    });
    return outputFiles[0]!.text;
  };
  const all = await bundle('import * as all from "taskveil"; console.log(all);');
  const some = await bundle('import { upload } from "taskveil"; console.log(upload);');
  expect(all).toContain("indexedDB");
  expect(some).not.toContain("indexedDB");
  expect(all).not.toMatch(/Math\.random|eval\(|new Function/);
});
