"""Loss against budget for several designs: what helps to choose ε, which is what people find hardest."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, overload

import numpy as np

from taskveil.designs.domain import Domain
from taskveil.designs.methods import DESIGNERS, Method, designer_of
from taskveil.designs.on_device import CLIENT_BYTES, Answers, OnDevice
from taskveil.designs.problem import Designer, Formula
from taskveil.errors import DataError, TaskError, callers_line
from taskveil.jobs.ray_working import EngineName, check_engine
from taskveil.progress import Progress
from taskveil.records.schema import Schema
from taskveil.sweeps.frontier import Frontier, Point
from taskveil.sweeps.gains import SegmentedFrontier
from taskveil.sweeps.releases import ReleaseFolders
from taskveil.sweeps.resuming import FinishedPoints, fingerprint, same_people
from taskveil.sweeps.segments import Group, groups_of, labels_of
from taskveil.sweeps.trials import Trial
from taskveil.sweeps.work import Made, Place, Segment, Shared, Work, make_here, make_on_ray
from taskveil.tasks import LinearTask, MeanTask, Task
from taskveil.veil.guarantee import as_epsilon
from taskveil.veil.intervals import check_block

USUAL: tuple[Method, ...] = ("auto",)
USUAL_OF_MATRICES: tuple[Method, ...] = ("codebook", "task_aware", "task_agnostic")
USUAL_OF_MEANS: tuple[Method, ...] = ("means", "duchi", "piecewise", "hybrid", "privunit", "laplace_split")
"""The default methods. For a model that is what `design` does: other methods train through its gradients for minutes,
or evaluate it thousands of times for every test record, and are compared if they are named. For a matrix they are
quick."""


@overload
def sweep(
    X: Any, task: Task, *, epsilons: Iterable[float], methods: Sequence[Method] | None = None, y: Any = None,
    X_test: Any = None, y_test: Any = None, seeds: int | Sequence[int] = 1, encoder: Any = "auto",
    answers: Answers = "direct", share_model: bool = False, volunteers_unseen: bool = False,
    client_bytes: int = CLIENT_BYTES, latent_dim: int | None = None, domain: Domain | Schema | None = None,
    device: str = "cpu", progress: bool | Progress | None = None, block: int = 1, resume: str | Path | None = None,
    segment: None = None, segment_test: None = None, releases: str | Path | None = None, engine: EngineName = "plain",
    address: str | None = None, workers: int | None = None, num_gpus: float = 0.0,
) -> Frontier: ...  # fmt: skip


@overload
def sweep(
    X: Any, task: Task, *, epsilons: Iterable[float], methods: Sequence[Method] | None = None, y: Any = None,
    X_test: Any = None, y_test: Any = None, seeds: int | Sequence[int] = 1, encoder: Any = "auto",
    answers: Answers = "direct", share_model: bool = False, volunteers_unseen: bool = False,
    client_bytes: int = CLIENT_BYTES, latent_dim: int | None = None, domain: Domain | Schema | None = None,
    device: str = "cpu", progress: bool | Progress | None = None, block: int = 1, resume: str | Path | None = None,
    segment: Any, segment_test: Any = None, releases: str | Path | None = None, engine: EngineName = "plain",
    address: str | None = None, workers: int | None = None, num_gpus: float = 0.0,
) -> SegmentedFrontier: ...  # fmt: skip


def sweep(
    X: Any,
    task: Task,
    *,
    epsilons: Iterable[float],
    methods: Sequence[Method] | None = None,
    y: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    seeds: int | Sequence[int] = 1,
    encoder: Any = "auto",
    answers: Answers = "direct",
    share_model: bool = False,
    volunteers_unseen: bool = False,
    client_bytes: int = CLIENT_BYTES,
    latent_dim: int | None = None,
    domain: Domain | Schema | None = None,
    device: str = "cpu",
    progress: bool | Progress | None = None,
    block: int = 1,
    resume: str | Path | None = None,
    segment: Any = None,
    segment_test: Any = None,
    releases: str | Path | None = None,
    engine: EngineName = "plain",
    address: str | None = None,
    workers: int | None = None,
    num_gpus: float = 0.0,
) -> Frontier | SegmentedFrontier:
    """The expected test loss of every method at every budget, for everybody and, optionally, for segments of people.

    Args:
        X, y: volunteers' records (N, n) and labels. Without `X_test` a random 30% of them is held out for the test,
            copies of a record together (`designs.folds`), and a scikit-learn model is fitted again without them.
        task: what the data is for.
        epsilons: the budgets to try.
        methods: the designs to compare, as in `design`: names, or designers of your own. The default for a model is
            "auto", as in `design`; other methods take longer and are compared if you name them. The default for a
            LinearTask is "codebook", "task_aware" and "task_agnostic". For a MeanTask it is "means" and the methods of
            the literature (`peers.literature`), which are formulas and make no veils.
        X_test, y_test: records (M, n) and labels that losses are measured on. Tables are matched by column name. A
            model that was fitted to the test records looks too good without privacy, and where it runs on devices. So
            does a model that was fitted to X, without `X_test`, unless it is scikit-learn's.
        seeds: how many, or which. The default is one. Several show how much losses vary with the seed, and take as many
            times as long; methods that do not depend on the seed use the first.
        block: for records in time order, how many neighbours count as one. Without `X_test`, the last 30% of the
            records are then held out instead of a random 30%.
        resume: a file that keeps every finished design. An interrupted sweep continues from it, with either engine. The
            file also contains the losses of single test records.
        segment: a column of the table X, which stays part of the records, or a label for each record (N,). Every
            segment then has designs of its own, made from its own volunteers and judged on the same people as the
            common ones. Segments with too few people (`sweeps.segments`), and people without a label, keep the
            common design. A report names its release and so reveals the segment: use something that the server knows
            anyway.
        segment_test: labels (M,) of `X_test`, if `segment` is not one of its columns.
        releases: a folder for the designs of the first seed, as common/<method>-<ε> and <segment>/<method>-<ε>; none of
            them may exist. These are the designs that were judged: made without the test records.
        engine: "plain" makes one design after the other on this machine; "ray" uses the workers of a Ray cluster, with
            the same result.
        address: of the cluster (host:port, "auto"); by default a cluster of this machine alone.
        workers: how many work at a time on Ray; by default as many as there are cores.
        num_gpus: graphics processors, or fractions of one, that every task reserves on Ray, for device="cuda".
        encoder, answers, share_model, volunteers_unseen, client_bytes: as in `design`. The simple methods
            ("label_response" and others) run the model on devices even without `share_model`.
        latent_dim, domain, device, progress: as in `design`. Test records, too, are brought inside a given domain.

    Returns:
        One point for every method, budget and seed, and the losses without privacy and with a constant prediction, all
        with the losses of single test records, so that a budget can be chosen with confidence. With segments, such a
        frontier for all and one for each, and what each gains.
    """
    check_block(block)
    _check_engine(engine, device, address, workers, num_gpus)
    budgets, chosen = _budgets_and_seeds(epsilons, seeds)
    named = None if methods is None else _designers(methods)
    labels = _labels(segment, segment_test, X, X_test)
    _check_unlike(labels, y)
    with Progress.of(progress) as bar:
        bar.begin("parting the volunteers", 0.0)  # a model may be fitted again here
        trial = Trial.of(
            X,
            task,
            y=y,
            X_test=X_test,
            y_test=y_test,
            domain=domain,
            latent_dim=latent_dim,
            device=device,
            on_device=OnDevice(
                encoder=encoder, share_model=share_model, volunteers_unseen=volunteers_unseen, client_bytes=client_bytes
            ),
            answers=answers,
            block=block,
        )
        served = trial.problem.served
        designers = _designers(usual(served)) if named is None else named
        reasons = [reason for reason in (designer.why_not(served) for designer in designers) if reason is not None]
        if reasons:  # now, and not after hours with the methods before
            raise TaskError(" ".join(reasons))
        groups = {} if labels is None else groups_of(trial, *_apart(labels, trial))
        trials = {None: trial, **_parts(trial, groups)}
        done = FinishedPoints(
            resume,
            fingerprint(trial.problem, trial.X_test, trial.y_test, block),
            designers,
            {name: same_people(part.trained, part.tested) for name, part in trials.items() if name is not None},
        )
        wanted = [
            Place(name, designer.name, epsilon, seed)
            for name in trials
            for designer in designers
            for epsilon in budgets
            for seed in (chosen if designer.seeded(served) else chosen[:1])
        ]
        folders = ReleaseFolders(
            releases,
            seed=chosen[0],
            segments=[name for name in trials if name is not None],
            methods=[designer.name for designer in designers if not isinstance(designer, Formula)],
        )
        unreleased = folders.missing(wanted, done.releases)
        shared = Shared(
            trials=trials,
            own={designer.name: designer for designer in designers if DESIGNERS.get(designer.name) is not designer},
            released=None if releases is None else chosen[0],
        )
        works = Work.missing(place for place in wanted if place not in done.points or place in unreleased)
        made: Iterator[list[Made]]
        if engine == "ray":
            kept = "" if resume is None else f"What was finished is kept in {resume}."
            made = make_on_ray(
                shared, works, address=address, workers=workers, num_gpus=num_gpus, kept=kept, progress=bar
            )
        else:
            made = make_here(shared, works, bar)
        with closing(made):  # type: ignore[type-var]  # a generator, which leaves the cluster when it ends
            for designs in made:
                done.add([(one.segment, one.point) for one in designs], folders.ids(designs))
                folders.save(designs)
        points: dict[Segment, list[Point]] = {name: [] for name in trials}
        for place in wanted:
            points[place.segment].append(done.points[place])
        frontiers = {name: _frontier(part, points[name]) for name, part in trials.items()}
    return frontiers[None] if labels is None else _segmented(frontiers, groups)


def usual(task: Task) -> Sequence[Method]:
    """The default methods for a task."""
    if isinstance(task, MeanTask):
        return USUAL_OF_MEANS
    return USUAL_OF_MATRICES if isinstance(task, LinearTask) else USUAL


def _parts(trial: Trial, groups: Mapping[str, Group]) -> dict[Segment, Trial]:
    """The trials of all segments that get designs of their own. What there is to warn of is said of three of them."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found: dict[Segment, Trial] = {
            name: trial.some(group.volunteers, group.tested) for name, group in groups.items() if group.why_not is None
        }
    for warning in said[:3]:
        warnings.warn(warning.message, warning.category, stacklevel=callers_line())
    return found


