// The cost of privacy: the share of the signal that each method keeps at each budget, as `tv.sweep` measured it.
import { el, svg } from "./dom.js";
import { budget, loss, share } from "./words.js";

const LABELS = {
  codebook: "codebook",
  auto: "auto",
  task_aware: "task-aware Laplace",
  task_agnostic: "task-agnostic",
  privacy_agnostic: "privacy-agnostic",
  matrix_factorization: "matrix factorisation",
};
const HEIGHT = 330;
const EDGE = { left: 52, right: 18, top: 30, bottom: 46 };
const COLOURS = 6;
const label = (method) => LABELS[method] ?? method.replaceAll("_", " ");

/** What to say where a release came without a curve, or the `reason` why it cannot be shown. */
export function noCurve(reason = "This release has no curve.") {
  return [
    heading(),
    el(
      "p",
      { class: "note" },
      reason,
      " To add one, save it beside the client folder and serve the release again: ",
      el("code", {}, 'tv.sweep(X, task, epsilons=[…]).to_json(folder / "frontier.json", losses=False)'),
    ),
  ];
}

/** The curve of a `frontier`, `width` pixels wide, with the release's own `epsilon` marked; and its table. */
export function curve(frontier, { epsilon, width }) {
  const rows = frontier.rows;
  if (rows.length === 0) return noCurve();
  const methods = [...new Set(rows.map((row) => row.method))];
  const scale = scaled(frontier, epsilon, width);
  return [
    heading(),
    el("p", { class: "note" }, explained(scale, frontier)),
    picture(rows, methods, scale, { epsilon, width }),
    el(
      "p",
      { class: "legend" },
      methods.map((method, place) =>
        el("span", {}, svg("svg", { class: "slim", "aria-hidden": "true" }, marker(place, 6, 9)), label(method)),
      ),
    ),
    el("details", {}, el("summary", {}, "The numbers"), numbers(rows, methods, scale, frontier)),
  ];
}

const heading = () => el("h3", { id: "curve-title" }, "The cost of privacy");

function explained({ shares, means }, frontier) {
  if (shares)
    return "The share of the signal that is kept: 100% is as good as without privacy, 0% is as good as the same answer for everybody. Bands are 95% intervals.";
  if (means)
    return "The squared error of a mean, times the number of people: lower is better. Bands are 95% intervals.";
  return `The task’s loss: lower is better. Without privacy it is ${loss(frontier.clear)}, with the same answer for everybody ${loss(frontier.constant)}.`;
}

/** Where a budget and a value lie; values beyond the limits would flatten the rest, and are drawn at the edge. */
function scaled({ rows, clear, constant }, epsilon, width) {
  const shares = rows.some((row) => Number.isFinite(row.kept));
  const means = clear === 0 && constant === 0;
  const names = shares ? ["kept", "kept_low", "kept_high"] : ["loss", "low", "high"];
  const values = rows.map((row) => row[names[0]]).filter((value) => Number.isFinite(value) && (!means || value > 0));
  const [low, high] = shares
    ? [-0.04, 1.04 * Math.max(1, ...values)]
    : means
      ? [0.7 * Math.min(...values, 1e300), 1.4 * Math.max(...values, 1e-300)]
      : [Math.min(0, clear), 1.4 * Math.max(constant, ...lowest(rows))];
  const warp = means ? (value) => Math.log10(Math.max(value, 1e-300)) : (value) => value;
  const budgets = [...new Set(rows.map((row) => row.epsilon))].sort((a, b) => a - b);
  const [least, most] = [Math.min(budgets[0], epsilon), Math.max(budgets.at(-1), epsilon)].map(Math.log);
  const inner = width - EDGE.left - EDGE.right;
  const x = (value) => EDGE.left + 8 + ((inner - 16) * (Math.log(value) - least)) / (most - least || 1);
  const y = (value) => {
    const part = (warp(Math.min(Math.max(value, low), high)) - warp(low)) / (warp(high) - warp(low) || 1);
    return HEIGHT - EDGE.bottom - part * (HEIGHT - EDGE.top - EDGE.bottom);
  };
  return { shares, means, names, low, high, budgets, x, y, is_off: (value) => !(value >= low && value <= high) };
}

/** The least loss of every method: how far up a chart of losses has to reach. */
function lowest(rows) {
  const least = {};
  for (const { method, loss: value } of rows)
    if (Number.isFinite(value)) least[method] = Math.min(value, least[method] ?? Infinity);
  return Object.values(least);
}

