"""What an estimate of a survey gives: means, shares, statistics by group, cross-tables and histograms, by name.

**Shares that add up.** Unbiased shares of rare values may come out below 0, and those of one field in several questions
differ a little. `consistent` gives each field one vector of shares: the mean of what its questions and cross-tables
say, weighted by precision, and then the nearest vector of shares of at least 0 that add up to 1. It replaces every
cross-table by the nearest table of at least 0 with these margins (Dykstra's alternating projections). Projections lower
the squared error of a vector, and bias single shares: small ones upwards, others downwards.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import DataError
from taskveil.estimates.labels import Label
from taskveil.estimates.picture import draw_sections
from taskveil.estimates.result import KINDS, SURVEYED, Estimate
from taskveil.estimates.rows import Interval, Row
from taskveil.notebooks import frame
from taskveil.veil.surveys import OTHER

CONSISTENT = (
    "Shares are projected: those of a field are at least 0 and add up to 1, and cross-tables add up to them. This "
    "biases single shares, small ones upwards and others downwards. Histograms have smooth shares that fit the "
    "unbiased ones. The intervals are those of the unbiased shares."
)
TITLES = {"means": "Means", "missing": "Missing values", "others": "Rows of other releases"}


class Section(NamedTuple):
    """Rows that tables show together, and what they are of: a kind, and the names of its fields."""

    title: str
    kind: str
    names: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True, eq=False)
class HistogramEstimate:
    """Shares of the bins of a number, among people who have a value. A value outside counts in the nearest bin."""

    name: str
    edges: tuple[float, ...]
    """Of the bins, one more than there are bins."""
    shares: tuple[Interval, ...]
    """Of the bins; each interval holds by itself."""
    bands: tuple[Interval, ...]
    """Of the bins; all intervals hold together (Bonferroni)."""
    below: tuple[Interval, ...]
    """The share of values below every inner edge; each interval holds by itself."""

    def quantile(self, q: float) -> Interval:
        """The value that a share q of people are below, with an interval of edges; the mean is interpolated.

        The true quantile x lies at or before an edge e that at least q of the values are at or below, so a lower limit
        beyond x needs limits below q at e. Scanned from below, the run of edges whose upper limits are below q passes
        e only then: the interval holds as often as one limit does.
        """
        if not isinstance(q, Real) or not 0 < q < 1:
            raise DataError(f"a quantile is of a share between 0 and 1, got {q}.")
        inner, low, high = self.edges[1:-1], self.edges[0], self.edges[-1]
        for edge, row in zip(inner, self.below, strict=True):
            if row.high >= q:
                break
            low = edge
        for edge, row in zip(reversed(inner), reversed(self.below), strict=True):
            if row.low <= q:
                break
            high = edge
        raised = np.maximum.accumulate(np.clip([0.0, *(row.mean for row in self.below), 1.0], 0.0, 1.0))
        places = np.array(self.edges)
        above = min(int(np.searchsorted(raised, q)), len(places) - 1)
        before = max(above - 1, 0)
        step = raised[above] - raised[before]
        part = (q - raised[before]) / step if step > 0 else 0.5
        mean = float(places[before] + part * (places[above] - places[before]))
        return Interval(f"{self.name}, quantile {q:g}", float(np.clip(mean, low, high)), low, high)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SurveyEstimate(Estimate):
    """Statistics of all people, each an `Interval(name, mean, low, high)` that the reports measure.

        e.means["income"]; e.shares["plan"]["Basic"]; e.missing["income"]
        e.by["region"]["North"]["income"]; e.by["region"]["North"]["plan"]["Basic"]
        e.pairs["plan", "region"]["Basic", "North"]; e.histograms["income"].quantile(0.5)

    Means are those of people who have a value. Shares are of all people, and of all people of the group in `by`.

    Example:
        >>> import pandas as pd, taskveil as tv
        >>> table = pd.DataFrame({"plan": ["Basic", "Pro"] * 100, "children": [0, 1, 2, 3] * 50})
        >>> veil = tv.design(table, tv.SurveyTask(), epsilon=4.0)
        >>> found = tv.estimate(veil, veil.privatize(table))
        >>> found.means["children"].name, found.shares["plan"]["Pro"].name
        ('children', 'plan=Pro')
    """

    kinds: ClassVar[tuple[str, ...]] = tuple(dict.fromkeys((*SURVEYED, *KINDS)))

    def __repr__(self) -> str:
        kinds = ", ".join(f"{len(rows)} {kind}" for kind, rows in self._shown().items()) or "no rows"
        return f"<SurveyEstimate from {self.reports:,} reports: {kinds}; drift p = {self.drift.p_value:.2g}>"

    def _shown(self) -> dict[str, tuple[Row, ...]]:
        return {kind: rows for kind, rows in self.groups.items() if kind not in ("bands", "below", "likely")}

    @cached_property
    def means(self) -> dict[str, Interval]:
        """By field: the mean over people who have a value."""
        return {row.label.key[1]: row.interval for row in self.groups.get("means", ())}

    @cached_property
    def shares(self) -> dict[str, dict[Any, Interval]]:  # type: ignore[override]
        """By field and value: the share of all people; of a large vocabulary, of its candidates."""
        found: dict[str, dict[Any, Interval]] = {}
        for row in self.groups.get("shares", ()):
            _, name, value = row.label.key
            for one in value if isinstance(value, tuple) else (value,):
                found.setdefault(name, {})[one] = row.interval
        return found

    @cached_property
    def missing(self) -> dict[str, Interval]:
        """By field: the share of people without a value."""
        return {row.label.key[1]: row.interval for row in self.groups.get("missing", ())}

    @cached_property
    def by(self) -> dict[str, dict[Any, dict[str, Any]]]:
        """By field, value and other field: the mean of the other field, or its shares by value."""
        found: dict[str, dict[Any, dict[str, Any]]] = {}
        for row in self.groups.get("by", ()):
            _, by, group, name, *value = row.label.key
            there = found.setdefault(by, {}).setdefault(group, {})
            if value:
                there.setdefault(name, {})[value[0]] = row.interval
            else:
                there[name] = row.interval
        return found

    @cached_property
    def pairs(self) -> dict[tuple[str, str], dict[tuple[Any, Any], Interval]]:
        """By two fields and a value of each: the share of all people. None is a missing value."""
        found: dict[tuple[str, str], dict[tuple[Any, Any], Interval]] = {}
        for row in self.groups.get("pairs", ()):
            _, first, second, a, b = row.label.key
            found.setdefault((first, second), {})[a, b] = row.interval
        return found

    @cached_property
    def histograms(self) -> dict[str, HistogramEstimate]:
        """Histograms by field."""
        names = dict.fromkeys(row.label.key[1] for row in self.groups.get("histograms", ()))
        return {name: self._histogram(name) for name in names}

    def _histogram(self, name: str) -> HistogramEstimate:
        shares, bands, below = (
            tuple(row for row in self.groups.get(kind, ()) if row.label.key[1] == name)
            for kind in ("histograms", "bands", "below")
        )
        return HistogramEstimate(
            name=name,
            edges=(*(row.label.key[2] for row in shares), shares[-1].label.key[3]),
            shares=tuple(row.interval for row in shares),
            bands=tuple(row.interval for row in bands),
            below=tuple(row.interval for row in below),
        )

    def consistent(self) -> SurveyEstimate:
        """The same with shares that are at least 0 and add up, and cross-tables that add up to them; a note says so."""
        margins, means = self._margins(), dict[Label, float]()
        for row in (*self.groups.get("shares", ()), *self.groups.get("missing", ())):
            name, value = row.label.key[1], None if row.label.key[0] == "missing" else row.label.key[2]
            means[row.label] = margins.get(name, {}).get(value, min(max(row.mean, 0.0), 1.0))
        for table in self._tables():
            down, across = ([margins[name][value] for value in axis] for name, axis in table.axes)
            found = with_margins(table.numbers("mean"), np.array(down), np.array(across))
            means.update(zip((row.label for row in table.rows), found.ravel().tolist(), strict=True))
        for name in self.histograms:
            bins, likely, below = (
                [row for row in self.groups.get(kind, ()) if row.label.key[1] == name]
                for kind in ("histograms", "likely", "below")
            )
            if likely and _known(likely):  # pooled ones of several releases nearly add up
                found = on_simplex(np.array([row.mean for row in likely]))
                means.update(zip((row.label for row in bins), found.tolist(), strict=True))
                means.update(zip((row.label for row in below), np.cumsum(found)[:-1].tolist(), strict=True))
        groups = {
            kind: tuple(row._replace(mean=means.get(row.label, row.mean)) for row in rows)
            for kind, rows in self.groups.items()
        }
        return replace(self, groups=groups, notes=(*self.notes, CONSISTENT))

    def _margins(self) -> dict[str, dict[Any, float]]:
        """By field and value: one share from all rows and cross-tables, projected to the simplex."""
        found: dict[str, list[tuple[tuple[Any, ...], Floats, Floats]]] = {}
        missing = {row.label.key[1]: row for row in self.groups.get("missing", ())}
        alone: dict[str, list[Row]] = {}
        for row in self.groups.get("shares", ()):
            alone.setdefault(row.label.key[1], []).append(row)
        for name, rows in alone.items():
            values = tuple(row.label.key[2] for row in rows)
            if OTHER not in values and True not in values:  # candidates of a large vocabulary are not all values
                continue
            if name in missing:
                rows, values = [*rows, missing[name]], (*values, None)
            if _known(rows):
                found.setdefault(name, []).append((values, *np.array([(row.mean, row.width**2) for row in rows]).T))
        for table in self._tables():
            mean, square = table.numbers("mean"), table.numbers("width") ** 2
            for axis, (name, values) in enumerate(table.axes):
                found.setdefault(name, []).append((values, mean.sum(axis=1 - axis), square.sum(axis=1 - axis)))
        margins = {}
        for name, those in found.items():
            values = those[0][0]
            alike = [one for one in those if one[0] == values]
            pooled = averaged(np.array([one[1] for one in alike]), np.array([one[2] for one in alike]))
            margins[name] = dict(zip(values, on_simplex(pooled).tolist(), strict=True))
        return margins

    def _tables(self) -> list[CrossTable]:
        """The cross-tables whose cells are all known."""
        rows: dict[tuple[str, str], list[Row]] = {}
        for row in self.groups.get("pairs", ()):
            rows.setdefault(row.label.key[1:3], []).append(row)
        return [CrossTable(names, tuple(cells)) for names, cells in rows.items() if _known(cells)]

    def sections(self) -> list[Section]:
        """What `table` shows, in parts: means, shares by field, missing values, by group, cross-tables, histograms."""
        found: dict[tuple[str, str, tuple[str, ...]], list[Row]] = {}
        for row in self._flat():
            if row.label.shown:
                found.setdefault((*_titled(row), _names(row)), []).append(row)
        return [Section(*key, tuple(rows)) for key, rows in found.items()]

    def _parts(self) -> list[tuple[str, Sequence[Row]]]:
        return [(section.title, section.rows) for section in self.sections()]

    def _draw(self, ax: Any) -> tuple[float, float]:
        """All rows in their own units, where some have no volunteers' value that they could be compared with."""
        shown = [row for row in self._flat() if row.label.shown]
        if all(math.isfinite(row.volunteers) and row.spread > 0 for row in shown):
            return super()._draw(ax)
        sections = [(one.title, one.rows) for one in self.sections()]
        return draw_sections(ax, sections, title=self.source, held=self.header[2])

    def to_pandas(self) -> Any:
        """A table of all rows: statistic, field, value, by, group, name, mean, low, high, volunteers."""
        columns = ("statistic", "field", "value", "by", "group", "name", "mean", "low", "high", "volunteers")
        rows = [(*_placed(row), *row.interval[:4], row.volunteers) for row in self._flat()]
        return frame(rows, columns)

    def _flat(self) -> Iterator[Row]:
        return (row for rows in self._shown().values() for row in rows)


