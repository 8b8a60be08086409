"""Reports over time by rotating panels, against splitting the lifetime over all rounds: simulated people, real designs.

    python benchmarks/over_time.py [--people 20000] [--rounds 52] [--lifetime 4] [--seed 0] [--only means categories]
                                   [--picture docs/guides/over-time.png] [--quick]

Every person's value changes by itself in 2%, 10% or 50% of the rounds, and everybody's mean drifts. All reports are
real (`veil.privatize`), and so are the estimates (`tv.estimate`). Each line ends with ok or MISSED; exit code 1 if one
is missed.

- means: the RMSE over all rounds of a round's mean, over that of a report of ε = lifetime/rounds in every round.
- categories: the same for the shares of ten values.
- answers: the mean squared error of the answers for all people in all rounds. Those who are silent are answered by the
  round's estimate. Bar: below splitting, also if that is answered by its rounds' estimates where they are better.
  Beside it the share of the signal kept, 1 − loss/variance in a round, also if those who are silent are answered by
  the constant prediction ("constant"), and of one report of the whole lifetime in the first round. "linked": the
  collector knows whose report it was, and how often values change, and uses it in later rounds:
  μ + (1 − c)^age · (answer − μ). Reports of taskveil are not linked.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import taskveil as tv

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

CHANGES = (0.02, 0.1, 0.5)
MOST_OF_MEANS, MOST_OF_CATEGORIES = 0.35, 0.2
RANGE = tv.Box([-4.0], [4.0])
VALUES = tuple("abcdefghij")


@dataclass(frozen=True, kw_only=True)
class Setting:
    """How many people, rounds and budget, and the seed of what is simulated."""

    people: int
    rounds: int
    lifetime: float
    seed: int

    @property
    def over_time(self) -> tv.OverTime:
        """The budget for all reports."""
        return tv.OverTime(lifetime=self.lifetime, rounds=self.rounds)

    @property
    def split(self) -> float:
        """The ε of each report if there is one in every round."""
        return self.over_time.epsilon(self.rounds)


@dataclass(frozen=True)
class Line:
    """A line of the output, and whether its bar is met."""

    text: str
    good: bool = True


def renewed(setting: Setting, change: float, rng: np.random.Generator) -> Iterator[Floats]:
    """(N,) for every round: standard normal values of people, each new in a share `change` of the rounds."""
    own = rng.normal(size=setting.people)
    for _ in range(setting.rounds):
        yield own
        own = np.where(rng.random(setting.people) < change, rng.normal(size=setting.people), own)


def drifts(setting: Setting) -> Floats:
    """(T,): the drift of everybody's mean: a year's wave and small steps."""
    steps = np.random.default_rng(setting.seed + 1).normal(0.0, 0.02, setting.rounds)
    return 0.3 * np.sin(2 * np.pi * np.arange(setting.rounds) / setting.rounds) + np.cumsum(steps)


def schedules(veil: tv.Veil, people: int, rng: np.random.Generator) -> Integers:
    """(N, r): the rounds of everybody, one of each block, as devices draw them."""
    panel = veil.panel
    assert panel is not None
    starts = np.array([panel.start(block) for block in range(panel.reports + 1)])
    return rng.integers(starts[:-1], starts[1:], size=(people, panel.reports))


def rmse(errors: list[Floats] | list[float]) -> float:
    return float(np.sqrt(np.mean(np.square(np.concatenate([np.atleast_1d(one) for one in errors])))))


def compared(name: str, change: float, panel: tv.Veil, own: float, other: float, most: float) -> Line:
    """One line about the errors of a panel and of splitting."""
    ratio, good = own / other, own <= most * other
    return Line(
        f"{name}, {change:.0%} change: {panel.panel}, RMSE {own:.4f} against {other:.4f} of splitting: "
        f"ratio {ratio:.3f}, at most {most:g}: {'ok' if good else 'MISSED'}",
        good,
    )


def means(setting: Setting, changes: tuple[float, ...]) -> Iterator[Line]:
    """A round's mean of a number between −4 and 4."""
    volunteers = np.random.default_rng(setting.seed + 2).normal(size=(1_000, 1))
    own = tv.design(volunteers, tv.MeanTask(), epsilon=setting.over_time, domain=RANGE)
    split = tv.design(volunteers, tv.MeanTask(), epsilon=setting.split, domain=RANGE)
    for change in changes:
        rng = np.random.default_rng([setting.seed, round(100 * change)])
        plan, errors = schedules(own, setting.people, rng), ([], [])
        for place, (values, drift) in enumerate(zip(renewed(setting, change, rng), drifts(setting), strict=True)):
            x = np.clip(values + drift, -4.0, 4.0)[:, None]
            for veil, some, found in ((own, (plan == place).any(axis=1), errors[0]), (split, slice(None), errors[1])):
                (row,) = tv.estimate(veil, veil.privatize(x[some])).attributes
                found.append(row.mean - x.mean())
        yield compared("mean", change, own, rmse(errors[0]), rmse(errors[1]), MOST_OF_MEANS)


