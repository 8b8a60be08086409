// What reports say together: a line for every mean, with its interval and the volunteers' own beside it.
import { el, svg } from "./dom.js";
import { change, many } from "./words.js";

const KINDS = ["attributes", "answers", "shares"];
const MOST = 40; // lines that a person looks at; more when asked for

/** The title that a row has, of an entry: its name with its unit. */
function titled({ name, kind, unit }) {
  const plain = kind === "date" ? name.replace(/ in days$/, "") : name;
  return unit ? `${plain} [${unit}]` : plain;
}

/** Rows (text) with their numbers: rows leave out some entries, and keep the order of the others. */
export function lines(answer) {
  const entries = KINDS.flatMap((kind) =>
    (answer[kind] ?? []).map((entry) => ({
      ...entry,
      asked: kind !== "attributes",
      title: titled(entry),
      unseen: (answer.hardly_seen ?? []).includes(entry.name),
      change: answer.changes?.[kind]?.find((one) => one.name === entry.name),
    })),
  );
  let place = 0;
  return answer.rows.map((row) => {
    const found = entries.findIndex((entry, at) => at >= place && entry.title === row.name);
    if (found >= 0) place = found + 1;
    return { ...row, numbers: entries[found] };
  });
}

/** All of it: drift, tables, and what is assumed. `all` shows every line of long tables. */
export function estimates(answer, { since, all }) {
  const found = lines(answer);
  // What the release was designed for comes first.
  const of = (asked, share) =>
    found.filter(({ numbers }) => (numbers?.asked ?? false) === asked && (numbers?.kind === "share") === share);
  const tables = [
    ["The task’s answers", of(true, false), standardised],
    ["Classes of the task", of(true, true), percentages],
    ["Averages", of(false, false), standardised],
    ["Shares of people", of(false, true), percentages],
  ].filter(([, rows]) => rows.length > 0);
  const parts = tables.map(([name, rows, scale]) => table(name, rows, scale(rows), { since, all }));
  const hidden = tables.reduce((sum, [, rows]) => sum + Math.max(0, rows.length - MOST), 0);
  return [
    el(
      "p",
      { class: answer.drift.raised ? "callout raised" : "callout", id: "drift" },
      answer.drift.raised && el("b", {}, "Drift: "),
      answer.drift.words,
    ),
    el(
      "p",
      { class: "legend", "aria-hidden": "true" },
      el("span", {}, mark("people"), "people, with 95% interval"),
      el("span", {}, mark("volunteers"), "volunteers"),
    ),
    found.some(({ numbers }) => numbers?.unseen) &&
      el("p", { class: "note", id: "unseen" }, word(), " Reports hardly tell of these: people may differ there unnoticed."),
    parts,
    hidden > 0 &&
      !all &&
      el("p", {}, el("button", { type: "button", class: "quiet", "data-all": true }, `Show all ${many(found.length, "line")}`)),
    el("h4", {}, "What this rests on"),
    el("p", { class: "note" }, `${many(answer.reports, "report")}. `, answer.assumes),
  ];
}

/** Means of many units on one scale: the volunteers' standard deviations away from the volunteers' mean. */
function standardised(rows) {
  const at = ({ numbers }) => {
    if (!numbers || ![numbers.mean, numbers.low, numbers.high, numbers.volunteers].every(Number.isFinite)) return null;
    const reach = Math.max(Math.abs(numbers.low - numbers.volunteers), Math.abs(numbers.high - numbers.volunteers));
    const unit = numbers.spread || reach || 1;
    const away = (value) => (value - numbers.volunteers) / unit;
    return { low: away(numbers.low), mean: away(numbers.mean), high: away(numbers.high), own: 0 };
  };
  const reach = Math.max(0.1, ...rows.map(at).flatMap((found) => (found ? [Math.abs(found.low), Math.abs(found.high)] : [])));
  const step = [0.05, 0.1, 0.2, 0.5, 1, 2, 5].find((width) => reach <= 2 * width) ?? 10 ** Math.ceil(Math.log10(reach));
  const ends = Math.ceil(reach / step) * step;
  const ticks = [-ends, 0, ends].map((value) => [
    value,
    value === 0 ? "0" : `${value > 0 ? "+" : "−"}${Number(ends.toPrecision(6))}`,
  ]);
  return {
    at,
    low: -ends,
    high: ends,
    ticks,
    caption: "Dots show how far people are from the volunteers’ mean, in the volunteers’ standard deviations.",
  };
}

