"""Reports over time: `OverTime`, a budget for all reports of a person, and the choice of how many reports it pays for.

A person reports in r of T planned rounds (`client.panels`), with ε = lifetime/r each. What that costs the task:

- Surveys and means: one report has the variance V(ε), the differences between people included. About N·r/T of N people
  report in a round, so the variance of a round's estimate is V(ε) · T/(N·r).
- Answers for single people: with L(ε) the held-out loss of a report's answer and C that of the constant prediction,
  which answers for those who are silent, the mean loss over all people and rounds is C − (r/T) · (C − L(ε)).

**The choice.** Both are least where r · u(lifetime/r) is largest, with u = 1/V or u = C − L. A design for less budget
is also one for more, so u does not fall if ε grows. So once r' was tried, no r > r' is worth more than
r · u(lifetime/r'). `best_of` makes designs until no r that is left can be better by more than 1%: about seven for 52
rounds. Held-out losses are means over volunteers, and the choice is as good as they are.
"""

from __future__ import annotations

import json
import math
import warnings
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.panels import Panel, dated, day_of, times_cost
from taskveil.client.reading import MOST_MANIFEST
from taskveil.designs.auto import ConstantDesigner, folds, refitted, volunteers_of
from taskveil.designs.means.survey import spreads_of
from taskveil.designs.problem import Designer, Problem
from taskveil.designs.selection import SLACK
from taskveil.errors import BudgetError, DataError, callers_line
from taskveil.tasks import MeanTask, SurveyTask
from taskveil.veil import Veil
from taskveil.veil.losses import ConsideredPanel, expected_losses
from taskveil.veil.statistics import Key, statistics
from taskveil.veil.surveys import questions
from taskveil.veil.veil import as_epsilon


