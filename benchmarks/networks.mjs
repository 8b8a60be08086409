// How long one report takes in the engine of Chromium: node benchmarks/networks.mjs CLIENT_FOLDER
// Processor time, the compiler's included: on a shared machine that is what a report costs.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { draw } from "../js/dist/client.js";
import { system } from "../js/dist/entropy.js";
import { readDevice } from "../js/dist/release.js";

const [, , folder] = process.argv;
const [manifest, weights] = ["manifest.json", "weights.safetensors"].map((name) => readFileSync(join(folder, name)));
const device = await readDevice({ manifest, weights });
const times = Array.from({ length: 30 }, () => {
  const x = Float64Array.from(device.encoder.low, () => Math.random());
  const start = process.cpuUsage();
  draw(device, x, system);
  const { user, system: kernel } = process.cpuUsage(start);
  return (user + kernel) / 1000;
});
const later = times.slice(1).sort((a, b) => a - b);
console.log(
  `  browser: first report ${times[0].toFixed(1)} ms, then ${later[later.length >> 1].toFixed(1)} ms (bar: 30), at best ${later[0].toFixed(1)} ms`,
);
