"""How often intervals hold, and how often `epsilon_for` names too small a budget: samples drawn from what is known.

`python benchmarks/statistics_intervals.py` prints both tables in about a minute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

import taskveil as tv
from taskveil.sweeps.budgets import smallest_budget
from taskveil.veil.loss_intervals import interval

Floats = NDArray[np.float64]
Population = tuple[list[tuple[str, float]], Floats, Floats, Floats]
"""Designs, their losses (designs, people), those without privacy and those of a constant answer (people,)."""

RARE = 0.01


def cross_entropies(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Of a good classifier: mostly small, a few large."""
    return np.log1p(np.exp(-rng.normal(2.0, 2.0, size=shape)))


INDEPENDENT: dict[str, tuple[Callable[[np.random.Generator, tuple[int, ...]], Floats], float]] = {
    "Gaussian": (lambda rng, shape: rng.normal(size=shape), 0.0),
    "uniform": (lambda rng, shape: rng.random(shape), 0.5),
    "squares of Gaussians": (lambda rng, shape: rng.normal(size=shape) ** 2, 1.0),
    "cross-entropies": (cross_entropies, float(cross_entropies(np.random.default_rng(1), (1_000_000,)).mean())),
    "lognormal, σ = 1": (lambda rng, shape: rng.lognormal(0.0, 1.0, size=shape), float(np.exp(0.5))),
    "lognormal, σ = 2.5": (lambda rng, shape: rng.lognormal(0.0, 2.5, size=shape), float(np.exp(3.125))),
    "a class of 1%": (lambda rng, shape: 5.0 * (rng.random(shape) < RARE) + 0.01 * rng.random(shape), 0.055),
}
COUNTS = {
    "Gaussian": (10, 30, 100),
    "uniform": (30,),
    "squares of Gaussians": (30, 171),
    "cross-entropies": (30, 171),
    "lognormal, σ = 1": (30, 125, 426),
    "lognormal, σ = 2.5": (125, 426),
    "a class of 1%": (125, 426),
}


def autoregressive(rng: np.random.Generator, memory: float, shape: tuple[int, int]) -> Floats:
    """Series (samples, days) of mean 0 and variance 1 in which each day remembers the one before."""
    series = rng.normal(size=shape)
    for day in range(1, shape[1]):
        series[:, day] = memory * series[:, day - 1] + np.sqrt(1 - memory**2) * series[:, day]
    return series


