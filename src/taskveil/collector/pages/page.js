// The page. While it is visible, it asks the collector every two seconds for the number of reports, and reloads the rest
// when it has changed enough. All its files come from the collector.
import { ask, bytes, command, forget, keep, Refusal, token } from "./api.js";
import { curve, noCurve } from "./curve.js";
import { el, show } from "./dom.js";
import { Latest } from "./latest.js";
import { promise, rounds, tabs, title } from "./releases.js";
import { Course } from "./series.js";
import { state } from "./state.js";
import { clock, fileName, many, short } from "./words.js";

const EVERY = 2000; // milliseconds between two requests
const SLOWEST = 30_000; // when the collector does not answer, and between two looks at its state
const $ = (id) => document.getElementById(id);

let releases = [];
let together = null; // what all rounds of all releases add up to
let status = null; // of the collector, and when it was asked for
let looked = -Infinity;
// `round` null is the current one, whichever that is; "" is all of them together.
const first = (release) => ({ release, round: null, since: "", assume: "", all: false });
let choice = first(null);
const curves = new Map(); // by release id: what the collector answered
let failures = 0;
let answered = Date.now();
let timer = null;
let looking = false; // a request is running

const latest = new Latest($("estimates"), { changed: (words) => say("said", words), refused: askForToken });
const course = new Course($("series"));
const people = new Map(); // by release id: how many take part, as typed
const chosen = () => releases.find((release) => release.id === choice.release);
const say = (id, text) => $(id).textContent !== text && ($(id).textContent = text);

// ---- the token

function askForToken(reason = "") {
  clearTimeout(timer);
  latest.clear();
  course.clear();
  people.clear();
  forget();
  say("refusal", reason);
  say("connection", "");
  document.title = "taskveil collector";
  $("connection").className = "";
  $("collection").hidden = $("leave").hidden = true;
  $("door").hidden = false;
  $("token").value = $("admin-token").value = "";
  say("operated", "");
  $("token").focus();
  document.body.dataset.ready = "door";
}

function enter() {
  $("door").hidden = true;
  say("refusal", "");
  releases = [];
  status = null;
  looked = -Infinity;
  failures = 0;
  latest.clear();
  beat();
}

// ---- the requests

async function beat() {
  clearTimeout(timer);
  if (looking || document.hidden || token() === null) return;
  looking = true;
  const used = token();
  let pause = EVERY;
  try {
    const answer = await ask("v1/releases");
    if (Date.now() - looked >= SLOWEST) {
      status = await ask("v1/status").catch(() => status); // the releases matter more
      looked = Date.now();
    }
    if (used === token()) receive(answer);
  } catch (problem) {
    if (used === token()) pause = failed(problem instanceof Refusal ? problem : unshown(problem));
  }
  looking = false;
  timer = setTimeout(beat, used === token() ? pause : 0); // another token was given meanwhile
}

function receive(answer) {
  failures = 0;
  answered = Date.now();
  ({ releases, together } = answer);
  say("connection", "Live");
  $("connection").className = "live";
  draw();
}

/** An error of this page, shown like a refusal of the collector. */
function unshown(fault) {
  reportError(fault);
  return new Refusal(0, "This page cannot show the collector’s answer.");
}

/** Shows the problem. Returns how many milliseconds to wait. */
function failed(refusal) {
  if (refusal.ofToken) askForToken(refusal.message);
  else {
    failures += 1;
    const old = releases.length > 0 ? ` The page shows data from ${clock(answered)}.` : "";
    say("connection", `${refusal.message}${old} It will try again.`);
    $("connection").className = "lost";
    if (releases.length === 0) document.body.dataset.ready = "failed";
  }
  return Math.max(Math.min(EVERY * 2 ** failures, SLOWEST), 1000 * refusal.retryAfter);
}

// ---- the content

