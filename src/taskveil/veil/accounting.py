"""What several reports of the same person cost together.

**Guarantee.** A person whose reports cost `costs` is protected by (ε, δ)-LDP over all of them together, also when a
later report was asked for because of an earlier one.

**Why.** (1) Pure and approximate budgets add up (basic composition). (2) A cost is also kept as a pair of distributions
that dominates the mechanism: no event tells two inputs apart better than it tells the pair apart. Products of
dominating pairs dominate adaptive compositions (Zhu, Dong and Wang 2022). Google's `dp-accounting` composes them,
rounding every privacy loss up. (3) Concentrated privacy adds up too, see below. (4) The smallest of all is returned,
rounded up.

**Concentrated privacy** (ρ-zCDP, Bun and Steinke 2016): for all orders α > 1 and inputs x, x', the loss
L = ln P[o | x] / P[o | x'] of the output o for x has E e^((α−1)L) ≤ e^((α−1)αρ). Gaussian noise has a ρ, and pure ε
is ε²/2-zCDP (their proposition 1.4). (a) Let L be the sum of the losses of several reports, each asked for because of
the earlier ones. Given these, the bound holds for each, so E e^((α−1)L) ≤ e^((α−1)α·Σρ). (b) For every number l,
max(0, 1 − e^(ε−l)) ≤ c·e^((α−1)(l−ε)) with c = (1 − 1/α)^(α−1) / α: take the largest quotient, at e^(l−ε) = α/(α−1).
So δ = E max(0, 1 − e^(ε−L)) ≤ c·e^((α−1)(αΣρ−ε)), which is ε = αΣρ + ln(1 − 1/α) − (ln δ + ln α)/(α − 1)
(Canonne, Kamath and Steinke 2020, proposition 12). Every order gives a valid bound, and the best is searched. (c) The
other reports, of (εᵢ, δᵢ) each, are randomised responses that reveal everything with probability δᵢ (Kairouz, Oh and
Viswanath 2015). If none does, they add at most Σεᵢ to L. So all together keep (ε + Σεᵢ, δ + Σδᵢ). Pure reports are
counted in either way, and the better one counts.

What can dominate: any (ε, δ)-LDP mechanism is dominated by randomised response with the same ε and δ (Kairouz, Oh and
Viswanath 2015); m favoured of K outputs by two favoured sets with as little in common as possible, which is less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from taskveil.client.concentrated import best_order, epsilon_bound
from taskveil.client.mechanisms import Response
from taskveil.client.promise import in_a_sentence, round_up, rounded_up
from taskveil.errors import BudgetError
from taskveil.notebooks import summary
from taskveil.veil.central import Central
from taskveil.veil.channels import channel_of
from taskveil.veil.veil import Veil, as_epsilon

SMALLEST_DELTA = 1e-9
"""Below this the error of adding up doubles could matter; budgets are then simply added."""

MOST_COMPOSED = 2**22
"""Reports beyond which budgets are simply added: composing more takes gigabytes, and people send so many reports only
if each reveals almost nothing."""

_ARITHMETIC = 1e-13  # δ asked of the composed distribution is smaller by this: more than sums of doubles err


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one report may reveal, and how often it is made. `parts` are its responses, if those are known, and `rho`
    is its ρ of zero-concentrated privacy, if it has one beside (ε, δ).

    Example:
        >>> import taskveil as tv
        >>> tv.Cost(epsilon=0.5, times=4)  # four reports of ε = 0.5
        Cost(epsilon=0.5, delta=0.0, times=4, parts=(), rho=None)
    """

    epsilon: float
    delta: float = 0.0
    times: int = 1
    parts: tuple[Response, ...] = ()
    rho: float | None = None

    def __post_init__(self) -> None:
        as_epsilon(self.epsilon)
        if not 0 <= self.delta < 1:
            raise BudgetError(f"delta must lie in [0, 1), got {self.delta}.")
        if type(self.times) is not int or self.times < 1:
            raise BudgetError(f"a report is made a whole number of times, at least once; got {self.times}.")
        if self.rho is not None and not (math.isfinite(self.rho) and self.rho >= 0):
            raise BudgetError(f"rho must be a finite number from 0 on, got {self.rho}.")

    @classmethod
    def of(cls, veil: Veil | Central, *, times: int = 1) -> Cost:
        """The cost of `times` reports made with one veil (of one record or of many: it makes no difference), or of
        `times` rounds with a central guarantee."""
        if isinstance(veil, Central):
            return cls(epsilon=veil.epsilon, delta=veil.delta, times=times)
        promise, rho = veil.guarantee, channel_of(veil.mechanism, veil.decoder).rho
        return cls(epsilon=promise.epsilon, delta=promise.delta, times=times, parts=veil.mechanism.responses, rho=rho)

    @property
    def concentrated(self) -> Fraction | None:
        """The ρ of one report: its own, of pure budgets at most ε²/2; None if no ρ is known."""
        pure = None if self.delta else Fraction(self.epsilon) ** 2 / 2
        known = [rho for rho in (pure, None if self.rho is None else Fraction(self.rho)) if rho is not None]
        return min(known, default=None)

    def _repr_html_(self) -> str:
        rows = [
            ["ε of a report", rounded_up(self.epsilon)],
            ["δ", rounded_up(self.delta)],
            ["times", f"{self.times:,}"],
        ]
        return summary("Cost of a report", [in_a_sentence(self.epsilon, self.delta)], rows=rows)


