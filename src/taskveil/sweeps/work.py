"""The designs of a sweep as tasks, made here one after the other or by the workers of a Ray cluster in any order.

A task is one method for one group of people, with all budgets and seeds that share its work. What tasks need is sent
once and never changed; what they find is the same wherever they run, so an interrupted sweep may go on elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import NamedTuple

from taskveil.designs.designing import design_many, finished
from taskveil.designs.methods import DESIGNERS
from taskveil.designs.problem import AtOnce, Designer, Formula
from taskveil.designs.threads import one_thread
from taskveil.errors import ClusterError, TaskError, TaskveilError, callers_line
from taskveil.jobs.ray_joining import connected
from taskveil.jobs.ray_working import in_any_order
from taskveil.progress import SILENT, Progress
from taskveil.sweeps.frontier import Point
from taskveil.sweeps.parcels import Parcel, packed, unpacked
from taskveil.sweeps.trials import Trial
from taskveil.tasks import LinearTask, MeanTask, Task

Segment = str | None
"""A group of people by its name; None is everybody."""


class Place(NamedTuple):
    """Which design of a sweep: for whom, by which method, at which budget, from which seed."""

    segment: Segment
    method: str
    epsilon: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class Work:
    """One task: designs by one method for one group of people, at every one of the budgets with every seed."""

    segment: Segment
    method: str
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]

    @classmethod
    def missing(cls, places: Iterable[Place]) -> list[Work]:
        """All that is to do: seeds that lack the same budgets are asked for together."""
        lacking: dict[tuple[Segment, str], dict[int, list[float]]] = {}
        for segment, method, epsilon, seed in places:
            lacking.setdefault((segment, method), {}).setdefault(seed, []).append(epsilon)
        found: list[Work] = []
        for (segment, method), by_seed in lacking.items():
            together: dict[tuple[float, ...], list[int]] = {}
            for seed, epsilons in by_seed.items():
                together.setdefault(tuple(epsilons), []).append(seed)
            found += [
                cls(segment=segment, method=method, epsilons=epsilons, seeds=tuple(seeds))
                for epsilons, seeds in together.items()
            ]
        return found

    @property
    def count(self) -> int:
        """How many designs it makes."""
        return len(self.epsilons) * len(self.seeds)

    @property
    def title(self) -> str:
        """What a progress bar calls it."""
        return self.method if self.segment is None else f"{self.segment}, {self.method}"

    def parted(self, designer: Designer, task: Task) -> list[Work]:
        """The same in parts that workers can do side by side without doing anything twice.

        Where the task is a matrix, nothing is worth sharing. For a model, most of the time goes into what a record
        says of the answer, which all budgets share (measured: 5.4 of 7.5 seconds for four budgets).
        """
        if isinstance(designer, AtOnce) and designer.at_once(task):
            return [self]
        budgets = [(e,) for e in self.epsilons] if isinstance(task, LinearTask | MeanTask) else [self.epsilons]
        return [replace(self, epsilons=epsilons, seeds=(seed,)) for seed in self.seeds for epsilons in budgets]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shared:
    """What all tasks need: the trial of every segment and of everybody (None), and designers that are the caller's own,
    since ours are known everywhere by their names. Designs of the seed `released` come back as files too."""

    trials: Mapping[Segment, Trial]
    own: Mapping[str, Designer]
    released: int | None = None

    def designer(self, method: str) -> Designer:
        """Who makes designs by this method."""
        return self.own[method] if method in self.own else DESIGNERS[method]

    def task(self, segment: Segment) -> Task:
        """What designers are told the task is."""
        return self.trials[segment].problem.served


class Made(NamedTuple):
    """One design of a sweep: where it belongs, what it costs, and the files of its release, if wanted."""

    segment: Segment
    point: Point
    release: dict[str, bytes] | None

    @property
    def place(self) -> Place:
        """Which design it is."""
        return Place(self.segment, self.point.method, self.point.epsilon, self.point.seed)


def make(shared: Shared, work: Work, progress: Progress = SILENT) -> Iterator[Made]:
    """All designs of one task, each as soon as it is there; what goes wrong is said of the segment."""
    try:
        for count, made in enumerate(_made(shared, work, progress), start=1):
            progress.reach(count / work.count)  # of designers that do not say themselves how far they are
            yield made
    except TaskveilError as error:
        if work.segment is None:
            raise
        raise TaskError(
            f"segment {work.segment!r}: {error} Take the label away from its people to give them the common design."
        ) from error


def _made(shared: Shared, work: Work, progress: Progress) -> Iterator[Made]:
    trial, designer = shared.trials[work.segment], shared.designer(work.method)
    problem, block = replace(trial.problem, progress=progress), trial.block
    if isinstance(designer, Formula):
        for epsilon in work.epsilons:
            losses = designer.expected_losses(problem, epsilon, trial.X_test)
            for seed in work.seeds:
                yield Made(work.segment, Point.of(work.method, epsilon, seed, losses, block=block), None)
        return
    for epsilon, seed, veil in design_many(designer, problem, epsilons=work.epsilons, seeds=work.seeds):
        losses = veil.losses(trial.X_test, trial.y_test)
        point = Point.of(work.method, epsilon, seed, losses, block=block, size=veil.size)
        release = finished(veil, problem, trial.columns).files() if seed == shared.released else None
        yield Made(work.segment, point, release)


def make_here(shared: Shared, works: Sequence[Work], progress: Progress = SILENT) -> Iterator[list[Made]]:
    """One task after the other; every design by itself as soon as it is there."""
    progress.begin("designing", sum(work.count for work in works))
    for work in works:
        with progress.part(work.title, work.count) as part:
            yield from ([made] for made in make(shared, work, part))


def make_on_ray(
    shared: Shared,
    works: Sequence[Work],
    *,
    address: str | None,
    workers: int | None,
    num_gpus: float,
    kept: str,
    progress: Progress = SILENT,
) -> Iterator[list[Made]]:
    """The same designs by the workers of a cluster, task by task in any order, the largest first.

    Args:
        shared: sent to every machine once.
        works: what is to do; parted as far as nothing is done twice.
        address: of the cluster, as in `jobs.ray_joining.connected`.
        workers: that work at a time.
        num_gpus: that every task takes for itself.
        kept: what a failure leaves, as the last words of its message.
        progress: advanced by the designs of every task that is finished.
    """
    parts = [part for work in works for part in work.parted(shared.designer(work.method), shared.task(work.segment))]
    if not parts:
        return
    progress.begin(f"starting {len(parts)} tasks on Ray", sum(part.count for part in parts))
    parts.sort(key=lambda part: _size(shared, part), reverse=True)
    with connected(address, workers=workers):
        _check_gpus(num_gpus)
        results = in_any_order(_on_worker, parts, shared=packed(shared), workers=workers, num_gpus=num_gpus, kept=kept)
        with closing(results):  # type: ignore[type-var]  # a generator
            for count, (designs, said) in enumerate(results, start=1):
                progress.advance(f"{count} of {len(parts)} tasks finished on Ray", len(designs))
                for category, text in said:
                    warnings.warn(text, category, stacklevel=callers_line())
                yield designs


def _on_worker(parcel: Parcel, work: Work) -> tuple[list[Made], list[tuple[type[Warning], str]]]:
    """The designs of one task, and what there was to warn of, for whoever asked."""
    shared: Shared = unpacked(parcel)
    with warnings.catch_warnings(record=True) as said, one_thread():
        warnings.simplefilter("default")
        designs = list(make(shared, work))
    return designs, list(dict.fromkeys((warning.category, str(warning.message)) for warning in said))


def _size(shared: Shared, work: Work) -> tuple[bool, int]:
    """What a task is worth being begun early: whether anything is learned, and how many records are looked at."""
    learned = shared.designer(work.method).seeded(shared.task(work.segment))
    return learned, work.count * len(shared.trials[work.segment].problem.X)


def _check_gpus(wanted: float) -> None:
    """A ClusterError where the cluster has fewer graphics processors than one task takes: it would wait for ever."""
    import ray

    there: float = ray.cluster_resources().get("GPU", 0.0)  # type: ignore[no-untyped-call]
    if wanted > there:
        raise ClusterError(f"every design takes {wanted:g} GPUs, and the cluster has {there:g}: ask for fewer.")