function draw() {
  $("collection").hidden = $("leave").hidden = false;
  if (!chosen()) choice = first(releases[0]?.id ?? null);
  const release = chosen();
  $("release").hidden = release === undefined;
  if (release === undefined) {
    const command = el("code", {}, "taskveil serve RELEASE");
    show($("releases"), el("p", { class: "card" }, "No release yet. Add one with ", command, ". Then it appears here."));
    $("releases").removeAttribute("role");
    latest.clear();
  } else {
    $("releases").setAttribute("role", "tablist");
    show($("releases"), tabs(releases, release.id));
    $("release").setAttribute("aria-labelledby", `tab-${release.id}`);
    show($("title"), title(release));
    show($("counts"), rounds(release));
    show($("promise"), promise(release, releases.length, together));
    show($("state"), state(release.id, status));
    $("state").hidden = status === null;
    drawOpen(release);
    document.title = `${release.name || short(release.id)} · taskveil collector`;
    drawChoice(release);
    latest.refresh(release, wanted(release));
    drawCourse(release);
    drawCurve(release);
  }
  if (document.body.dataset.ready !== "true") performance.mark("ready");
  document.body.dataset.ready = "true";
}

/** The choice for a release; by default its current round, or the latest. */
function wanted(release) {
  const names = release.rounds.map((round) => round.name);
  if (choice.round && !names.includes(choice.round)) choice.round = null;
  const current = names.includes(release.current) ? release.current : (names.at(-1) ?? "");
  const round = choice.round ?? current;
  if (!names.includes(choice.since) || choice.since === round || round === "") choice.since = "";
  if (!release.assumptions.includes(choice.assume)) choice.assume = "";
  return { ...choice, round };
}

function drawChoice(release) {
  const { round, since, assume } = wanted(release);
  const option = (value, text) => el("option", { value, "data-key": value }, text);
  const latest = release.rounds.map(({ name }) => name).reverse();
  show(
    $("round"),
    latest.map((name) => option(name, name === release.current ? `${name} (current)` : name)),
    latest.length !== 1 && option("", "all rounds together"),
  );
  const others = latest.filter((name) => name !== round);
  show(
    $("since"),
    option("", round === "" ? "choose a round first" : "no other round"),
    round !== "" && others.map((name) => option(name, name)),
  );
  show(
    $("assume"),
    option("", "rows without an assumption"),
    release.assumptions.map((name) => option(name, `also rows with the assumption: ${name}`)),
  );
  for (const [id, value] of Object.entries({ round, since, assume })) if ($(id).value !== value) $(id).value = value;
  $("compared").hidden = latest.length < 2;
  $("assumed").hidden = release.assumptions.length === 0;
  $("since").disabled = round === "";
}

/** The rounds that can be ended. */
function drawOpen(release) {
  const open = release.rounds.filter((round) => round.open).reverse();
  show(
    $("old-round"),
    open.map(({ name }) => el("option", { value: name, "data-key": name }, name)),
    open.length === 0 && el("option", { value: "" }, "none"),
  );
  $("old-round").disabled = $("end-round").disabled = open.length === 0;
}

/** The rows over the rounds, where there are enough for a line. */
function drawCourse(release) {
  const hidden = !release.estimates || (!release.panel && release.rounds.length < 3);
  $("course").hidden = hidden;
  if (hidden) return course.clear();
  const typed = people.get(release.id) ?? "";
  if (document.activeElement !== $("people-asked") && $("people-asked").value !== typed) $("people-asked").value = typed;
  course.refresh(release, typed);
}

async function drawCurve(release) {
  if (!release.frontier) return show($("curve"), noCurve());
  if (!curves.has(release.id)) {
    curves.set(release.id, null);
    show($("curve"));
    try {
      curves.set(release.id, await ask(`v1/releases/${encodeURIComponent(release.id)}/frontier`));
    } catch (refusal) {
      if (!(refusal instanceof Refusal)) throw refusal;
      if (refusal.status !== 404) curves.delete(release.id); // the next request asks for it again
      return show($("curve"), noCurve(refusal.message));
    }
  }
  if (chosen() !== undefined && chosen().id === release.id) fitCurve();
}

/** Draws the curve as wide as the page allows, so that its letters keep their size. */
function fitCurve() {
  const release = chosen();
  const frontier = release?.frontier && curves.get(release.id);
  if (!frontier) return;
  const style = getComputedStyle($("curve"));
  const width = Math.floor($("curve").clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight));
  if (width > 0) show($("curve"), curve(frontier, { epsilon: release.guarantee.epsilon, width }));
}