function picture(rows, methods, scale, { epsilon, width }) {
  const { names, x, y } = scale;
  const named = `${scale.shares ? "Share of the usable signal kept" : "Loss"} against the privacy budget for ${methods.map(label).join(", ")}. The numbers are in the table below.`;
  const lines = methods.map((method, place) => {
    const own = rows.filter((row) => row.method === method).sort((a, b) => a.epsilon - b.epsilon);
    const sure = own.filter((row) => names.every((name) => Number.isFinite(row[name])));
    const points = own.filter((row) => Number.isFinite(row[names[0]]));
    const path = points.map((row) => `${x(row.epsilon)},${y(row[names[0]])}`).join(" ");
    const band = [
      ...sure.map((row) => `${x(row.epsilon)},${y(row[names[1]])}`),
      ...sure.reverse().map((row) => `${x(row.epsilon)},${y(row[names[2]])}`),
    ];
    return svg(
      "g",
      { class: `method m${place % COLOURS}` },
      svg("polygon", { class: "band", points: band.join(" ") }),
      svg("polyline", { points: path }),
      points.map((row) => {
        const off = scale.is_off(row[names[0]]);
        const text = `${label(method)} at ε = ${budget(row.epsilon)}: ${scale.shares ? `${share(row.kept)} kept, ` : ""}loss ${loss(row.loss)}`;
        const at = `translate(${x(row.epsilon)} ${y(row[names[0]])})`;
        return svg(
          "g",
          { transform: at },
          svg("title", {}, text),
          off ? svg("path", { d: scale.shares ? "M-5-5h10l-5 9z" : "M-5 5h10l-5-9z" }) : marker(place),
        );
      }),
    );
  });
  const right = x(epsilon) > width * 0.62;
  return svg(
    "svg",
    { class: "chart", role: "img", "aria-label": named, viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT },
    ticks(scale).map(([value, text]) => [
      svg("line", { class: "tick", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
      svg("text", { x: EDGE.left - 8, y: y(value) + 4, "text-anchor": "end" }, text),
    ]),
    apart(scale.budgets, x).map((value) =>
      svg("text", { x: x(value), y: HEIGHT - EDGE.bottom + 18, "text-anchor": "middle" }, budget(value)),
    ),
    svg(
      "text",
      { class: "note", x: width - EDGE.right, y: HEIGHT - 6, "text-anchor": "end" },
      "privacy budget ε (smaller is more private)",
    ),
    svg("line", { class: "own", x1: x(epsilon), x2: x(epsilon), y1: EDGE.top - 8, y2: HEIGHT - EDGE.bottom }),
    svg(
      "text",
      { class: "own", x: x(epsilon) + (right ? -6 : 6), y: EDGE.top - 12, "text-anchor": right ? "end" : "start" },
      `this release, ε = ${budget(epsilon)}`,
    ),
    lines,
  );
}

function ticks({ shares, means, low, high }) {
  if (shares) return [0, 0.25, 0.5, 0.75, 1].map((value) => [value, `${100 * value}%`]);
  const powers = (first, last, of) => Array.from({ length: last - first + 1 }, (_, place) => of(first + place));
  if (means) {
    const [first, last] = [Math.ceil(Math.log10(low)), Math.floor(Math.log10(high))];
    return powers(first, last, (power) => [10 ** power, loss(10 ** power)]);
  }
  const step = [1, 2, 5, 10]
    .map((factor) => factor * 10 ** Math.floor(Math.log10((high - low) / 5)))
    .find((width) => (high - low) / width <= 6);
  return powers(Math.ceil(low / step), Math.floor(high / step), (place) => [place * step, loss(place * step)]);
}

/** Those budgets whose numbers do not touch. */
function apart(budgets, x) {
  const kept = [];
  for (const value of budgets) if (kept.length === 0 || x(value) - x(kept.at(-1)) >= 30) kept.push(value);
  return kept;
}

/** A shape of its own for every method, so that colour is not needed to tell them apart. */
function marker(place, x = 0, y = 0) {
  const shapes = [
    "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z",
    "M-4-4h8v8h-8z",
    "M0-5.5l5 9.5h-10z",
    "M0-5.5l5.5 5.5l-5.5 5.5l-5.5-5.5z",
    "M0 5.5l5-9.5h-10z",
    "M-5-2h3v-3h4v3h3v4h-3v3h-4v-3h-3z",
  ];
  return svg("path", { class: `m${place % COLOURS}`, d: shapes[place % shapes.length], transform: `translate(${x} ${y})` });
}

function numbers(rows, methods, scale, { clear, constant }) {
  const cell = (row) => {
    if (!row) return el("td", {});
    const kept = row.kept < 0 ? "nothing kept" : `${share(row.kept)} kept`;
    return el(
      "td",
      { "data-label": `ε = ${budget(row.epsilon)}` },
      scale.shares ? [kept, el("small", {}, `loss ${loss(row.loss)}`)] : `loss ${loss(row.loss)}`,
    );
  };
  return el(
    "table",
    { class: "numbers" },
    el(
      "caption",
      { class: "note" },
      scale.means
        ? "By method and budget."
        : `By method and budget. Without privacy the loss is ${loss(clear)}, with the same answer for everybody ${loss(constant)}.`,
    ),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, "method"),
        scale.budgets.map((value) => el("th", { scope: "col" }, `ε = ${budget(value)}`)),
      ),
    ),
    el(
      "tbody",
      {},
      methods.map((method) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, label(method)),
          scale.budgets.map((value) => cell(rows.find((row) => row.method === method && row.epsilon === value))),
        ),
      ),
    ),
  );
}
