import { expect, test } from "vitest";
import { readDevice } from "../src/release.js";
import { alike, chiSquare, counted, LIMIT, tally } from "./distribution.js";
import { files } from "./files.js";

alike("laplace_box");

test("χ² rejects noise that is 3% too narrow", async () => {
  const { record, bucket, theirs } = counted("laplace_box");
  const half = new Map(Array.from(theirs, ([k, v]) => [k, v / 2]));
  const device = await readDevice(files("laplace_box"));
  if (device.mechanism.kind !== "laplace") throw new Error("not Laplace");
  device.mechanism.scale *= 0.97;
  expect(chiSquare(tally(device, record, bucket, 500_000), half)).toBeGreaterThan(LIMIT);
});
