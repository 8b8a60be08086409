// What an operator looks at beside the reports: when the last one came, what was refused, the disk, and tokens.
import { el } from "./dom.js";
import { count, many, size } from "./words.js";

const SOON = 14; // days before a token expires
const DAY = 86_400_000; // milliseconds

/** The facts about a release and its collector; nothing where they are not known yet. */
export function state(id, status) {
  const release = status?.releases.find((one) => one.id === id);
  if (!release) return [];
  const { fates } = release;
  const { bytes, free_bytes: free } = status.database ?? {};
  const tight = free !== undefined && free !== null && free < 2 * bytes;
  const facts = [
    ["Last report", ago(release.hours_since_report, status.hours)],
    ["Repeated reports", count(fates.duplicate)],
    ["Refused reports", count(fates.refused + fates.conflict), fates.refused + fates.conflict > 0.01 * fates.accepted],
    typeof status.refused_requests === "number" && ["Refused requests", count(status.refused_requests)],
    bytes !== undefined && ["Database", size(bytes)],
    typeof free === "number" && ["Free disk space", size(free), tight],
    ["Your token expires", expiry(status.token_expires), soon(status.token_expires)],
    ["Upload token expires", expiry(status.uploads_expire), soon(status.uploads_expire)],
  ];
  return [
    el("h3", { id: "state-title" }, "State of the collector"),
    el(
      "dl",
      {},
      facts.filter(Boolean).map(([name, value, raised]) =>
        el("div", { class: raised ? "raised" : undefined, "data-key": name }, el("dt", {}, name), el("dd", {}, value)),
      ),
    ),
    tight && el("p", { class: "callout raised" }, "To end a round, SQLite needs free space of twice the database’s size."),
    el("p", { class: "note" }, "Reports are counted since the collector started. It keeps the hour of the last report in memory only."),
  ];
}

function ago(hours, running) {
  if (hours === null) return `none since the start, ${running === 0 ? "less than an hour" : `about ${many(running, "hour")}`} ago`;
  if (hours === 0) return "less than an hour ago";
  return `about ${hours < 48 ? many(hours, "hour") : many(Math.round(hours / 24), "day")} ago`;
}

const days = (date) => Math.floor((Date.parse(date) - Date.now()) / DAY);
const soon = (date) => date !== null && days(date) < SOON;
const expiry = (date) => (date === null ? "never" : `${date.slice(0, 10)} (in ${many(Math.max(days(date), 0), "day")})`);
