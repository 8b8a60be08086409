"""Do estimates under an assumption keep their promise? Simulated populations in which the assumption holds.

Every line is one population (`tests/mixtures_drawn.py`), with volunteers and reports drawn anew each time:

- coverage: how often the 95% limits hold the truth, on average over rows and for the worst row;
- width: of the limits, as a part of the range of the groups' means (mean over rows);
- RMSE: of the estimates, and its ratio to that of plain EM on the first draws;
- level: how often the goodness-of-fit test rejects at 5%;
- power: the same if people's codes differ from volunteers' (logits ± 1).

`PYTHONPATH=tests python benchmarks/estimates_assumed.py --draws 200` takes minutes, 1,000 draws an hour.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from mixtures_drawn import Population, plain_em
from taskveil.estimates.mixture import Mixture

COMPARED = 40
"""Draws for which plain EM is run too."""

CHANNELS = (
    *((2, 1, 0.5), (4, 1, 1.0), (8, 3, 0.5), (8, 1, 2.0), (16, 3, 2.0), (16, 1, 4.0)),
    *((64, 12, 1.0), (64, 1, 4.0), (256, 51, 1.0), (256, 1, 8.0)),
)
"""K, m, ε."""
SIZES = ((300, 300), (3000, 1000), (30000, 300), (300, 5000), (30000, 5000))
"""Reports and volunteers."""


def populations() -> Iterator[Population]:
    """Every channel, with cells and classes, at all sizes; no shift and strong shift take turns."""
    for codes, favoured, epsilon in CHANNELS:
        for classes in (None, 2, 3, 10):
            if classes is not None and classes > codes:
                continue
            for place, (reports, volunteers) in enumerate(SIZES):
                yield Population(
                    codes=codes,
                    favoured=favoured,
                    epsilon=epsilon,
                    reports=reports,
                    volunteers=volunteers,
                    classes=classes,
                    odds=(1.0, 2.0, 5.0)[(place + (classes or 0)) % 3],
                    seed=place,
                )


def measure(population: Population, draws: int) -> dict[str, float]:
    """The line of one population."""
    rng = np.random.default_rng(population.seed + 1)
    drawn = [population.draw(rng) for _ in range(draws)]
    began = time.perf_counter()
    fits = [Mixture.fit(counts, population.base, population.extra, groups) for counts, groups in drawn]
    taken = (time.perf_counter() - began) / draws
    limits = np.array([fit.limits for fit in fits])
    held = ((limits[..., 0] <= population.truth) & (population.truth <= limits[..., 1])).mean(axis=0)
    errors = np.array([fit.estimates for fit in fits]) - population.truth
    some = drawn[: COMPARED if population.codes < 256 else 8]
    chances = np.array([population.base + population.extra * groups.measured for _, groups in some])
    shares = plain_em(np.array([counts for counts, _ in some], dtype=float), chances)
    reference = np.array([row @ groups.means for row, (_, groups) in zip(shares, some, strict=True)])
    return {
        "coverage": held.mean(),
        "worst": held.min(),
        "width": float((np.ptp(limits, axis=-1).mean(axis=0) / np.ptp(population.means, axis=0)).mean()),
        "rmse": float(np.sqrt((errors**2).mean())),
        "ratio": float(np.sqrt((errors[: len(some)] ** 2).mean() / ((reference - population.truth) ** 2).mean())),
        "level": np.mean([fit.p_value < 0.05 if fit.p_value is not None else np.nan for fit in fits]),
        "ms": 1000 * taken,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--codes", type=int, nargs="*", help="only channels of so many codes")
    parser.add_argument("--together", action="store_true", help="volunteers favour m neighbouring codes")
    chosen = parser.parse_args()
    print("| K | m | ε | N | V | groups | odds | coverage | worst row | width | RMSE | / EM | level | power | ms |")
    print("| --- " * 15 + "|")
    for population in populations():
        if chosen.codes and population.codes not in chosen.codes:
            continue
        population = replace(population, together=chosen.together)
        line = measure(population, chosen.draws)
        power = np.nan
        if np.isfinite(line["level"]):
            wrong, rng = replace(population, broken=1.0), np.random.default_rng(0)
            drawn = (wrong.draw(rng) for _ in range(max(chosen.draws // 5, 10)))
            power = np.mean([(Mixture.fit(c, wrong.base, wrong.extra, g).p_value or 0.0) < 0.05 for c, g in drawn])
        name = f"{population.classes} classes" if population.classes else f"{len(population.sizes)} cells"
        print(
            f"| {population.codes} | {population.favoured} | {population.epsilon:g} | {population.reports} "
            f"| {population.volunteers} | {name} | {population.odds:g} | {line['coverage']:.3f} | {line['worst']:.3f} "
            f"| {line['width']:.2f} | {line['rmse']:.3f} | {line['ratio']:.2f} | {line['level']:.3f} | {power:.2f} "
            f"| {line['ms']:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