def _frontier(trial: Trial, points: Sequence[Point]) -> Frontier:
    clear, constant = trial.lines()
    return Frontier(
        points=tuple(points),
        clear=float(clear.mean()),
        constant=float(constant.mean()),
        block=trial.block,
        clear_per_record=clear,
        constant_per_record=constant,
    )


def _segmented(frontiers: Mapping[Segment, Frontier], groups: Mapping[str, Group]) -> SegmentedFrontier:
    return SegmentedFrontier(
        common=frontiers[None],
        segments={name: frontiers[name] for name in groups if name in frontiers},
        people={name: (len(group.volunteers), len(group.tested)) for name, group in groups.items()},
        why_not={name: group.why_not for name, group in groups.items() if group.why_not is not None},
        tested={name: group.tested for name, group in groups.items() if group.why_not is None},
    )


def _budgets_and_seeds(epsilons: Iterable[float], seeds: int | Sequence[int]) -> tuple[list[float], list[int]]:
    """Budgets and seeds, at least one of each and none twice."""
    if not isinstance(epsilons, Iterable):
        raise TaskError(_LISTS)
    budgets = sorted({as_epsilon(epsilon) for epsilon in epsilons})
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(dict.fromkeys(seeds))
    if not budgets or not chosen:
        raise TaskError(
            f"a sweep needs at least one budget and one seed; got {len(budgets)} budgets, {len(chosen)} seeds."
        )
    return budgets, chosen


