"""Estimates of several rounds as lines with bands, changes between rounds, and how many people responded."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, overload

import numpy as np
from scipy.special import ndtri

from taskveil.client.panels import Panel
from taskveil.errors import DataError, TooFewReportsError, needs
from taskveil.estimates.intervals import exact_limits
from taskveil.estimates.labels import Label
from taskveil.estimates.picture import draw_lines
from taskveil.estimates.result import Estimate, aligned
from taskveil.estimates.rows import Interval, Row, finite
from taskveil.estimates.smoothing import likeliest, smoothed
from taskveil.notebooks import frame, summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FORMAT = "taskveil.series.1"
"""What a file of a series is; the number changes with what its names mean."""
LOCAL_LEVEL = (
    "Local level model: from one round to the next, the true value changes by an independent normal amount of mean "
    "zero and of one standard deviation for all rounds, and the errors of the estimates are independent and normal, "
    "with the variances that the intervals of the reports have. The intervals hold if this is true and if the standard "
    "deviation of a change is the most likely one ({change}); they do not include how uncertain it is."
)
"""What a smoothed line assumes."""

Again = Callable[[str, float, bool], Estimate]
"""The estimate of a round with this confidence, for one look (False) or at all times at once (True)."""


class Line(NamedTuple):
    """A row over the rounds."""

    kind: str
    label: Label
    rows: dict[str, Row]
    """By round, of those that have it."""


class ResponseRate(NamedTuple):
    """How many reports a round has, and how many there should be. `rate` is their ratio, with limits; all three, and
    `expected`, are None where the number of people was not stated.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> series = tv.estimate(veil, {"w1": veil.privatize(X), "w2": veil.privatize(X[:150])})
        >>> first, second = series.response(people=200)
        >>> second.round, second.reports, second.rate
        ('w2', 150, 0.75)
    """

    round: str
    reports: int
    expected: float | None = None
    rate: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, kw_only=True)
class Smoothed:
    """A smoothed row: intervals by round, all assumed, and the standard deviation of a change from one round to the
    next that is the most likely one.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> series = tv.estimate(veil, {week: veil.privatize(X) for week in ("w1", "w2", "w3")})
        >>> smooth = series.smoothed("x0")
        >>> list(smooth.line), smooth.change >= 0
        (['w1', 'w2', 'w3'], True)
    """

    line: dict[str, Interval]
    change: float
    assumes: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Series:
    """The estimates of several rounds, with bands: intervals that hold at all planned rounds at once.

        s.line("income")["2026-W46"]; s.estimates["2026-W46"]; s.minus("2026-W47", "2026-W46"); s.smoothed("income")

    **Bands.** For every row, the probability that any interval of the line misses its value is at most 1 − confidence,
    whatever the people's records are, however they change, and also if the same people report in several rounds.

    **Why.** With T planned rounds, the interval of each is one of confidence 1 − (1 − confidence)/T: it misses with
    probability at most (1 − confidence)/T. The probability that at least one of T events happens is at most the sum
    of their probabilities, whether or not they depend on each other. T is fixed before the first round, so that this
    holds for the line after any number of rounds: rounds without an interval cannot miss. With `anytime`, each
    interval holds at all times at once, and so does the line while reports still arrive. As the other measured rows,
    a row describes the people who report in the round: those whose devices drew it, a random sample of all who take
    part, without devices that were off, and with those that were off in an earlier drawn round of the block.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> rounds = {name: veil.privatize(X) for name in ("2026-W46", "2026-W47")}
        >>> series = tv.estimate(veil, rounds, planned_rounds=52)
        >>> series.rounds, series.planned
        (('2026-W46', '2026-W47'), 52)
    """

    estimates: dict[str, Estimate] = field(repr=False)
    """By round, in order; rounds with too few reports have none. Their intervals are those of the bands."""
    counts: dict[str, int]
    """By round, in order: how many reports there are, also where these are too few."""
    planned: int
    """How many rounds are planned, for which the bands hold at once."""
    panel: Panel | None
    """The rounds that the release plans, if it does."""
    confidence: float
    """Of the whole line of a row."""
    anytime: bool
    """Whether the bands hold at all times at once too, however often the reports are looked at."""
    notes: tuple[str, ...]
    again: Again = field(repr=False)

    columns: ClassVar[tuple[str, ...]] = ("round", "kind", "name", "mean", "low", "high", "unit", "assumes", "reports")
    """Of the table that `to_pandas` gives."""

    @property
    def rounds(self) -> tuple[str, ...]:
        """The names of the rounds, in order."""
        return tuple(self.counts)

    @property
    def lines(self) -> list[Line]:
        """The rows over the rounds: those that tables show of any round. Measured ones come first."""
        found: dict[tuple[str, Label], Line] = {}
        shown = set()
        for name, one in self.estimates.items():
            for kind, rows in one.groups.items():
                for row in rows:
                    key = kind, row.label.same
                    found.setdefault(key, Line(kind, row.label, {})).rows[name] = row
                    if row.label.shown:
                        shown.add(key)
        lines = [line for key, line in found.items() if key in shown]
        return sorted(lines, key=lambda line: any(row.assumes is not None for row in line.rows.values()))

    @property
    def held(self) -> str:
        """What the bands are, in a few words."""
        every = f"all {self.planned} rounds" if self.planned > 1 else "one round"
        return f"{100 * self.confidence:g}% at {every}{' and times' if self.anytime else ''}"

    @property
    def statement(self) -> str:
        """What the bands promise, in a sentence."""
        always = ", at all times while reports arrive" if self.anytime else ""
        return (
            f"For each row by itself, the probability is at least {100 * self.confidence:g}% that the intervals "
            f"contain its value in all {self.planned} planned rounds at once{always}."
        )

    def line(self, name: str) -> dict[str, Interval]:
        """By round: the row of this name, with the limits of its band.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
            >>> series = tv.estimate(veil, {"first": veil.privatize(X), "second": veil.privatize(X)})
            >>> list(series.line("x0"))
            ['first', 'second']
        """
        return {round: row.interval for round, row in self._line(name).rows.items()}

    def _line(self, name: str) -> Line:
        lines = self.lines
        for line in lines:
            if name in (line.label.name, line.label.short, line.label.title):
                return line
        known = ", ".join(repr(line.label.short) for line in lines[:10])
        raise DataError(f"there is no row {name!r}: the rows are {known}{', …' if len(lines) > 10 else ''}.")

    def __repr__(self) -> str:
        return f"<Series of {len(self.rounds)} rounds, {sum(self.counts.values()):,} reports, {self.held}>"

    # Changes

    def are_apart(self, round: str, other: str) -> bool:
        """Whether different devices report in these two rounds: if they are of one block of the panel."""
        return self.panel is not None and self.panel.are_apart(round, other)

    def minus(self, round: str, earlier: str) -> dict[str, tuple[Interval, ...]]:
        """What changed from an `earlier` round to this one: differences of the rows that both have, by kind.

        The interval of every difference holds with the confidence of the series, for a pair of rounds that was chosen
        before looking at the estimates. For all pairs at once, subtract limits of `line`: where the bands hold, so do
        all their differences.

        - Rounds of one block of a panel: a device reports in one of them only, so that the two estimates are
          independent. Intervals are those of `Estimate.minus` for different people.
        - Other rounds: the same people may report in both, and how their answers depend on each other is not known.
          Each round's interval misses with at most half of the error probability, so that the largest and smallest
          differences of their limits miss with at most the whole, for every dependence (union bound). So it is for
          limits that hold at all times.
        """
        for name in (round, earlier):
            if not isinstance(name, str) or name not in self.counts:
                raise DataError(f"there is no round {name!r} in this series.")
        apart = self.are_apart(round, earlier) and not self.anytime
        each = self.confidence if apart else (1.0 + self.confidence) / 2
        now, then = (self.again(name, each, self.anytime) for name in (round, earlier))
        return now.minus(then, different_people=apart)

    # The smoothed line

    def smoothed(self, name: str) -> Smoothed:
        """The row of this name, smoothed by the local level model (`taskveil.estimates.smoothing`): the true value
        changes from round to round by an independent normal amount, whose variance is estimated by maximum likelihood.

        The rows are assumed, and `assumes` names the assumption and what the intervals condition on. Under it they hold
        at all planned rounds at once, as the bands do. A sudden change is smoothed away: then the assumption is wrong.
        """
        line = self._line(name)
        spread = float(ndtri((1.0 + self._each) / 2))
        found = {round: self._once(line, round) for round in line.rows}
        known = [round for round, row in found.items() if np.isfinite(row[1:4]).all() and row.high > row.low]
        if len(known) < 3:
            raise DataError(f"a smoothed line needs at least three rounds with an interval for {name!r}.")
        mean, low, high = np.array([found[round][1:4] for round in known]).T
        margins = np.maximum(mean - low, high - mean)  # limits may have been cut where no mean can lie
        places = self._places()
        gaps = np.diff([places[round] for round in known]).astype(np.float64)
        variances = (margins / spread) ** 2
        unit = float(np.sqrt(variances.mean()))  # the likelihood is computed in standard errors
        middle = float(mean.mean())
        y, v = (mean - middle) / unit, variances / unit**2
        q = likeliest(y, v, gaps)
        level, variance = smoothed(y, v, gaps, q)
        level, reach = middle + unit * level, spread * unit * np.sqrt(variance)
        change = unit * math.sqrt(q)
        said = line.label.said(change, change, change=True).removeprefix("+")
        own = next((row.assumes for row in found.values() if row.assumes), None)
        words = " ".join(one for one in (own, LOCAL_LEVEL.format(change=said)) if one)
        rows = zip(known, level.tolist(), (level - reach).tolist(), (level + reach).tolist(), strict=True)
        inside = {
            round: found[round]._replace(mean=mean, low=low, high=high, assumes=words).inside().interval
            for round, mean, low, high in rows
        }
        return Smoothed(line=inside, change=change, assumes=words)

    @property
    def _each(self) -> float:
        """The confidence of one interval of the line."""
        return 1.0 - (1.0 - self.confidence) / self.planned

    def _once(self, line: Line, round: str) -> Row:
        """The row of a round with an interval for one look: their widths are those of normal errors."""
        if not self.anytime:
            return line.rows[round]
        rows = self.again(round, self._each, False).groups[line.kind]
        return next(row for row in rows if row.label.same == line.label.same)

    def _places(self) -> dict[str, int]:
        """Where each round stands: among the planned ones, or among those of the series."""
        known = self.panel.places if self.panel is not None else {}
        return {name: known.get(name, place) for place, name in enumerate(self.counts)}

    # Response

    def response(self, people: int | Mapping[str, int] | None = None) -> tuple[ResponseRate, ...]:
        """By round: how many reports there are and, if the number of people who take part is stated, how many there
        should be, and the rate with an interval.

        Each device draws one round of a block of L rounds, so that people/L reports are expected. If devices respond
        independently of each other, the number of reports is binomial: each person gives one with probability rate/L.
        Limits are those of Clopper and Pearson, for each round by itself. A rate above 100% comes by chance, or where
        devices make up, later in the block, for a round that they missed.

        Args:
            people: how many people took part; or their number by round. Without a panel, all are asked in each round.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
            >>> series = tv.estimate(veil, {"first": veil.privatize(X), "second": veil.privatize(X[:150])})
            >>> [round(one.rate, 2) for one in series.response(people=200)]
            [1.0, 0.75]
        """
        return tuple(self._response(name, people) for name in self.counts)

    def _response(self, name: str, stated: int | Mapping[str, int] | None) -> ResponseRate:
        people, reports = stated.get(name) if isinstance(stated, Mapping) else stated, self.counts[name]
        if people is None:
            return ResponseRate(name, reports)
        if isinstance(people, bool) or not isinstance(people, int | np.integer) or people < max(reports, 1):
            raise DataError(
                f"people is how many take part, a whole number of at least {reports} in round {name!r}, which has so "
                f"many reports; got {people!r}."
            )
        length = 1 if self.panel is None else len(self.panel.block_rounds(self.panel.block(self.panel.place(name))))
        counts = np.array([people - reports, reports])
        low, high = exact_limits(counts, [0.0, 1.0], confidence=self.confidence)
        return ResponseRate(name, reports, people / length, length * reports / people, length * low, length * high)

    # What is shown

    @property
    def header(self) -> tuple[str, ...]:
        """The titles of the table's columns."""
        return "", "estimate", self.held, "reports"

    def sections(self) -> list[tuple[str, list[tuple[str, ...]]]]:
        """By row: its title, and for every round with an estimate the cells of the table."""
        found = []
        for line in self.lines:
            assumed = next((row for row in line.rows.values() if row.assumes), None)
            title = line.label.title + ("" if assumed is None else " (assumed)")
            rows = line.rows.items()
            cells: list[tuple[str, ...]] = [(name, *row.cells[1:3], f"{self.counts[name]:,}") for name, row in rows]
            found.append((title, cells))
        return found

    def words(self) -> list[str]:
        """Sentences below the table: what the bands promise, and notes."""
        return [self.statement, *self.notes]

    def table(self) -> str:
        """All rows as text: for each, a line for every round.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
            >>> series = tv.estimate(veil, {"first": veil.privatize(X), "second": veil.privatize(X)})
            >>> print(series.table().splitlines()[1])
            x0
        """
        lines = [self.header, *(line for title, cells in self.sections() for line in [(title,), *cells])]
        return "\n".join([*aligned(lines), "", *self.words()])

    def _repr_html_(self) -> str:
        shown = [name for name in self.counts if name in self.estimates][-6:]
        rows = []
        for line in self.lines:
            cells = [line.rows[name].cells if name in line.rows else None for name in shown]
            rows.append((line.label.title, *("" if one is None else f"{one[1]} ({one[2]})" for one in cells)))
        return summary("Series", [repr(self)[1:-1] + ".", *self.words()], head=("", *shown), rows=rows)

    def to_pandas(self) -> Any:
        """A DataFrame with a line for every row and round: round, kind, name, mean, low, high, unit, assumes, reports.
        Dates are days since 1970.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
            >>> series = tv.estimate(veil, {"first": veil.privatize(X), "second": veil.privatize(X)})
            >>> series.to_pandas()["round"].tolist()
            ['first', 'second', 'first', 'second']
        """
        return frame(self.records(), self.columns)

    def records(self) -> list[tuple[Any, ...]]:
        """The lines of `to_pandas`, with the cells that `columns` names."""
        return [
            (name, line.kind, *row.interval[:4], row.label.unit, row.assumes, self.counts[name])
            for line in self.lines
            for name, row in line.rows.items()
        ]

    def content(self, people: int | Mapping[str, int] | None = None) -> dict[str, Any]:
        """Everything as JSON has it: of every row, lists in the order of the rounds, with None where a round has no
        estimate. With the number of `people`, also what `response` says."""
        return {
            "format": FORMAT,
            "confidence": self.confidence,
            "anytime": self.anytime,
            "planned": self.planned,
            "reports_per_person": None if self.panel is None else self.panel.reports,
            "rounds": [one._asdict() for one in self.response(people)],
            "rows": [self._numbers(line) for line in self.lines],
            "statement": self.statement,
            "notes": list(self.notes),
        }

    def _numbers(self, line: Line) -> dict[str, Any]:
        found = [line.rows.get(name) for name in self.counts]
        values = [finite({} if row is None else row.interval._asdict()) for row in found]
        return {
            "group": line.kind,
            "name": line.label.name,
            "title": line.label.title,
            "kind": line.label.kind,
            "unit": line.label.unit,
            "assumes": next((row.assumes for row in line.rows.values() if row.assumes), None),
            **{what: [one.get(what) for one in values] for what in ("mean", "low", "high")},
            "volunteers": finite({"": next(iter(line.rows.values())).volunteers})[""],
        }

    def to_json(self, path: str | Path, *, people: int | Mapping[str, int] | None = None) -> Path:
        """Write the `content`, as JSON that every reader takes."""
        text = json.dumps(self.content(people), indent=1, ensure_ascii=False, allow_nan=False)
        Path(path).write_text(text + "\n", encoding="utf-8")
        return Path(path)

    @overload
    def plot(self, path: str | Path, *, rows: Sequence[str] | None = None, smooth: bool = False) -> Path: ...

    @overload
    def plot(
        self, path: None = None, *, rows: Sequence[str] | None = None, smooth: bool = False, ax: Axes | None = None
    ) -> Axes: ...

    def plot(
        self,
        path: str | Path | None = None,
        *,
        rows: Sequence[str] | None = None,
        smooth: bool = False,
        ax: Axes | None = None,
    ) -> Path | Axes:
        """A picture of the rows over the rounds, each with its band and in its own unit.

        Args:
            path: the file to write (PNG, PDF or SVG), which is returned; without one, the axes are returned.
            rows: names of the rows to draw; by default all of them, or the twelve that change most surely.
            smooth: also draw the smoothed lines, in the colour of assumed rows.
            ax: axes of matplotlib to draw into, instead of new ones.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
            >>> series = tv.estimate(veil, {"first": veil.privatize(X), "second": veil.privatize(X)})
            >>> len(series.plot().child_axes)
            2
        """
        with needs("a picture"):
            from taskveil.style import plotted
        lines = self.lines if rows is None else [self._line(name) for name in rows]
        places = self._places()
        found = [
            (line.label, line.rows, self.smoothed(line.label.name).line if smooth and len(line.rows) > 2 else {})
            for line in lines
        ]
        return plotted(lambda axes: draw_lines(axes, places, found, held=self.held), path, ax)