def _known(rows: Sequence[Row]) -> bool:
    """Whether all of them have a mean; of few reports, perhaps none is about them."""
    return all(math.isfinite(row.mean) for row in rows)


class CrossTable(NamedTuple):
    """The rows of two fields, one for every pair of values, in order."""

    names: tuple[str, str]
    rows: tuple[Row, ...]

    @property
    def axes(self) -> tuple[tuple[str, tuple[Any, ...]], ...]:
        """Each field with its values."""
        values = (tuple(dict.fromkeys(row.label.key[place] for row in self.rows)) for place in (3, 4))
        return tuple(zip(self.names, values, strict=True))

    def numbers(self, what: str) -> Floats:
        """(a, b): this number of every row."""
        return np.array([getattr(row, what) for row in self.rows]).reshape([len(values) for _, values in self.axes])


def cell_texts(row: Row) -> tuple[str, str]:
    """The two values of a cell of a cross-table, as text."""
    first, second = row.label.key[1:3]
    start, end = row.label.title.split(f", {second}" if f", {second}" in row.label.title else ", ", 1)
    return _short(start.removeprefix(first), row.label.key[3]), _short(end.removeprefix(second), row.label.key[4])


def _short(text: str, value: Any) -> str:
    """The rest of a title after the name of its field."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return text.removeprefix("=").removeprefix(" is ").strip()


def _key(row: Row) -> tuple[Any, ...]:
    """The kind of a row and its names. Other members of a family have rows that no statistic of the survey is."""
    return row.label.key or ("others", row.label.name)


def _titled(row: Row) -> tuple[str, str]:
    """The title of a row's section, and its kind."""
    kind, *names = _key(row)
    if kind == "by":
        return f"By {names[0]}: {names[2]}", kind
    if kind == "pairs":
        return f"{names[0]} × {names[1]}", kind
    if kind in ("shares", "histograms"):
        return f"{'Shares' if kind == 'shares' else 'Histogram'} of {names[0]}", kind
    return TITLES[kind], kind