def categories(setting: Setting, changes: tuple[float, ...]) -> Iterator[Line]:
    """A round's shares of ten values."""
    schema = tv.Schema({"value": tv.Category(VALUES)})
    volunteers = pd.DataFrame({"value": list(VALUES) * 100})
    own = tv.design(volunteers, tv.SurveyTask(), epsilon=setting.over_time, schema=schema)
    split = tv.design(volunteers, tv.SurveyTask(), epsilon=setting.split, schema=schema)
    names = np.array(VALUES)
    for change in changes:
        rng = np.random.default_rng([setting.seed, 1, round(100 * change)])
        plan, errors = schedules(own, setting.people, rng), ([], [])
        for place, (values, drift) in enumerate(zip(renewed(setting, change, rng), drifts(setting), strict=True)):
            codes = np.clip(np.floor(5.0 + 2.0 * (values + drift)), 0, 9).astype(np.int64)
            truth = np.bincount(codes, minlength=10) / len(codes)
            x = pd.DataFrame({"value": names[codes]})
            for veil, some, found in ((own, (plan == place).any(axis=1), errors[0]), (split, slice(None), errors[1])):
                rows = tv.estimate(veil, veil.privatize(x[some])).shares["value"]
                found.append(np.array([rows[name].mean for name in VALUES]) - truth)
        yield compared("ten values", change, own, rmse(errors[0]), rmse(errors[1]), MOST_OF_CATEGORIES)


def answers(setting: Setting, changes: tuple[float, ...]) -> Iterator[Line]:
    """An answer for every person in every round."""
    volunteers, task = np.random.default_rng(setting.seed + 2).normal(size=(1_000, 1)), tv.LinearTask([[1.0]])
    own = tv.design(volunteers, task, epsilon=setting.over_time, domain=RANGE)
    split = tv.design(volunteers, task, epsilon=setting.split, domain=RANGE, method="codebook")
    start = tv.design(volunteers, task, epsilon=setting.lifetime, domain=RANGE)
    for change in changes:
        rng = np.random.default_rng([setting.seed, 2, round(100 * change)])
        plan = schedules(own, setting.people, rng)
        panel, once = (Collector(veil, change, float(volunteers.mean())) for veil in (own, start))
        losses: dict[str, list[float]] = {}
        variances = []
        for place, (values, drift) in enumerate(zip(renewed(setting, change, rng), drifts(setting), strict=True)):
            x = np.clip(values + drift, -4.0, 4.0)
            variances.append(x.var())
            reports = split.privatize(x[:, None])
            found = {
                "splitting": split.predict(reports)[:, 0],
                "splitting, the round's estimate": np.full(len(x), estimated(split, reports)),
            }
            found |= {f"panel {how}": one for how, one in panel.round(x, (plan == place).any(axis=1)).items()}
            at_start = np.full(len(x), place == 0)
            found |= {f"one at the start {how}": one for how, one in once.round(x, at_start).items()}
            for name, one in found.items():
                losses.setdefault(name, []).append(float(((one - x) ** 2).mean()))
        loss = {name: float(np.mean(one)) for name, one in losses.items()}
        other = min(loss["splitting"], loss["splitting, the round's estimate"])
        good = loss["panel unlinked"] < other
        yield Line(
            f"answers, {change:.0%} change: {own.panel}, loss {loss['panel unlinked']:.4f} against {other:.4f} of "
            f"splitting: below it: {'ok' if good else 'MISSED'}",
            good,
        )
        names = (
            "panel unlinked",
            "panel constant",
            "one at the start unlinked",
            "panel linked",
            "one at the start linked",
            "splitting",
        )
        kept = ", ".join(f"{name} {1.0 - loss[name] / float(np.mean(variances)):.3f}" for name in names)
        yield Line(f"  share of the signal kept: {kept}")


