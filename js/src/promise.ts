/**
 * The promise in words that need no mathematics, as `promise.py` makes it: from what the mechanism keeps, never from the
 * release's own text, which may say what it likes.
 */
import { floorExpTimes } from "./exact.js";
import { deltaOf, type Mechanism } from "./mechanisms.js";

const NOISE =
  "Every latent is forced into a fixed region in integer arithmetic, then receives exact discrete Laplace noise from the " +
  "operating system's entropy.";
const BALL =
  "All latents together are forced into a fixed ball in integer arithmetic, then receive exact discrete Gaussian noise from the " +
  "operating system's entropy.";
const CODE =
  "The report is a code number, drawn in exact integer arithmetic from the operating system's entropy; the record only " +
  "decides which numbers are favoured.";
/** Above this budget the sentence says that the protection is weak: odds of 148 to 1 and more. */
const WEAK = 5;

export const statement = (mechanism: Mechanism, epsilon: number): string => promise(wayOf(mechanism), epsilon, deltaOf(mechanism));

/** How a mechanism keeps the promise. */
export const wayOf = (mechanism: Mechanism): string => ({ laplace: NOISE, gaussian: BALL } as Record<string, string>)[mechanism.kind] ?? CODE;

/** The promise of this ε and δ, kept in this way. */
export function promise(way: string, epsilon: number, delta: number): string {
  const factor = odds(epsilon);
  const turned = `a report can turn even odds between two possible records into odds of up to ${factor} to 1.`;
  const weak = epsilon > WEAK ? ` This is weak protection: ${turned}` : "";
  const except = delta ? `, except with probability ${chance(delta)}: then a report may reveal more, at worst the whole record` : "";
  return (
    `Whatever a person's record contains, no report becomes more than ${factor} times as likely as it would be for ` +
    `any other record (ε = ${roundedUp(epsilon)})${except}.${weak} ${way} This holds for one ` +
    "report per person, for every input including malformed ones, and whatever anyone else knows or computes from the report."
  );
}

/** `count` times a probability above 0, rounded up from the shortest decimal that names the double: "δ = 1e-06 (1 in 1,000,000)". */
export function chance(delta: number, count = 1): string {
  const [digits, power] = delta.toExponential().split("e") as [string, string];
  const shift = Math.max(digits.length - 2, 0) - Number(power);
  const [n, d] = [BigInt(digits.replace(".", "")) * BigInt(count), 10n ** BigInt(shift)];
  const total = n < d ? n : d;
  const left = Math.max(String(total).length - 6, 0); // digits beyond the six that are shown
  const unit = 10n ** BigInt(left);
  return `δ = ${spelled(Number(`${(total + unit - 1n) / unit}e${left - shift}`))} (1 in ${(d / total).toLocaleString("en-US")})`;
}

/**
 * What all reports of one person reveal together: those recorded so far, which cost `spent`, and all that the cap allows. Budgets
 * add up, whatever the records of the rounds are. Neither counts `delta`, that of one report of this release.
 */
export function together(spent: number, cap: number, delta = 0): string {
  const even = "even odds between two people's records become odds of at most";
  const known = ` With the reports that this device has recorded so far (ε = ${roundedUp(spent)}), ${even} ${odds(spent)} to 1.`;
  const soFar = `Reports add up.${spent ? known : ""}`;
  const most = roundedUp(cap);
  const beside = delta ? ` Every report of this release adds ${chance(delta)} to the probability that this does not hold.` : "";
  if (spent >= cap) return `${soFar} The cap of ε = ${most} is reached.${beside}`;
  return `${soFar} With all reports that the cap of ε = ${most} allows, ${spent ? "they become at most" : even} ${odds(cap)} to 1.${beside}`;
}

/** e^ε in three digits or, from 1,000 on, without a fraction; rounded up, in whole numbers as everywhere. */
export function odds(epsilon: number): string {
  if (epsilon > 30) return `e^${roundedUp(epsilon)}`;
  const digits = Math.max(0, 3 - String(floorExpTimes(epsilon, 1n)).length);
  const shown = floorExpTimes(epsilon, 10n ** BigInt(digits)) + 1n; // e^ε is never whole
  return (Number(shown) / 10 ** digits).toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Six digits, rounded up. */
export function roundedUp(epsilon: number): string {
  const shown = Number(epsilon.toPrecision(6));
  if (shown >= epsilon) return spelled(shown);
  return spelled(Number((shown + 10 ** (Math.floor(Math.log10(epsilon)) - 5)).toPrecision(6)));
}

/** As Python spells it: 1e-05 and 1e+06, where JavaScript says 0.00001 and 1000000. */
function spelled(value: number): string {
  const [digits, power] = value.toExponential().split("e");
  const size = Math.abs(Number(power));
  return size > (value < 1 ? 4 : 5) ? `${digits}e${power![0]}${String(size).padStart(2, "0")}` : String(value);
}