// ---- actions

function choose(release) {
  if (release === choice.release) return;
  choice = first(release);
  say("saving", "");
  say("operated", "");
  draw();
}

async function save(format) {
  const release = chosen();
  const { round } = wanted(release);
  $("save").disabled = $("save-csv").disabled = true;
  say("saving", "Fetching…");
  try {
    const file = await bytes("v1/export", { release: release.id, round, format });
    const link = el("a", {
      href: URL.createObjectURL(file),
      download: `${fileName(release.name || short(release.id), round || "all")}.${format}`,
    });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
    say("saving", `Saved ${many(file.size, "byte")}.`);
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    say("saving", refusal.message);
  }
  $("save").disabled = $("save-csv").disabled = false;
}

/** Opens or ends a round. The admin token is in its field only. */
async function operate(name, end) {
  const { id } = chosen();
  if (name === "" || [".", ".."].includes(name)) return say("operated", "Give the round a name.");
  const path = `v1/releases/${encodeURIComponent(id)}/rounds/${encodeURIComponent(name)}`;
  $("open-round").disabled = $("end-round").disabled = true;
  say("operated", end ? "Ending…" : "Opening…");
  try {
    await (end ? command("POST", `${path}/close`, $("admin-token").value.trim()) : command("PUT", path, $("admin-token").value.trim()));
    say("operated", end ? `Round ${name} has ended.` : `Round ${name} is open.`);
    if (!end) $("new-round").value = "";
    beat();
  } catch (refusal) {
    if (!(refusal instanceof Refusal)) throw refusal;
    say("operated", refusal.message);
  }
  $("open-round").disabled = false;
  if (chosen()) drawOpen(chosen());
}

/** Arrow keys go from tab to tab, Home and End to the first and the last. */
function moveTab(event) {
  const place = releases.findIndex((release) => release.id === choice.release);
  const last = releases.length - 1;
  const steps = { ArrowRight: place + 1, ArrowDown: place + 1, ArrowLeft: place - 1, ArrowUp: place - 1, Home: 0, End: last };
  const next = steps[event.key];
  if (next === undefined || place < 0) return;
  event.preventDefault();
  const { id } = releases[(next + releases.length) % releases.length];
  choose(id);
  $(`tab-${id}`).focus();
}

$("door").addEventListener("submit", (event) => {
  event.preventDefault();
  keep($("token").value);
  enter();
});
$("leave").addEventListener("click", () => askForToken());
$("releases").addEventListener("click", (event) => {
  const tab = event.target.closest("[data-release]");
  if (tab) choose(tab.dataset.release);
});
$("releases").addEventListener("keydown", moveTab);
$("choice").addEventListener("change", (event) => {
  choice[event.target.id] = event.target.value;
  choice.all = false;
  draw();
});
$("choice").addEventListener("submit", (event) => event.preventDefault());
$("estimates").addEventListener("click", (event) => {
  if (!event.target.closest("[data-all]")) return;
  choice.all = true;
  latest.showAll();
});
$("people-asked").addEventListener("change", (event) => {
  const number = Number(event.target.value);
  people.set(choice.release, Number.isInteger(number) && number >= 1 ? String(number) : "");
  draw();
});
$("series").addEventListener("click", (event) => event.target.closest("[data-all]") && course.showAll());
for (const button of [$("save"), $("save-csv")]) button.addEventListener("click", () => save(button.dataset.format));
$("admin").addEventListener("submit", (event) => {
  event.preventDefault();
  operate($("new-round").value.trim(), false);
});
$("end-round").addEventListener("click", () => operate($("old-round").value, true));
document.addEventListener("visibilitychange", () => document.hidden || beat());
addEventListener("hashchange", () => location.hash.startsWith("#token=") && token() && enter());
new ResizeObserver(fitCurve).observe($("curve"));
new ResizeObserver(() => course.fit()).observe($("course"));

if (token() === null) askForToken();
else enter();