class Collector:
    """Answers for everybody from the reports of some, without and with links between reports and people."""

    def __init__(self, veil: tv.Veil, change: float, constant: float) -> None:
        self.veil, self.kept, self.constant = veil, 1.0 - change, constant
        self.prior = constant
        self.known: Floats | None = None
        """(N,): what is known of people beyond the round's mean, from their newest report."""

    def round(self, x: Floats, some: NDArray[np.bool_]) -> dict[str, Floats]:
        """Answers (N,) for people at x (N,), of whom `some` report."""
        known = np.zeros(len(x)) if self.known is None else self.kept * self.known
        answered = None
        if some.any():
            reports = self.veil.privatize(x[some, None])
            self.prior, answered = estimated(self.veil, reports), self.veil.predict(reports)[:, 0]
            known[some] = answered - self.prior
        self.known = known
        unlinked, constant = np.full(len(x), self.prior), np.full(len(x), self.constant)
        if answered is not None:
            unlinked[some] = constant[some] = answered
        return {"unlinked": unlinked, "constant": constant, "linked": self.prior + known}


def estimated(veil: tv.Veil, reports: Integers) -> float:
    """The round's mean, from reports that are designed for answers: people are like the volunteers of their code."""
    rows = tv.estimate(veil, reports, assume="cells").attributes
    return float(rows[0].mean)


def picture(path: Path, lifetime: float, rounds: int) -> None:
    """Draw what a lifetime keeps of one Gaussian direction, by the number of reports it is split into."""
    from taskveil.style import figure, save

    volunteers = np.random.default_rng(0).normal(size=(2_000, 1))
    over_time = tv.OverTime(lifetime=lifetime, rounds=rounds)
    counts = over_time.compared
    each = [kept(volunteers, over_time.epsilon(count)) for count in counts]
    fig, (ax,) = figure()
    ax.plot(counts, each, "o-", color="#1f5fbf", label="one report")
    ax.plot(counts, [count * one for count, one in zip(counts, each, strict=True)], "D-", color="#d35400",
            label="all reports of a person together")  # fmt: skip
    for count, one in zip(counts, each, strict=True):
        said = f"{count} × {one:.2g}"
        ax.annotate(said, (count, count * one), textcoords="offset points", xytext=(5, 6), fontsize=8)
    ax.set(xscale="log", xlim=(0.85, 2.0 * rounds), ylim=(0.0, 0.9), ylabel="share of the signal kept")
    ax.set_xlabel(f"reports of a person in {rounds} rounds, ε = {lifetime:g} together")
    ax.set_xticks(counts, [str(count) for count in counts])
    ax.minorticks_off()
    ax.legend(frameon=False)
    save(fig, path)


def kept(volunteers: Floats, epsilon: float) -> float:
    """The share of the signal of one Gaussian direction that a report keeps."""
    veil = tv.design(volunteers, tv.LinearTask([[1.0]]), epsilon=epsilon, method="codebook")
    return float(1.0 - veil.loss(volunteers).mean / volunteers.var())


PARTS: dict[str, Callable[[Setting, tuple[float, ...]], Iterator[Line]]] = {
    "means": means,
    "categories": categories,
    "answers": answers,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=52)
    parser.add_argument("--lifetime", type=float, default=4.0)
    parser.add_argument("--seed", type=int, default=0, help="of the people; reports are never seeded")
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS), help="these parts")
    parser.add_argument("--quick", action="store_true", help="one rate of changes, and a tenth of the people")
    parser.add_argument("--picture", type=Path, help="draw what is kept against the number of reports, and stop")
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if chosen.picture is not None:
        picture(chosen.picture, chosen.lifetime, chosen.rounds)
        return 0
    people = chosen.people // 10 if chosen.quick else chosen.people
    setting = Setting(people=people, rounds=chosen.rounds, lifetime=chosen.lifetime, seed=chosen.seed)
    good, began = True, time.perf_counter()
    for name in chosen.only:
        for line in PARTS[name](setting, CHANGES[:1] if chosen.quick else CHANGES):
            good &= line.good
            print(line.text, flush=True)
    print(f"({time.perf_counter() - began:.0f} s)")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
