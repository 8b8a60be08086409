/** The parts of a veil from a manifest and its numbers. Each is checked as the Python class of the same name checks itself. */
import { type Seeded, seeded } from "./ball.js";
import type { Json } from "./canonical.js";
import { areBounded } from "./concentrated.js";
import { type AttributeEncoder, type Encoder, type LayeredEncoder, LEVELS, type PlainEncoder, type Tables } from "./encoders.js";
import { isStep, powerOfTwo, sum } from "./exact.js";
import { need, numbers, type Tensor } from "./files.js";
import { FARTHEST, type Lattice, lattice, MOST_CHOICES, MOST_DIRECTIONS, MOST_LEVELS, MOST_STATES, size } from "./lattice.js";
import { blockGroup, type Group, levelGroup, MOST_ENTRIES, planeGroup, type Scales, scalesOf } from "./levels.js";
import type { Mechanism, Stage } from "./mechanisms.js";
import { across, down, measures, MOST_NUMBERS, MOST_OPERATIONS, MOST_SHIFT, MOST_STEPS, type NetworkLayer, type Window } from "./networks.js";
import { fields, integer, list, real, whole } from "./packed.js";
import { type Box, dim, LARGEST, MOST_LATENTS, MOST_SIGNED_LATENTS, type Region, signRegion } from "./regions.js";
import type { Response } from "./response.js";
import { largestScore, MOST_BRANCHES, MOST_CODEWORDS, type Sums, sums } from "./sums.js";
import { MOST_KNOTS, plant, reaches } from "./trees.js";

/** Whole numbers up to here are exact in a double. */
const EXACT = 2 ** 53;
/** The fields of every mechanism that draws code numbers. */
const CODED = {
  codebook: "region stages",
  lattice_codebook: "region lattice response",
  sum_codebook: "region codewords sizes branches response",
  level_response: "region groups",
  ball_response: "region codewords response",
  centred_ball_response: "region codewords response",
};

/** Builds parts; a field that no part has is refused, since it may change what the others mean. */
export class Parts {
  /** Products that all networks together take for a record. */
  private operations = 0;

  constructor(private readonly tensors: Map<string, Tensor>) {}

  encoder(e: Json): Encoder {
    if (e.kind === "attribute_encoder") return this.attributeEncoder(e);
    if (e.kind !== "mean_encoder") return this.oneEncoder(e);
    fields(e, "encoders weights");
    const encoders = list(e.encoders, 2, MOST_STEPS, "encoders of a mean", (one) => this.oneEncoder(one));
    const alike = (latents: (one: PlainEncoder | LayeredEncoder) => number): boolean =>
      encoders.every((one) => latents(one) === latents(encoders[0]!));
    need(alike((one) => one.low.length) && alike((one) => one.step.length), "encoders of a mean must fit each other");
    const weights = this.get(e.weights, "F64", encoders.length);
    need(weights.every((w) => w >= 0 && w <= 1), "weights of a mean lie between 0 and 1");
    const { low, high, step } = encoders[0]!;
    return { low, high, step, encoders, weights };
  }

  private attributeEncoder(e: Json): AttributeEncoder {
    fields(e, "low high step places");
    const [width, latents] = [this.length(e.low), this.length(e.places)];
    const [low, high] = [this.get(e.low, "F64", width), this.get(e.high, "F64", width)];
    const [places, step] = [this.get(e.places, "I64", latents), this.get(e.step, "F64", latents)];
    const rising = places.every((place, i) => place > (i ? places[i - 1]! : -1) && place < width);
    need(latents >= 1 && rising && step.every(isStep), "places and steps of an encoder");
    return { low, high, places, step };
  }

  private oneEncoder(e: Json): PlainEncoder | LayeredEncoder {
    need(e.kind !== "named_encoder", "it runs a model that it does not contain, which only Python clients can bring");
    if (e.kind === "tree_encoder") return this.treeEncoder(e);
    if (e.kind === "layered_encoder") return this.layeredEncoder(e);
    if (e.kind !== "tabled_encoder") return this.plainEncoder(e);
    fields(e, "tables encoder");
    const encoder = this.plainEncoder(e.encoder);
    return { ...encoder, tables: this.tables(e.tables, encoder.low.length) };
  }

