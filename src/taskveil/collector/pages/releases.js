// The releases, and for the chosen one its facts, its rounds with their reports, and its guarantee.
import { el } from "./dom.js";
import { budget, count, many, short, size, total } from "./words.js";

const state = (open) => el("span", { class: `chip ${open ? "open" : "closed"}` }, open ? "open" : "closed");

/** A tab for every release, the one with the id `chosen` selected. */
export function tabs(releases, chosen) {
  return releases.map((release) =>
    el(
      "button",
      {
        type: "button",
        role: "tab",
        id: `tab-${release.id}`,
        "data-key": release.id,
        "data-release": release.id,
        "aria-selected": String(release.id === chosen),
        "aria-controls": "release",
        tabindex: release.id === chosen ? "0" : "-1",
      },
      el("span", { class: "name" }, release.name || short(release.id)),
      state(release.open),
      el("span", { class: "total" }, el("b", {}, count(release.reports)), release.reports === 1 ? " report" : " reports"),
      el(
        "span",
        { class: "facts" },
        el("code", {}, short(release.id)),
        ` · ${size(release.report_bytes)} a report`,
        el("br"),
        [
          `ε = ${budget(release.guarantee.epsilon)}${release.guarantee.delta ? `, δ = ${release.guarantee.delta}` : ""} a report`,
          `${budget(release.so_far.epsilon)} so far`,
          release.planned && `${budget(release.planned.epsilon)} planned`,
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    ),
  );
}

/** What the release is, in a line. */
export function title(release) {
  const facts = [
    `design ${release.method}`,
    release.attributes.length > 0 && many(release.attributes.length, "attribute"),
    `${size(release.client_bytes)} on a device`,
  ];
  return [
    el("h2", {}, release.name || short(release.id)),
    el("p", { class: "note" }, facts.filter(Boolean).join(" · "), el("br"), el("code", {}, release.id)),
    release.members && members(release),
  ];
}

/** The members of a family, with the reports of each. */
function members({ kind, members: list }) {
  const all = list.reduce((sum, { weight }) => sum + weight, 0);
  const shown = list.map(({ name, weight, epsilon, reports }) => {
    const share = kind === "drawn" ? `, drawn in ${Number(((100 * weight) / all).toPrecision(3))}% of rounds` : "";
    return el("li", { "data-key": name }, el("b", {}, name), `: ${many(reports, "report")} (ε = ${budget(epsilon)}${share})`);
  });
  return el("ul", { class: "note", id: "members" }, shown);
}

/** The rounds, the latest first, with a bar for each. */
export function rounds(release) {
  const most = Math.max(1, ...release.rounds.map((round) => round.reports));
  const rows = [...release.rounds].reverse().map((round) => {
    const current = release.open && round.open && round.name === release.current;
    const marks = current
      ? el("span", { class: "chip now" }, "now")
      : !round.open && el("span", { class: "chip closed" }, "ended");
    return el(
      "tr",
      { "data-key": round.name, class: current ? "now" : undefined },
      el("th", { scope: "row" }, el("span", { class: "name" }, round.name), " ", marks),
      el("td", { class: "bar", "aria-hidden": "true" }, round.reports > 0 && el("i", { "width%": (100 * round.reports) / most })),
      el("td", { class: "number" }, count(round.reports)),
    );
  });
  const nothing = release.open ? "No round is open. Open one with taskveil collection round RELEASE NAME." : "It has no round.";
  return [
    el("h3", { id: "rounds-title" }, "Reports per round"),
    el(
      "p",
      { class: "big" },
      el("b", { id: "total" }, count(release.reports)),
      ` ${release.reports === 1 ? "report" : "reports"} in all`,
    ),
    !release.open && el("p", { class: "callout" }, "This release is closed: it takes no reports."),
    rows.length === 0 && el("p", {}, nothing),
    rows.length > 0 &&
      el(
        "div",
        {
          class: "scroll",
          tabindex: rows.length > 8 ? "0" : undefined,
          role: rows.length > 8 ? "region" : undefined,
          "aria-labelledby": rows.length > 8 ? "rounds-title" : undefined,
        },
        el(
          "table",
          { class: "rounds" },
          el("caption", { class: "hidden" }, "Reports per round, the latest first"),
          el(
            "thead",
            { class: "hidden" },
            el("tr", {}, el("th", { scope: "col" }, "round"), el("td", {}), el("th", { scope: "col" }, "reports")),
          ),
          el("tbody", {}, rows),
        ),
      ),
  ];
}

/** The guarantee: its number, what rounds add up to for one person, and what one report means. `all` is the sum of releases. */
export function promise({ guarantee, so_far: soFar, planned, panel }, releases, all) {
  const delta = guarantee.delta ? `, δ = ${guarantee.delta}` : "";
  return [
    el("h3", { id: "promise-title" }, "The guarantee"),
    el("p", { class: "big" }, el("b", {}, `ε = ${budget(guarantee.epsilon)}${delta}`), " for each report"),
    el(
      "ul",
      { id: "together" },
      panel
        ? [
            el("li", {}, `A person makes at most ${many(planned.reports, "report")} in ${many(planned.rounds, "planned round")}, in total ${total(planned)}.`),
            el("li", {}, `In ${many(soFar.rounds, "round")} so far a person made at most ${many(soFar.reports, "report")}: ${total(soFar)}.`),
          ]
        : [
            el("li", {}, `A person who reported in ${soFar.rounds === 1 ? "its round" : `each of its ${soFar.rounds} rounds`} spent ${total(soFar)}.`),
            planned && el("li", {}, `${many(planned.rounds, "planned round")} add up to ${total(planned)}.`),
          ],
      releases > 1 &&
        el("li", {}, `Budgets of different releases add up too: all rounds of all ${releases} releases together are ${total(all)}.`),
    ),
    el("p", {}, guarantee.statement.replaceAll("ε = ", "ε\u00a0=\u00a0")),
  ];
}
