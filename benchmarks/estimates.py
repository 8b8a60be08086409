"""Does `taskveil.estimate` keep its promise? Collections are drawn from populations whose truth is known.

A data set is the population. Volunteers are drawn from it with replacement and a veil is designed with them; people are
drawn with replacement, each sends one report, and the truth is the population's mean, weighted as people are drawn:

- same: volunteers and people alike;
- tilted: people count exp(λz) along the answers' widest direction, which moves it by 0.6 standard deviations;
- classes: people have other class shares (odds times 4; without classes, thirds of that direction count 3 : 1 : 1/3);
- self-selected: volunteers come by a logistic law of that direction, people are everybody;
- any tilt: as tilted, by 0.5 along a direction of the records drawn by lot, which reports may hardly see;
- any attribute: as self-selected, by one attribute drawn by lot, which reports may hardly see.

The last two are beyond what is assumed: where a report says one bit, nobody can see most directions.

Volunteers are drawn anew for every 10 to 25 collections. Those that share volunteers are not independent, so the
standard errors (±) are computed between draws of volunteers. A shift is called strong, before anything is looked at, if
an answer's mean moves by half its standard deviation.

`python benchmarks/estimates.py` takes hours; `--collections 100 --draws 10 --data fair --case same` minutes.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import taskveil as tv
from taskveil.client.mechanisms import Codebook
from taskveil.designs.methods import design_many, designer_of
from taskveil.designs.on_device import OnDevice
from taskveil.designs.problem import Problem
from taskveil.losses import _simulated
from taskveil.reference import Reference, truths

Floats = NDArray[np.float64]

DATA = Path(os.environ.get("TASKVEIL_DATA", "shared/data"))
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
CASES = ("same", "tilted", "classes", "any tilt", "self-selected", "any attribute")
KINDS = ("attributes", "answers", "shares", "frequencies")
PEOPLE = 5000
STRONG = 0.5  # of an answer's standard deviation


@dataclass(frozen=True)
class Population:
    """Records (M, n), labels, the task, the widest direction of its answers (M,), and how many volunteers come."""

    name: str
    X: Floats
    y: Any
    task: tv.LinearTask | tv.ModelTask
    volunteers: int

    @property
    def answers(self) -> Floats:
        """The truth (M, m) of the task for everybody."""
        return truths(self.task, self.X, self.y)[0]

    @property
    def widest(self) -> Floats:
        """The answers' first principal direction (M,), mean 0 and variance 1."""
        answers = self.answers - self.answers.mean(axis=0)
        left, _, _ = np.linalg.svd(answers, full_matrices=False)
        return left[:, 0] * np.sqrt(len(left)) * np.sign(left[np.abs(left[:, 0]).argmax(), 0])


def smoothed(X: Floats, y: Floats, *, noise_in_y: bool, size: int = 20_000) -> tuple[Floats, Any]:
    """So many people from few: drawn with replacement and moved by a quarter of a standard deviation, so that nobody is
    the copy of a volunteer (designers keep copies together, which a person's copy among the volunteers would belie)."""
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(X), size=size)
    labels = y[drawn] + (0.25 * y.std() * rng.normal(size=size) if noise_in_y else 0)
    return X[drawn] + 0.25 * X.std(axis=0) * rng.normal(size=(size, X.shape[1])), labels


def fair() -> Population:
    """6,366 women, eight attributes, all of which matter alike."""
    X = pd.read_csv(DATA / "field/fair.csv").iloc[:, :8].to_numpy(np.float64)
    return Population("fair", X, None, tv.LinearTask(np.diag(1 / X.std(axis=0))), 1500)


def anes() -> Population:
    """Voters: a logistic regression from ten attributes to the vote, known from elsewhere."""
    from sklearn.linear_model import LogisticRegression

    table = pd.read_csv(DATA / "field/anes96.csv")
    X, y = table.drop(columns="vote").to_numpy(np.float64), table["vote"].to_numpy().astype(np.int64)
    X = X / X.std(axis=0)
    model = LogisticRegression(max_iter=2000).fit(X, y)
    X, labels = smoothed(X, y, noise_in_y=False)
    return Population("anes96", X, labels, tv.ModelTask(model, loss="cross_entropy"), 600)


