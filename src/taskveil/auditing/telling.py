"""From reports of two inputs to an event that tells them apart, and from new reports to what the event proves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.auditing.bound import Tail, best_tail
from taskveil.auditing.scores import Idea, Score
from taskveil.errors import AuditError

_SCREEN = 20_000
"""Reports of each input on which scores are screened; the best few then learn from all of the first half."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Event:
    """A set of reports, as a tail of a score: chosen on some reports, to be counted on others."""

    name: str
    says: str
    score: Score
    tail: Tail

    def __str__(self) -> str:
        return f"{self.name} {'≤' if self.tail.below else '≥'} {self.tail.threshold:.4g}"

    def in_words(self, names: tuple[str, str]) -> str:
        """Which reports belong to it, given the names of the two inputs."""
        return f"{self.says} “{names[1] if self.tail.below else names[0]}”"

    def counted(self, first: Floats, second: Floats) -> tuple[int, int]:
        """How many scores of each input fall into it, the input it is likelier for before the other."""
        hits = int(self.tail.holds(first).sum()), int(self.tail.holds(second).sum())
        return (hits[1], hits[0]) if self.tail.swapped else hits


def choose_event(
    tried: Sequence[Idea], first: Array, second: Array, *, trials: int, alpha: float, delta: float
) -> Event:
    """The event that promises the largest bound in `trials` further reports of each input.

    Args:
        tried: ways to score reports.
        first, second: reports (N, width) of the two inputs; half teach the scores, half choose the event.
        trials: how many new reports of each input will be counted.
        alpha: with what probability the bound may be wrong.
        delta: of the claim.
    """
    learn = len(first)

    def promise(score: Score, a: Array, b: Array) -> tuple[float, Tail]:
        return best_tail(score(a), score(b), trials=trials, alpha=alpha, delta=delta)

    few = min(_SCREEN, learn // 2)
    screened = []
    for idea in tried:
        score = idea.learn(first[:few], second[:few])
        screened.append(promise(score, first[-few:], second[-few:])[0])
    promising = [tried[int(place)] for place in np.argsort(-np.array(screened), kind="stable")[:3]]
    # A screening that small misses narrow margins; the classic scores are never dropped.
    promising += [idea for idea in tried if idea.robust and idea not in promising]
    best: tuple[float, Event] | None = None
    for idea in promising:
        score = idea.learn(first[: learn // 2], second[: learn // 2])
        hope, tail = promise(score, first[learn // 2 :], second[learn // 2 :])
        if best is None or hope > best[0]:
            best = hope, Event(name=idea.name, says=idea.says, score=score, tail=tail)
    if best is None:
        raise AuditError("no way to score reports was found.")
    return best[1]
