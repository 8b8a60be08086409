"""Designs for models: how long `auto` takes, and whether more budget ever costs.

    python benchmarks/models.py            # both
    python benchmarks/models.py --times    # every line is followed by "ok" or by the bar that it missed
    python benchmarks/models.py --doubling # ε from 0.5 to 64, on 20,000 fresh records: no rise of more than 1%

Times are the processor's, of one thread: other work on the machine does not count. Imports do not count either. Where
the model is shipped, the time that its own refits take is measured and taken off, since nobody can make it smaller.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_digits, make_classification, make_friedman1
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

import taskveil as tv
from taskveil.designs.designing import design_many, designer_of
from taskveil.designs.problem import OnDevice, Problem

FIVE = (0.5, 1.0, 2.0, 4.0, 8.0)
DOUBLING = tuple(2.0**power for power in range(-1, 7))
FRESH = 20_000

ONE, SEVERAL, DIGITS, LARGE = 4.0, 6.0, 10.0, 30.0
"""Seconds that a design for one ε and for five may take, one of pictures, and one for 100,000 volunteers."""
MORE_THAN_TREES, SWEEP = 4.0, 3.0
"""Times the cross-validation of boosted trees that a design may take, and times one design that a sweep may take."""
MEMORY = 1e9
"""Bytes that 100,000 volunteers may take beside what they and the model take."""


def problems(volunteers: int) -> Iterator[tuple[str, Any, Any, Any, Any, tv.ModelTask]]:
    """Name, volunteers and labels, fresh records and labels, task."""
    count = volunteers + FRESH
    X, y = make_classification(
        count, 20, n_informative=8, n_classes=3, n_clusters_per_class=2, flip_y=0.1, random_state=0
    )
    for name, model in (("forest", RandomForestClassifier(100, random_state=0)), ("logistic", LogisticRegression())):
        task = tv.ModelTask(model.fit(X[:volunteers], y[:volunteers]), "cross_entropy")
        yield f"three classes, {name}", X[:volunteers], y[:volunteers], X[volunteers:], y[volunteers:], task
    X, y = make_friedman1(count, 20, noise=1.0, random_state=0)
    for name, model in (("forest", RandomForestRegressor(100, random_state=0)), ("ridge", Ridge())):
        task = tv.ModelTask(model.fit(X[:volunteers], y[:volunteers]))
        yield f"Friedman, {name}", X[:volunteers], y[:volunteers], X[volunteers:], y[volunteers:], task


def designed(X: Any, y: Any, task: tv.ModelTask, epsilons: tuple[float, ...], share: bool) -> dict[float, tv.Veil]:
    """A veil of `auto` for every budget."""
    problem = Problem.of(X, task, y=y, on_device=OnDevice(share_model=share))
    return {e: veil for e, _, veil in design_many(designer_of("auto"), problem, epsilons=epsilons, seeds=[0])}


class Refits:
    """How often a model like one of the user's was fitted, and how long that took."""

    def __init__(self) -> None:
        self.count, self.seconds = 0, 0.0

    @contextmanager
    def of(self, model: Any) -> Iterator[None]:
        """Counts while designs are made. Our own boosted trees have other settings."""
        fit, settings = type(model).fit, model.get_params()

        def counted(estimator: Any, *given: Any, **more: Any) -> Any:
            if estimator.get_params() != settings:
                return fit(estimator, *given, **more)
            start = time.process_time()
            try:
                return fit(estimator, *given, **more)
            finally:
                self.count, self.seconds = self.count + 1, self.seconds + time.process_time() - start

        with patch.object(type(model), "fit", counted):
            yield


def seconds(work: Callable[[], object]) -> float:
    """Of processor time."""
    start = time.process_time()
    work()
    return time.process_time() - start


def judged(value: float, bar: float, unit: str = "s") -> str:
    """The value, and whether it is below the bar."""
    return f"{value:5.1f} {unit} " + ("ok" if value <= bar else f"MISSED (bar {bar:g} {unit})")


def of_trees(X: Any, y: Any, classes: bool) -> float:
    """Seconds that a cross-validation of boosted trees with five folds takes."""
    trees = HistGradientBoostingClassifier() if classes else HistGradientBoostingRegressor()
    how = {"cv": 5, "method": "predict_proba" if classes else "predict"}
    return seconds(lambda: cross_val_predict(trees, X, y, **how))


def tables() -> Iterator[tuple[str, Any, Any, list[Any], tuple[float, float | None]]]:
    """Name, records, labels, models that are not fitted yet, and the bars for one ε and for five."""
    X, y = make_classification(2000, 20, n_informative=8, n_classes=3, flip_y=0.1, random_state=0)
    models = [RandomForestClassifier(random_state=0), HistGradientBoostingClassifier(random_state=0)]
    yield "2,000 × 20, three classes", X, y, [*models, LogisticRegression()], (ONE, SEVERAL)
    X, y = make_friedman1(2000, 20, noise=1.0, random_state=0)
    models = [RandomForestRegressor(random_state=0), HistGradientBoostingRegressor(random_state=0)]
    yield "2,000 × 20, Friedman", X, y, [*models, Ridge()], (ONE, SEVERAL)
    X, y = load_digits(return_X_y=True)
    models = [LogisticRegression(max_iter=1000), RandomForestClassifier(random_state=0)]
    yield "1,200 × 64, ten classes", X[:1200], y[:1200], models, (DIGITS, None)


