// Population estimates: a line for every row, with its interval and the volunteers' value beside it. Rows that
// reports measure come first; rows that rest on an assumption come apart, with the assumption and in another colour.
import { el, svg } from "./dom.js";
import { budget, change, many } from "./words.js";

const MOST = 40; // lines that a person looks at; more when asked for
const SEVERAL = "All rounds together: people who reported in several rounds are counted several times.";
const CODES = "The share of people whose device favours each code. Devices send favoured codes more often.";

/** Rows (text) with their numbers, and what changed. */
export function lines(answer) {
  return answer.rows.map((row) => {
    const numbers = answer[row.group][row.place];
    return { ...row, numbers, change: answer.changes?.[row.group]?.find(({ name }) => name === numbers.name) };
  });
}

/** All of it: drift, tables, and what they rest on. `all` shows every line of long tables; `several` says that rounds are
 * added up. */
export function estimates(answer, { since, all, several }) {
  const found = lines(answer);
  const [measured, assumed] = [false, true].map((wanted) => found.filter(({ numbers }) => (numbers.assumes !== null) === wanted));
  const held = `${Number((100 * answer.confidence).toPrecision(6))}% ${answer.anytime ? "always valid" : "interval"}`;
  const shown = [...tables(measured), ...tables(assumed)];
  const hidden = shown.reduce((sum, { rows }) => sum + Math.max(0, rows.length - MOST), 0);
  const drawn = (rows) => tables(rows).map((one) => table(one, { since, all, held }));
  const holds = answer.anytime
    ? "The intervals stay valid however often you look. The test for drift is valid for a single look."
    : "The intervals are valid for a single look. To watch while reports come in, choose rows without an assumption.";
  return [
    el(
      "p",
      { class: answer.drift.raised ? "callout raised" : "callout", id: "drift" },
      answer.drift.raised && el("b", {}, "Drift: "),
      answer.drift.words,
    ),
    several && el("p", { class: "callout raised", id: "several" }, SEVERAL),
    found.length > 0 &&
      el(
        "p",
        { class: "legend", "aria-hidden": "true" },
        measured.length > 0 && el("span", {}, mark("people"), `people, ${held}`),
        assumed.length > 0 && el("span", { class: "assumed" }, mark("people"), `people, with an assumption, ${held}`),
        el("span", {}, mark("volunteers"), "volunteers"),
      ),
    measured.length > 0 && [
      el("h4", {}, "Measured"),
      el("p", { class: "note" }, "These rows need no assumption about the people who reported."),
      drawn(measured),
    ],
    assumed.length > 0 &&
      el(
        "div",
        { class: "assumed" },
        el("h4", {}, "With an assumption"),
        el("p", { class: "callout", id: "assumes" }, answer.notes.join(" ")),
        drawn(assumed),
      ),
    hidden > 0 &&
      !all &&
      el("p", {}, el("button", { type: "button", class: "quiet", "data-all": true }, `Show all ${many(found.length, "line")}`)),
    crowd(answer.crowd ?? []),
    el(
      "p",
      { class: "note", id: "rests" },
      [`${many(answer.reports, "report")}.`, found.length > 0 && holds, ...(assumed.length > 0 ? [] : answer.notes)]
        .filter(Boolean)
        .join(" "),
    ),
  ];
}

/** What all reports of the round reveal to those who see them without order: a line for every release. */
function crowd(found) {
  return found.map(({ epsilon, delta, reports }) =>
    el(
      "p",
      { class: "note crowd" },
      `Seen without order, time and sender, ${many(reports, "honest report")} of this round reveal less about one person: `,
      `central ε\u00a0=\u00a0${budget(epsilon)}, δ\u00a0=\u00a0${budget(delta)}. The ε of a report stays the promise.`,
    ),
  );
}

/** Rows by what they are of; what the release was designed for comes first. Those of a survey come with their sections. */
function tables(rows) {
  if (rows.some(({ section }) => section)) {
    const titles = [...new Set(rows.map(({ section }) => section))];
    return titles.map((name) => {
      const members = rows.filter(({ section }) => section === name);
      const known = members.some(({ numbers }) => Number.isFinite(numbers.volunteers));
      const share = members.every(({ numbers }) => numbers.kind === "share");
      return { name, rows: members, scale: share ? percentages : known ? standardised : ranged, cross: members[0].cell !== undefined };
    });
  }
  const of = (groups, share) =>
    rows.filter(({ group, numbers }) => groups.includes(group) && (numbers.kind === "share") === share);
  return [
    { name: "Codes", rows: of(["frequencies"], true), scale: percentages, about: CODES },
    { name: "Answers of the task", rows: of(["answers"], false), scale: standardised },
    { name: "Classes of the task", rows: of(["answers", "shares"], true), scale: percentages },
    { name: "Averages", rows: of(["attributes"], false), scale: standardised },
    { name: "Shares of people", rows: of(["attributes"], true), scale: percentages },
    { name: "Means of the reported values", rows: of(["reported"], false), scale: standardised },
  ].filter((one) => one.rows.length > 0);
}

