// The estimate on the page: asked for again when another is wanted, or when there are more reports than it was made of.
import { ask, Refusal } from "./api.js";
import { el, show } from "./dom.js";
import { estimates } from "./estimates.js";

const GROWN = 0.05; // more reports than the shown estimate has: time for another
const STALE = 10_000; // milliseconds after which any new report is reason enough
const PATIENCE = 25_000; // milliseconds that an estimate of very many reports may take
const NONE =
  "This release gives no population estimates. Design it again with this version of taskveil.";

export class Latest {
  #place; // the element that shows it
  #changed; // called when another one is shown, with words for it
  #refused; // called when the token is no longer good
  #shown = null; // { key, release, since, reports, at, failed, answer }
  #asking = null; // the AbortController of the question under way, with its key

  constructor(place, { changed, refused }) {
    this.#place = place;
    this.#changed = changed;
    this.#refused = refused;
  }

  /** Nothing is shown, and no answer is waited for. */
  clear() {
    this.#asking?.abort();
    this.#asking = this.#shown = null;
    show(this.#place);
  }

  /** Shows what is chosen of `release`, if that is not there already or too old; `all` its lines, or the first. */
  async refresh(release, { round, since, assume, all }) {
    if (!release.estimates) {
      this.clear();
      return show(this.#place, el("p", {}, NONE));
    }
    const key = JSON.stringify([release.id, round, since, assume]);
    const reports = round === "" ? release.reports : release.rounds.find(({ name }) => name === round).reports;
    if (this.#asking?.key === key || !this.#isDue(key, reports)) return;
    this.#asking?.abort();
    const mine = (this.#asking = Object.assign(new AbortController(), { key }));
    if (this.#shown?.release !== release.id) show(this.#place, el("p", { class: "note" }, "Reading the reports…"));
    if (this.#shown?.key !== key) this.#place.setAttribute("aria-busy", "true");
    const several = round === "" && release.rounds.length > 1;
    const next = { key, release: release.id, since, all, several, reports, at: Date.now(), failed: false };
    const wanted = { release: release.id, round, since, assume, anytime: assume && "false" };
    try {
      next.answer = await ask("v1/estimates", wanted, { signal: mine.signal, patience: PATIENCE });
      if (this.#asking !== mine) return;
      next.reports = next.answer.reports; // fewer than there are, where the collector gives a kept estimate
      next.all ||= this.#shown?.key === key && this.#shown.all; // asked for meanwhile
      show(this.#place, estimates(next.answer, next));
    } catch (problem) {
      if (this.#asking !== mine) return;
      if (problem.status === 401) return this.#refused(problem.message);
      this.#fail(problem, next);
    }
    this.#asking = null;
    if (this.#shown !== null && this.#shown.key !== key)
      this.#changed(`Estimates of ${round || "all rounds"}${since && ` compared with ${since}`} are shown.`);
    this.#shown = next;
    this.#place.removeAttribute("aria-busy");
    if (!document.body.dataset.estimates) performance.mark("estimates");
    document.body.dataset.estimates = key;
  }

  /** All lines of what is shown. */
  showAll() {
    if (!this.#shown?.answer) return;
    this.#shown.all = true;
    show(this.#place, estimates(this.#shown.answer, this.#shown));
  }

  /** A passing failure leaves what was there; that there are too few reports does not pass by waiting. */
  #fail(problem, next) {
    const ours = !(problem instanceof Refusal);
    if (ours) reportError(problem);
    next.failed = true;
    next.answer = undefined;
    if (problem.status !== 409 && this.#shown?.key === next.key && this.#shown.answer) next.answer = this.#shown.answer;
    else
      show(
        this.#place,
        el(
          "p",
          { class: "callout", id: "reason" },
          ours ? "This page cannot show the collector’s answer." : problem.message,
        ),
      );
  }

  /** Whether what is on the page is of something else, or too old. */
  #isDue(key, reports) {
    const shown = this.#shown;
    if (shown?.key !== key) return true;
    const old = Date.now() - shown.at >= STALE;
    const grown = Math.abs(reports - shown.reports);
    return (grown > 0 && (old || grown >= GROWN * shown.reports)) || (shown.failed && old);
  }
}
