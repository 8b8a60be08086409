// Numbers as people read them.

/** 12,500 */
export const count = (number) => number.toLocaleString("en");

/** 1 report, 12,500 reports */
export const many = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

/** Six digits, rounded up: a budget is never smaller on paper than it is. */
export function budget(epsilon) {
  if (epsilon === 0) return "0";
  const near = Number(epsilon.toPrecision(6));
  const step = 10 ** (Math.floor(Math.log10(Math.abs(epsilon))) - 5);
  return String(near >= epsilon ? near : Number((near + step).toPrecision(6)));
}

/** 12.3 kB, 1.2 GB */
export function size(bytes) {
  const power = Math.min(Math.floor(Math.log10(Math.max(bytes, 1)) / 3), 4);
  return power > 0 ? `${Number((bytes / 1000 ** power).toPrecision(3))} ${["", "kB", "MB", "GB", "TB"][power]}` : many(bytes, "byte");
}

/** What a person spent who reported in so many rounds: ε = 4 (odds of at most 54.6 to 1) */
export const total = ({ epsilon, delta, odds }) =>
  `ε\u00a0=\u00a0${budget(epsilon)}${delta ? `, δ\u00a0=\u00a0${budget(delta)}` : ""} (odds of at most ${odds} to 1)`;

/** Whole percent, rounded towards zero: 94.9% must not read as 95%. */
export const share = (kept) => (Number.isFinite(kept) ? `${Math.trunc(100 * kept)}%` : "–");

/** Three digits; powers of ten where there would be many zeros. */
export function loss(value) {
  if (!Number.isFinite(value)) return "–";
  return value >= 1000 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

/** A change and its interval in its unit, with signs and as many digits as the interval is worth. */
export function change({ mean, low, high }, kind) {
  const factor = kind === "share" ? 100 : 1;
  const unit = { share: " points", date: " days" }[kind] ?? "";
  const reach = (factor * (high - low)) / 2;
  const digits = reach > 0 ? Math.min(Math.max(1 - Math.floor(Math.log10(reach)), 0), 8) : 2;
  const signed = (value) =>
    (factor * value).toLocaleString("en", {
      signDisplay: "always",
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    });
  return { text: `${signed(mean)}${unit}`, interval: `${signed(low)} … ${signed(high)}` };
}

/** A value in its unit, with as many digits as a `reach` to either side is worth. */
export function valued(value, kind, reach) {
  if (!Number.isFinite(value)) return "–";
  if (kind === "date") return new Date(86_400_000 * Math.round(value)).toISOString().slice(0, 10);
  const factor = kind === "share" ? 100 : 1;
  const digits = reach > 0 ? Math.min(Math.max(1 - Math.floor(Math.log10(factor * reach)), 0), 8) : 2;
  const text = (factor * value).toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return `${text.replace(/^-(?=[0.]*$)/, "")}${kind === "share" ? "%" : ""}`;
}

/** A day's time, as 14:03:22. */
export const clock = (time) => new Date(time).toLocaleTimeString("en-GB");

/** The beginning of a release's id. */
export const short = (id) => id.slice(0, 12);

/** A name that every file system takes. */
export const fileName = (...parts) =>
  parts
    .join("-")
    .replace(/[^\p{L}\p{N}._-]+/gu, "_")
    .slice(0, 100);