/** Means of many units on one scale: the volunteers' standard deviations away from the volunteers' mean. */
function standardised(rows) {
  const at = ({ numbers }) => {
    if (![numbers.mean, numbers.low, numbers.high, numbers.volunteers].every(Number.isFinite)) return null;
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

/** Shares on a scale that starts at 0. */
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

/** Means of one unit, from the least limit to the largest. */
function ranged(rows) {
  const known = rows.map(({ numbers }) => numbers).filter(({ mean, low, high }) => [mean, low, high].every(Number.isFinite));
  const [low, high] = [Math.min(...known.map((one) => one.low)), Math.max(...known.map((one) => one.high))];
  const at = ({ numbers }) => (known.includes(numbers) ? { low: numbers.low, mean: numbers.mean, high: numbers.high } : null);
  if (!(high > low) || known.some(({ kind }) => kind !== "number")) return { at: () => null, low: 0, high: 1, ticks: [] };
  const digits = Math.max(0, 1 - Math.floor(Math.log10(high - low)));
  const said = (value) => value.toLocaleString("en", { maximumFractionDigits: digits });
  const ticks = [low, (low + high) / 2, high].map((value) => [value, said(value)]);
  return { at, low, high, ticks, caption: "Dots show the mean among people." };
}

/** A cross-table: a line for every value of the first field, a column for every value of the second. */
function crossed({ name, rows }, { all, held }) {
  const [down, across] = [0, 1].map((axis) => [...new Set(rows.map(({ cell }) => cell[axis]))]);
  const [first, second] = name.split(" × ");
  const found = (a, b) => rows.find(({ cell }) => cell[0] === a && cell[1] === b);
  const shown = all ? down : down.slice(0, MOST);
  return el(
    "table",
    { class: "cross", "data-key": name },
    el(
      "caption",
      {},
      el("b", {}, name),
      " ",
      el("span", { class: "note" }, `Shares of all people; below each its interval (${held}). ${first} is down, ${second} across.`),
    ),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, first), across.map((b) => el("th", { scope: "col" }, b)))),
    el(
      "tbody",
      {},
      shown.map((a) =>
        el(
          "tr",
          { "data-key": a },
          el("th", { scope: "row" }, a),
          across.map((b) => {
            const cell = found(a, b);
            const label = { "data-label": b };
            return el("td", label, cell && [el("span", {}, cell.estimate), el("small", {}, cell.interval)]);
          }),
        ),
      ),
    ),
  );
}

/** A section; folded if nothing in it is known yet. */
function table(one, options) {
  const drawn = one.cross ? crossed(one, options) : listed(one, options);
  if (one.rows.some(({ numbers }) => Number.isFinite(numbers.mean))) return drawn;
  const said = `${one.name}: ${many(one.rows.length, "line")} without an estimate yet`;
  return el("details", { class: "unknown", "data-key": one.name }, el("summary", {}, said), drawn);
}

function listed({ name, rows, scale: scaled, about }, { since, all, held }) {
  const scale = scaled(rows);
  const volunteers = rows.some((row) => row.volunteers !== "unknown");
  const changes = since !== "" && rows.some((row) => row.change);
  const apart = new Set(rows.map(({ forged }) => forged)).size > 1; // else one sentence says it of all rows
  const forged = !apart && `${rows[0].forged === "no limit" ? "without limit" : `by ${rows[0].forged.replace("±", "")}`}.`;
  const shown = all ? rows : rows.slice(0, MOST);
  const percent = (value) => (100 * (value - scale.low)) / (scale.high - scale.low);
  const column = (text, attributes) => el("th", { scope: "col", ...attributes }, text);
  const caption = [
    about,
    rows.some((row) => scale.at(row)) && scale.caption,
    apart && "“1% forged” is how far 1% of forged reports could move a row.",
    forged && `1% of forged reports could move ${rows.length > 1 ? "each of these" : "this"} ${forged}`,
  ];
  return el(
    "table",
    { class: `estimates${changes ? " changes" : ""}${apart ? " apart" : ""}`, "data-key": name },
    el("caption", {}, el("b", {}, name), " ", el("span", { class: "note" }, caption.filter(Boolean).join(" "))),
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
        column(held, { class: "limits" }),
        volunteers && column("volunteers", { class: "own" }),
        changes && column(`since ${since}`, { class: "change" }),
        apart && column("1% forged", { class: "forged" }),
      ),
    ),
    el(
      "tbody",
      {},
      shown.map((row) =>
        el(
          "tr",
          { "data-key": row.name },
          el("th", { scope: "row" }, row.name),
          el("td", { class: "picture", "aria-hidden": "true" }, picture(scale.at(row), percent, scale)),
          el("td", { class: "estimate" }, row.estimate),
          el("td", { class: "limits" }, row.interval),
          volunteers && el("td", { class: "own", "data-label": "volunteers" }, el("span", {}, row.volunteers)),
          changes && changed(row, since),
          apart && el("td", { class: "forged", "data-label": "1% forged" }, row.forged),
        ),
      ),
    ),
  );
}

function changed({ numbers, change: found }, since) {
  const label = { "data-label": `since ${since}`, class: "change" };
  if (!found || !Number.isFinite(found.mean)) return el("td", label, "unknown");
  const { text, interval } = change(found, numbers.kind);
  const sure = found.low > 0 || found.high < 0;
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
