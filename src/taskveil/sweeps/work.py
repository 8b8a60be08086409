"""The designs of a sweep as tasks, made here one after the other or by the workers of a Ray cluster in any order.

A task is one method for one group of people, with all budgets and seeds that share its work. The input of the tasks is
sent once and never changed. Results are the same wherever they run, so an interrupted sweep may continue elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from taskveil.designs.designing import DESIGNERS, design_many, finished
from taskveil.designs.problem import AtOnce, Designer, Formula
from taskveil.designs.selection import one_thread
from taskveil.errors import ClusterError, TaskError, TaskveilError, callers_line
from taskveil.jobs.ray_cluster import connected
from taskveil.jobs.running import in_any_order
from taskveil.progress import SILENT, Progress
from taskveil.sweeps.frontier import Point
from taskveil.sweeps.options import Ray
from taskveil.sweeps.trials import Trial
from taskveil.tasks import LinearTask, MeanTask, Task

Segment = str | None
"""A group of people by its name; None is everybody."""


class Place(NamedTuple):
    """One design of a sweep: segment, method, budget and seed."""

    segment: Segment
    method: str
    epsilon: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class DesignWork:
    """One task: designs by one method for one group of people, at every one of the budgets with every seed."""

    segment: Segment
    method: str
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]

    @classmethod
    def missing(cls, places: Iterable[Place]) -> list[DesignWork]:
        """All that is to do: seeds that lack the same budgets are asked for together."""
        lacking: dict[tuple[Segment, str], dict[int, list[float]]] = {}
        for segment, method, epsilon, seed in places:
            lacking.setdefault((segment, method), {}).setdefault(seed, []).append(epsilon)
        found: list[DesignWork] = []
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

    def parted(self, designer: Designer, task: Task) -> list[DesignWork]:
        """The same in parts that workers can do at the same time without computing anything twice.

        For a linear task nothing is shared. For a model, all budgets share the fit of the predictors, which takes most
        of the time (measured: 5.4 of 7.5 seconds for four budgets).
        """
        if isinstance(designer, AtOnce) and designer.at_once(task):
            return [self]
        budgets = [(e,) for e in self.epsilons] if isinstance(task, LinearTask | MeanTask) else [self.epsilons]
        return [replace(self, epsilons=epsilons, seeds=(seed,)) for seed in self.seeds for epsilons in budgets]


@dataclass(frozen=True, kw_only=True, eq=False)
class Shared:
    """The input of all tasks: the trial of every segment and of everybody (None), and the caller's own designers; ours
    are found by name on every machine. Designs of the seed `released` come back as files too."""

    trials: Mapping[Segment, Trial]
    own: Mapping[str, Designer]
    released: int | None = None

    def designer(self, method: str) -> Designer:
        """The designer of this method."""
        return self.own[method] if method in self.own else DESIGNERS[method]

    def task(self, segment: Segment) -> Task:
        """The task that designers get."""
        return self.trials[segment].problem.served


class Made(NamedTuple):
    """One design of a sweep: its segment, its losses, and the files of its release if it is wanted."""

    segment: Segment
    point: Point
    release: dict[str, bytes] | None

    @property
    def place(self) -> Place:
        """Which design it is."""
        return Place(self.segment, self.point.method, self.point.epsilon, self.point.seed)


def make(shared: Shared, work: DesignWork, progress: Progress = SILENT) -> Iterator[Made]:
    """All designs of one task, each as soon as it is there; errors name the segment."""
    try:
        for count, made in enumerate(_made(shared, work, progress), start=1):
            progress.reach(count / work.count)  # for designers that do not report progress
            yield made
    except TaskveilError as error:
        if work.segment is None:
            raise
        raise TaskError(
            f"segment {work.segment!r}: {error} Take the label away from its people to give them the common design."
        ) from error


def _made(shared: Shared, work: DesignWork, progress: Progress) -> Iterator[Made]:
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


def make_here(shared: Shared, works: Sequence[DesignWork], progress: Progress = SILENT) -> Iterator[list[Made]]:
    """One task after the other; every design by itself as soon as it is there."""
    progress.begin("designing", sum(work.count for work in works))
    for work in works:
        with progress.part(work.title, work.count) as part:
            yield from ([made] for made in make(shared, work, part))


def make_on_ray(
    shared: Shared, works: Sequence[DesignWork], cluster: Ray, *, kept: str, progress: Progress = SILENT
) -> Iterator[list[Made]]:
    """The same designs by the workers of a cluster, task by task in any order, the largest first.

    Args:
        shared: sent to every machine once.
        works: the tasks; split as far as nothing is computed twice.
        cluster: where the workers are.
        kept: what a failure leaves, as the last words of its message.
        progress: advanced by the designs of every task that is finished.
    """
    parts = [part for work in works for part in work.parted(shared.designer(work.method), shared.task(work.segment))]
    if not parts:
        return
    progress.begin(f"starting {len(parts)} tasks on Ray", sum(part.count for part in parts))
    parts.sort(key=lambda part: _size(shared, part), reverse=True)
    workers, gpus = cluster.workers, cluster.gpus
    with connected(cluster.address, workers=workers):
        _check_gpus(gpus)
        results = in_any_order(_on_worker, parts, shared=to_parcel(shared), workers=workers, num_gpus=gpus, kept=kept)
        with contextlib.closing(results):  # type: ignore[type-var]  # a generator
            for count, (designs, said) in enumerate(results, start=1):
                progress.advance(f"{count} of {len(parts)} tasks finished on Ray", len(designs))
                for category, text in said:
                    warnings.warn(text, category, stacklevel=callers_line())
                yield designs


def _on_worker(parcel: Parcel, work: DesignWork) -> tuple[list[Made], list[tuple[type[Warning], str]]]:
    """The designs of one task, and the warnings, which are shown where the sweep was started."""
    shared: Shared = from_parcel(parcel)
    with warnings.catch_warnings(record=True) as said, one_thread():
        warnings.simplefilter("default")
        designs = list(make(shared, work))
    return designs, list(dict.fromkeys((warning.category, str(warning.message)) for warning in said))


def _size(shared: Shared, work: DesignWork) -> tuple[bool, int]:
    """The order in which tasks start: learned designs first, then by the number of records."""
    learned = shared.designer(work.method).seeded(shared.task(work.segment))
    return learned, work.count * len(shared.trials[work.segment].problem.X)


def _check_gpus(wanted: float) -> None:
    """A ClusterError where the cluster has fewer graphics processors than one task takes: it would wait for ever."""
    import ray

    there: float = ray.cluster_resources().get("GPU", 0.0)  # type: ignore[no-untyped-call]
    if wanted > there:
        raise ClusterError(f"every design takes {wanted:g} GPUs, and the cluster has {there:g}: ask for fewer.")


class Parcel(NamedTuple):
    """An object as bytes, and the contents of its arrays beside.

    Ray would send a class by the name of its module. Classes in a file of the caller's, and in no installed package,
    are sent themselves, so that workers need no copy of that file.
    """

    content: bytes
    arrays: list[Any]


def to_parcel(thing: Any) -> Parcel:
    """`thing` for workers; a TaskError of one line if a part of it cannot be sent."""
    from ray import cloudpickle

    arrays: list[Any] = []
    with _modules_sent():
        try:
            content = cloudpickle.dumps(thing, protocol=5, buffer_callback=arrays.append)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever classes of the caller's own raise
            reason = str(error).partition("\n")[0].rstrip(".")
            raise TaskError(
                f"the task, its model, the encoder or a designer cannot be sent to workers ({reason}). Keep files, "
                "locks and connections out of it, or use engine=None."
            ) from error
    return Parcel(content, [np.frombuffer(array.raw(), dtype=np.uint8) for array in arrays])


def from_parcel(parcel: Parcel) -> Any:
    """The thing again, on a worker; a TaskError if the machine lacks a package that it needs."""
    from ray import cloudpickle

    try:
        # Copies, since what lies in the cluster's memory cannot be written to, which torch warns of.
        return cloudpickle.loads(parcel.content, buffers=[array.copy() for array in parcel.arrays])
    except ImportError as error:
        raise TaskError(
            f"a machine of the cluster lacks what the task or a designer is made with ({error}): install the same "
            "packages on all of them, or use engine=None."
        ) from None


@contextlib.contextmanager
def _modules_sent() -> Iterator[None]:
    """Inside, classes and functions of the caller's own files are sent themselves, not by the name of their module."""
    from ray import cloudpickle

    installed = tuple({os.path.realpath(path) + os.sep for path in (*sysconfig.get_paths().values(), sys.base_prefix)})
    own = [module for name, module in list(sys.modules.items()) if _is_own(name, module, installed)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _is_own(name: str, module: ModuleType, installed: tuple[str, ...]) -> bool:
    """Whether a module is a file of the caller's, and neither Python's nor an installed package's nor ours."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or name != getattr(module, "__name__", None):
        return False
    ours = name == "__main__" or name.partition(".")[0] == "taskveil"  # the first is sent as it is anyway
    return not ours and not os.path.realpath(file).startswith(installed)