@dataclass(frozen=True, kw_only=True)
class Total:
    """(ε, δ) of everything together. `basic_epsilon` is the plain sum of budgets, for comparison.

    Example:
        >>> import taskveil as tv
        >>> total = tv.compose([tv.Cost(epsilon=0.125, times=52)], delta=1e-6)
        >>> total.epsilon < total.basic_epsilon, total.delta
        (True, 1e-06)
    """

    epsilon: float
    delta: float
    basic_epsilon: float

    @property
    def statement(self) -> str:
        """The total in words."""
        exception = f", except with probability {rounded_up(self.delta)}" if self.delta else ""
        plain = f"(adding up budgets gives {rounded_up(self.basic_epsilon)})"
        return f"All reports together: ε = {rounded_up(self.epsilon)}{exception} {plain}."

    def _repr_html_(self) -> str:
        rows = [
            ["ε", rounded_up(self.epsilon)],
            ["δ", rounded_up(self.delta)],
            ["added up", rounded_up(self.basic_epsilon)],
        ]
        return summary("Cost of all reports together", [self.statement], rows=rows)


def compose(costs: Sequence[Cost], *, delta: float = 0.0) -> Total:
    """The smallest (ε, δ) known for all reports together, whose `costs` are given. With `delta` 0 the budgets add up; a
    small δ gives a smaller ε.

    Example:
        >>> import taskveil as tv
        >>> weekly = tv.Cost(epsilon=0.125, times=52)
        >>> tv.compose([weekly]).epsilon
        6.5
        >>> tv.compose([weekly], delta=1e-6).epsilon < 4.5
        True
    """
    if not costs:
        raise BudgetError("there is nothing to add up: pass at least one cost.")
    if not 0 <= delta < 1:
        raise BudgetError(f"delta must lie in [0, 1), got {delta}.")
    epsilons = sum((Fraction(cost.epsilon) * cost.times for cost in costs), Fraction(0))
    deltas = sum((Fraction(cost.delta) * cost.times for cost in costs), Fraction(0))
    basic = round_up(epsilons)
    best = basic if deltas <= Fraction(delta) else math.inf
    reports = sum(cost.times * max(1, len(cost.parts)) for cost in costs)
    if delta >= SMALLEST_DELTA and reports <= MOST_COMPOSED:
        best = min(best, _composed_epsilon(costs, delta, basic / reports))
    best = min(best, _concentrated_epsilon(costs, delta))
    if math.isinf(best):
        raise BudgetError(f"the reports' own deltas add up to {float(deltas):g}: ask for a delta above that.")
    return Total(epsilon=best, delta=delta, basic_epsilon=basic)