def _names(row: Row) -> tuple[str, ...]:
    """The fields that all rows of a section share."""
    kind, *names = _key(row)
    return {
        "by": (names[0], *names[2:3]),
        "pairs": tuple(names[:2]),
        "histograms": tuple(names[:1]),
        "shares": tuple(names[:1]),
    }.get(kind, ())


def _placed(row: Row) -> tuple[Any, ...]:
    """Statistic, field, value, by, group of a row."""
    kind, *key = _key(row)
    if kind == "others":
        return "other", key[0], None, None, None
    if kind == "by":
        by, group, name, *value = key
        return ("share" if value else "mean"), name, value[0] if value else None, by, group
    if kind == "pairs":
        first, second, a, b = key
        return "share", first, a, second, b
    level = None if kind in ("means", "missing") else key[1]
    return {"means": "mean", "missing": "missing", "shares": "share"}.get(kind, "bin"), key[0], level, None, None


def on_simplex(shares: Floats, total: float = 1.0) -> Floats:
    """The nearest (k,) of at least 0 that add up to `total`, by the sorted cumulative sums (Duchi et al. 2008)."""
    falling = np.sort(shares)[::-1]
    excess = (np.cumsum(falling) - total) / np.arange(1, len(shares) + 1)
    return np.asarray(np.maximum(shares - excess[np.flatnonzero(falling > excess)[-1]], 0.0))