@dataclass(frozen=True, kw_only=True, repr=False)
class OverTime:
    """A budget for all reports that a person makes in planned rounds: `tv.design(X, task, epsilon=tv.OverTime(…))`.

    Each person reports in a few of the rounds, which the device draws at random when it joins. All these reports
    together cost at most `lifetime`, whatever the records are and whenever they change (`taskveil.client.panels`).

    Args:
        lifetime: the largest ε of all reports of a person together.
        rounds: how many rounds are planned, or their names in order. Without names and `start`, they are "1", "2", ….
        per_report: the ε of one report. Then a person makes as many reports as the lifetime pays for exactly: three
            reports of 0.1 cost more than 0.3 (`tv.reports_within` says why). By default the design chooses how many.
        start: the day on which the first round begins, a date or text such as "2026-11-16". Rounds are then named
            after their first days. Of a time with a time zone, the day in universal time, as `panel.round_on` counts.
        days: how many days a round takes, with `start`.

    Example:
        >>> import taskveil as tv
        >>> year = tv.OverTime(lifetime=4.0, rounds=52, start="2026-11-16")
        >>> year.names[:2], year.epsilon(3)
        (('2026-11-16', '2026-11-23'), 1.3333333333333333)
    """

    lifetime: float
    rounds: int | Sequence[str]
    per_report: float | None = None
    start: date | str | None = None
    days: int = 7

    def __post_init__(self) -> None:
        object.__setattr__(self, "lifetime", as_epsilon(self.lifetime, "lifetime"))
        if not isinstance(self.days, Integral) or isinstance(self.days, bool) or self.days < 1:
            raise DataError(f"a round takes a whole number of days, 1 or more; got days={self.days!r}.")
        if self.start is not None:
            if not isinstance(self.start, str | date):
                raise DataError(f"start is the day of the first round, such as '2026-11-16'; got {self.start!r}.")
            if isinstance(self.start, date):
                object.__setattr__(self, "start", day_of(self.start).isoformat())
        if not isinstance(self.rounds, Integral) or isinstance(self.rounds, bool):
            # The order of a set is another one in the next process.
            if isinstance(self.rounds, str | bool | Set | Mapping) or not isinstance(self.rounds, Iterable):
                raise DataError(
                    f"rounds is how many rounds are planned, or a list of their names; got {self.rounds!r}."
                )
            given = tuple(self.rounds)
            if not all(isinstance(name, str) for name in given):
                raise DataError("the names of rounds are texts.")
            object.__setattr__(self, "rounds", tuple(map(str, given)))
            if self.start is not None:
                raise DataError("rounds have names of their own, or are named after dates from start on: pass one.")
        if self.start is None and self.days != 7:
            raise DataError(f"days={self.days} counts from the day of the first round: pass start too.")
        # A release lists the names, in a manifest of limited size. Each takes a line.
        most = MOST_MANIFEST // 32
        if not 1 <= self.total <= most:
            raise DataError(f"between 1 and {most:,} rounds can be planned, got {self.total:,}.")
        _ = self.panel(1)  # checks the names
        if len(json.dumps(self.names, indent=1)) > MOST_MANIFEST // 2:
            raise DataError("the names of the rounds are too long for a release: give shorter ones.")
        if self.per_report is not None:
            object.__setattr__(self, "per_report", as_epsilon(self.per_report, "per_report"))
            if self.reports == 0:
                raise BudgetError(
                    f"one report of ε = {self.per_report:.12g} costs more than the lifetime of {self.lifetime:.12g}."
                )

    def __repr__(self) -> str:
        given = {"per_report": self.per_report, "start": self.start}
        said = "".join(f", {name}={value!r}" for name, value in given.items() if value is not None)
        return f"OverTime(lifetime={self.lifetime:g}, rounds={self.total}{said})"

    @property
    def statement(self) -> str:
        """Where it may stand in place of a number, in words."""
        return "Only tv.design, tv.sweep and tv.plan take a budget for all reports together."

    @property
    def total(self) -> int:
        """How many rounds are planned."""
        return len(self.rounds) if isinstance(self.rounds, tuple) else int(self.rounds)  # type: ignore[arg-type]

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the rounds in order."""
        if isinstance(self.rounds, tuple):
            return self.rounds
        if self.start is None:
            return tuple(str(number) for number in range(1, self.total + 1))
        return tuple(dated(str(self.start), int(self.days), self.total))

    @property
    def reports(self) -> int | None:
        """How many reports a person makes; None if the design chooses."""
        if self.per_report is None:
            return None
        count = min(self.total, int(min(self.lifetime / self.per_report, self.total)) + 1)
        while count and times_cost(self.per_report, count) > self.lifetime:
            count -= 1
        return count

    def epsilon(self, reports: int) -> float:
        """The ε of each of so many reports: the largest double with which all together cost at most the lifetime.

        Args:
            reports: how many reports a person makes.
        """
        if self.per_report is not None:
            return self.per_report
        if not 1 <= reports <= self.total:
            raise BudgetError(f"a person reports in 1 to {self.total} of {self.total} rounds, got {reports}.")
        epsilon = self.lifetime / reports
        while times_cost(epsilon, reports) > self.lifetime:
            epsilon = math.nextafter(epsilon, 0.0)
        return epsilon

    def panel(self, reports: int) -> Panel:
        """The planned rounds, of which a person reports in so many.

        Args:
            reports: how many.
        """
        return Panel(reports=reports, rounds=self.names, days=0 if self.start is None else int(self.days))

    def fixed(self, reports: int) -> OverTime:
        """The same with a number of reports that is chosen already.

        Args:
            reports: how many.
        """
        return replace(self, per_report=self.epsilon(reports))

    @property
    def compared(self) -> list[int]:
        """The numbers of reports that a sweep compares: 1, 2, 4, … and one in every round."""
        if self.reports is not None:
            return [self.reports]
        return [*(1 << power for power in range((self.total - 1).bit_length())), self.total]


Budget = float | OverTime
"""What the argument `epsilon` of `tv.design` may be, and each of `epsilons`."""


def budget_of(epsilon: Any) -> Budget:
    """A budget as it was given: a number above zero, or an `OverTime`."""
    return epsilon if isinstance(epsilon, OverTime) else as_epsilon(epsilon)


def without_delta(budget: Budget, delta: float) -> Budget:
    """The same budget, if it may have this δ. One for all reports together has none: it adds up the ε of reports, and
    Gaussian noise only pays where their ρ are added up (docs/theory/gaussian.md)."""
    if delta and isinstance(budget, OverTime):
        raise BudgetError(
            "a tv.OverTime adds up pure budgets, so it has delta = 0: leave delta out, or design for one report and "
            "use tv.compose."
        )
    return budget


def best_of(total: int, worth: Callable[[int], float]) -> list[int]:
    """The numbers of reports that were tried, the best first: no r of 1 to `total` has an r · worth(r) that is larger
    by more than 1%, for a worth that does not grow with r."""
    tried = {1: worth(1)}
    while True:
        best = max(reports * each for reports, each in tried.items())
        known = sorted(tried)
        still = [
            reports
            for reports in range(2, total + 1)
            if reports not in tried and reports * tried[known[bisect(known, reports) - 1]] > (1.0 + SLACK) * best
        ]
        if not still:
            return sorted(tried, key=lambda reports: (-reports * tried[reports], reports))
        last = known[-1]
        doubled = min(2 * last, total)
        reports = doubled if last * tried[last] == best and doubled in still else still[0]
        tried[reports] = worth(reports)


def chosen_over_time(
    over_time: OverTime, designer: Designer, problem: Problem, seed: int, make: Callable[[float], Veil]
) -> Veil:
    """The veil for the number of reports that serves the task best, with its panel and what other numbers would cost.

    Args:
        over_time: the lifetime and the rounds.
        designer: who makes the designs.
        problem: what for.
        seed: of the search for designs, and of the folds.
        make: the veil for one report of some ε.
    """
    if over_time.reports is not None:
        return replace(make(over_time.epsilon(over_time.reports)), panel=over_time.panel(over_time.reports))
    judge = _judge(over_time.total, designer, problem, seed, make)
    made: dict[int, tuple[Veil, Callable[[int], float], list[warnings.WarningMessage]]] = {}

    def worth(reports: int) -> float:
        problem.progress.advance(f"{reports} of {over_time.total} rounds", 0)
        with warnings.catch_warnings(record=True) as said:  # those of the chosen design are shown
            warnings.simplefilter("always")
            veil, each, error = judge(over_time.epsilon(reports))
        made[reports] = veil, error, said
        return each

    tried = best_of(over_time.total, worth)  # the best first
    veil, _, said = made[tried[0]]
    for warning in said:
        warnings.warn(warning.message, warning.category, stacklevel=callers_line())
    tried = [tried[0], *sorted(tried[1:])]
    considered = tuple(
        ConsideredPanel(reports=count, epsilon=over_time.epsilon(count), error=made[count][1](count)) for count in tried
    )
    return replace(veil, panel=over_time.panel(tried[0]), considered_panels=considered)


def _judge(
    total: int, designer: Designer, problem: Problem, seed: int, make: Callable[[float], Veil]
) -> Callable[[float], tuple[Veil, float, Callable[[int], float]]]:
    """By the ε of a report: the veil, what a report is worth, and by the number of reports the error of the task."""

    def of_everybody(epsilon: float) -> tuple[Veil, float, Callable[[int], float]]:
        veil = make(epsilon)
        variance = max(report_variance(veil, problem), 1e-300)
        return veil, 1.0 / variance, lambda reports: variance * total / reports

    def of_single_people(epsilon: float) -> tuple[Veil, float, Callable[[int], float]]:
        veil, loss, constant = _held_out(designer, problem, epsilon, seed, make)
        gain = constant - loss
        return veil, gain, lambda reports: constant - reports / total * gain

    return of_everybody if isinstance(problem.task, MeanTask | SurveyTask) else of_single_people


def report_variance(veil: Veil, problem: Problem) -> float:
    """The variance of an estimate from one report, the differences between people included: for means the sum over the
    task's outputs, for surveys the weighted sum over all statistics, pooled over questions."""
    task = veil.task
    if isinstance(task, SurveyTask):
        return _survey_variance(veil, task, spreads_of(problem))
    noise, _ = expected_losses(veil.device, veil.decoder, problem.task, problem.X, None, rng=np.random.default_rng(0))
    return float(noise.mean()) + spread_of(problem.task, problem.X)