  private tables(t: Json, width: number): Tables {
    fields(t, "knots levels", "monotone_tables");
    const [, count] = this.shape(t.knots, 2) as [number, number];
    need(count <= MOST_KNOTS, `a table has at most ${MOST_KNOTS} knots`);
    const [knots, levels] = [this.get(t.knots, "F64", width, count), this.get(t.levels, "I64", width, count)];
    const far = Number.MAX_VALUE / 2;
    const sound = (row: Float64Array, least: number, most: number): boolean =>
      row.every((v, i) => v >= least && v <= most && (i % count === 0 || v >= row[i - 1]!));
    need(sound(knots, -far, far) && sound(levels, 0, LEVELS), "tables must not fall or leave their range");
    return { knots, levels };
  }

  private treeEncoder(e: Json): PlainEncoder {
    fields(e, "low high knots counts attribute rank values output offset step softmax");
    const [width, latents, count] = [this.length(e.low), this.length(e.offset), this.length(e.attribute)];
    const [leaves, perLeaf] = this.shape(e.values, 2) as [number, number];
    const trees = plant({
      knots: this.get(e.knots, "F64", this.length(e.knots)),
      counts: this.get(e.counts, "I64", width),
      attribute: this.get(e.attribute, "I16", count),
      rank: this.get(e.rank, "I16", count - leaves),
      values: this.get(e.values, "I32", leaves, perLeaf),
      output: this.get(e.output, "I16", this.length(e.output)),
      perLeaf,
    });
    const [low, high] = [this.get(e.low, "F64", width), this.get(e.high, "F64", width)];
    const [offset, step] = [this.get(e.offset, "I64", latents), this.get(e.step, "F64", latents)];
    exactSums("trees", [[reaches(trees, latents), new Float64Array(1).fill(1)]], offset);
    need(low.every((v, i) => v <= high[i]!) && step.every(isStep) && typeof e.softmax === "boolean", "ranges and steps of trees");
    return { low, high, trees, output: { weights: new Float64Array(0), offset }, step, softmax: e.softmax };
  }

  private plainEncoder(e: Json): PlainEncoder {
    const layered = e.kind === "hidden_encoder";
    if (layered) fields(e, "low high hidden_weights hidden_offset hidden_shift weights skip offset step softmax");
    else {
      need(e.kind === "linear_encoder", `encoder ${e.kind}`);
      fields(e, "low high weights offset step");
    }
    const [first, width] = this.shape(layered ? e.hidden_weights : e.weights, 2) as [number, number];
    const [latents] = this.shape(e.offset, 1) as [number];
    const step = this.get(e.step, "F64", latents);
    need(step.every(isStep), "encoder steps must be powers of two from 2^-1000 to 2^900");
    const shared = { low: this.get(e.low, "F64", width), high: this.get(e.high, "F64", width), step };
    const offset = this.get(e.offset, "I64", latents);
    const full = new Float64Array(width).fill(LEVELS);
    if (!layered) {
      const weights = this.get(e.weights, "I64", latents, width);
      exactSums("encoder", [[weights, full]], offset);
      return { ...shared, output: { weights, offset }, softmax: false };
    }
    const hidden = {
      weights: this.get(e.hidden_weights, "I64", first, width),
      offset: this.get(e.hidden_offset, "I64", first),
      shift: this.get(e.hidden_shift, "I64", first),
      skip: this.get(e.skip, "I64", latents, width),
    };
    need(hidden.shift.every((s) => s >= 0 && s < 64) && typeof e.softmax === "boolean", "hidden layer");
    exactSums("hidden layer", [[hidden.weights, full]], hidden.offset);
    const weights = this.get(e.weights, "I64", latents, first);
    // The largest value of every hidden unit.
    const largest = hidden.offset.map((start, unit) => {
      const row = hidden.weights.subarray(unit * width, (unit + 1) * width);
      const top = row.reduce((sum, v) => sum + Math.max(v, 0) * LEVELS, start);
      return Math.floor(Math.max(top, 0) * powerOfTwo(-hidden.shift[unit]!));
    });
    exactSums(
      "output layer",
      [
        [weights, largest],
        [hidden.skip, full],
      ],
      offset,
    );
    return { ...shared, hidden, output: { weights, offset }, softmax: e.softmax };
  }

