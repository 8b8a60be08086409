/** Where a latent may lie, enforced in integers whatever the encoder computed; see `regions.py`. */
export const LARGEST = 2 ** 40;

export type Region =
  | { kind: "box_region"; step: number; low: Float64Array; high: Float64Array }
  | {
      kind: "sign_region";
      step: number;
      signs: Float64Array;
      lower: Float64Array;
      upper: Float64Array;
      center: Float64Array;
    }
  | { kind: "diamond_region"; step: number; center: Float64Array; radius: number };

export const dim = (region: Region): number => (region.kind === "box_region" ? region.low : region.center).length;

export function l1Diameter(region: Region): number {
  switch (region.kind) {
    case "box_region":
      return region.high.reduce((sum, high, i) => sum + high - region.low[i]!, 0);
    case "sign_region":
      return region.upper.reduce((most, upper, i) => Math.max(most, upper - region.lower[i]!), 0);
    case "diamond_region":
      return 2 * region.radius;
  }
}

/** Any floats → integers inside the region. */
export function enforce(region: Region, latents: Float64Array): Float64Array {
  const { step } = region;
  if (region.kind === "box_region") {
    return region.low.map((low, i) => {
      const high = region.high[i]!;
      return Math.min(Math.max(toGrid(latents[i]!, step, low + Math.floor((high - low) / 2)), low), high);
    });
  }
  const offset = region.center.map((center, i) => toGrid(latents[i]!, step, center) - center);
  let share = 1;
  if (region.kind === "diamond_region") {
    const length = l1(offset);
    if (length > region.radius) share = region.radius / Math.max(length, 1);
  } else {
    const from = products(region.signs, region.center);
    products(region.signs, offset).forEach((product, s) => {
      if (product === 0) return;
      share = Math.min(share, ((product > 0 ? region.upper : region.lower)[s]! - from[s]!) / product);
    });
  }
  if (share < 1) offset.forEach((v, i) => (offset[i] = Math.floor(v * share + 0.5)));
  while (!contains(region, offset.map((v, i) => v + region.center[i]!))) {
    offset.forEach((v, i) => {
      const size = Math.abs(v);
      offset[i] = v - Math.sign(v) * Math.max(Math.floor(size / 4096), size > 0 ? 1 : 0);
    });
  }
  return offset.map((v, i) => v + region.center[i]!);
}

export function contains(region: Region, k: Float64Array): boolean {
  switch (region.kind) {
    case "box_region":
      return k.every((v, i) => v >= region.low[i]! && v <= region.high[i]!);
    case "sign_region":
      return products(region.signs, k).every((v, s) => v >= region.lower[s]! && v <= region.upper[s]!);
    case "diamond_region":
      return l1(k.map((v, i) => v - region.center[i]!)) <= region.radius;
  }
}

function toGrid(latent: number, step: number, fallback: number): number {
  const scaled = Number.isNaN(latent) ? fallback : latent / step;
  return Math.floor(Math.min(Math.max(scaled, -LARGEST), LARGEST) + 0.5);
}

const l1 = (v: Float64Array): number => v.reduce((sum, k) => sum + Math.abs(k), 0);

function products(signs: Float64Array, k: Float64Array): Float64Array {
  const out = new Float64Array(signs.length / k.length);
  return out.map((_, s) => k.reduce((sum, v, i) => sum + signs[s * k.length + i]! * v, 0));
}
