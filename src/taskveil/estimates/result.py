"""What an estimate gives: rows with intervals, what they assume, and whether people differ from the volunteers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import DataError
from taskveil.estimates.drift import Drift
from taskveil.estimates.natural import Label
from taskveil.estimates.picture import draw

FORMAT = "taskveil.estimate.2"
"""What a file of an estimate is; the number changes with what its names mean."""
FORGED = 0.01
"""The share of forged reports that tables mention."""


class Interval(NamedTuple):
    """`mean`, and limits for it. `assumes` is the assumption they rest on, None for what reports measure."""

    name: str
    mean: float
    low: float
    high: float
    assumes: str | None = None


class Forged(NamedTuple):
    """By how much forged reports could move a row, to either side."""

    name: str
    change: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Group:
    """Rows of one kind; all arrays are (t,). `volunteers` are the volunteers' own means and `spread` their standard
    deviations, NaN where they are unknown; `forged` is the change by one forged report per report."""

    labels: tuple[Label, ...] = ()
    mean: Floats = field(default_factory=lambda: np.zeros(0))
    low: Floats = field(default_factory=lambda: np.zeros(0))
    high: Floats = field(default_factory=lambda: np.zeros(0))
    volunteers: Floats = field(default_factory=lambda: np.zeros(0))
    spread: Floats = field(default_factory=lambda: np.zeros(0))
    forged: Floats = field(default_factory=lambda: np.zeros(0))
    assumes: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the rows."""
        return tuple(label.name for label in self.labels)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        """The rows as intervals, with limits where a mean can lie. Means of shares stay as they are, and add up."""
        least, most = np.array([label.bounds for label in self.labels]).reshape(-1, 2).T
        return _intervals(
            self.names, self.mean, np.clip(self.low, least, most), np.clip(self.high, least, most), self.assumes
        )

    def some(self, places: list[int]) -> Group:
        """The rows at these places."""
        labels = tuple(self.labels[place] for place in places)
        return replace(self, labels=labels, **{name: getattr(self, name)[places] for name in ARRAYS})

    def inside(self) -> Group:
        """The same rows with means and limits where a mean can lie."""
        least, most = np.array([label.bounds for label in self.labels]).reshape(-1, 2).T
        mean, low, high = (np.clip(limit, least, most) for limit in (self.mean, self.low, self.high))
        return replace(self, mean=mean, low=low, high=high)

    def content(self) -> list[dict[str, Any]]:
        """For JSON. A date is a number of days since 1970 there. `spread` is the volunteers' standard deviation, a
        common scale for rows of different units; `forged` is what 1% of forged reports could change."""
        others = zip(self.labels, self.volunteers.tolist(), self.spread.tolist(), self.forged.tolist(), strict=True)
        return [
            finite(
                {
                    **interval._asdict(),
                    "volunteers": own,
                    "spread": spread,
                    "forged": FORGED * forged,
                    "kind": label.kind,
                    "unit": label.unit,
                }
            )
            for interval, (label, own, spread, forged) in zip(self.intervals, others, strict=True)
        ]


ARRAYS = ("mean", "low", "high", "volunteers", "spread", "forged")