def averaged(shares: Floats, variances: Floats) -> Floats:
    """The mean (k,) of rows (m, k) of estimates, weighted by precision."""
    weights = 1.0 / np.maximum(variances, 1e-300)
    return np.asarray((weights * shares).sum(axis=0) / weights.sum(axis=0))


def with_margins(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """The nearest table (a, b) of at least 0 whose sums are `rows` (a,) and `columns` (b,), each of which adds up to 1.

    The nearest table with given sums spreads what its rows and columns lack evenly. Dykstra's method alternates that
    with clipping at 0. What is left after the last round is put right by scaling rows and columns in turn.
    """
    found, left = table.copy(), np.zeros_like(table)
    size, rounds = table.shape, 100 * sum(table.shape)  # a few dozen are usual
    for _ in range(rounds):
        down, across = rows - found.sum(axis=1), columns - found.sum(axis=0)
        if max(np.abs(down).max(), np.abs(across).max()) < 1e-9 and found.min() >= 0.0:
            break
        # Rows and columns lack the same in all, which would count twice.
        moved = found + down[:, None] / size[1] + across / size[0] - down.sum() / (size[0] * size[1])
        found = np.maximum(moved + left, 0.0)
        left = moved + left - found
    for _ in range(rounds):
        found *= (rows / np.maximum(found.sum(axis=1), 1e-300))[:, None]
        found *= columns / np.maximum(found.sum(axis=0), 1e-300)
        if np.abs(rows - found.sum(axis=1)).max() < 1e-12:
            break
    return np.asarray(found)