  private layeredEncoder(e: Json): LayeredEncoder {
    fields(e, "low high layers step start softmax");
    const layers = list(e.layers, 1, MOST_STEPS, "layers", (l) => this.layer(l));
    let [width, outputs, largest] = [0, 0, LEVELS];
    for (const [place, layer] of layers.entries()) {
      const found = measures(layer, largest);
      need(place === 0 || found.inputs === outputs, "layers that do not fit together");
      need(found.reach < EXACT, "a network's weights are too large for exact sums");
      [outputs, largest] = [found.outputs, found.largest];
      this.operations += found.operations;
      width ||= found.inputs;
    }
    need(this.operations <= MOST_OPERATIONS && typeof e.softmax === "boolean", "networks of too many products");
    const [step, start] = [this.get(e.step, "F64", outputs), this.get(e.start, "F64", outputs)];
    const [least, most] = [powerOfTwo(-1000), powerOfTwo(900)];
    need(step.every((v) => v >= least && v <= most) && start.every((v) => Math.abs(v) <= most), "steps of a network");
    return { low: this.get(e.low, "F64", width), high: this.get(e.high, "F64", width), layers, step, start, softmax: e.softmax };
  }

  private layer(l: Json): NetworkLayer {
    if (l.kind === "pooling_layer") {
      fields(l, "window maximum shift");
      need(typeof l.maximum === "boolean", "pooling layer");
      return { window: window(l.window), maximum: l.maximum, shift: whole(l.shift, 0, l.maximum ? 0 : MOST_SHIFT, "shift") };
    }
    need(l.kind === "dense_layer" || l.kind === "convolution_layer", `layer ${l.kind}`);
    const slides = l.kind === "convolution_layer";
    fields(l, `${slides ? "window fill " : ""}weights offset shift top relu groups`);
    const { dtype, shape } = this.tensor(l.weights);
    need(["I8", "I16", "I32"].includes(dtype) && shape.length === (slides ? 4 : 2), "weights of a layer");
    const [outputs, inputs] = shape as [number, number];
    const groups = whole(l.groups, 1, MOST_NUMBERS, "groups of a layer");
    need(shape.reduce((all, n) => all * n, 1) <= MOST_NUMBERS && inputs * groups <= MOST_NUMBERS, "weights of a layer");
    need(outputs % groups === 0 && typeof l.relu === "boolean", "groups of a layer");
    const seen = slides ? window(l.window) : undefined;
    const fill = seen ? this.get(l.fill, "I64", seen.channels) : new Float64Array(0);
    need(!seen || shape.slice(1).join() === [seen.channels / groups, seen.rows, seen.columns].join(), "weights of a convolution");
    need(!seen || outputs * down(seen) * across(seen) <= MOST_NUMBERS, "outputs of a convolution");
    const [offset, shift] = [this.get(l.offset, "I64", outputs), this.get(l.shift, "I64", outputs)];
    need(shift.every((s) => s >= 0 && s <= MOST_SHIFT) && fill.every((v) => Math.abs(v) <= LEVELS), "shifts of a layer");
    const top = whole(l.top, 1, EXACT - 1, "top of a layer");
    const weights = this.get(l.weights, dtype, ...shape);
    return { ...(seen && { window: seen }), fill, weights, offset, shift, top, relu: l.relu, groups };
  }