def _designers(methods: Sequence[Method]) -> list[Designer]:
    """The designers of the methods, at least one and no name twice."""
    if isinstance(methods, str) or not isinstance(methods, Iterable):
        raise TaskError(_LISTS)
    designers = [designer_of(method) for method in methods]
    if not designers:
        raise TaskError("a sweep needs at least one method; got 0 methods.")
    names = [designer.name for designer in designers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise TaskError(f"two methods of the sweep are named {twice!r}: give each a name of its own.")
    return designers


_LISTS = 'methods and epsilons come as lists: methods=["codebook"], epsilons=[1.0, 2.0].'


def _check_engine(engine: str, device: str, address: str | None, workers: int | None, num_gpus: float) -> None:
    check_engine(engine, address, workers)
    if engine == "plain" and num_gpus:
        raise TaskError('num_gpus is about a Ray cluster: pass engine="ray" too.')
    if not 0 <= num_gpus < float("inf"):
        raise TaskError(f"num_gpus is what every task takes, such as 1 or 0.5; got {num_gpus!r}.")
    if engine == "ray" and device != "cpu" and not num_gpus:
        raise TaskError(f"workers on Ray see a GPU only if they ask for one: device={device!r} needs num_gpus=1, say.")


Labels = Sequence[str | None]


def _labels(segment: Any, segment_test: Any, X: Any, X_test: Any) -> tuple[Labels, Labels | None] | None:
    """The labels of all records, and of those that came to test on; None without segments."""
    if segment is None:
        if segment_test is not None:
            raise DataError("segment_test goes with segment: labels of the volunteers.")
        return None
    labels = labels_of(segment, X, _count(X))
    if X_test is None:
        if segment_test is not None:
            raise DataError("segment_test are labels of X_test, which was not passed.")
        return labels, None
    if segment_test is None and not isinstance(segment, str):
        raise DataError("X_test has no labels: pass them as segment_test, or name a column of both tables.")
    return labels, labels_of(segment if segment_test is None else segment_test, X_test, _count(X_test))


def _check_unlike(labels: tuple[Labels, Labels | None] | None, y: Any) -> None:
    """A DataError if segments are what the model predicts, perhaps by other names."""
    if labels is None or np.shape(y) != (len(labels[0]),):
        return
    both = set(zip(labels[0], map(str, np.asarray(y).tolist()), strict=True))
    one_to_one = len({name for name, _ in both}) == len({answer for _, answer in both}) == len(both)
    if one_to_one and 1 < len(both) < len(labels[0]):  # segments of one person each are something else
        raise DataError(
            "segment is y, what the model predicts: which release a report is of would tell the answer. Pass something "
            "that is known of people anyway."
        )


def _count(X: Any) -> int:
    return len(X) if hasattr(X, "__len__") else 0  # what is wrong with such records is said where they are read


def _apart(labels: tuple[Labels, Labels | None], trial: Trial) -> tuple[Labels, Labels]:
    """The labels of a trial's volunteers, and of its test records."""
    ours, of_test = labels
    if of_test is not None:
        return ours, of_test
    return [ours[row] for row in trial.trained], [ours[row] for row in trial.tested]
