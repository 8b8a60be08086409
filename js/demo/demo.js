// The page: sliders in, chances and one report out. Everything private happens in the client.
import { Client, upload } from "./taskveil.js";

const ROUNDS = 3; // what this page's budget allows
const $ = (id) => document.getElementById(id);
const hex = (bytes) => Array.from(bytes, (v) => v.toString(16).padStart(2, "0")).join("");

const shown = await (await fetch("release/shown.json")).json();
const first = await Client.load("release/client/");
const client = await Client.load("release/client/", { cap: ROUNDS * first.epsilon });
const most = Math.exp(client.epsilon);

let record = [...shown.mean];
let round = Number(localStorage.getItem("round") ?? 1);
let report = null;

$("statement").textContent = client.statement;
$("cap").textContent = client.cap.toFixed(1);

client.columns.forEach((name, i) => {
  const label = document.createElement("label");
  label.innerHTML = `<span></span><input type="range" min="${shown.low[i]}" max="${shown.high[i]}" step="0.1" /><output></output>`;
  const [title, slider, value] = label.children;
  title.textContent = name;
  slider.value = record[i];
  slider.id = `slider-${i}`;
  const show = () => (value.textContent = `${record[i].toFixed(1)} ${client.units[i]}`);
  slider.addEventListener("input", () => {
    record[i] = Number(slider.value);
    show();
    redraw();
  });
  show();
  $("sliders").append(label);
});

for (let k = 0; k < 16; k++) {
  const bar = document.createElement("div");
  bar.innerHTML = `<i></i><i></i><span>${k}</span>`;
  $("chart").append(bar);
}

function redraw() {
  const mine = client.odds(record);
  const theirs = client.odds(shown[$("other").value]);
  const top = Math.max(...mine, ...theirs);
  const drawn = report === null ? null : report.payload[0];
  [...$("chart").children].forEach((bar, k) => {
    bar.children[0].style.height = `${(100 * mine[k]) / top}%`;
    bar.children[1].style.height = `${(100 * theirs[k]) / top}%`;
    bar.title = `report ${k}: ${(100 * mine[k]).toFixed(1)}% for you, ${(100 * theirs[k]).toFixed(1)}% for the other person`;
    bar.classList.toggle("drawn", k === drawn);
  });
  // Play, not reports: these are drawn for the picture and never leave the page.
  $("samples").textContent = Array.from({ length: 10 }, () => pick(mine)).join(", ");
  const k = drawn ?? mine.indexOf(Math.max(...mine));
  const ratio = mine[k] / theirs[k];
  const [likelier, times] = ratio >= 1 ? ["you", ratio] : ["the other person", 1 / ratio];
  $("tell").textContent =
    `${drawn === null ? `If it were to receive report ${k}` : `From report ${k}`}, the server learns ` +
    (ratio === 1
      ? "nothing that sets you and the other person apart."
      : `that it is ${times.toFixed(2)} times as likely from ${likelier} as from the ${likelier === "you" ? "other person" : "likes of you"}.`) +
    ` No report can ever reach more than ${most.toFixed(2)} times, for any two people. It cannot tell your record. (When you send, and from which address, is not hidden by this.)`;
  $("guess").tBodies[0].replaceChildren(
    ...client.columns.map((name, i) => {
      const row = document.createElement("tr");
      for (const text of [name, record[i].toFixed(1), shown.estimates[k][i].toFixed(1)]) row.insertCell().textContent = text;
      return row;
    }),
  );
}

function pick(odds) {
  let u = crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
  return Math.max(0, odds.findIndex((p) => (u -= p) < 0));
}

async function budget() {
  const spent = await client.spent();
  $("round").textContent = round;
  $("spent").textContent = spent.toFixed(1);
  $("meter").style.width = `${Math.min(100, (100 * spent) / client.cap)}%`;
}

function say(text, failed = false) {
  $("status").textContent = text;
  $("status").className = failed ? "error" : "";
}

async function make() {
  try {
    report = await client.report(Object.fromEntries(client.columns.map((name, i) => [name, record[i]])), { round });
    const raw = report.toBytes();
    $("bytes").textContent =
      `${raw.length} bytes, all that leaves:\nrelease ${hex(report.release)}\nrandom id ${hex(report.id)}\nreport  ${report.payload[0]}`;
    $("submit").disabled = false;
    say("Recorded on this device. Drawing again this round gives the same bytes.");
  } catch (error) {
    say(error.message, true);
  }
  await budget();
  redraw();
}

async function send() {
  try {
    await upload([report], "/v1/reports", { pause: 100 });
    say("Sent. Of your record, the server has the number above and nothing else.");
  } catch (error) {
    say(error.message, true);
  }
}

$("make").addEventListener("click", make);
$("submit").addEventListener("click", send);
$("next").addEventListener("click", () => {
  round++;
  localStorage.setItem("round", round);
  report = null;
  $("submit").disabled = true;
  $("bytes").textContent = "Nothing has been drawn yet.";
  say("");
  budget();
  redraw();
});
$("other").addEventListener("change", redraw);
window.taskveil = { client, record }; // for the curious, and for the page's test
await budget();
redraw();
document.body.dataset.ready = "true";