  mechanism(m: Json): Mechanism {
    if (m.kind === "laplace" || m.kind === "gaussian") {
      fields(m, m.kind === "laplace" ? "region scale" : "region scale delta order");
      const [region, scale] = [this.region(m.region), real(m.scale)];
      need(scale >= 2 ** -10 && scale <= LARGEST && (m.kind === "gaussian") === (region.kind === "ball_region"), "region and noise scale");
      if (region.kind !== "ball_region") return { kind: "laplace", region, scale };
      const [delta, order] = [real(m.delta), real(m.order)];
      need(areBounded(delta, order), "delta and order of noise");
      return { kind: "gaussian", region, scale, delta, order };
    }
    need(Object.hasOwn(CODED, m.kind), `mechanism ${m.kind}`);
    fields(m, CODED[m.kind as keyof typeof CODED]);
    const region = this.region(m.region);
    need(region.kind === "box_region", "codebook region");
    if (m.kind === "codebook") {
      const stages = list(m.stages, 1, 1, "stage", (s) => this.stage(s, region)) as [Stage];
      return { kind: m.kind, region, stages };
    }
    if (m.kind === "level_response") return { kind: m.kind, region, groups: this.groups(m.groups, region) };
    const response = this.response(m.response);
    if (m.kind === "sum_codebook") return { kind: m.kind, region, sums: this.sums(m, region, response), response };
    const centred = m.kind === "centred_ball_response"; // as many codewords more as are favoured stand for the centre
    if (centred || m.kind === "ball_response") {
      const [codewords, { favoured }] = [this.seeded(m.codewords, region), response];
      need(response.size === BigInt(codewords.size + (centred ? favoured : 0)) && favoured <= codewords.size, "response of a ball");
      return { kind: "ball_response", region, codewords, centred, response };
    }
    const points = this.lattice(m.lattice, region);
    need(response.size === size(points) && response.favoured === 1, "lattice response");
    return { kind: m.kind, region, lattice: points, response };
  }

  private region(r: Json): Region {
    const step = real(r.step);
    need(isStep(step), "the grid step must be a power of two from 2^-1000 to 2^900");
    const bound = (packed: Json, count: number): Float64Array => {
      const steps = this.get(packed, "I64", count);
      need(count > 0 && steps.every((v) => Math.abs(v) <= LARGEST), "region bounds must lie within ±2^40 steps");
      return steps;
    };
    const [d] = this.shape(r.kind === "box_region" ? r.low : r.center, 1) as [number];
    need(d <= MOST_LATENTS, `a region has at most ${MOST_LATENTS} latents`);
    if (r.kind === "box_region") {
      fields(r, "step low high");
      const [low, high] = [bound(r.low, d), bound(r.high, d)];
      need(
        low.every((v, i) => v <= high[i]!),
        "box region",
      );
      return { kind: r.kind, step, low, high };
    }
    const center = bound(r.center, d);
    if (r.kind === "diamond_region") {
      fields(r, "step center radius");
      return { kind: r.kind, step, center, radius: whole(r.radius, 0, LARGEST, "radius of a diamond region") };
    }
    if (r.kind === "ball_region") {
      fields(r, "step center squared_radius");
      return { kind: r.kind, step, center, squaredRadius: whole(r.squared_radius, 0, 2 ** 52, "squared radius of a ball region") };
    }
    need(r.kind === "sign_region" && d <= MOST_SIGNED_LATENTS, `region ${r.kind}`);
    fields(r, "step signs lower upper center");
    const count = 2 ** (d - 1);
    const region = signRegion(step, center, this.get(r.signs, "I8", count, d), bound(r.lower, count), bound(r.upper, count));
    need(region, "a sign region needs bounds around its center for every sign vector");
    return region;
  }

  private stage(s: Json, region: Box): Stage {
    fields(s, "vectors offsets shifts response", "stage");
    const response = this.response(s.response);
    const [count, d] = [Number(response.size), dim(region)];
    const [vectors, offsets] = [this.get(s.vectors, "I64", count, d), this.get(s.offsets, "I64", count)];
    this.get(s.shifts, "I64", count, d); // part of the format; no code uses it
    exactSums("scores", [[vectors, farthest(region)]], offsets);
    return { vectors, offsets, response };
  }

