"""What an estimate says: means with intervals, what it rests on, and how far people are from the volunteers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from taskveil.arrays import Floats, Integers
from taskveil.errors import DataError
from taskveil.server.estimates.calibration import Calibrated, Means
from taskveil.server.estimates.drift import Drift
from taskveil.server.estimates.natural import Label
from taskveil.server.estimates.picture import draw
from taskveil.server.estimates.reweighted import Reweighted

CONFIDENCE = 0.95
FORMAT = "taskveil.estimate.1"
"""What a file of an estimate says it is; the number changes with what its names mean."""
HEADER = ("", "estimate", "95% interval", "volunteers")


class Interval(NamedTuple):
    """`mean`, and limits that hold the truth in 95 of 100 collections."""

    name: str
    mean: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Group:
    """Some means under their labels. `volunteers` are the volunteers' own means (t,) and `spread` their standard
    deviations (t,)."""

    labels: tuple[Label, ...]
    means: Means
    volunteers: Floats
    spread: Floats

    @classmethod
    def of(cls, places: Integers, labels: Sequence[Label], means: Means, known: Floats) -> Group:
        """The means at these `places` (t,) of all, which are `known` of the volunteers (V, …), NaN where missing."""
        chosen = Means(
            mean=means.mean[places],
            from_reports=means.from_reports[places],
            from_volunteers=means.from_volunteers[:, places],
            unseen=means.unseen[places],
        )
        own = np.ma.masked_invalid(known[:, places])
        return cls(
            labels=tuple(labels[place] for place in places.tolist()),
            means=chosen,
            volunteers=np.asarray(own.mean(axis=0).filled(np.nan)),
            spread=np.asarray(own.std(axis=0).filled(0.0)),
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Of the means."""
        return tuple(label.name for label in self.labels)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """With limits of 95% confidence. Neither means nor limits lie where no person's value can."""
        return intervals(self.names, self.means, *np.reshape([label.bounds for label in self.labels], (-1, 2)).T)

    def content(self) -> list[dict[str, Any]]:
        """For JSON. A date is a number of days since 1970 there. `spread` is the volunteers' standard deviation, the
        measure in which means of many units can be drawn side by side."""
        found = zip(self.labels, self.intervals, self.volunteers.tolist(), self.spread.tolist(), strict=True)
        return [
            finite({**interval._asdict(), "volunteers": own, "spread": spread, "kind": label.kind, "unit": label.unit})
            for label, interval, own, spread in found
        ]