/** Shares on a scale that begins at nothing. */
function percentages(rows) {
  const at = ({ numbers }) => ({ low: numbers.low, mean: numbers.mean, high: numbers.high, own: numbers.volunteers });
  const most = Math.max(
    ...rows
      .map(at)
      .flatMap(({ high, own }) => [high, own])
      .filter(Number.isFinite),
    0.01,
  );
  const high = [0.02, 0.05, 0.1, 0.2, 0.5, 1].find((end) => most <= end) ?? 1;
  const ticks = [0, high / 2, high].map((value) => [value, `${Number((100 * value).toPrecision(3))}%`]);
  return { at, low: 0, high, ticks, caption: "Dots show the share among people." };
}

function table(name, rows, scale, { since, all }) {
  const changes = since !== "" && rows.some(({ numbers }) => numbers?.change);
  const shown = all ? rows : rows.slice(0, MOST);
  const percent = (value) => (100 * (value - scale.low)) / (scale.high - scale.low);
  const column = (text, attributes) => el("th", { scope: "col", ...attributes }, text);
  return el(
    "table",
    { class: `estimates${changes ? " changes" : ""}`, "data-key": name },
    el("caption", {}, el("b", {}, name), " ", el("span", { class: "note" }, scale.caption)),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        column(el("span", { class: "hidden" }, "what"), { class: "what" }),
        el(
          "td",
          { class: "picture", "aria-hidden": "true" },
          el(
            "div",
            { class: "axis" },
            scale.ticks.map(([, text]) => el("span", {}, text)),
          ),
        ),
        column("people", { class: "estimate" }),
        column("95% interval", { class: "limits" }),
        column("volunteers", { class: "own" }),
        changes && column(`since ${since}`, { class: "change" }),
      ),
    ),
    el(
      "tbody",
      {},
      shown.map((row) =>
        el(
          "tr",
          { "data-key": row.name },
          el("th", { scope: "row" }, row.name, row.numbers?.unseen && [" ", word()]),
          el("td", { class: "picture", "aria-hidden": "true" }, picture(scale.at(row), percent, scale)),
          el("td", { class: "estimate" }, row.estimate),
          el("td", { class: "limits" }, row.interval),
          el("td", { class: "own", "data-label": "volunteers" }, el("span", {}, row.volunteers)),
          changes && changed(row, since),
        ),
      ),
    ),
  );
}

/** Beside what is said of people without their having said it. */
const word = () => el("small", { class: "chip" }, "volunteers’ word");

function changed({ numbers }, since) {
  const label = { "data-label": `since ${since}`, class: "change" };
  if (!numbers?.change || !Number.isFinite(numbers.change.mean)) return el("td", label, "unknown");
  const { text, interval } = change(numbers.change, numbers.kind);
  const sure = numbers.change.low > 0 || numbers.change.high < 0;
  return el("td", { ...label, class: sure ? "change sure" : "change" }, el("span", {}, text), el("small", {}, interval));
}

/** A dot on its interval, the volunteers' mark, and the scale's lines; every length is a share of the width. */
function picture(found, percent, scale) {
  const lines = scale.ticks.map(([value]) =>
    // From far above to far below: a name of several lines makes its cell higher than the picture, and the cell cuts it.
    svg("line", { class: "tick", x1: `${percent(value)}%`, x2: `${percent(value)}%`, y1: "-900%", y2: "1000%" }),
  );
  if (!found) return svg("svg", {}, lines);
  const x = (value) => `${Math.min(Math.max(percent(value), 0), 100)}%`;
  const own =
    Number.isFinite(found.own) && svg("line", { class: "volunteers", x1: x(found.own), x2: x(found.own), y1: "18%", y2: "82%" });
  if (![found.low, found.mean, found.high].every(Number.isFinite)) return svg("svg", {}, lines, own);
  return svg(
    "svg",
    {},
    lines,
    svg("line", { class: "interval", x1: x(found.low), x2: x(found.high), y1: "50%", y2: "50%" }),
    own,
    svg("circle", { class: "people", cx: x(found.mean), cy: "50%", r: 4.5 }),
  );
}

/** The same marks for the legend. */
function mark(kind) {
  const whole = { x1: "0", x2: "100%", y1: "50%", y2: "50%" };
  if (kind === "people")
    return svg(
      "svg",
      {},
      svg("line", { class: "interval", ...whole }),
      svg("circle", { class: "people", cx: "50%", cy: "50%", r: 4.5 }),
    );
  return svg("svg", { class: "slim" }, svg("line", { class: "volunteers", x1: "50%", x2: "50%", y1: "10%", y2: "90%" }));
}