def weekly(rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
    """Days of a week differ in a fixed way, and every week has a level of its own."""
    pattern = np.array([1.0, 0.5, 0.0, 0.0, -0.5, -0.5, -0.5])
    level = rng.normal(size=(shape[0], shape[1] // 7 + 1)).repeat(7, axis=1)[:, : shape[1]]
    return 0.5 * level + pattern[np.arange(shape[1]) % 7] + rng.normal(size=shape)


SERIES: dict[str, tuple[Callable[[np.random.Generator, tuple[int, int]], Floats], float]] = {
    "independent days": (lambda rng, shape: rng.normal(size=shape), 0.0),
    "memory 0.3": (lambda rng, shape: autoregressive(rng, 0.3, shape), 0.0),
    "memory 0.6": (lambda rng, shape: autoregressive(rng, 0.6, shape), 0.0),
    "exp(memory 0.6)": (lambda rng, shape: np.exp(autoregressive(rng, 0.6, shape)), float(np.exp(0.5))),
    "weeks": (weekly, 0.0),
}


def coverage_table(samples: int = 4000) -> list[str]:
    """Lines of a table: how often 95% intervals hold the true mean, as they were (±1.96 s/√n) and as they are, and how
    wide they are against Student's."""
    rng = np.random.default_rng(0)
    lines = [f"{'95% intervals hold in':34} {'n':>5}  ±1.96 s/√n   ours  width against Student's"]
    for name, (draw, truth) in INDEPENDENT.items():
        for count in COUNTS[name]:
            values = draw(rng, (samples, count))
            low, high = interval(values)
            error = values.std(axis=1, ddof=1) / np.sqrt(count)
            old = np.abs(values.mean(axis=1) - truth) <= 1.96 * error
            wide = (high - low).mean() / (2 * t.ppf(0.975, count - 1) * error.mean())
            held = ((low <= truth) & (truth <= high)).mean()
            lines.append(f"{name:34} {count:5}  {old.mean():10.3f}  {held:5.3f}  {wide:.2f}")
    lines.append("")
    lines.append(f"{'426 days in the order of time':34} {'block':>5} {'1':>6} {'7':>6} {'30':>6}")
    for name, (draw, truth) in SERIES.items():
        values = draw(rng, (samples // 2, 426))
        held = []
        for block in (1, 7, 30):
            low, high = interval(values, block=block)
            held.append(((low <= truth) & (truth <= high)).mean())
        lines.append(f"{name:34} {'':5} " + " ".join(f"{share:6.3f}" for share in held))
    return lines


def linear_population(people: int = 20_000) -> Population:
    """Four correlated attributes; three methods."""
    rng = np.random.default_rng(2)
    mixing = rng.normal(size=(4, 4))
    X, everybody = (rng.normal(size=(count, 4)) @ mixing for count in (600, people))
    methods = ["codebook", "task_aware", "task_agnostic"]
    return _swept(X, tv.LinearTask(np.diag([2.0, 1.0, 1.0, 0.5])), None, everybody, None, [1, 2, 4, 6, 8, 16], methods)


def classifier_population(people: int = 20_000) -> Population:
    """Two classes, judged by cross-entropy; one method."""
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(3)
    X, everybody = (rng.normal(size=(count, 5)) for count in (600, people))
    y, truth = (
        (rng.random(len(z)) < 1 / (1 + np.exp(-2 * z @ [2.0, -1.5, 1.0, 0.0, 0.0]))).astype(int) for z in (X, everybody)
    )
    task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
    return _swept(X, task, y, everybody, truth, [1, 2, 3, 4, 8], ["codebook"])


def _swept(X: Floats, task: tv.LinearTask | tv.ModelTask, y: object, everybody: Floats, truth: object,
           epsilons: list[float], methods: list[str]) -> Population:  # fmt: skip
    found = tv.sweep(X, task, y=y, test=(everybody, truth), epsilons=epsilons, methods=methods, seeds=1)
    designs = [(method, epsilon) for method in found.methods for epsilon in found.epsilons]
    losses = np.array([found.per_record(*design) for design in designs])
    return designs, losses, found.clear_per_record, found.constant_per_record


def alike(population: Population, methods: int = 8) -> Population:
    """The design in the middle, in so many versions that are no better than it: the luckiest must not win."""
    designs, losses, clear, constant = population
    chosen = losses[len(designs) // 2]
    noise = np.random.default_rng(4).normal(size=(methods, len(clear))) * chosen.std()
    versions = chosen + noise - noise.mean(axis=1, keepdims=True)
    return [(f"version {k}", 4.0) for k in range(methods)], versions, clear, constant


def budget_errors(population: Population, kept: float, *, records: int = 171, samples: int = 300) -> dict[str, float]:
    """How often the budget for a share is too small, by its mean alone (`before`) and by `epsilon_for` (`now`); how
    often there is none, what is `true`, and how much larger the answer is (median)."""
    designs, losses, clear, constant = population
    shares = dict(zip(designs, (constant.mean() - losses.mean(axis=1)) / (constant.mean() - clear.mean()), strict=True))
    true = min((epsilon for (_, epsilon), share in shares.items() if share >= kept), default=np.inf)
    rng = np.random.default_rng(5)
    before, now, none, times = 0, 0, 0, []
    for _ in range(samples):
        drawn = rng.integers(len(clear), size=records)
        some = losses[:, drawn], clear[drawn], constant[drawn]
        seen = (some[2].mean() - some[0].mean(axis=1)) / (some[2].mean() - some[1].mean())
        enough = [
            (epsilon, -share, method) for (method, epsilon), share in zip(designs, seen, strict=True) if share >= kept
        ]
        if enough:
            before += shares[min(enough)[2], min(enough)[0]] < kept
        budget = smallest_budget(designs, *some, kept=kept, confidence=0.9)
        if budget.method is None:
            none += 1
        else:
            now += shares[budget.method, budget.high] < kept
            times.append(budget.high / true if np.isfinite(true) else np.nan)
    return {"true": true, "before": before / samples, "now": now / samples, "none": none / samples,
            "times": float(np.median(times)) if times else np.nan}  # fmt: skip


def epsilon_for_table(samples: int = 300) -> list[str]:
    """Lines of a table: `epsilon_for` at 90% confidence on 171 test records, for round shares and for the hardest ones,
    which a design misses by a hair."""
    lines = [f"{'171 records':22} kept  true ε  too small: by the mean  by epsilon_for   none   answer/true"]
    linear, classes = linear_population(), classifier_population()
    for name, population in (("linear", linear), ("classifier", classes), ("eight alike", alike(classes))):
        designs, losses, clear, constant = population
        shares = (constant.mean() - losses.mean(axis=1)) / (constant.mean() - clear.mean())
        best = sorted(s for (m, _), s in zip(designs, shares, strict=True) if m == designs[0][0] and 0.3 < s < 0.97)
        rounds = [] if name == "eight alike" else [0.5, 0.8, 0.95]
        for kept in (*rounds, *(share + 1e-4 for share in best[:: max(1, len(best) // 2)])):
            found = budget_errors(population, kept, samples=samples)
            hair = "" if kept in rounds else ", by a hair"
            lines.append(
                f"{name + hair:22} {kept:.3f}  {found['true']:5g}  {found['before']:17.3f}  {found['now']:15.3f}"
                f"  {found['none']:6.3f}  {found['times']:8.2f}"
            )
    return lines


if __name__ == "__main__":
    print("\n".join([*coverage_table(), "", *epsilon_for_table()]))