class Row(NamedTuple):
    """A line of the table: an interval, what it is of, the volunteers' own mean, and what forged reports can change."""

    label: Label
    interval: Interval
    volunteers: float
    forged: float

    @property
    def cells(self) -> tuple[str, str, str, str, str]:
        """Name, estimate, limits, the volunteers' mean, and the change by 1% of forged reports, as text."""
        reach = (self.interval.high - self.interval.low) / 2
        return (
            self.label.title,
            *self.label.interval(*self.interval[1:4]),
            self.label.said(self.volunteers, reach),
            self.label.reach(FORGED * self.forged),
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Estimate:
    """Estimates from many reports. Every entry is an `Interval(name, mean, low, high, assumes)`.

    `frequencies`: the share of people whose device favours each code. `attributes`: means of the numbers of a record;
    a category has one share for every value. `answers`: means of the task's outputs. `shares`: of a classifier, the
    share of each class. `reported`: means of what devices report, where that is neither. A release measures some of
    these; others need `assume=`. `drift`: whether people differ from the volunteers in what is measured.
    """

    groups: dict[str, Group] = field(repr=False)
    """Rows by kind; kinds without rows are left out."""
    drift: Drift
    reports: int
    epsilon: float
    """The largest budget of one report."""
    releases: tuple[str, ...]
    """The ids of the releases that the reports were made with."""
    confidence: float
    anytime: bool
    """Whether the intervals hold at all times at once, however often the reports are looked at."""
    notes: tuple[str, ...] = ()
    """Sentences about all rows: what is assumed and whether the reports agree, or why there are no rows."""
    weigh: Callable[[Floats], Floats] | None = field(default=None, repr=False)
    """From records (N, n) to weights (N,); of an estimate with assume="cells" alone."""

    def _rows_of(self, kind: str) -> tuple[Interval, ...]:
        return self.groups[kind].intervals if kind in self.groups else ()

    @property
    def attributes(self) -> tuple[Interval, ...]:
        """Means of the numbers of a record."""
        return self._rows_of("attributes")

    @property
    def answers(self) -> tuple[Interval, ...]:
        """Means of the task's outputs; of a classifier, none: see `shares`."""
        return self._rows_of("answers")

    @property
    def shares(self) -> tuple[Interval, ...]:
        """The share of people in each class."""
        return self._rows_of("shares")

    @property
    def frequencies(self) -> tuple[Interval, ...]:
        """The share of people whose device favours each code; they add up to the number of codes that one favours."""
        return self._rows_of("frequencies")

    @property
    def reported(self) -> tuple[Interval, ...]:
        """Means of what devices report: bounded latents, or the codewords that are nearest to the records."""
        return self._rows_of("reported")

    @property
    def assumes(self) -> str | None:
        """The assumption of the rows that have one; None if all are measured."""
        return next((group.assumes for group in self.groups.values() if group.assumes), None)

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(group.labels)} {kind}" for kind, group in self.groups.items()) or "no rows"
        return f"<Estimate from {self.reports:,} reports: {kinds}; drift p = {self.drift.p_value:.2g}>"

    def forged(self, share: float = FORGED) -> tuple[Forged, ...]:
        """By how much forged reports could move each row, if `share` of all reports are forged."""
        if not 0 <= share <= 1:
            raise DataError(f"share is a share of all reports between 0 and 1, got {share}.")
        return tuple(
            Forged(name, share * change)
            for group in self.groups.values()
            for name, change in zip(group.names, group.forged.tolist(), strict=True)
        )

    def label(self, name: str) -> Label:
        """What a row of this name is of: a number, a share or a date, and its unit."""
        labels = [label for group in self.groups.values() for label in group.labels]
        return next((label for label in labels if name in (label.name, label.short)), Label(name))

    def minus(self, earlier: Estimate) -> dict[str, tuple[Interval, ...]]:
        """What changed since an `earlier` round: differences of the rows that both have, by kind.

        Both rounds must hold reports of their own. Limits are combined as those of independent estimates (MOVER,
        Zou and Donner 2008); limits that hold at all times are subtracted from each other, and hold with twice the
        error probability.
        """
        found = {}
        for kind, group in self.groups.items():
            other = earlier.groups.get(kind, Group())
            if kind in OWN and self.releases != earlier.releases:  # codes of other releases mean other things
                continue
            names = [name for name in group.names if name in other.names]
            if names:
                one = group.some([group.names.index(name) for name in names])
                two = other.some([other.names.index(name) for name in names])
                mean = one.mean - two.mean
                down, up = one.mean - one.low, one.high - one.mean
                back, forth = two.mean - two.low, two.high - two.mean
                if self.anytime or earlier.anytime:
                    low, high = mean - (down + forth), mean + (up + back)
                else:
                    low, high = mean - np.hypot(down, forth), mean + np.hypot(up, back)
                found[kind] = _intervals(names, mean, low, high, group.assumes or other.assumes)
        return found

    def weights(self, records: Floats) -> Floats:
        """How much volunteers with these records (N, n) count, 1 on average, so that together they are like the people
        who answered: what `taskveil.design(..., like=estimate)` asks for."""
        if self.weigh is None:
            raise DataError(
                'only an estimate of one release with assume="cells" says how much volunteers count: pass '
                'like=tv.estimate(veil, reports, assume="cells").'
            )
        return self.weigh(records)

    def rows(self) -> list[Row]:
        """What `table` and `plot` show: all rows but an attribute times its weight, and places in the year. Measured
        rows come first."""
        groups = sorted(self.groups.values(), key=lambda group: group.assumes is not None)
        return [
            Row(label, interval, own, forged)
            for group in groups
            for label, interval, own, forged in zip(
                group.labels, group.intervals, group.volunteers.tolist(), group.forged.tolist(), strict=True
            )
            if label.shown
        ]

    @property
    def header(self) -> tuple[str, ...]:
        """Above the columns of the table."""
        held = f"{100 * self.confidence:g}% {'at all times' if self.anytime else 'interval'}"
        return "", "estimate", held, "volunteers", f"{FORGED:.0%} forged"

    def table(self) -> str:
        """All rows as text, a line each: measured ones, then those that are assumed, each with the volunteers'."""
        rows = self.rows()
        cells = [self.header, *(row.cells for row in rows)]
        name, *widths = (max(map(len, column)) for column in zip(*cells, strict=True))
        lines = [
            f"{row[0]:<{name}}  " + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths, strict=True))
            for row in cells
        ]
        measured = sum(row.interval.assumes is None for row in rows)
        parts = [lines[0]]
        parts += ["Measured", *lines[1 : measured + 1]] if measured else []
        parts += ["Assumed", *lines[measured + 1 :]] if measured < len(rows) else []
        words = [f"{self.reports:,} reports. {self.drift.words}", *self.notes]
        return "\n".join([*parts, "", *words] if rows else words)

    def content(self) -> dict[str, Any]:
        """Everything but what computing it took, as JSON has it: None for what is not finite, a date in days."""
        drift = {"p_value": self.drift.p_value, "raised": self.drift.raised, "moved": list(self.drift.moved)}
        return {
            "format": FORMAT,
            "reports": self.reports,
            "epsilon": self.epsilon,
            "confidence": self.confidence,
            "anytime": self.anytime,
            "releases": list(self.releases),
            **{kind: self.groups[kind].content() if kind in self.groups else [] for kind in KINDS},
            "drift": finite({**drift, "words": self.drift.words}),
            "assumes": self.assumes,
            "notes": list(self.notes),
        }

    def to_json(self, path: str | Path) -> Path:
        """Write the `content`, as JSON that every reader takes."""
        text = json.dumps(self.content(), indent=1, ensure_ascii=False, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")
        return Path(path)

    def plot(self, path: str | Path) -> Path:
        """Draw the rows with intervals beside the volunteers' means, in the volunteers' standard deviations; assumed
        rows in another colour."""
        shown = [group.some([p for p, one in enumerate(group.labels) if one.shown]) for group in self.groups.values()]
        shown.sort(key=lambda group: group.assumes is not None)
        spread = np.concatenate([np.zeros(0), *(group.spread for group in shown)])
        rows = self.rows()
        limits = np.array([row.interval[1:4] for row in rows]).reshape(-1, 3)
        own = np.array([row.volunteers for row in rows])[:, None]
        away = (limits - own) / np.where(spread > 0, spread, 1.0)[:, None]
        return draw(
            Path(path),
            [row.cells for row in rows],
            away,
            np.array([row.interval.assumes is not None for row in rows], dtype=bool),
            title=f"{self.reports:,} reports, ε = {self.epsilon:.3g}",
            held=self.header[2],
        )


def _intervals(
    names: Sequence[str], mean: Floats, low: Floats, high: Floats, assumes: str | None
) -> tuple[Interval, ...]:
    numbers = zip(names, mean.tolist(), low.tolist(), high.tolist(), strict=True)
    return tuple(Interval(*row, assumes) for row in numbers)


OWN = ("frequencies", "reported")
"""Kinds whose rows mean something in their own release alone."""
KINDS = ("attributes", "answers", "shares", "frequencies", "reported")


def finite(content: dict[str, Any]) -> dict[str, Any]:
    """The same with None for numbers that JSON does not have."""
    return {
        name: None if isinstance(value, float) and not np.isfinite(value) else value for name, value in content.items()
    }