  private lattice(l: Json, region: Box): Lattice {
    fields(l, "levels lengths counts budget", "lattice");
    const d = dim(region);
    const counts = this.get(l.counts, "I64", d);
    need(d < MOST_DIRECTIONS && counts.every((n) => n >= 1 && n <= MOST_LEVELS), "lattice directions");
    const all = sum(counts);
    const [levels, lengths] = [this.get(l.levels, "I64", all), this.get(l.lengths, "I64", all)];
    const budget = whole(l.budget, 0, MOST_LEVELS, "lattice budget");
    const counted = (budget + 1) * all <= MOST_CHOICES && (budget + 1) * d <= MOST_STATES;
    need(all <= MOST_LATENTS && counted, "a lattice too large to count");
    const near = (numbers: Float64Array): boolean => numbers.every((v) => Math.abs(v) <= FARTHEST);
    need(near(levels) && near(region.low) && near(region.high), "lattice levels must lie within ±2^24 steps");
    need(
      lengths.every((v) => v >= 0),
      "lattice lengths",
    );
    const points = lattice(region, levels, lengths, counts, budget);
    need(points, "a lattice of too many codewords");
    need(
      points.directions.every((direction) => direction.lengths.includes(0)),
      "lattice",
    );
    return points;
  }

  private sums(m: Json, region: Box, response: Response): Sums {
    const [stages] = this.shape(m.sizes, 1) as [number];
    const sizes = this.get(m.sizes, "I64", stages);
    need(stages <= MOST_STEPS && sizes.every((size) => size >= 1 && size <= MOST_CODEWORDS), "stages of a sum");
    const [all, d] = [sum(sizes), dim(region)];
    const branches = whole(m.branches, 1, MOST_BRANCHES, "branches of a search");
    need(all <= MOST_CODEWORDS && branches * all * d <= MOST_OPERATIONS, "a search among too many codewords");
    const outputs = sizes.reduce((product, size) => product * BigInt(size), 1n);
    need(response.size === outputs && response.favoured === 1, "response of a sum");
    const made = sums(this.get(m.codewords, "I16", all, d), sizes, branches, d);
    need(largestScore(made, farthest(region)) < EXACT, "scores of a sum");
    return made;
  }

  private groups(packed: Json, region: Box): Group[] {
    const groups = list(packed, 1, Infinity, "groups", (g) => this.group(g, region));
    const all = (of: "entries" | "chance" | "outputs"): number => sum(groups.map((group) => group[of]));
    need(all("entries") <= MOST_ENTRIES && all("chance") < EXACT && all("outputs") < EXACT, "groups");
    return groups;
  }

  private group(g: Json, region: Box): Group {
    const names = new Map([
      ["level_group", "places counts levels table chance"],
      ["block_group", "places counts levels binned blocks response chance"],
      ["plane_group", "places prime response chance"],
    ]).get(g.kind);
    need(names, `group ${g.kind}`);
    fields(g, names);
    const chance = whole(g.chance, 1, EXACT - 1, "chance of a group");
    let group: Group | null;
    if (g.kind === "plane_group") {
      const prime = whole(g.prime, 2, MOST_ENTRIES, "residues of a plane");
      group = planeGroup(region, this.get(g.places, "I64", this.length(g.places)), prime, this.response(g.response), chance);
    } else if (g.kind === "block_group") {
      const [count, width] = this.shape(g.blocks, 2) as [number, number];
      group = blockGroup(this.scales(g, region), this.get(g.blocks, "I64", count, width), width, this.response(g.response), chance);
    } else {
      const [rows, outputs] = this.shape(g.table, 2) as [number, number];
      group = levelGroup(this.scales(g, region), this.get(g.table, "I64", rows, outputs), outputs, chance);
    }
    need(group, `a ${g.kind}`);
    return group;
  }