def over_time(
    again: Again,
    counts: Mapping[str, int],
    *,
    panel: Panel | None,
    planned: int | None,
    confidence: float,
    anytime: bool,
) -> Series:
    """The series of these rounds.

    Args:
        again: gives the estimate of a round.
        counts: how many reports each round has, by name.
        panel: the rounds that the release plans; None if it plans none.
        planned: without a panel, how many rounds there will be; by default those given.
        confidence: of the line of a row, at all planned rounds at once.
        anytime: whether intervals hold at all times at once too.
    """
    if not counts:
        raise DataError("there are no rounds: pass reports by the name of their round.")
    if panel is not None:
        if planned is not None:
            raise DataError("the release plans its rounds itself: leave out planned_rounds.")
        if unplanned := [name for name in counts if name not in panel.places]:
            raise DataError(
                f"round {unplanned[0]!r} is not one of the {len(panel.rounds)} rounds that the release plans, "
                f"{panel.rounds[0]!r} to {panel.rounds[-1]!r}."
            )
        counts = {name: counts[name] for name in panel.rounds if name in counts}
        planned = len(panel.rounds)
    if planned is None:
        planned = len(counts)
    if isinstance(planned, bool) or not isinstance(planned, int | np.integer) or planned < len(counts):
        raise DataError(
            f"planned_rounds is how many rounds there will be in all, a whole number of at least {len(counts)}; got "
            f"{planned!r}."
        )
    estimates, few, notes = dict[str, Estimate](), [], dict[str, None]()
    for name in counts:
        try:
            found = again(name, 1.0 - (1.0 - confidence) / int(planned), anytime)
        except TooFewReportsError as error:
            few.append(f"Round {name}: {error}")
            continue
        estimates[name] = found
        notes.update(dict.fromkeys(found.notes if found.assumes is None else found.notes[:1]))
    if not estimates:
        raise TooFewReportsError(f"no round has enough reports. {few[0]}")
    return Series(
        estimates=estimates,
        counts=dict(counts),
        planned=int(planned),
        panel=panel,
        confidence=confidence,
        anytime=anytime,
        notes=(*notes, *few),
        again=again,
    )
