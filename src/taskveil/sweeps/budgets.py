"""The smallest budget that keeps enough of the usable signal, with a confidence for other records like those tested.

A design with losses L, where one answer for everybody costs C and the task without privacy R, keeps the share
(C − L)/(C − R) of the usable signal, with means over all people. It is at least κ exactly where the mean of the
**surplus** C − L − κ(C − R) is not negative. The surplus is one number per record, in which all three losses of a
record are paired, so a bound of its mean is a bound of the share (Fieller's way): no ratio of noisy means is needed.

Many designs are asked at once, and the luckiest of many looks better than it is. `surely_kept` is therefore a
step-down test (Romano and Wolf, 2005): the designs that may fall short share one confidence, widened to what the
largest of so many correlated means needs; those that pass leave, and the rest is asked again. Designs that fall short
beyond doubt cannot win by luck and are not counted.

Groups of people who are missing among the tested records cannot be bounded: a group whose share is below
1 − (1 − confidence)^(1/N) may be missing among N records, and its losses are not known. The statement names that share.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from taskveil.arrays import Bools, Floats
from taskveil.notebooks import summary
from taskveil.veil.loss_intervals import CONFIDENCE, bounds, circular_means, few_leaders, interval

_DRAWS = 10_000


class Budget(float):
    """The smallest budget of a sweep that keeps the share asked for, with the confidence asked for; infinite if none
    does. It is a float with more attributes.

    `high` is the number itself, and `method` is the method that reaches it. Budgets below `low` fall short; between the
    two the tested records do not decide. Each of the two holds with the given `confidence`, for other records like
    those tested. `low` is NaN if it is not known. `statement` says all of this in words.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
        >>> budget = frontier.epsilon_for(kept=0.01)
        >>> budget in (1, 4), budget.confidence
        (True, 0.9)
    """

    low: float
    method: str | None
    kept: float
    confidence: float
    statement: str

    def __new__(
        cls,
        value: float = math.inf,
        *,
        low: float = math.nan,
        method: str | None = None,
        kept: float,
        confidence: float,
        statement: str,
    ) -> Budget:
        """A budget that keeps the share `kept` with `method`, or none."""
        budget = super().__new__(cls, value)
        budget.low, budget.method, budget.kept = low, method, kept
        budget.confidence, budget.statement = confidence, statement
        return budget

    @property
    def high(self) -> float:
        """The budget itself, as a plain number."""
        return float(self)

    def _repr_html_(self) -> str:
        short = "not known" if math.isnan(self.low) else f"below {self.low:g}" if math.isfinite(self.low) else "all"
        rows = [
            ["ε", "none" if math.isinf(self) else f"{self:g}"],
            ["budgets of the sweep that fall short", short],
            ["method", self.method or "none"],
            ["share of the signal kept", f"{100 * self.kept:g}%"],
            ["confidence", f"{100 * self.confidence:g}%"],
        ]
        return summary("Budget", [self.statement], rows=rows)

    def __getnewargs_ex__(self) -> tuple[tuple[float], dict[str, Any]]:
        return (float(self),), vars(self)


def smallest_budget(
    designs: Sequence[tuple[str, float]],
    losses: Floats,
    clear: Floats,
    constant: Floats,
    *,
    kept: float,
    confidence: float,
    block: int = 1,
) -> Budget:
    """The smallest budget at which a design surely keeps the share `kept`.

    Args:
        designs: method and ε of each.
        losses: (designs, N), on the same records as the next two.
        clear: (N,), without privacy.
        constant: (N,), of one answer for everybody; more than `clear` on average.
        kept: the share asked for.
        confidence: that the answer is not too small.
        block: how many neighbours among the records count as one.
    """
    asked, level, count = f"{100 * kept:g}%", f"{100 * confidence:g}%", len(clear)
    if not bounds(constant - clear, confidence=confidence, block=block)[0] > 0:
        few = few_leaders(constant)
        together = f" in blocks of {block}" * (block > 1)
        care = f" Half of what that answer costs falls on {few} of them: check their units." * (few is not None)
        statement = (
            f"No budget can be named: {count} test records{together} are too few to be sure ({level}) that the model "
            f"without privacy is better than a constant prediction at all.{care} Test on more records."
        )
        return Budget(kept=kept, confidence=confidence, statement=statement)
    surpluses = surplus(losses, clear, constant, kept)
    sure, possible = surely_kept(surpluses, confidence=confidence, block=block)
    budgets, means = np.array([epsilon for _, epsilon in designs]), losses.mean(axis=1)
    low, value = (float(budgets[which].min(initial=math.inf)) for which in (possible, sure))
    if sure.any():
        best = int(np.argmin(np.where(sure & (budgets == value), means, math.inf)))
        method, few = designs[best][0], few_leaders(surpluses[best])
        perhaps = f" ε = {low:g} may be enough, but the records do not show it." * (low < value)
        care = f" But it rests on {few} of them: test on more." * (few is not None)
        statement = (
            f"ε = {value:g} with {method} keeps at least {asked} of the usable signal, with {level} confidence for "
            f"other records like the {count} tested, among which kinds of people rarer than "
            f"{_unseen(count / block, confidence):.1%} may be missing.{perhaps}{care}"
        )
        return Budget(value, low=low, method=method, kept=kept, confidence=confidence, statement=statement)
    best = int(np.argmin(means))
    share = float((constant - losses[best]).mean() / (constant - clear).mean())

    def falls_short(percent: int) -> bool:
        less = surplus(losses, clear, constant, percent / 100)
        return not surely_kept(less, confidence=confidence, block=block)[0].any()

    most = bisect_left(range(1, math.ceil(100 * kept)), True, key=falls_short)
    statement = (
        f"No budget of the sweep is sure ({level}) to keep {asked} of the usable signal: "
        f"{f'{most}% is the most' if most else 'there is no share'} that is sure. On average over the {count} test "
        f"records the best, {designs[best][0]} at ε = {designs[best][1]:g}, keeps {share_text(share)}. Sweep larger "
        "budgets, test on more records, or ask for less."
    )
    return Budget(low=low, kept=kept, confidence=confidence, statement=statement)


def _unseen(count: float, confidence: float) -> float:
    """The largest share of a group that `count` independent records may miss, with the given confidence."""
    return float(-np.expm1(np.log1p(-confidence) / count))


def share_text(kept: float | None) -> str:
    """Whole percent, rounded towards zero: 94.9% must not look like the 95% that was asked for."""
    return "–" if kept is None or not math.isfinite(kept) else f"{int(kept * 100)}%"


def surplus(losses: Floats, clear: Floats, constant: Floats, kept: float) -> Floats:
    """C − L − κ(C − R) for `losses` L (..., N), `clear` R and `constant` C (N,), and the share κ `kept`."""
    return np.asarray(constant - losses - kept * (constant - clear))


def surely_kept(surpluses: Floats, *, confidence: float, block: int = 1) -> tuple[Bools, Bools]:
    """Which designs surely keep enough, and which possibly do, by their `surpluses` (designs, N).

    The chance that any design is wrongly called sure is at most 1 − `confidence`. For every single design, so is the
    chance that it keeps enough and is not called possible. `block` neighbours count as one.
    """
    possible = bounds(surpluses, confidence=confidence, block=block)[1] >= 0
    sure = np.zeros(len(surpluses), dtype=bool)
    asked, luck = np.flatnonzero(possible), _luck(surpluses[possible], block)
    while len(asked):
        needed = float(ndtr(np.quantile(luck.max(axis=1), confidence)))
        # Surpluses that are equal for all tested records, even zero, contain no information about others.
        spread = np.ptp(surpluses[asked], axis=1) > 0
        passed = spread & (bounds(surpluses[asked], confidence=max(confidence, needed), block=block)[0] >= 0)
        if not passed.any():
            break
        sure[asked[passed]] = True
        asked, luck = asked[~passed], luck[:, ~passed]
    return sure, possible


def share_interval(
    losses: Floats, clear: Floats, constant: Floats, *, confidence: float = CONFIDENCE, block: int = 1
) -> tuple[float | None, float | None]:
    """The shares kept that `losses` (N,) are compatible with, by the interval of the surplus; None where there is no
    end.

    Args:
        losses: the design's, per record; `clear` and `constant` are those without privacy and of one answer for all.
        clear: (N,).
        constant: (N,).
        confidence: of the interval.
        block: how many neighbours count as one.
    """
    signal = float((constant - clear).mean())
    if not 0 < signal < math.inf or len(losses) < 2 * block or not np.isfinite(losses).all():
        return None, None
    share = float((constant - losses).mean()) / signal

    def limit(side: int) -> Callable[[float], float]:
        return lambda kept: float(
            interval(surplus(losses, clear, constant, kept), confidence=confidence, block=block)[side]
        )

    return _crossing(limit(0), share, -1.0), _crossing(limit(1), share, 1.0)


def _crossing(limit: Callable[[float], float], share: float, direction: float) -> float | None:
    """Where a limit of the surplus changes its sign, from `share` in one direction."""
    step = 2.0**-10
    while direction * limit(share + direction * step) > 0:
        step *= 2
        if step + 1.0 == step:  # no end that a double can hold
            return None
    nearer = share + direction * step / 2 if step > 2.0**-10 else share
    if direction * limit(nearer) <= 0:  # no spread at all, but for rounding
        return nearer
    return float(brentq(limit, nearer, share + direction * step, xtol=1e-9))


def _luck(surpluses: Floats, block: int) -> Floats:
    """Standard normal draws (_DRAWS, designs), correlated as the means of the surpluses are."""
    means = circular_means(surpluses - surpluses.mean(axis=1, keepdims=True), block)
    length = np.sqrt((means**2).sum(axis=1, keepdims=True))
    scaled = means / np.where(length > 0, length, math.inf)
    values, vectors = np.linalg.eigh(scaled @ scaled.T)
    normal = np.random.default_rng(0).normal(size=(_DRAWS, len(surpluses)))
    return np.asarray(normal @ (vectors * np.sqrt(np.maximum(values, 0))).T)