class Row(NamedTuple):
    """A line of the table: a mean, what it is of, and the volunteers' own."""

    label: Label
    interval: Interval
    volunteers: float

    @property
    def cells(self) -> tuple[str, str, str, str]:
        """Name, estimate, limits and the volunteers' mean, as text."""
        reach = (self.interval.high - self.interval.low) / 2
        return self.label.title, *self.label.interval(*self.interval[1:]), self.label.said(self.volunteers, reach)


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """What many reports say together. Every entry is an `Interval(name, mean, low, high)`.

    `attributes`: means of the records' attributes, as numbers (a category has one for every value). `answers`: means of
    the task's outputs. `shares`: of a classifier, how many people belong to each class. `frequencies`: how many people
    favour each codeword. `drift`: how far people are from the volunteers. `assumes`: what the intervals rest on.
    """

    groups: dict[str, Group] = field(repr=False)
    """"attributes", "answers" and "shares", with what makes them uncertain."""
    frequencies: tuple[Interval, ...]
    drift: Drift
    assumes: str
    reports: int
    epsilon: float
    """The largest budget of one report."""
    releases: tuple[str, ...]
    """The ids of the releases that the reports were made with."""
    hardly_seen: tuple[str, ...] = ()
    """Names of means of which the reports say next to nothing: what is said of these is the volunteers' word."""
    reweighted: Reweighted | None = field(repr=False)
    """The volunteers, counted as people are; None where several estimates were pooled."""

    @property
    def attributes(self) -> tuple[Interval, ...]:
        """Means of the records' attributes."""
        return self.groups["attributes"].intervals

    @property
    def answers(self) -> tuple[Interval, ...]:
        """Means of the task's outputs; of a classifier, none: see `shares`."""
        return self.groups["answers"].intervals

    @property
    def shares(self) -> tuple[Interval, ...]:
        """How many people belong to each class."""
        return self.groups["shares"].intervals

    def __repr__(self) -> str:
        return (
            f"<Estimate from {self.reports:,} reports: {len(self.attributes)} attributes, {len(self.answers)} answers, "
            f"{len(self.shares)} shares, {len(self.frequencies)} frequencies; drift p = {self.drift.p_value:.2g}>"
        )

    def quantiles(self, name: str, at: Sequence[float] = (0.1, 0.25, 0.5, 0.75, 0.9)) -> tuple[Interval, ...]:
        """The values of `name`, an answer or attribute, below which these shares of people lie (Woodruff's limits)."""
        if not all(0 < share < 1 for share in at):
            raise DataError(f"quantiles lie between 0 and 1, got {', '.join(f'{share:g}' for share in at)}.")
        values, calibrated = self._distribution(name)
        present = ~np.isnan(values)
        there = float(calibrated.weights @ present)
        order = np.argsort(values, kind="stable")[: int(present.sum())]  # NaN comes last
        below = np.cumsum(calibrated.weights[order]) / there

        def value_at(share: float) -> float:
            place = np.searchsorted(below, np.clip(share, 0.0, 1.0))
            return float(values[order[min(int(place), len(order) - 1)]])

        found = []
        for share in at:
            middle = value_at(share)
            is_below = ((values <= middle) - float(calibrated.weights @ (values <= middle)) / there * present) / there
            error = float(ndtri((1 + CONFIDENCE) / 2) * np.sqrt(calibrated.means(is_below[:, None]).variance[0]))
            found.append(Interval(f"{name} at {share:g}", middle, value_at(share - error), value_at(share + error)))
        return tuple(found)

    def histogram(self, name: str, bins: int | Sequence[float] = 10) -> tuple[Interval, ...]:
        """The shares of people whose `name`, an answer or attribute, lies in each of some bins.

        Args:
            name: of an answer or attribute.
            bins: how many of equal width between the volunteers' least and largest value, or their edges. Of no more
                whole numbers than that, each has a bin of its own.
        """
        values, calibrated = self._distribution(name)
        present = ~np.isnan(values)
        there = float(calibrated.weights @ present)
        whole = np.unique(values[present])
        each = isinstance(bins, int) and len(whole) <= bins and bool((whole == np.rint(whole)).all())
        edges = np.append(whole - 0.5, whole[-1] + 0.5) if each else np.histogram_bin_edges(values[present], bins)
        place = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        inside = (values >= edges[0]) & (values <= edges[-1])
        members = np.eye(len(edges) - 1)[place] * inside[:, None]
        shares = calibrated.weights @ members / there
        dated = "date" in self.label(name)
        said = [self.label(name).said(value, 0.0) if dated else f"{value:g}" for value in (whole if each else edges)]
        names = (
            [f"{name} is {value}" for value in said] if each else [f"{name} from {a} to {b}" for a, b in pairwise(said)]
        )
        among_present = shares + (members - shares * present[:, None]) / there  # a ratio of means, to first order
        return intervals(names, calibrated.means(among_present), 0.0, 1.0)

    def label(self, name: str) -> Label:
        """What a mean of this name is of: a number, a share or a date, and its unit."""
        labels = [label for group in self.groups.values() for label in group.labels]
        return next((label for label in labels if name in (label.name, label.short)), Label(name))

    def _distribution(self, name: str) -> tuple[Floats, Calibrated]:
        volunteers = self._volunteers()
        return volunteers.values(self.label(name).name), volunteers.calibrated

    def minus(self, earlier: Estimate) -> dict[str, tuple[Interval, ...]]:
        """What changed since an `earlier` round: differences of all means that both have, by kind. What both rounds owe
        to the same volunteers cancels."""
        return {kind: _difference(group, earlier.groups[kind]) for kind, group in self.groups.items() if group.names}

    def weights(self, records: Floats, answers: Floats) -> Floats:
        """How much volunteers with these records (N, n) and answers (N, m) count, 1 on average, so that together they
        are like the people who answered: what `taskveil.design(..., like=estimate)` asks for."""
        return self._volunteers().weights_of(records, answers)

    def _volunteers(self) -> Reweighted:
        if self.reweighted is None:
            raise DataError(
                "this estimate was pooled from several, each with weights of its own for the volunteers: for "
                "distributions, or to design with like=, estimate from releases of one kind with the same volunteers."
            )
        return self.reweighted

    def rows(self) -> list[Row]:
        """What `table` and `plot` show: everything but an attribute times its weight, and places in the year."""
        return [
            Row(label, interval, own)
            for group in self.groups.values()
            for label, interval, own in zip(group.labels, group.intervals, group.volunteers.tolist(), strict=True)
            if label.shown
        ]

    def table(self) -> str:
        """All means as text, a line each; volunteers beside them."""
        rows = [HEADER, *(row.cells for row in self.rows())]
        name, *widths = (max(map(len, column)) for column in zip(*rows, strict=True))
        lines = [
            f"{row[0]:<{name}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=True))
            for row in rows
        ]
        return "\n".join([*lines, "", f"{self.reports:,} reports. {self.drift.words}", self.assumes])

    def content(self) -> dict[str, Any]:
        """Everything but what computing it took, as JSON has it: None for what is not finite, a date in days."""
        drift = {"p_value": self.drift.p_value, "raised": self.drift.raised, "moved": list(self.drift.moved)}
        return {
            "format": FORMAT,
            "reports": self.reports,
            "epsilon": self.epsilon,
            "confidence": CONFIDENCE,
            "releases": list(self.releases),
            **{kind: group.content() for kind, group in self.groups.items()},
            "frequencies": [finite(interval._asdict()) for interval in self.frequencies],
            "drift": finite({**drift, "words": self.drift.words}),
            "assumes": self.assumes,
            "hardly_seen": list(self.hardly_seen),
        }

    def to_json(self, path: str | Path) -> Path:
        """Write the `content`, as JSON that every reader takes."""
        text = json.dumps(self.content(), indent=1, ensure_ascii=False, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")
        return Path(path)

    def plot(self, path: str | Path) -> Path:
        """Draw estimates with intervals beside the volunteers' means, in the volunteers' standard deviations."""
        spread = [value for group in self.groups.values() for value in group.spread.tolist()]
        labels = [label for group in self.groups.values() for label in group.labels]
        shown = [value for label, value in zip(labels, spread, strict=True) if label.shown]
        rows = self.rows()
        limits = np.array([row.interval[1:] for row in rows]).reshape(-1, 3)
        own = np.array([row.volunteers for row in rows])[:, None]
        away = (limits - own) / np.where(np.array(shown) > 0, shown, 1.0)[:, None]
        return draw(
            Path(path), [row.cells for row in rows], away, title=f"{self.reports:,} reports, ε = {self.epsilon:.3g}"
        )


def intervals(
    names: Iterable[str], means: Means, least: Floats | float = -np.inf, most: Floats | float = np.inf
) -> tuple[Interval, ...]:
    """Limits of 95% confidence: Student's, with the degrees of freedom that the volunteers' part leaves (Welch).
    Means and limits are brought between `least` and `most` (t,), which costs no interval its coverage."""
    variance = means.variance
    volunteers = (means.from_volunteers**2).sum(axis=0)
    part = np.divide(volunteers, variance, out=np.zeros_like(variance), where=variance > 0)
    freedom = max(len(means.from_volunteers) - 1, 1) / np.maximum(part**2, 1e-6)  # of reports alone: as good as endless
    reach = stdtrit(freedom, (1 + CONFIDENCE) / 2) * np.sqrt(variance)
    found = (np.clip(limit, least, most).tolist() for limit in (means.mean, means.mean - reach, means.mean + reach))
    return tuple(map(Interval, names, *found))


def _difference(later: Group, earlier: Group) -> tuple[Interval, ...]:
    names = [name for name in later.names if name in earlier.names]
    one, other = ([group.names.index(name) for name in names] for group in (later, earlier))
    a, b = later.means, earlier.means
    shared = a.from_volunteers.shape[0] == b.from_volunteers.shape[0] and np.array_equal(
        later.volunteers[one], earlier.volunteers[other]
    )
    mine, theirs = a.from_volunteers[:, one], b.from_volunteers[:, other]
    change = Means(
        mean=a.mean[one] - b.mean[other],
        from_reports=a.from_reports[one] + b.from_reports[other],
        from_volunteers=mine - theirs if shared else np.concatenate([mine, -theirs]),
        unseen=a.unseen[one] + b.unseen[other],
    )
    return intervals(names, change)


def finite(content: dict[str, Any]) -> dict[str, Any]:
    """The same with None for numbers that JSON has no word for."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in content.items()
    }
