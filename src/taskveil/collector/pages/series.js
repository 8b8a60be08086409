// Rows over the rounds: a line with its band for each, and the numbers in a table.
import { ask, Refusal } from "./api.js";
import { el, show, svg } from "./dom.js";
import { count, many, valued } from "./words.js";

const MOST = 12; // lines that a person looks at; more when asked for
const PATIENCE = 25_000; // milliseconds that a series may take
const FRESH = 60_000; // milliseconds for which new reports do not matter
const AGAIN = 10_000; // milliseconds after a failure
const HEIGHT = 150;
const EDGE = { left: 58, right: 12, top: 8, bottom: 24 };

export class Course {
  #place; // the element that shows it
  #shown = null; // { key, release, answer, reports, at, failed }
  #asking = null; // the AbortController of the question under way, with its key
  #all = false;

  constructor(place) {
    this.#place = place;
  }

  /** Nothing is shown, and no answer is waited for. */
  clear() {
    this.#asking?.abort();
    this.#asking = this.#shown = null;
    this.#all = false;
    show(this.#place);
  }

  /** Shows the rounds of `release`, if they are not there already or too old; `people` is how many take part, or "". */
  async refresh(release, people) {
    const key = JSON.stringify([release.id, people]);
    if (this.#asking?.key === key || !this.#isDue(key, release.reports)) return;
    this.#asking?.abort();
    const mine = (this.#asking = Object.assign(new AbortController(), { key }));
    if (this.#shown?.release.id !== release.id) {
      this.#all = false;
      show(this.#place, el("p", { class: "note" }, "Reading the reports of all rounds…"));
    }
    const next = { key, release, reports: release.reports, at: Date.now(), failed: false };
    try {
      const wanted = { release: release.id, people };
      next.answer = await ask("v1/estimates/series", wanted, { signal: mine.signal, patience: PATIENCE });
    } catch (problem) {
      if (this.#asking !== mine) return;
      if (!(problem instanceof Refusal)) reportError(problem);
      next.failed = true;
      next.reason = problem instanceof Refusal ? problem.message : "This page cannot show the collector’s answer.";
      if (problem.status !== 409 && problem.status !== 422 && this.#shown?.key === key) next.answer = this.#shown.answer;
    }
    if (this.#asking !== mine) return;
    this.#asking = null;
    this.#shown = next;
    this.fit();
    document.body.dataset.series = key;
  }

  /** All lines of what is shown. */
  showAll() {
    this.#all = true;
    this.fit();
  }

  /** Draws what is known as wide as the page allows, so that its letters keep their size. */
  fit() {
    const shown = this.#shown;
    if (!shown) return;
    if (!shown.answer) return show(this.#place, el("p", { class: "callout" }, shown.reason));
    const whole = Math.floor(this.#place.clientWidth);
    if (whole > 0) show(this.#place, series(shown.answer, { panel: shown.release.panel, whole, all: this.#all }));
  }

  #isDue(key, reports) {
    const shown = this.#shown;
    if (shown?.key !== key) return true;
    const age = Date.now() - shown.at;
    return shown.failed ? age >= AGAIN : reports !== shown.reports && age >= FRESH;
  }
}

/** Charts and a table. `whole` is the width of all of it. */
function series(answer, { panel, whole, all }) {
  const columns = Math.max(1, Math.floor((whole + 26) / (416 + 26))); // as in the style: 26rem each, 1.6rem between
  const width = Math.floor((whole - 25.6 * (columns - 1)) / columns);
  const asked = answer.rounds.some(({ rate }) => rate !== null);
  const response = asked && {
    title: "Response rate",
    kind: "share",
    assumes: null,
    ...Object.fromEntries(["rate", "low", "high"].map((name) => [name, answer.rounds.map((round) => round[name])])),
  };
  if (response) response.mean = response.rate;
  const rows = [response, ...answer.rows].filter(Boolean);
  const shown = all ? rows : rows.slice(0, MOST);
  const places = placed(answer.rounds, panel);
  const blocks =
    panel && "Between two dashed lines each person reports once at most, so that rounds there are of different people. ";
  return [
    el(
      "p",
      { class: "note" },
      `${answer.statement} `,
      blocks,
      response && "The response rate is the share of the reports that should come; its limits hold for each round by itself. ",
    ),
    el(
      "div",
      { class: "courses" },
      shown.map((row) =>
        el(
          "figure",
          { "data-key": `${row.group} ${row.title}`, class: row.assumes === null ? undefined : "assumed" },
          el("figcaption", {}, row.title, row.assumes !== null && " (assumed)"),
          chart(row, answer.rounds, places, width),
        ),
      ),
    ),
    rows.length > shown.length &&
      el("p", {}, el("button", { type: "button", class: "quiet", "data-all": true }, `Show all ${many(rows.length, "line")}`)),
    answer.notes.length > 0 && el("p", { class: "note" }, answer.notes.join(" ")),
    el("details", { "data-key": "numbers" }, el("summary", {}, "The numbers"), numbers(answer, shown)),
  ];
}

/** Where each round stands, and where blocks of a panel begin between the first and the last. */
function placed(rounds, panel) {
  const names = !panel ? rounds.map(({ round }) => round) : panel.rounds;
  const at = rounds.map(({ round }) => names.indexOf(round));
  const starts = !panel ? [] : Array.from({ length: panel.reports }, (_, b) => Math.floor((b * names.length) / panel.reports));
  const [first, last] = [Math.min(...at), Math.max(...at)];
  return { at, first, last, starts: starts.filter((start) => start > first && start <= last) };
}

/** A row's line with its band. */
function chart({ title, kind, mean, low, high }, rounds, { at, first, last, starts }, width) {
  const known = at.map((_, place) => place).filter((place) => [mean, low, high].every((list) => Number.isFinite(list[place])));
  if (known.length === 0) return el("p", { class: "note" }, "No round has an estimate yet.");
  const [least, most] = [Math.min(...known.map((i) => low[i])), Math.max(...known.map((i) => high[i]))];
  const margin = 0.04 * (most - least) || Math.abs(most) || 1;
  const inner = { width: width - EDGE.left - EDGE.right, height: HEIGHT - EDGE.top - EDGE.bottom };
  const x = (place) => EDGE.left + (last > first ? (inner.width * (place - first)) / (last - first) : inner.width / 2);
  const y = (value) => EDGE.top + (inner.height * (most + margin - Math.min(Math.max(value, least), most))) / (most - least + 2 * margin);
  const reach = known.reduce((sum, i) => sum + (high[i] - low[i]) / 2, 0) / known.length;
  const said = (value) => valued(value, kind, reach);
  const ends = [known[0], known.at(-1)].map((i) => `${said(mean[i])} (${said(low[i])} to ${said(high[i])}) in ${rounds[i].round}`);
  const ticks = [...new Map([least, (least + most) / 2, most].map((value) => [said(value), value]))];
  const band = [...known.map((i) => `${x(at[i])},${y(low[i])}`), ...known.toReversed().map((i) => `${x(at[i])},${y(high[i])}`)];
  const label = (i, anchor) => svg("text", { x: x(at[i]), y: HEIGHT - 6, "text-anchor": anchor }, shortened(rounds[i].round));
  return svg(
    "svg",
    { class: "chart", role: "img", "aria-label": `${title} by round: from ${ends[0]} to ${ends[1]}`, viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT },
    ticks.map(([text, value]) => [
      svg("line", { class: "tick", x1: EDGE.left, x2: width - EDGE.right, y1: y(value), y2: y(value) }),
      svg("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, text),
    ]),
    starts.map((start) =>
      svg("line", { class: "apart", x1: x(start - 0.5), x2: x(start - 0.5), y1: EDGE.top, y2: HEIGHT - EDGE.bottom }),
    ),
    svg("polygon", { class: "band", points: band.join(" ") }),
    svg("polyline", { points: known.map((i) => `${x(at[i])},${y(mean[i])}`).join(" ") }),
    known.map((i) =>
      svg(
        "g",
        {},
        svg("title", {}, `${rounds[i].round}: ${said(mean[i])} (${said(low[i])} … ${said(high[i])})`),
        svg("line", { class: "low-high", x1: x(at[i]), x2: x(at[i]), y1: y(low[i]), y2: y(high[i]) }),
        svg("circle", { cx: x(at[i]), cy: y(mean[i]), r: 3 }),
      ),
    ),
    known.length === 1 ? label(known[0], "middle") : [label(known[0], "start"), label(known.at(-1), "end")],
  );
}

const shortened = (name) => (name.length > 22 ? `${name.slice(0, 20)}…` : name);

/** All rounds, the latest first: reports, and every shown row. */
function numbers({ rounds }, rows) {
  const titles = rows.map(({ title, assumes }) => (assumes === null ? title : `${title} (assumed)`));
  const cell = ({ kind, mean, low, high }, place) => {
    const reach = (high[place] - low[place]) / 2;
    if (!Number.isFinite(mean[place]) || mean[place] === null) return el("span", {}, "–");
    const limits = [low, high].map((list) => valued(list[place], kind, reach)).join(" … ");
    const inside = kind === "share" ? Math.max(mean[place], 0) : mean[place]; // an unbiased share may come out below zero
    return el("span", {}, valued(inside, kind, reach), el("small", {}, limits));
  };
  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": "The numbers by round" },
    el(
      "table",
      { class: "numbers" },
      el("caption", { class: "note" }, "By round, the latest first. Below each estimate is its interval."),
      el("thead", {}, el("tr", {}, ["round", "reports", ...titles].map((text) => el("th", { scope: "col" }, text)))),
      el(
        "tbody",
        {},
        rounds
          .map((round, place) =>
            el(
              "tr",
              { "data-key": round.round },
              el("th", { scope: "row" }, round.round),
              el(
                "td",
                { "data-label": "reports" },
                el("span", {}, count(round.reports), round.expected !== null && el("small", {}, `of ${count(Math.round(round.expected))}`)),
              ),
              rows.map((row, number) => el("td", { "data-label": titles[number] }, cell(row, place))),
            ),
          )
          .reverse(),
      ),
    ),
  );
}
