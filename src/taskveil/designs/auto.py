"""`method="auto"`: try the designers that fit, judge them on held-out volunteers, keep the best for each budget.

A choice among estimates is itself uncertain, so every step away from the simple needs evidence, a lead of one standard
error of the paired difference: over the method that usually wins, and over saying nothing.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.folds import folds_of, people
from taskveil.designs.problem import Designer, Problem
from taskveil.designs.threads import one_thread
from taskveil.errors import NothingToReportWarning, callers_line
from taskveil.losses import Considered, expected_losses
from taskveil.tasks import Task, take_labels
from taskveil.veil import Veil

FOLDS = 5
MANY, FOLDS_OF_MANY = 2000, 3
"""From so many volunteers on, one held-out third says enough."""

AHEAD = 1.0
"""Standard errors by which a method must beat whatever is preferred to it."""

BEHIND, ENOUGH = 3.0, 20
"""Standard errors behind the leader at which a method is given up, and how many people must have been judged by then:
fewer say little about their own spread."""


@dataclass(frozen=True, kw_only=True)
class Best:
    """The best of several designers, for every budget by itself; `veil.considered` says what was seen.

    Every fold of the volunteers is judged by veils designed on the others, so no part of the choice sees its own data
    (but for wild cells, which are brought back before); the designer chosen is then given all volunteers. A single one
    that fits needs no judging.

    `candidates` come in the order of preference; `otherwise` is taken, with a warning, where none is better than it.
    """

    name: str
    candidates: tuple[Designer, ...]
    otherwise: Designer | None = None

    def why_not(self, task: Task) -> str | None:
        """Why none of the designers serves the task; None if one does."""
        reasons = [designer.why_not(task) for designer in self.candidates]
        refused = [reason for reason in reasons if reason is not None]
        return " ".join(dict.fromkeys(refused)) if len(refused) == len(reasons) else None

    def seeded(self, task: Task) -> bool:
        """Whether one of the designers depends on the seed."""
        return any(designer.seeded(task) for designer in self._fitting(task))

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, Veil]]:
        """(ε, seed, veil) for every budget and seed, each as soon as it is there."""
        fitting = self._fitting(problem.task)
        otherwise = None if self.otherwise is None or self.otherwise.why_not(problem.task) else self.otherwise
        everyone = fitting if otherwise is None else [*fitting, otherwise]
        for seed in seeds:
            if len(everyone) == 1:
                yield from everyone[0].designs(problem, epsilons, [seed])
                continue
            judged, made = judge(everyone, problem, epsilons, seed)
            seen = {epsilon: judged[epsilon].considered(fitting, otherwise) for epsilon in epsilons}
            for designer in everyone:
                won = [epsilon for epsilon in epsilons if seen[epsilon][0].method == designer.name]
                for epsilon, veil in _all_of(designer, problem, won, seed, made):
                    if designer is otherwise:
                        warnings.warn(_nothing_helps(epsilon), NothingToReportWarning, stacklevel=callers_line())
                    yield epsilon, seed, replace(veil, considered=seen[epsilon])

    def _fitting(self, task: Task) -> list[Designer]:
        return [designer for designer in self.candidates if designer.why_not(task) is None]


@dataclass(frozen=True, kw_only=True)
class Judged:
    """What was seen at one budget: by method, the expected loss of every volunteer (N,), NaN where not judged."""

    person: Integers
    losses: dict[str, Floats] = field(default_factory=dict)
    skilled: set[str] = field(default_factory=set)
    """Methods of which it is known from elsewhere that they tell people apart."""

    def lead(self, one: str, other: str) -> tuple[float, float]:
        """By how much the loss of `one` is below that of `other`, on the volunteers both were judged on, and the
        standard error of that: copies of a record are one person."""
        gap = self.losses[other] - self.losses[one]
        both = ~np.isnan(gap)
        mean = float(gap[both].mean()) if both.any() else 0.0
        _, place = np.unique(self.person[both], return_inverse=True)
        count = int(place.max(initial=-1)) + 1
        if count < 2:
            return mean, abs(mean)
        around = np.bincount(place, weights=gap[both] - mean)
        return mean, math.sqrt(count / (count - 1) * float((around**2).sum())) / int(both.sum())

    def _beats(self, one: str, other: str) -> bool:
        lead, error = self.lead(one, other)
        return lead > AHEAD * error

    def _helps(self, one: str, nothing: str) -> bool:
        """Whether it is better than `nothing`: with evidence, or on average where what it knows is beyond doubt."""
        lead, error = self.lead(one, nothing)
        return lead > (0.0 if one in self.skilled else AHEAD * error)

    def still_open(self, names: Sequence[str]) -> list[str]:
        """Those of the methods, judged on the same volunteers, that are not clearly behind the leader."""
        if len(np.unique(self.person[~np.isnan(self.losses[names[0]])])) < ENOUGH:
            return list(names)
        both = ~np.isnan(self.losses[names[0]])
        leader = min(self.losses, key=lambda name: float(np.nanmean(np.where(both, self.losses[name], np.nan))))
        leads = {name: self.lead(leader, name) for name in names}
        return [name for name in names if leads[name][0] <= BEHIND * leads[name][1]]

    def considered(self, candidates: Sequence[Designer], otherwise: Designer | None) -> tuple[Considered, ...]:
        """All methods, the chosen one first, then by their loss."""
        names = [designer.name for designer in candidates]
        if otherwise is not None:
            names = [name for name in names if self._helps(name, otherwise.name)] or [otherwise.name]
        chosen = names[0]
        for name in names[1:]:
            chosen = name if self._beats(name, chosen) else chosen
        least = float(np.nanmean(self.losses[chosen]))
        entries = []
        for name in self.losses:
            behind, error = self.lead(chosen, name)
            entries.append(Considered(method=name, held_out_loss=least + behind, standard_error=error))
        return tuple(sorted(entries, key=lambda entry: (entry.method != chosen, entry.held_out_loss)))


class SelfJudged(NamedTuple):
    """A veil for all volunteers, the loss of every volunteer (N,) when held out, and whether what devices know of
    people is, without any noise, clearly better than one answer for everybody."""

    epsilon: float
    veil: Veil
    losses: Floats
    skilled: bool


@runtime_checkable
class Judging(Protocol):
    """A designer that holds volunteers out by itself while it designs: nobody needs to do it again."""

    def judged(self, problem: Problem, epsilons: Sequence[float], seed: int) -> Iterable[SelfJudged]:
        """One for every budget."""
        ...


Made = dict[tuple[str, float], Veil]
"""By method and budget, the veils for all volunteers that are there already."""


@one_thread()
def judge(
    designers: Sequence[Designer], problem: Problem, epsilons: Sequence[float], seed: int
) -> tuple[dict[float, Judged], Made]:
    """For every budget the designers' expected losses on volunteers they were not given.

    Designers that judge themselves are asked once; the others fold by fold: who is clearly behind at a budget is not
    asked again, and nobody once one is left. Expectations that have no formula are simulated from the seed, with the
    same numbers for all.
    """
    count, person = len(problem.X), people(problem.X)
    judged = {epsilon: Judged(person=person) for epsilon in epsilons}
    made: Made = {}
    others: list[Designer] = []
    for designer in designers:
        if problem.linear is None and isinstance(designer, Judging):
            for epsilon, veil, losses, skilled in designer.judged(problem, epsilons, seed):
                judged[epsilon].losses[designer.name], made[designer.name, epsilon] = losses, veil
                judged[epsilon].skilled.update([designer.name] if skilled else [])
        else:
            others.append(designer)
    many = count >= MANY
    fold = folds_of(person, FOLDS_OF_MANY if many else min(FOLDS, count), np.random.default_rng(seed))
    names = [designer.name for designer in others]
    for of_budget in judged.values():
        of_budget.losses.update({name: np.full(count, np.nan) for name in names})
    running = dict.fromkeys(epsilons, names)
    for part in range(1 if many else int(fold.max()) + 1):
        held = fold == part
        rest = problem.some(~held)
        if np.ptp(rest.X, axis=0).max() == 0:  # all alike: nothing can be designed for them
            continue
        X, y = problem.X[held], take_labels(problem.task, problem.y, held)
        for designer in others:
            asked = [epsilon for epsilon in epsilons if designer.name in running[epsilon]]
            for epsilon, _, veil in designer.designs(rest, asked, [seed]) if asked else ():
                rng = np.random.default_rng(seed)
                losses, _ = expected_losses(
                    veil.device, veil.decoder, problem.task, X, y, answering=veil.answering, rng=rng
                )
                judged[epsilon].losses[designer.name][held] = losses
        for epsilon, names_left in running.items():
            left = judged[epsilon].still_open(names_left) if names_left else []
            running[epsilon] = left if len(judged[epsilon].losses) - len(names) + len(left) > 1 else []
    return judged, made


def _all_of(
    designer: Designer, problem: Problem, epsilons: Sequence[float], seed: int, made: Made
) -> Iterator[tuple[float, Veil]]:
    """(ε, veil) of a designer for all volunteers: those that are there already, then those that have to be made."""
    ready = [epsilon for epsilon in epsilons if (designer.name, epsilon) in made]
    yield from ((epsilon, made[designer.name, epsilon]) for epsilon in ready)
    missing = [epsilon for epsilon in epsilons if epsilon not in ready]
    yield from ((epsilon, veil) for epsilon, _, veil in (designer.designs(problem, missing, [seed]) if missing else ()))


def _nothing_helps(epsilon: float) -> str:
    return (
        f"with these volunteers no design for ε = {epsilon:g} serves the task better than one answer for everybody, so "
        "this veil's reports say nothing and nobody's budget is spent. More volunteers, a larger budget or a model "
        'that predicts better can change that; veil.considered holds the losses, and method="codebook" insists.'
    )
