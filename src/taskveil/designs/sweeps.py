"""Loss against budget for several designs: what helps to choose ε, which is what people find hardest."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import numpy as np

import taskveil
from taskveil.arrays import Floats
from taskveil.designs.domain import Domain, fit_domain
from taskveil.designs.frontier import Frontier, Point
from taskveil.designs.methods import Method, Options, design_many
from taskveil.errors import DataError, TaskError
from taskveil.guarantee import as_epsilon
from taskveil.records import as_records, as_volunteers
from taskveil.tasks import Task, as_linear, check_task, take_labels

TEST_SHARE = 0.3


def sweep(
    X: Any,
    task: Task,
    *,
    epsilons: Iterable[float],
    methods: Sequence[Method] = ("codebook", "task_aware", "task_agnostic"),
    y: Any = None,
    X_test: Any = None,
    y_test: Any = None,
    seeds: int | Sequence[int] = 3,
    latent_dim: int | None = None,
    domain: Domain | None = None,
    device: str = "cpu",
    progress: bool = False,
    resume: str | Path | None = None,
) -> Frontier:
    """The expected test loss of every method at every budget.

    Args:
        X, y: volunteers' records and labels. Without `X_test` a random 30% of them is held out for the test.
        epsilons: the budgets to try.
        methods: the designs to compare, as in `design`.
        seeds: how many, or which; designs that do not learn have one.
        resume: a file that keeps every finished design; a sweep that was interrupted goes on from there.
        latent_dim, domain, device, progress: as in `design`.
    """
    records = as_volunteers(X)
    check_task(task).check_width(records.shape[1])
    budgets = sorted({as_epsilon(epsilon) for epsilon in epsilons})
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    unknown = [method for method in methods if method not in get_args(Method)]
    if not budgets or not methods or not chosen or unknown:
        raise TaskError(
            f"a sweep needs budgets, seeds and methods among {', '.join(get_args(Method))}; "
            f"got {len(budgets)} budgets, {len(chosen)} seeds, methods {list(methods)}."
        )
    task.labels(y, len(records))
    if X_test is None:
        order = np.random.default_rng(0).permutation(len(records))
        count = max(2, round(len(order) * (1 - TEST_SHARE)))
        if len(order) - count < 1:
            raise DataError("too few records to hold some out: pass X_test.")
        train, test = np.sort(order[:count]), np.sort(order[count:])
        held, y_test = records[test], take_labels(task, y, test)
        records, y = records[train], take_labels(task, y, train)
    else:
        held = as_records(X_test, width=records.shape[1])
        task.labels(y_test, len(held))
    where = fit_domain(domain, records)
    linear = as_linear(task) is not None
    done = _Log(resume, _fingerprint(records, y, held, y_test, task, f"{latent_dim} {where.bounding_box}"))
    for method in methods:
        missing = [(e, s) for e in budgets for s in ([0] if linear else chosen) if (method, e, s) not in done.points]
        if missing:
            veils = design_many(
                records,
                task,
                y,
                epsilons=sorted({e for e, _ in missing}),
                seeds=sorted({s for _, s in missing}),
                method=method,
                options=Options(domain=where, latent_dim=latent_dim, device=device, progress=progress),
            )
            for epsilon, seed, veil in veils:
                done.add(Point.of(method, epsilon, seed, veil.loss(held, y_test)))
    wanted = [(m, e, s) for m in methods for e in budgets for s in ([0] if linear else chosen)]
    return Frontier(
        points=tuple(done.points[key] for key in wanted),
        clear=float(task.losses(held, held, y_test).mean()),
        constant=task.constant_loss(records, y, held, y_test),
    )


class _Log:
    """The finished points, kept in a file so that an interruption loses at most the designs under way."""

    def __init__(self, path: str | Path | None, fingerprint: str) -> None:
        self.path = None if path is None else Path(path)
        self.fingerprint = fingerprint
        self.points: dict[tuple[str, float, int], Point] = {}
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            same = content["fingerprint"] == self.fingerprint
            points = [Point(**point) for point in content["points"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} keeps no sweep: {error}. Name another file to resume from.") from error
        if not same:
            raise DataError(f"{path} keeps a sweep of other data or another task. Name another file, or remove it.")
        self.points = {(point.method, point.epsilon, point.seed): point for point in points}

    def add(self, point: Point) -> None:
        self.points[point.method, point.epsilon, point.seed] = point
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = {"fingerprint": self.fingerprint, "points": [asdict(point) for point in self.points.values()]}
            draft = self.path.with_name(self.path.name + ".part")
            draft.write_text(json.dumps(content, indent=1), encoding="utf-8")
            os.replace(draft, self.path)


def _fingerprint(X: Floats, y: Any, X_test: Floats, y_test: Any, task: Task, options: str) -> str:
    """Changes with whatever could change a point: data, labels, the task's answers and losses, the version."""
    digest = hashlib.sha256(f"{taskveil.__version__} {type(task).__name__} {options}".encode())
    some = X[:64]
    for part in (
        X,
        X_test,
        task.predict(some),
        task.pairwise_losses(some[:4], some, take_labels(task, y, slice(0, 64))),
    ):
        digest.update(np.ascontiguousarray(np.round(part, 9)).tobytes())
    for labels, count in ((y, len(X)), (y_test, len(X_test))):
        checked = task.labels(labels, count)
        for values in checked if isinstance(checked, tuple) else (checked,):
            digest.update(b"none" if values is None else np.ascontiguousarray(values).tobytes())
    return digest.hexdigest()