  private scales(g: Json, region: Box): Scales {
    const [count, all] = [this.length(g.places), this.length(g.levels)];
    const [places, counts] = [this.get(g.places, "I64", count), this.get(g.counts, "I64", count)];
    const binned = g.kind === "block_group" ? this.get(g.binned, "BOOL", count) : new Float64Array(count);
    const scales = scalesOf(region, places, counts, this.get(g.levels, "I64", all), Array.from(binned, Boolean));
    need(scales, "levels of a group");
    return scales;
  }

  private seeded(s: Json, region: Box): Seeded {
    fields(s, "dim rows size quantiles", "seeded_codewords");
    const quantiles = this.get(s.quantiles, "I16", this.length(s.quantiles));
    const [rows, size] = [whole(s.rows, 0, MOST_NUMBERS, "rows of a matrix"), whole(s.size, 2, 2 * MOST_NUMBERS, "codewords")];
    const made = seeded(region, rows, size, quantiles);
    need(made && whole(s.dim, 1, MOST_LATENTS, "dimensions") === dim(region), "codewords of a ball");
    return made;
  }

  private response(r: Json): Response {
    fields(r, "size favoured a b", "response");
    const favoured = whole(r.favoured, 1, EXACT - 1, "favoured outputs");
    const [count, a, b, m] = [integer(r.size), integer(r.a), integer(r.b), BigInt(favoured)];
    need(m < count, "response size");
    need(1n <= b && b <= a, "response weights");
    need(b <= 1n << 64n && a <= b << 1500n, "a response needs b ≤ 2^64 and a/b ≤ 2^1500");
    return { size: count, favoured, a, b, total: m * a + (count - m) * b };
  }

  private get(packed: Json, dtype: string, ...shape: number[]): Float64Array {
    const tensor = this.tensor(packed);
    need(tensor.dtype === dtype && tensor.shape.join() === shape.join(), `shape of ${tensor.name}`);
    return numbers(tensor);
  }

  private length(packed: Json): number {
    return this.shape(packed, 1)[0]!;
  }

  private shape(packed: Json, dimensions: number): number[] {
    const { name, shape } = this.tensor(packed);
    need(shape.length === dimensions, `shape of ${name}`);
    return shape;
  }

  /** What {"tensor": name} stands for; beside the name there is nothing. */
  private tensor(packed: Json): Tensor {
    const tensor = Object.keys(packed).join() === "tensor" ? this.tensors.get(packed.tensor) : undefined;
    need(tensor, "a tensor that is not there");
    return tensor;
  }
}

const WINDOW = "channels height width rows columns row_stride column_stride row_padding column_padding";

function window(packed: Json): Window {
  fields(packed, WINDOW, "window");
  const sizes = WINDOW.split(" ").map((name) => {
    return [name, whole(packed[name], name.endsWith("padding") ? 0 : 1, MOST_NUMBERS, "sizes of a window")];
  });
  const w: Window = Object.fromEntries(sizes);
  const [tall, wide] = [w.height + 2 * w.row_padding, w.width + 2 * w.column_padding];
  need(w.row_padding < w.rows && w.column_padding < w.columns && w.rows <= tall && w.columns <= wide, "window");
  const laidOut = w.channels * Math.max(tall * wide, w.rows * w.columns * down(w) * across(w));
  need(laidOut <= MOST_NUMBERS, "a layer that lays out too many numbers");
  return w;
}

/** No sum over inputs up to `largest` leaves the whole numbers that a double holds exactly. */
function exactSums(name: string, inputs: [weights: Float64Array, largest: Float64Array][], offset: Float64Array): void {
  const reach = offset.map((start, row) =>
    inputs.reduce(
      (sum, [weights, largest]) =>
        largest.reduce((part, most, i) => part + Math.abs(weights[row * largest.length + i]!) * most, sum),
      Math.abs(start),
    ),
  );
  need(
    reach.every((v) => v < EXACT),
    `${name}: weights are too large for exact sums`,
  );
}

/** The largest magnitude of every latent. */
const farthest = (region: Box): Float64Array => region.low.map((low, i) => Math.max(Math.abs(low), Math.abs(region.high[i]!)));