def reports_within(cost: Cost, *, epsilon: float, delta: float = 0.0) -> int:
    """How many reports of this cost a budget of (epsilon, delta) pays for; 0 if not even one.

    The count is exact, and so it can surprise. No computer number is exactly 0.1 or 0.3: what is written 0.1 is a
    little more, what is written 0.3 a little less, so three reports of "0.1" cost more than "0.3" and only two fit. To
    pay for three, ask what three cost and take that as the budget:

    >>> import taskveil as tv
    >>> tv.reports_within(tv.Cost(epsilon=0.1), epsilon=0.3)
    2
    >>> three = tv.compose([tv.Cost(epsilon=0.1, times=3)]).epsilon
    >>> three
    0.30000000000000004
    >>> tv.reports_within(tv.Cost(epsilon=0.1), epsilon=three)
    3

    A device's ledger, whose cap is typed by hand, looks at twelve digits only: a cap of 0.3 lets it make three reports,
    which cost at most 10⁻¹² more than the cap, in proportion. This function never allows even that.

    Args:
        cost: of one report; its `times` is ignored.
        epsilon: the budget for all of them together.
        delta: the budget's δ; above 0 the reports compose better (`compose`).
    """
    cap = as_epsilon(epsilon)

    def fits(times: int) -> bool:
        try:
            return compose([replace(cost, times=times)], delta=delta).epsilon <= cap
        except BudgetError:
            return False

    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _concentrated_epsilon(costs: Sequence[Cost], delta: float) -> float:
    """ε at `delta` with the ρ of all reports that have one, or of those whose ρ is their own; the others add up."""
    least = math.inf
    for added in ([cost for cost in costs if cost.rho is not None], [cost for cost in costs if cost.concentrated]):
        others = [cost for cost in costs if cost not in added]
        left = Fraction(delta) - sum((Fraction(cost.delta) * cost.times for cost in others), Fraction(0))
        if added and left > 2.0**-100:
            rho = sum(((cost.concentrated or Fraction(0)) * cost.times for cost in added), Fraction(0))
            beside = sum((Fraction(cost.epsilon) * cost.times for cost in others), Fraction(0))
            # What holds for a smaller δ holds: for one that is a double, and within the bounds of `epsilon_bound`.
            kept = max(2.0**-100, min(0.5, math.nextafter(float(left), 0.0)))
            found = epsilon_bound(rho, kept, best_order(float(rho), kept))
            least = min(least, round_up(beside + Fraction(found)))
    return least


def _composed_epsilon(costs: Sequence[Cost], delta: float, mean: float) -> float:
    """ε at `delta` of the composed dominating pairs of reports that cost `mean` on average, every rounding upwards."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError as error:
        raise BudgetError(
            "composition with delta > 0 needs dp-accounting: pip install 'taskveil[design]', or ask for delta=0."
        ) from error
    # Each loss is rounded up to the next multiple of this; the sum then errs by a thousandth of ε at most.
    interval = min(1e-3, max(1e-6, 1e-3 * mean))
    whole = pld.identity(value_discretization_interval=interval)
    for cost in costs:
        for one in _dominating(cost, pld, interval):
            whole = whole.compose(one.self_compose(cost.times))
    found = float(whole.get_epsilon_for_delta(delta * (1 - 1e-6) - _ARITHMETIC))
    return math.nextafter(found * (1 + 2.0**-40), math.inf)


def _dominating(cost: Cost, pld: Any, interval: float) -> list[Any]:
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    if not cost.parts:
        pair = DifferentialPrivacyParameters(cost.epsilon, cost.delta)
        return [pld.from_privacy_parameters(pair, value_discretization_interval=interval)]
    pairs = []
    for part in cost.parts:
        apart = min(part.favoured, part.size - part.favoured)
        likely, unlikely = (math.log(apart) + math.log(weight) - math.log(part.total) for weight in (part.a, part.b))
        left = part.total - apart * (part.a + part.b)  # outputs in both favoured sets or in neither
        rest = math.log(left) - math.log(part.total) if left else None
        first, second = {"x": likely, "y": unlikely}, {"x": unlikely, "y": likely}
        if rest is not None:
            first["neither"] = second["neither"] = rest
        pairs.append(
            pld.from_two_probability_mass_functions(
                first, second, pessimistic_estimate=True, value_discretization_interval=interval
            )
        )
    return pairs