def houses() -> Population:
    """Houses: a ridge regression from six attributes to the price, known from elsewhere."""
    from sklearn.linear_model import Ridge

    table = pd.read_csv(DATA / "real_estate/valuation.csv").to_numpy(np.float64)
    X, y = table[:, 1:7], table[:, 7]
    X, y = (X - X.min(axis=0)) / np.ptp(X, axis=0), (y - y.min()) / np.ptp(y)
    model = Ridge(alpha=0.1).fit(X, y)
    X, labels = smoothed(X, y, noise_in_y=True)
    return Population("houses", X, labels, tv.ModelTask(model, loss="mse"), 400)


POPULATIONS = {"fair": fair, "anes96": anes, "houses": houses}


def chances(case: str, population: Population, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """How likely everybody (M,) is a volunteer, and how likely drawn among the people."""
    uniform = np.full(len(population.X), 1.0 / len(population.X))
    if case == "tilted":
        return uniform, tilted(population.widest, 0.6)
    if case == "classes":
        if population.y is not None and population.y.dtype.kind == "i":
            factor = np.where(population.y == population.y.max(), 4.0, 1.0)
        else:
            third = np.searchsorted(np.quantile(population.widest, [1 / 3, 2 / 3]), population.widest)
            factor = np.array([1 / 3, 1.0, 3.0])[third]
        return uniform, factor / factor.sum()
    if case == "any tilt":
        z = (population.X - population.X.mean(axis=0)) / population.X.std(axis=0)
        direction = z @ rng.normal(size=z.shape[1])
        return uniform, tilted((direction - direction.mean()) / direction.std(), 0.5)
    if case in ("self-selected", "any attribute"):
        by_lot = population.X[:, rng.integers(population.X.shape[1])]
        column = population.widest if case == "self-selected" else by_lot
        comes = 1 / (1 + np.exp(2 * (column - column.mean()) / column.std()))
        return comes / comes.sum(), uniform
    return uniform, uniform


def tilted(z: Floats, shift: float) -> Floats:
    """Weights ∝ exp(λz) under which the mean of z (M,) is `shift`."""
    low, high = 0.0, 8.0
    for _ in range(50):
        tilt = (low + high) / 2
        weights = np.exp(tilt * z - (tilt * z).max())
        weights /= weights.sum()
        low, high = (tilt, high) if weights @ z < shift else (low, tilt)
    return np.asarray(weights)


def designs(population: Population, drawn: NDArray[np.int64], epsilons: Iterable[float]) -> Iterator[tv.Veil]:
    """Veils made with these volunteers, as `taskveil.design` makes them, for all budgets at once."""
    X, y = population.X[drawn], None if population.y is None else population.y[drawn]
    problem = Problem.of(
        X, population.task, y=y, on_device=OnDevice(encoder="linear" if y is not None else "auto", client_bytes=2**20)
    )
    for _, _, veil in design_many(designer_of("codebook"), problem, epsilons=list(epsilons), seeds=[0]):
        if veil.reference is None:
            reference = Reference.of(problem.task, problem.X, problem.y, veil.encoder(problem.X))
            veil = replace(veil, reference=reference)
        yield veil


@dataclass(frozen=True)
class Collection:
    """One simulated collection. By kind, arrays (t,): whether intervals held, errors and half widths in the people's
    standard deviations, errors in standard errors."""

    data: str
    case: str
    epsilon: float
    draw: int
    held: dict[str, NDArray[np.bool_]]
    error: dict[str, Floats]
    reach: dict[str, Floats]
    naive: Floats
    volunteers: Floats
    against_bound: float
    alarm: bool
    strong: bool


def collections(
    name: str, cases: tuple[str, ...], draw: int, epsilons: tuple[float, ...], count: int
) -> list[Collection]:
    """`count` collections for every case and budget with the volunteers of one draw, who are the same in all cases."""
    warnings.simplefilter("ignore")
    population = POPULATIONS[name]()
    drawing = {case: np.random.default_rng([draw, CASES.index(case)]) for case in cases}
    drawn_by = {case: chances(case, population, rng) for case, rng in drawing.items()}
    p_volunteers = drawn_by[cases[0]][0]
    drawn = np.random.default_rng([draw, 99]).choice(len(population.X), population.volunteers, p=p_volunteers)
    found = []
    for epsilon, veil in zip(epsilons, designs(population, drawn, epsilons), strict=True):
        latents = veil.encoder(population.X)
        for case, rng in drawing.items():
            simulate = partial(collection, population, veil, latents, drawn, *drawn_by[case], rng)
            found += [Collection(data=name, case=case, epsilon=epsilon, draw=draw, **simulate()) for _ in range(count)]
    return found


def collection(
    population: Population,
    veil: tv.Veil,
    latents: Floats,
    drawn: NDArray[np.int64],
    p_volunteers: Floats,
    p_people: Floats,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """What one collection of reports comes to, beside the truth."""
    targets, n = np.hstack([population.X, population.answers]), population.X.shape[1]
    truth, own = p_people @ targets, p_volunteers @ targets
    spread = np.sqrt(p_people @ (targets - truth) ** 2)
    moved = np.abs(truth - own) / np.sqrt(p_volunteers @ (targets - own) ** 2)
    people = rng.choice(len(population.X), PEOPLE, p=p_people)
    reports = _simulated(veil.mechanism, latents[people], rng)
    estimate = tv.estimate(veil, reports)
    held, error, reach, first = {}, {}, {}, 0
    for kind in KINDS[:3]:
        entries = np.array([interval[1:] for interval in getattr(estimate, kind)]).reshape(-1, 3)
        some = slice(first, first + len(entries))
        first += len(entries)
        held[kind] = (entries[:, 1] <= truth[some]) & (truth[some] <= entries[:, 2])
        error[kind] = (entries[:, 0] - truth[some]) / spread[some]
        reach[kind] = (entries[:, 2] - entries[:, 1]) / 2 / spread[some]
    against_bound = _frequencies(veil, estimate, p_people, latents, held, error, reach)
    decoded = veil.decoder(veil.mechanism.values(reports)).mean(axis=0)
    return {
        "held": held,
        "error": error,
        "reach": reach,
        "naive": (decoded - truth[:n]) / spread[:n],
        "volunteers": (population.X[drawn].mean(axis=0) - truth[:n]) / spread[:n],
        "against_bound": against_bound,
        "alarm": estimate.drift.raised,
        "strong": bool((moved[n:] >= STRONG).any()),
    }


def _frequencies(
    veil: tv.Veil,
    estimate: tv.Estimate,
    p_people: Floats,
    latents: Floats,
    held: dict[str, NDArray[np.bool_]],
    error: dict[str, Floats],
    reach: dict[str, Floats],
) -> float:
    """Fill in how well the frequencies do; their mean width against the Cramér–Rao bound's (a saturated model: the
    variance of the inverted count), where no limit is cut off at 0 or 1."""
    mechanism = veil.mechanism
    if not isinstance(mechanism, Codebook):
        return float("nan")
    (stage,) = mechanism.stages
    favoured = stage.favoured(mechanism.region.enforce(latents))
    true = np.bincount(favoured.ravel(), np.repeat(p_people, favoured.shape[1]), minlength=stage.response.size)
    entries = np.array([interval[1:] for interval in estimate.frequencies])
    chance = stage.response.base + stage.response.extra * true
    bound = np.sqrt(chance * (1 - chance) / PEOPLE) / stage.response.extra
    scale = np.sqrt(np.maximum(true * (1 - true), 1e-12))
    held["frequencies"] = (entries[:, 1] <= true + 1e-12) & (true - 1e-12 <= entries[:, 2])
    error["frequencies"] = (entries[:, 0] - true) / scale
    reach["frequencies"] = (entries[:, 2] - entries[:, 1]) / 2 / scale
    inside = (entries[:, 1] > 0) & (entries[:, 2] < 1)
    if not inside.any():
        return float("nan")
    return float(np.mean((entries[inside, 2] - entries[inside, 1]) / 2 / (1.959964 * bound[inside])))


def by_draw(values: list[float], draws: list[int]) -> tuple[float, float]:
    """Mean of collections, and its standard error between draws of volunteers."""
    known = [(draw, value) for draw, value in zip(draws, values, strict=True) if np.isfinite(value)]
    if not known:
        return float("nan"), float("nan")
    means = [np.mean([value for _, value in group]) for _, group in groupby(known, key=lambda pair: pair[0])]
    error = np.std(means, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else float("nan")
    return float(np.mean(means)), float(error)


def line(some: list[Collection]) -> str:
    """One row of the table."""
    draws = [one.draw for one in some]

    def coverage(kinds: tuple[str, ...]) -> str:
        values = []
        for one in some:
            held = [one.held[kind] for kind in kinds if kind in one.held and len(one.held[kind])]
            values.append(float(np.concatenate(held).mean()) if held else float("nan"))
        mean, error = by_draw(values, draws)
        return f"{100 * mean:5.1f} ±{100 * error:3.1f}" if np.isfinite(mean) else "     –    "

    means = ("attributes", "answers", "shares")
    errors = np.array([np.concatenate([one.error[kind] for kind in means]) for one in some])
    reach = np.array([np.concatenate([one.reach[kind] for kind in means]) for one in some])
    bias = np.abs(errors.mean(axis=0)) / (reach.mean(axis=0) / 1.96)
    strong = np.mean([one.strong for one in some])
    bound = by_draw([one.against_bound for one in some], draws)[0]
    rmse = [np.sqrt((np.array(values) ** 2).mean()) for values in (
        [one.error["attributes"] for one in some], [one.naive for one in some], [one.volunteers for one in some]
    )]  # fmt: skip
    return (
        f"{some[0].data:7} {some[0].case:13} {some[0].epsilon:4g} "
        + " ".join(coverage((kind,)) for kind in KINDS)
        + f" {coverage(means)}  {reach.mean():5.3f} {bias.mean():5.2f} {bound:5.2f} "
        + f"{100 * np.mean([one.alarm for one in some]):5.1f}{'!' if strong > 0.5 else ' '} "
        + " ".join(f"{value:5.3f}" for value in rmse)
        + f"  {len(some)}/{len(set(draws))}"
    )


HEADER = (
    "                            coverage of 95% intervals, %                                 half  |bias| freq.       "
    "rmse of attributes, sd\n"
    "data    case             ε attributes    answers     shares frequencies all means   width  in se  /CRB alarms  "
    "ours naive volunteers  collections/draws"
)


def main(arguments: list[str] | None = None) -> None:
    """Print the table, a line as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collections", type=int, default=1000, help="for each case and budget")
    parser.add_argument("--draws", type=int, default=50, help="of volunteers, each for its share of the collections")
    parser.add_argument("--data", nargs="+", default=list(POPULATIONS), choices=list(POPULATIONS))
    parser.add_argument("--case", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--epsilon", nargs="+", type=float, default=list(EPSILONS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only-coverage", action="store_true", help="leave out means and speed")
    chosen = parser.parse_args(arguments)
    print(HEADER + "   (!: a strong shift, which the drift test must raise)", flush=True)
    each = max(1, chosen.collections // chosen.draws)
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for name in chosen.data:
            # Cases with the same volunteers share their designs, which are dear.
            alike = tuple(case for case in chosen.case if case not in CASES[4:])
            for cases in filter(None, (alike, *((case,) for case in chosen.case if case in CASES[4:]))):
                waiting = [
                    pool.submit(collections, name, cases, draw, tuple(chosen.epsilon), each)
                    for draw in range(chosen.draws)
                ]
                found = [one for result in waiting for one in result.result()]
                for case, epsilon in product(cases, chosen.epsilon):
                    print(line([one for one in found if (one.case, one.epsilon) == (case, epsilon)]), flush=True)
    if not chosen.only_coverage:
        if find_spec("means") is not None:
            import means

            means.report()
        if find_spec("estimates_speed") is not None:
            import estimates_speed

            estimates_speed.main()


if __name__ == "__main__":
    main()
