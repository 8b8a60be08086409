// The page: a form in, chances and one report out. Everything private happens in the client. What it needs lies in
// release/shown.json: whom to compare with, the server's guesses and, on a collector, its release and an upload token.
import { drawForm, words } from "./form.js";
import { Client, upload } from "./taskveil.js";

/** Somebody to begin with, who has not measured everything. */
const START = {
  ...{ age: 52, "resting pulse": null, sleep: 7, household: 2, sport: "walking", smokes: false },
  "last check-up": "2024-05-06",
};
const UNKNOWN = "Ask the device whether it is its turn.";
const $ = (id) => document.getElementById(id);
const hex = (bytes) => Array.from(bytes, (v) => v.toString(16).padStart(2, "0")).join("");

let client;
let shown;
let record;
let place = 0; // of the week among the planned ones
let report = null;
let answer = "";

// `upload` says how many reports were taken; this page also shows the collector's own words.
const plainFetch = window.fetch;
window.fetch = async (...request) => {
  const found = await plainFetch(...request);
  if (request[1]?.method === "POST") answer = await found.clone().text();
  return found;
};

/** e^ε in three digits, rounded up: the page never promises more than the mathematics. */
function times(epsilon) {
  const factor = Math.exp(epsilon);
  const unit = 10 ** Math.min(0, Math.floor(Math.log10(factor)) - 2);
  return (Math.ceil(factor / unit - 1e-9) * unit).toLocaleString("en", { maximumSignificantDigits: 3 });
}

async function load() {
  const answer = await fetch("release/shown.json");
  if (!answer.ok) throw new Error(`cannot fetch release/shown.json: status ${answer.status}.`);
  shown = await answer.json();
  client = await Client.load(shown.client ?? "release/client/");
  record = { ...START };
  const remembered = Number(localStorage.getItem("week"));
  if (week(remembered)) place = remembered;
}

/** The name of a planned week. */
const week = (at) => client.panel.rounds[at];

/** The lines behind the bars, up to a round number; the share that the top of the chart stands for. */
function scale(highest) {
  const step = [0.01, 0.02, 0.05, 0.1, 0.2].find((share) => highest <= 5 * share) ?? 0.25;
  const steps = Math.ceil(highest / step);
  $("scale").replaceChildren(
    ...Array.from({ length: steps + 1 }, (_, i) => {
      const line = document.createElement("span");
      line.dataset.share = `${Math.round(100 * i * step)}%`;
      line.style.bottom = `${(100 * i) / steps}%`;
      return line;
    }),
  );
  return steps * step;
}

function redraw() {
  const mine = client.odds(record);
  const theirs = client.odds(shown.others[$("other").value]);
  const top = scale(Math.max(...mine, ...theirs));
  const drawn = report === null ? null : report.payload[0];
  const percent = (p) => `${(100 * p).toFixed(1)}%`;
  [...$("chart").children].forEach((bar, k) => {
    bar.children[0].style.height = `${(100 * mine[k]) / top}%`;
    bar.children[1].style.height = `${(100 * theirs[k]) / top}%`;
    bar.title = `report ${k}: ${percent(mine[k])} for you, ${percent(theirs[k])} for the other person`;
    bar.classList.toggle("drawn", k === drawn);
  });
  const likely = (odds) => odds.flatMap((p, k) => (p === Math.max(...odds) ? [k] : [])).join(", ");
  $("chart").setAttribute(
    "aria-label",
    `Your likeliest reports are ${likely(mine)}, the other person's ${likely(theirs)}; all others have ${percent(Math.min(...mine))} each.`,
  );
  // Play, not reports: these are drawn for the picture and never leave the page.
  $("samples").textContent = Array.from({ length: 10 }, () => pick(mine)).join(", ");
  const k = drawn ?? mine.indexOf(Math.max(...mine));
  const ratio = mine[k] / theirs[k];
  const [likelier, other, factor] =
    ratio >= 1 ? ["you", "the other person", ratio] : ["the other person", "the likes of you", 1 / ratio];
  const learns =
    ratio === 1
      ? "nothing that sets you and the other person apart"
      : `that it is ${factor.toFixed(2)} times as likely from ${likelier} as from ${other}`;
  $("tell").textContent =
    `${drawn === null ? `If it were to receive report ${k}` : `From report ${k}`}, the server learns ${learns}. ` +
    `No report can ever reach more than ${times(client.epsilon)} times, for any two people. It cannot tell your record. ` +
    "(When you send, and from which address, is not hidden by this.)";
  $("guess").tBodies[0].replaceChildren(
    ...client.fields.map((field) => {
      const row = document.createElement("tr");
      const head = document.createElement("th");
      head.scope = "row";
      head.textContent = field.name;
      row.append(head);
      const { value, chance } = shown.guesses[k][field.name];
      const sure = chance === undefined ? "" : ` (${Math.round(100 * chance)}%)`;
      for (const text of [words(field, record[field.name]), words(field, value) + sure]) row.insertCell().textContent = text;
      return row;
    }),
  );
}

