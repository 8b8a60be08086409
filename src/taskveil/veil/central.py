"""What a crowd adds: the central (ε, δ) of one round against those who see the reports of all people without order.

**Guarantee.** n honest people make one report each of one release in one round. Somebody sees the n reports as a set,
without order, time or sender, or anything that was computed from it. Change the record of one person. Then for every
event E, P[E] ≤ e^ε · P'[E] + δ with the (ε, δ) of `central`. All other records may be known.

**Proof.** Let R_x be the distribution of the report of a record x, and e0 the largest ratio R_x(o)/R_x'(o).

(1) *The blanket* (Balle, Bell, Gascón and Nissim 2019). Let μ(o) be the least R_x(o) over all records, and γ = Σ μ(o).
Every report is, with probability γ, a draw from μ/γ that does not depend on the record. Tell the observer which of the
other people made such a draw, and the reports of the rest. The report of the one person then lies among M draws from
μ/γ, so that δ(ε) ≤ 1/n · E[max(0, X_1 + … + X_n)], where each X is on its own 0 with probability 1 − γ and otherwise
(R_x(o) − e^ε R_x'(o))/μ(o) for an o drawn from μ/γ.

(2) *The worst report.* Let u = R_x/μ and v = R_x'/μ. Both lie between 1 and e0, and E[u] = E[v] = 1/γ under μ/γ. The
mean in (1) grows if the distribution of X is replaced by one that is larger in the convex order: every convex function
has a larger mean. Replace u and v by their ends 1 and e0, with the same means, and let both be e0 as seldom as can be:
f(u − e^ε v) is convex in u and in v and submodular for convex f, so nothing else is larger. With q = (1 − γ)/(e0 − 1),

    X = e0 − e^ε with probability q,  1 − e^ε e0 with q,  1 − e^ε with γ − 2q,  0 with 1 − γ,    if 2q ≤ γ.

These are the values of a response with m favoured of K outputs, where γ = K·b/T and q = m·b/T.

(3) *One number.* With θ = q(e0 + 1), this X is a constant 1 − e^ε with probability 1 − θ, and with probability θ a
variable Y with the same mean that does not depend on γ. So the mean in (1) grows with θ, and falls with γ: any lower
bound of γ may be used.

(4) *Without a bound of γ*, or where 2q > γ, θ = 1. For one pair x, x' take μ = max(R_x, R_x')/e0, which lies below
every R. The larger of u and v is then e0. Replace the smaller one by its ends: X becomes Y with some probability, and
otherwise a variable Z with the same mean, which is e0(1 − e^ε) with probability 1/e0 and else 0. Z is below Y in the
convex order. Compare E max(0, Z − t) with the same of Y: for t ≥ 0 it is 0; for t ≤ e0(1 − e^ε) it is E[Z] − t, the
least that a variable of this mean has; between these both are linear in t, and at both ends that of Y is not smaller.

(5) *Arithmetic* (`_excess`). The mean is a sum over the number S of X that have one of the first two values, and the
number N of those that are 1 − e^ε. Given S and N it has a closed form. It grows with the number of coin flips and falls
with what is subtracted, so each block of S is bounded from its two ends. It is convex in N and lies below its chords.
Tails count in full. Binomial probabilities are scipy's; their relative errors are far below the 10^-6 that is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.client.mechanisms import Response
from taskveil.client.promise import rounded_up, times_as_likely
from taskveil.errors import BudgetError
from taskveil.notebooks import summary
from taskveil.veil.channels import Channel

MOST_REPORTS = 10**12
"""Of a round: a hundred times as many as there are people. Binomial probabilities of more take minutes."""


@dataclass(frozen=True, kw_only=True)
class Central:
    """The central guarantee of one round with `reports` honest reports. `local`, the ε of a report, stays the promise.

    `at_least` is a lower bound where one is known: no proof that holds for all codewords, and so for all favoured sets,
    gives a smaller ε at this δ. Several rounds: `tv.compose([tv.Cost.of(central, times=52)], delta=1e-6)`.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> crowd = veil.central(reports=100_000, delta=1e-7)
        >>> crowd.epsilon < 0.04 < crowd.local
        True
    """

    epsilon: float
    delta: float
    reports: int
    local: float
    at_least: float | None

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        return (
            f"The {self.reports:,} reports of a round without order, time and sender, and all results that are "
            "computed from them, reveal less about one person: nothing is more than "
            f"{times_as_likely(self.epsilon)} times as likely as with any other record of this person, except with "
            f"probability {rounded_up(self.delta)} "
            f"(central ε = {rounded_up(self.epsilon)}). The promise to each person stays ε = {rounded_up(self.local)} "
            "for each report, also towards the server that receives it."
        )

    @property
    def assumes(self) -> tuple[str, ...]:
        """What must hold for it."""
        return (
            f"At least {self.reports:,} people report honestly for this release in this round. Forged reports and "
            "reports of other members of a family do not count.",
            "Reports cannot be linked to people: no order, time, address or other mark is kept.",
            "It holds against those who see the set of reports, or results. It does not hold against those who see "
            "each report as it arrives.",
        )

    def _repr_html_(self) -> str:
        rows = [
            ["central ε", rounded_up(self.epsilon)],
            ["δ", rounded_up(self.delta)],
            ["reports", f"{self.reports:,}"],
        ]
        return summary("What a crowd adds", [self.statement, *self.assumes], rows=rows)


def central(channel: Channel, *, reports: int, delta: float) -> Central:
    """The smallest central ε that is proved for a mechanism.

    Args:
        channel: of the mechanism; it bounds the mass of the blanket.
        reports: honest reports of the round that cannot be linked to people.
        delta: between 0 and 1, the two excluded.
    """
    if type(reports) is not int or not 1 <= reports <= MOST_REPORTS:
        raise BudgetError(f"reports must be a whole number from 1 to {MOST_REPORTS:,}, got {reports!r}.")
    if not (isinstance(delta, (int, float)) and 0 < delta < 1):
        raise BudgetError(f"delta must lie between 0 and 1, for example 1e-7, got {delta!r}.")
    mechanism = channel.mechanism
    if mechanism.delta > 0:
        raise BudgetError("a central guarantee is known for mechanisms with δ = 0 only.")
    local, theta = mechanism.epsilon, dependence(mechanism.epsilon, channel.blanket)
    bounds = [found for one in mechanism.responses if (found := least_epsilon(one, reports, delta)) is not None]
    return Central(
        epsilon=central_epsilon(local, theta, reports, delta),
        delta=delta,
        reports=reports,
        local=local,
        at_least=bounds[0] if bounds else None,
    )


def usual_delta(reports: int) -> float:
    """A power of ten of at most 1/(100 reports): then a failure for even one of all people is improbable."""
    return 10.0 ** -len(str(100 * reports - 1))


def dependence(local: float, blanket: float) -> float:
    """θ: how much a report may depend on its record, 1 at most, from the local ε and a lower bound of γ."""
    return min(1.0, (1 - blanket) / math.tanh(local / 2) * (1 + 2.0**-40))


def central_epsilon(local: float, theta: float, reports: int, delta: float) -> float:
    """The smallest ε up to `local` whose δ is proved to be at most `delta`, to four digits, rounded up."""
    from scipy.optimize import brentq

    def excess(epsilon: float) -> float:
        return math.log(max(delta_bound(epsilon, local, theta, reports, delta), 1e-300) / delta)

    # e^100 is far above any number of people: such reports hide in no crowd.
    high = local
    if local > 100 or excess(high * (1 - 2.0**-14)) > 0:
        return local
    while high > 2.0**-40 and excess(high / 4) <= 0:
        high /= 4
    if high > 2.0**-40:
        high = min(high, float(brentq(excess, high / 4, high, rtol=2.0**-16)) * (1 + 2.0**-15))
    while excess(high) > 0:  # what is returned is proved, whatever the search did
        high *= 1 + 2.0**-14
    return min(high, local)


def delta_bound(epsilon: float, local: float, theta: float, reports: int, scale: float) -> float:
    """An upper bound of δ at this ε: the mean in (1) over the number of reports. What lies far below `scale` is rounded
    up coarsely."""
    binom = _binomial()
    e0, gain = math.exp(local), math.exp(epsilon) * math.expm1(local - epsilon)
    if gain <= 0:
        return 0.0
    unit, drift, rest = _steps(epsilon, math.expm1(local))
    q, spread = theta / (e0 + 1), math.sqrt(2 * math.log(1e6 * max(gain, 1) / scale))
    numbers = _nodes(reports, 2 * q, spread, 200)
    first, last, chance = _shares(numbers, reports, 2 * q)
    outside = binom.cdf(numbers[0] - 1, reports, 2 * q) + binom.sf(numbers[-1] - 1, reports, 2 * q)
    total, other = 0.0, (1 - theta) / (1 - 2 * q)
    for start, end, share in zip(first.tolist(), last.tolist(), chance.tolist(), strict=True):
        # The more of the first two values there are, the fewer others: the end of the block has the fewest.
        counts, weights = _chords(reports - end, other, spread)
        total += share * float(weights @ _excess(end, unit, drift * start + rest * counts))
    return float((total / reports + gain * outside) * (1 + 1e-6))


def _steps(epsilon: float, surplus: float) -> tuple[float, float, float]:
    """How a sum of X moves, for e0 − 1 = `surplus`: with S of the first two values, which differ by D in number, and N
    of 1 − e^ε it is `unit` · D − `drift` · S − `rest` · N.

    These are differences of numbers near 1, which are computed without taking them.
    """
    rest = math.expm1(epsilon)
    return surplus * (rest + 2) / 2, rest * (surplus + 2) / 2, rest


def _shares(numbers: Integers, count: int, chance: float) -> tuple[Integers, Integers, Floats]:
    """First and last number of every block [numbers[i], numbers[i + 1]), and the chance of a binomial number in it."""
    binom = _binomial()
    share = np.diff(binom.cdf(numbers - 1, count, chance))
    upper = numbers[:-1] > chance * count  # the smaller tail is the exact one
    share[upper] = -np.diff(binom.sf(numbers - 1, count, chance))[upper]
    return numbers[:-1], numbers[1:] - 1, share


def _excess(flips: int | Integers, unit: float, subtracted: Floats) -> Floats:
    """E max(0, unit · D − subtracted) for the difference D of heads and tails of so many fair coins, in closed form.

    With X heads and t the least number of them that counts, E[X; X ≥ t] = flips/2 · P[X' ≥ t − 1], where X' are the
    heads of one coin less, and P[X' ≥ t − 1] − P[X ≥ t] = ½ P[X' = t − 1].
    """
    binom = _binomial()
    least = np.floor((subtracted / unit + flips) / 2) + 1
    one_less = np.where(least >= 1, binom.pmf(least - 1, np.maximum(flips, 1) - 1, 0.5), 0.0)
    return np.asarray(np.maximum(unit * flips / 2 * one_less - subtracted * binom.sf(least - 1, flips, 0.5), 0.0))


def _binomial() -> Any:
    """scipy's binomial distribution, which takes a second to load: only those who ask for a central guarantee wait."""
    from scipy.stats import binom

    return binom


def _nodes(count: int, chance: float, spread: float, most: int) -> Integers:
    """Whole numbers, at most most + 1 of them, around the mean of a binomial variable; the last one is above its range
    of interest."""
    middle, reach = count * chance, spread * math.sqrt(count * chance * (1 - chance)) + spread**2
    low, high = max(0, math.floor(middle - reach)), min(count, math.ceil(middle + reach)) + 1
    return np.unique(np.round(np.linspace(low, high, min(most, high - low) + 1)).astype(np.int64))


def _chords(count: int, chance: float, spread: float) -> tuple[Floats, Floats]:
    """Numbers, and weights of a convex falling function there whose sum is at least its mean over a binomial number.

    Between two nodes the function lies below its chord. Below the first node it counts as at 0, above the last
    one as there.
    """
    binom = _binomial()
    nodes = _nodes(count, chance, spread, 24)
    if count == 0 or chance == 0:
        return np.zeros(1), np.ones(1)
    below = np.concatenate([binom.cdf(nodes - 1, count, chance), [1.0]])
    means = count * chance * np.concatenate([binom.cdf(nodes - 2, count - 1, chance), [1.0]])
    share, sums = np.diff(below)[:-1], np.diff(means)[:-1]  # of every interval [node, next node)
    up = np.clip((sums - nodes[:-1] * share) / np.diff(nodes), 0.0, share)
    weights = np.zeros(len(nodes) + 1)
    weights[0] = below[0]
    weights[1:-1] += share - up
    weights[2:] += up
    weights[-1] += max(0.0, 1.0 - below[-2])
    return np.concatenate([[0.0], nodes]), weights


def least_epsilon(response: Response, reports: int, delta: float) -> float | None:
    """A lower bound: the ε at `delta` of the best event, for a crowd that favours other outputs. None if there are too
    few outputs for such a crowd. The codewords of a release may be such that no three records favour sets without a
    common output; then its ε may be smaller.

    Each report of the crowd lies in the favoured set of the record with chance q, and in that of another record with
    the same chance. The person's report lies in one of them with chance a/b · q and in the other with chance q. The
    place of the person's report among all is uniform, so δ(ε) is the mean in (1) with these chances: exactly, because
    the observer learns how many reports lie in either set and nothing else differs.
    """
    if 3 * response.favoured > response.size:
        return None
    q, odds = response.favoured * response.base, response.a / response.b
    if odds > 1e30 or 2 * q >= 1:
        return None
    elsewhere = (1 - q - odds * q) / (1 - 2 * q)  # how much likelier the person's report lies in neither set
    numbers = _nodes(reports, 2 * q, math.sqrt(2 * math.log(1e6 / delta)), 4000)
    first, last, chance = _shares(numbers, reports, 2 * q)

    def kept(epsilon: float) -> bool:
        unit, drift, rest = _steps(epsilon, (response.a - response.b) / response.b)
        # A block counts with its fewest flips, and with the most that is subtracted: as elsewhere ≤ 1, at its end.
        subtracted = drift * last + rest * elsewhere * (reports - last)
        found = float(chance @ _excess(first, unit, subtracted)) / reports
        return found * (1 - 1e-6) > delta

    low, high = 0.0, response.epsilon
    while high > low * (1 + 2.0**-14) and high > 2.0**-40:
        middle = (low + high) / 2 if low else high / 8
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low