def spread_of(task: Any, X: Floats) -> float:
    """How much the outputs Kx of people with records X (N, n) differ: the sum of their variances."""
    return float((X @ task.K.T).var(axis=0).sum())


def _survey_variance(veil: Veil, task: SurveyTask, spreads: Mapping[str, float]) -> float:
    precisions: dict[Key, float] = {}
    weights: dict[Key, float] = {}
    for question in questions(veil):
        measured = statistics(task, question, spreads=spreads)
        if question.vocabulary:  # of a word that few people have
            inside, outside = question.hits
            variances = [outside * (1.0 - outside) / (inside - outside) ** 2]
        else:
            variances = question.variances(measured.functionals, question.prior).tolist()
        for key, weight, one in zip(measured.keys, measured.weights.tolist(), variances, strict=True):
            precisions[key] = precisions.get(key, 0.0) + question.chance / max(one, 1e-300)
            weights[key] = weight
    return sum(weights[key] / precision for key, precision in precisions.items())


def _held_out(
    designer: Designer, problem: Problem, epsilon: float, seed: int, make: Callable[[float], Veil]
) -> tuple[Veil, float, float]:
    """A veil, its held-out loss, and that of the constant prediction on the same volunteers. A designer that compares
    its designs with the constant has measured both."""
    veil = make(epsilon)
    compared = getattr(designer, "otherwise", None)
    known = [one.held_out_loss for one in veil.considered if compared is not None and one.method == compared.name]
    if known:
        return veil, veil.considered[0].held_out_loss, known[0]
    served = volunteers_of(replace(problem, task=problem.served), seed)
    fold, _ = folds(served, seed)
    ((_, (own,)),) = refitted(designer, served, [epsilon], seed, fold)
    ((_, (constant,)),) = refitted(ConstantDesigner(name="constant"), served, [epsilon], seed, fold)
    judged = ~(np.isnan(own.losses) | np.isnan(constant.losses))
    return veil, float(own.losses[judged].mean()), float(constant.losses[judged].mean())