function pick(odds) {
  let u = crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
  return Math.max(
    0,
    odds.findIndex((p) => (u -= p) < 0),
  );
}

async function budget() {
  const { soFar, planned, lifetime } = await client.spent();
  for (const [id, value] of [["spent", soFar], ["planned", planned], ["cap", lifetime]]) $(id).textContent = value.toFixed(1);
  $("meter").style.width = `${Math.min(100, (100 * soFar) / lifetime)}%`;
  $("statement").textContent = await client.statement;
  await weeks();
}

/** Which week it is, and in which ones this device has reported. The drawn weeks to come are shown nowhere. */
async function weeks() {
  const { panel } = client;
  const made = await Promise.all(panel.rounds.map((name) => client.recorded(name)));
  $("round").textContent = place + 1;
  $("date").textContent = week(place);
  $("weeks").replaceChildren(
    ...panel.rounds.map((name, at) => {
      const item = document.createElement("li");
      const what = made[at] ? "reported" : at < place ? "no report" : at === place ? "now" : "to come";
      item.textContent = at + 1;
      item.title = `week ${at + 1}, ${name}: ${what}`;
      item.setAttribute("aria-label", item.title);
      item.classList.toggle("first", at === panel.start(panel.block(at)));
      item.classList.toggle("report", made[at] !== null);
      item.classList.toggle("past", at < place);
      item.classList.toggle("now", at === place);
      return item;
    }),
  );
  $("next").disabled = place === panel.rounds.length - 1;
}

function say(text, failed = false) {
  $("status").textContent = text.charAt(0).toUpperCase() + text.slice(1);
  $("status").className = failed ? "error" : "";
}

async function make() {
  try {
    report = await client.report(record, { round: week(place) });
    $("submit").disabled = report === null;
    if (report === null) {
      $("turn").textContent = "It is not this device's turn: nothing leaves.";
      say("No report this week. The weeks were drawn before your record was looked at, so this says nothing about you.");
    } else {
      const raw = report.toBytes();
      $("turn").textContent = "It is this device's turn.";
      $("bytes").textContent =
        `${raw.length} bytes, all that leaves:\nrelease ${hex(report.release)}\nrandom id ${hex(report.id)}\nreport  ${report.payload[0]}`;
      say("Recorded on this device. Asking again this week gives the same bytes.");
    }
    await budget();
  } catch (error) {
    say(error.message, true);
  }
  redraw();
}

async function send() {
  $("submit").disabled = true; // one upload at a time
  try {
    await upload([report], `/v1/reports?round=${week(place)}`, { pause: 100, token: shown.token });
    say(`Sent. ${answer && `The collector answered ${answer}. `}Of your record, it has the number above and nothing else.`);
  } catch (error) {
    say(error.message, true);
  }
  $("submit").disabled = report === null;
}

async function next() {
  localStorage.setItem("week", ++place);
  report = null;
  $("submit").disabled = true;
  $("bytes").textContent = "Nothing has been drawn yet.";
  $("turn").textContent = UNKNOWN;
  say("");
  redraw();
  await budget();
}

try {
  await load();
  $("rounds").textContent = client.panel.rounds.length;
  $("reports").textContent = client.panel.reports;
  $("turn").textContent = UNKNOWN;
  drawForm($("fields"), client.fields, record, redraw);
  const count = client.odds(record).length;
  $("count").textContent = count;
  for (let k = 0; k < count; k++) {
    const bar = document.createElement("div");
    bar.innerHTML = `<i></i><i></i><span>${k}</span>`;
    $("chart").append(bar);
  }
  await budget();
  redraw();
  $("make").addEventListener("click", make);
  $("submit").addEventListener("click", send);
  $("next").addEventListener("click", next);
  $("other").addEventListener("change", redraw);
  for (const id of ["make", "other"]) $(id).disabled = false;
  document.querySelector("main").inert = false;
  window.taskveil = { client, record }; // for the curious, and for the page's test
  document.body.dataset.ready = "true";
} catch (error) {
  $("trouble").textContent = `This page cannot work now: ${error.message} Nothing was drawn and nothing was sent.`;
  $("trouble").hidden = false;
  $("intro").hidden = true;
  document.querySelector("main").hidden = true;
  document.body.dataset.ready = "failed";
}