def times() -> None:
    """Every bar of the time that designs take."""
    X, y = make_friedman1(100, 5, random_state=0)
    designed(X, y, tv.ModelTask(Ridge().fit(X, y)), (2.0,), share=False)  # imports
    of_trees(X, y, classes=False)
    for name, X, y, models, (one, several) in tables():
        classes = np.issubdtype(y.dtype, np.integer)
        cross_validation = of_trees(X, y, classes)
        print(f"{name}: cross-validated boosted trees take {cross_validation:.1f} s", flush=True)
        for model in models:
            task = tv.ModelTask(model.fit(X, y), "cross_entropy" if classes else "mse")
            for share in (False, True):
                found = []
                for epsilons in [(2.0,), FIVE] if several else [(2.0,)]:
                    refits = Refits()
                    with refits.of(model):
                        whole = seconds(partial(designed, X, y, task, epsilons, share))
                    found.append((whole - refits.seconds, refits))
                (took, refits), *more = found
                line = f"  {type(model).__name__:31s}{'shipped' if share else 'kept':8s}one ε {judged(took, one)}"
                if several:
                    line += f", five {judged(more[0][0], several)}"
                line += f", {judged(took / cross_validation, MORE_THAN_TREES, '× trees')}"
                print(line + f"; {refits.count} refits: {refits.seconds:.1f} s", flush=True)
    sweeping()
    for kind in ("two classes", "Friedman"):
        context = multiprocessing.get_context("spawn")
        with context.Pool(1) as pool:
            took, more_bytes, trees = pool.apply(large, (kind,))
        memory = judged(more_bytes / 1e6, MEMORY / 1e6, "MB more")
        ratio = judged(took / trees, MORE_THAN_TREES, "× trees")
        print(f"100,000 × 20, {kind}: one ε {judged(took, LARGE)}, {memory}, {ratio}", flush=True)


def sweeping() -> None:
    """A sweep with its defaults against one design, of the same volunteers."""
    _, X, y, (forest, *_), _ = next(tables())
    task = tv.ModelTask(forest.fit(X, y), "cross_entropy")
    one = seconds(lambda: tv.design(X, task, y=y, epsilon=2.0))
    four = seconds(lambda: tv.sweep(X, task, y=y, epsilons=[0.5, 1.0, 2.0, 4.0]))
    print(f"a sweep of four budgets: {four:.1f} s, {judged(four / one, SWEEP, 'designs')}", flush=True)


def large(kind: str) -> tuple[float, float, float]:
    """Seconds of a design for 100,000 volunteers, its bytes of memory, seconds of cross-validated boosted trees."""
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if kind == "Friedman":
            X, y = make_friedman1(100_000, 20, noise=1.0, random_state=0)
            task = tv.ModelTask(HistGradientBoostingRegressor(random_state=0).fit(X, y))
        else:
            X, y = make_classification(100_000, 20, n_informative=8, flip_y=0.1, random_state=0)
            model = HistGradientBoostingClassifier(random_state=0)
            task = tv.ModelTask(model.fit(X, y), "cross_entropy")
        designed(X[:100], y[:100], task, (2.0,), share=False)  # imports
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts again from here
        before = _memory("VmRSS")
        took = seconds(lambda: designed(X, y, task, (2.0,), share=False))
        return took, _memory("VmHWM") - before, of_trees(X, y, classes=kind != "Friedman")


def _memory(name: str) -> float:
    """Bytes of this process, by Linux. `resource.getrusage` would not do: a child's peak starts with its parent's."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024.0 * int(next(line for line in lines if line.startswith(name)).split()[1])


def doubling() -> None:
    """Losses on fresh records as ε doubles, each design by itself, and the largest rise."""
    for volunteers in (200, 1000):
        for name, X, y, X_test, y_test, task in problems(volunteers):
            losses = [float(designed(X, y, task, (e,), share=True)[e].losses(X_test, y_test).mean()) for e in DOUBLING]
            rise = max(after / before - 1 for before, after in pairwise(losses))
            shown = " ".join(f"{loss:.4g}" for loss in losses)
            print(f"{volunteers:5d} volunteers, {name:26s} {shown}: largest rise {100 * rise:+.1f}%", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", action="store_true")
    parser.add_argument("--doubling", action="store_true")
    options = parser.parse_args()
    np.seterr(all="ignore")
    warnings.simplefilter("ignore")
    with threadpool_limits(1):
        if options.times or not options.doubling:
            times()
        if options.doubling or not options.times:
            doubling()


if __name__ == "__main__":
    main()
