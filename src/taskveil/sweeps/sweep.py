"""Loss against budget for several designs, to choose ε by: `sweep`, and `sweep_segments` for groups of people."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from taskveil.designs.designing import DESIGNERS, Method
from taskveil.designs.domain import Domain
from taskveil.designs.over_time import Budget, spread_of
from taskveil.designs.problem import Formula, OnDevice
from taskveil.errors import TaskError, callers_line, refusing_old_arguments
from taskveil.progress import Progress, Show
from taskveil.records.schema import Schema
from taskveil.sweeps.files import FinishedPoints, ReleaseFolders, digest, fingerprint
from taskveil.sweeps.frontier import Frontier, Point
from taskveil.sweeps.options import Ray, SweepEngine, SweepOptions, designers_of
from taskveil.sweeps.segments import SegmentedFrontier, SegmentPeople, all_labels, apart, groups_of
from taskveil.sweeps.trials import Trial
from taskveil.sweeps.work import DesignWork, Made, Place, Segment, Shared, make_here, make_on_ray
from taskveil.tasks import LinearTask, MeanTask, Task

USUAL: tuple[Method, ...] = ("auto",)
USUAL_OF_MATRICES: tuple[Method, ...] = ("codebook", "task_aware", "task_agnostic")
USUAL_OF_MEANS: tuple[Method, ...] = ("means", "duchi", "piecewise", "hybrid", "privunit", "laplace_split")
"""The default methods. For a model that is what `design` does: other methods train through its gradients for minutes,
or evaluate it thousands of times for every test record, and are compared if they are named. For a matrix they are
quick."""


@refusing_old_arguments
def sweep(
    X: Any,
    task: Task,
    *,
    epsilons: Iterable[Budget],
    delta: float = 0.0,
    methods: Sequence[Method] | None = None,
    y: Any = None,
    test: Any = None,
    seeds: int | Sequence[int] = 1,
    block: int = 1,
    on_device: OnDevice | None = None,
    domain: Domain | None = None,
    schema: Schema | None = None,
    resume: str | Path | None = None,
    engine: SweepEngine = None,
    progress: bool | Show | Progress | None = None,
) -> Frontier:
    """The expected test loss of every method at every budget.

    Args:
        X, y: volunteers' records (N, n) and labels. Without `test` a random 30% of them is held out for the test,
            copies of a record together (`designs.selection`), and a scikit-learn model is fitted again without them.
        task: what the data is for.
        epsilons: the budgets to try. A `tv.OverTime` stands for its lifetime split into 1, 2, 4, … reports;
            `frontier.over_time` then compares these.
        delta: the probability with which each of these budgets may fail, as in `design`; "gaussian" needs one above 0.
        methods: the designs to compare, as in `design`: names, or designers of your own. The default for a model is
            "auto", as in `design`; other methods take longer and are compared if you name them. The default for a
            LinearTask is "codebook", "task_aware" and "task_agnostic". For a MeanTask it is "means" and the methods of
            the literature (`peers.literature`), which are formulas and make no veils. Peers that run the model on
            devices ("label_response" and others) do so even without `share_model`.
        test: records (M, n) that losses are measured on, or a pair of records and labels. Tables are matched by column
            name. A model that was fitted to the test records looks too good without privacy, and where it runs on
            devices. So does a model that was fitted to X, without `test`, unless it is scikit-learn's.
        seeds: how many, or which. The default is one. Several show how much losses vary with the seed, and take as many
            times as long; methods that do not depend on the seed use the first.
        block: for records in time order, how many neighbours count as one. Without `test`, the last 30% of the records
            are then held out instead of a random 30%.
        resume: a file that keeps every finished design. An interrupted sweep continues from it, with or without Ray.
            The file also contains the losses of single test records.
        engine: a Ray cluster, `tv.Ray()`, whose workers make the designs, with the same result. By default they are
            made one after the other in this process, and torch trains on the CPU, or on a GPU with engine="cuda".
        on_device, domain, schema, progress: as in `design`. Test records, too, are brought inside a given domain.

    Returns:
        One point for every method, budget and seed, and the losses without privacy and with a constant prediction, all
        with the losses of single test records, so that a budget can be chosen with confidence.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
        >>> frontier.loss("task_aware", 4) < frontier.loss("task_aware", 1)
        True
    """
    options = SweepOptions(
        epsilons=epsilons, delta=delta, methods=methods, y=y, test=test, seeds=seeds, block=block,
        on_device=on_device or OnDevice(), domain=domain, schema=schema, resume=resume, engine=engine,
        progress=progress,
    )  # fmt: skip
    return _swept(X, task, options)[0][None]


@refusing_old_arguments
def sweep_segments(
    X: Any, task: Task, *, segment: Any, segment_test: Any = None, releases: str | Path | None = None, **options: Any
) -> SegmentedFrontier:
    """The same as `sweep`, for everybody and for segments of people, with the gain of each segment.

    Every segment has designs of its own, made from its own volunteers and judged on the same people as the common ones.
    Segments with too few people (`sweeps.segments`), and people without a label, keep the common design. A report names
    its release and so reveals the segment: use something that the server knows anyway.

    Args:
        X, task: as in `sweep`.
        segment: a column of the table X, which stays part of the records, or a label for each record (N,).
        segment_test: labels (M,) of the test records, if `segment` is not one of their columns.
        releases: a folder for the designs of the first seed, as common/<method>-<ε> and <segment>/<method>-<ε>; none of
            them may exist. These are the designs that were judged: made without the test records.
        options: the other arguments of `sweep`.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> found = tv.sweep_segments(
        ...     X, tv.LinearTask([[1.0, 1.0]]), segment=["north", "south"] * 100, epsilons=[1], methods=["task_aware"]
        ... )
        >>> found.people["north"]  # volunteers, and people to test on
        (75, 25)
    """
    allowed = inspect.signature(sweep).parameters
    unknown = next((name for name in options if name not in allowed), None)
    if unknown is not None:
        raise TypeError(f"sweep_segments() got an unexpected keyword argument {unknown!r}")
    given = {**options, "on_device": options.get("on_device") or OnDevice()}
    asked = SweepOptions(segment=segment, segment_test=segment_test, releases=releases, **given)
    frontiers, groups = _swept(X, task, asked)
    return SegmentedFrontier(
        common=frontiers[None],
        segments={name: frontiers[name] for name in groups if name in frontiers},
        people={name: (len(group.volunteers), len(group.tested)) for name, group in groups.items()},
        why_not={name: group.why_not for name, group in groups.items() if group.why_not is not None},
        tested={name: group.tested for name, group in groups.items() if group.why_not is None},
    )


def _swept(X: Any, task: Task, options: SweepOptions) -> tuple[dict[Segment, Frontier], dict[str, SegmentPeople]]:
    """The frontier of everybody (None) and of each segment with designs of its own, and the people of all segments."""
    labels = all_labels(X, options)
    with Progress.of(options.progress) as bar:
        bar.begin("splitting the volunteers", 0.0)  # a model may be fitted again here
        trial = Trial.of(X, task, options)
        served = trial.problem.served
        designers = options.designers or designers_of(usual(served))
        reasons = [reason for reason in (designer.why_not(served) for designer in designers) if reason is not None]
        if reasons:  # now, and not after hours with the methods before
            raise TaskError(" ".join(reasons))
        groups = {} if labels is None else groups_of(trial, *apart(labels, trial))
        trials = {None: trial, **_parts(trial, groups)}
        done = FinishedPoints(
            options.resume,
            fingerprint(trial.problem, trial.X_test, trial.y_test, options.block),
            designers,
            {name: digest([part.trained, part.tested]) for name, part in trials.items() if name is not None},
        )
        first = options.all_seeds[0]
        wanted = [
            Place(name, designer.name, epsilon, seed)
            for name in trials
            for designer in designers
            for epsilon in options.budgets
            for seed in (options.all_seeds if designer.seeded(served) else [first])
        ]
        folders = ReleaseFolders(
            options.releases,
            seed=first,
            segments=[name for name in trials if name is not None],
            methods=[designer.name for designer in designers if not isinstance(designer, Formula)],
        )
        unreleased = folders.missing(wanted, done.releases)
        shared = Shared(
            trials=trials,
            own={designer.name: designer for designer in designers if DESIGNERS.get(designer.name) is not designer},
            released=None if options.releases is None else first,
        )
        works = DesignWork.missing(place for place in wanted if place not in done.points or place in unreleased)
        made: Iterator[list[Made]]
        if not isinstance(options.engine, Ray):
            made = make_here(shared, works, bar)
        else:
            kept = "" if options.resume is None else f"The finished designs are kept in {options.resume}."
            made = make_on_ray(shared, works, options.engine, kept=kept, progress=bar)
        with closing(made):  # type: ignore[type-var]  # a generator, which leaves the cluster when it ends
            for designs in made:
                done.add([(one.segment, one.point) for one in designs], folders.ids(designs))
                folders.save(designs)
        points: dict[Segment, list[Point]] = {name: [] for name in trials}
        for place in wanted:
            points[place.segment].append(done.points[place])
        return {name: _frontier(part, points[name]) for name, part in trials.items()}, groups


def usual(task: Task) -> Sequence[Method]:
    """The default methods for a task."""
    if isinstance(task, MeanTask):
        return USUAL_OF_MEANS
    return USUAL_OF_MATRICES if isinstance(task, LinearTask) else USUAL


def _parts(trial: Trial, groups: Mapping[str, SegmentPeople]) -> dict[Segment, Trial]:
    """The trials of all segments that get designs of their own. At most three of their warnings are shown."""
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
        spread=spread_of(task, trial.X_test) if isinstance(task := trial.problem.task, MeanTask) else 0.0,
    )
