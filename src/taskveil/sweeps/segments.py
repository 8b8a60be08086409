"""Segments: groups of people by a label, and what designs of their own gain for them against the common design.

A report names its release and so reveals its segment. Use something that the server knows anyway, or that needs no
protection: nothing here makes it private.

Both designs are judged on the same held-out people of the segment, so their losses are paired. The gain is the mean of
one number per person: the loss with the common design minus the loss with their own. Its interval is that of any mean
(`taskveil.veil.loss_intervals`), for other people of the segment like those tested, with blocks of neighbours as in the
sweep. Every design that was asked for is listed; none is chosen.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from taskveil.arrays import Integers
from taskveil.client.base_field import Coded
from taskveil.designs.crossfit import FOLDS
from taskveil.designs.selection import people
from taskveil.errors import DataError, needs
from taskveil.estimates.picture import MOST_ROWS
from taskveil.notebooks import frame, shortened, summary
from taskveil.records.tables import column_names, read_column, select
from taskveil.sweeps.frontier import Frontier, written
from taskveil.sweeps.options import SweepOptions
from taskveil.sweeps.trials import Trial
from taskveil.veil.loss_intervals import CONFIDENCE, bounds, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEWEST_VOLUNTEERS = FOLDS * FOLDS
"""Volunteers that a segment needs for a design of its own: a design judges itself on a fifth of them at a time, and no
part may be smaller than what a design needs at all."""

FEWEST_TESTED = 50
"""People who must be there to judge a segment's design. With 20 people whose losses are skewed, a 95% interval misses
the truth up to one time in five; with 50, one in ten."""

MOST_SEGMENTS = 1000
"""Largest number of segments, each with a release of its own: a column with more values does not name groups."""

COMMON = "common"
"""The folder of the common designs."""

FOLDERS = "folders.json"
"""The file that says which folder belongs to which segment: not every name can be a folder's."""

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(?<![.])")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # of which Windows makes no folder


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentPeople:
    """The people of one segment, by their places among the volunteers and among the test records of a trial.

    `why_not` says in a sentence why they keep the common design, None if they get one of their own.
    """

    volunteers: Integers
    tested: Integers
    why_not: str | None


def groups_of(
    trial: Trial, labels: Sequence[str | None], test_labels: Sequence[str | None]
) -> dict[str, SegmentPeople]:
    """All segments by their names, the largest first. People without a label belong to none.

    Copies of a record count as one person, among the volunteers and among the people to test on. Otherwise ten copies
    would make a gain look three times as certain as it is.

    Args:
        trial: of everybody.
        labels: of its volunteers.
        test_labels: of its test records.
    """
    trained, tested = _places(labels), _places(test_labels)
    nobody = np.zeros(0, dtype=np.int64)
    names = sorted({*trained, *tested}, key=lambda name: (-len(trained.get(name, nobody)), name))
    if not names:
        raise DataError("nobody has a segment: all labels are missing.")
    if len(names) > MOST_SEGMENTS:
        raise DataError(
            f"{len(names):,} segments are more than {MOST_SEGMENTS:,}, each of which would have a release of its own: "
            "a segment is a group of people, such as a country. Put labels into fewer groups."
        )
    everybody = np.concatenate([trial.problem.X, trial.X_test])
    # In time order, equal records are equal times, not copies; the block says how neighbours count.
    person = people(everybody) if trial.block == 1 else np.arange(len(everybody))
    of_volunteers, of_tested = np.split(person, [len(trial.problem.X)])
    found = {}
    for name in names:
        volunteers, judges = trained.get(name, nobody), tested.get(name, nobody)
        judges = judges[np.sort(np.unique(of_tested[judges], return_index=True)[1])]
        different = len(np.unique(of_volunteers[volunteers]))
        why_not = None
        if len(volunteers) >= FEWEST_VOLUNTEERS and np.ptp(trial.problem.X[volunteers], axis=0).max() == 0:
            why_not = "all volunteers' records are identical: there is nothing to learn or to report."
        elif different < FEWEST_VOLUNTEERS or len(judges) < FEWEST_TESTED:
            why_not = (
                f"{different} volunteers and {len(judges)} people to test on: a design of their own needs "
                f"{FEWEST_VOLUNTEERS} and {FEWEST_TESTED}."
            )
        found[name] = SegmentPeople(volunteers=volunteers, tested=judges, why_not=why_not)
    return found


Labels = Sequence[str | None]


def all_labels(X: Any, options: SweepOptions) -> tuple[Labels, Labels | None] | None:
    """The labels of all records X, and of the records to test on if these were passed; None without segments. A
    DataError if the labels are y, what the model predicts, perhaps by other names."""
    segment, segment_test, X_test, y = options.segment, options.segment_test, options.tested[0], options.y
    if segment is None:
        return None
    labels, of_test = labels_of(segment, X, _count(X)), None
    if X_test is None and segment_test is not None:
        raise DataError("segment_test are labels of the test records, and test was not passed.")
    if X_test is not None:
        if segment_test is None and not isinstance(segment, str):
            raise DataError(
                "the test records have no labels: pass them as segment_test, or name a column of both tables."
            )
        of_test = labels_of(segment if segment_test is None else segment_test, X_test, _count(X_test))
    if np.shape(y) == (len(labels),):
        both = set(zip(labels, map(str, np.asarray(y).tolist()), strict=True))
        one_to_one = len({name for name, _ in both}) == len({answer for _, answer in both}) == len(both)
        if one_to_one and 1 < len(both) < len(labels):  # segments of one person each are something else
            raise DataError(
                "segment is y, what the model predicts. A report names its release, which would then reveal the "
                "answer. Pass something that is known of people anyway."
            )
    return labels, of_test


def _count(X: Any) -> int:
    return len(X) if hasattr(X, "__len__") else 0  # other records are refused where they are read


def apart(labels: tuple[Labels, Labels | None], trial: Trial) -> tuple[Labels, Labels]:
    """The labels of a trial's volunteers, and of its test records."""
    ours, of_test = labels
    if of_test is not None:
        return ours, of_test
    return [ours[row] for row in trial.trained], [ours[row] for row in trial.tested]


def labels_of(segment: Any, X: Any, count: int) -> list[str | None]:
    """The segment of each of `count` records X as text, None where there is none.

    `segment` names a column of the table X, or holds the labels themselves: text, whole or other numbers, dates, truth
    values.
    """
    if isinstance(segment, str):
        names = column_names(X)
        if names is None:
            raise DataError(
                f"segment={segment!r} names a column, but the records are a bare array: pass a table, or a label for "
                "every record."
            )
        if names.count(segment) != 1:
            wrong = "two columns" if segment in names else "no column"
            raise DataError(f"segment={segment!r}: the table has {wrong} of this name; it has {', '.join(names)}.")
        (segment,) = select(X, [segment])
    elif np.ndim(segment) != 1 or len(segment) != count:
        raise DataError(
            f"segment is the name of a column, or one label for each of the {count} records; got "
            f"{type(segment).__name__} of shape {np.shape(segment)}."
        )
    plain = isinstance(segment, list | tuple | np.ndarray)
    values = list(segment) if plain else read_column(segment)[1]
    if isinstance(values, Coded):
        texts = [*map(_text, values.values), None]
        return [texts[code] for code in values.codes.tolist()]
    return [_text(value) for value in values]


def _text(value: Any) -> str | None:
    """What a label is called; None for a missing one."""
    if isinstance(value, np.datetime64):
        return None if np.isnat(value) else str(value.astype("datetime64[s]")).removesuffix("T00:00:00")
    if isinstance(value, date):  # and times; pandas' missing one is not equal to itself
        return value.isoformat().removesuffix("T00:00:00") if value == value else None
    if isinstance(value, bool | np.bool_ | str):
        return str(value).strip() or None
    if isinstance(value, Real):
        number = float(value)
        return None if np.isnan(number) else str(int(number)) if number.is_integer() else repr(number)
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return None
    raise DataError(f"a segment's label is text, a number, a date or a truth value, not a {type(value).__name__}.")


def _places(labels: Sequence[str | None]) -> dict[str, Integers]:
    found: dict[str, list[int]] = {}
    for place, label in enumerate(labels):
        if label is not None:
            found.setdefault(label, []).append(place)
    return {name: np.array(places, dtype=np.int64) for name, places in found.items()}


def folder_names(names: Iterable[str]) -> dict[str, str]:
    """A folder for every name, all different on every file system; a name that is one already keeps it, others have
    some digits at the end."""
    names = list(names)
    taken = [name.casefold() for name in names]
    return {name: name if _is_safe(name) and taken.count(name.casefold()) == 1 else _made_safe(name) for name in names}


def _is_safe(name: str) -> bool:
    return bool(_SAFE.fullmatch(name)) and not _RESERVED.fullmatch(name) and name.casefold() not in (COMMON, FOLDERS)


def _made_safe(name: str) -> str:
    readable = re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:48].strip("_-") or "segment"
    return f"{readable}-{hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentedFrontier:
    """The frontier of the design for everybody, `common`, and those of `segments` that have designs of their own.

    `people` are the numbers of volunteers and of tested people of every segment, the largest first. `why_not` says why
    some keep the common design. `tested` are the places of a segment's people among the common test records.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(800, 2))
        >>> task, segment = tv.LinearTask([[1.0, 1.0]]), ["a", "b"] * 400
        >>> found = tv.sweep_segments(X, task, segment=segment, epsilons=[4], methods=["task_aware"])
        >>> sorted(found.segments)
        ['a', 'b']
    """

    common: Frontier
    segments: Mapping[str, Frontier]
    people: Mapping[str, tuple[int, int]]
    why_not: Mapping[str, str] = field(default_factory=dict)
    tested: Mapping[str, Integers] = field(default_factory=dict, repr=False)

    def rows(self) -> list[dict[str, Any]]:
        """One row per segment, method and budget: what people lose by the common design and by their own (means over
        seeds), the gain with its 95% interval, and whether it is `sure`: that it is above zero holds with 95%
        confidence for all rows together. None where something is not known; a segment without a design of its own
        says `why_not`."""
        designs = list(dict.fromkeys((point.method, point.epsilon) for point in self.common.points))
        asked = len(designs) * len(self.segments)
        return [self._row(name, *design, asked) for name in self.people for design in designs]

    def _row(self, name: str, method: str, epsilon: float, asked: int) -> dict[str, Any]:
        common, own = self.common.per_record(method, epsilon), self.segments.get(name)
        theirs = None if own is None else own.per_record(method, epsilon)
        ours = gain = low = high = None
        sure = False
        # No losses of segments without a design of their own: the mean loss of very few people reveals theirs.
        if common is not None and theirs is not None and name in self.tested:
            ours = common[self.tested[name]]
            paired, block = ours - theirs, self.common.block
            gain = float(paired.mean())
            if np.ptp(paired) > 1e-9 * np.abs(paired).max():  # equal differences contain no information about others
                low, high = (_number(end) for end in interval(paired, confidence=CONFIDENCE, block=block))
                # Bonferroni: the chance that any of them is wrong is at most that of each, added up. And a bound, not
                # an interval: few people whose losses are skewed look surer than they are.
                sure = bool(bounds(paired, confidence=1 - (1 - CONFIDENCE) / (2 * asked), block=block)[0] > 0)
        volunteers, tested = self.people[name]
        return {
            "segment": name,
            "volunteers": volunteers,
            "tested": tested,
            "method": method,
            "epsilon": epsilon,
            "common": None if ours is None else float(ours.mean()),
            "own": None if theirs is None else float(theirs.mean()),
            "gain": gain,
            "low": low,
            "high": high,
            "sure": sure,
            "why_not": self.why_not.get(name),
        }

    def table(self) -> str:
        """A plain text table: a line for every segment, method and budget, and for every segment that keeps the common
        design, with the reason."""
        lines = self._lines()
        columns = max(len(line) for line in lines)
        widths = [max(len(line[i]) for line in lines if len(line) == columns or i < 3) for i in range(columns)]
        text = ["  ".join(cell.ljust(widths[i]) for i, cell in enumerate(line)).rstrip() for line in lines]
        return "\n".join([*text, *self._words()])

    def _repr_html_(self) -> str:
        head, *rows = self._lines()
        return summary("Gains of segments by designs of their own", self._words(), head=head, rows=rows)

    def to_pandas(self) -> Any:
        """A DataFrame of `rows`: one row per segment, method and budget."""
        return frame(self.rows())

    def _lines(self) -> list[list[str]]:
        """The cells of the table, its header first."""
        lines = [["segment", "volunteers", "tested", "method", "ε", "common", "own", "gain", "95% interval"]]
        listed: set[str] = set()
        for row in self.rows():
            name = row["segment"]
            counts = [name, f"{row['volunteers']:,}", f"{row['tested']:,}"]
            if row["why_not"] is not None:
                lines += [[*counts, "keeps the common design"]] if name not in listed else []
            else:
                numbers = [_shown(row[column]) for column in ("common", "own", "gain")]
                between = "–" if row["low"] is None else f"{_shown(row['low'])} to {_shown(row['high'])}"
                star = " *" if row["sure"] else ""
                lines.append([*counts, row["method"], f"{row['epsilon']:g}", *numbers, between + star])
            listed.add(name)
        return lines

    def _words(self) -> list[str]:
        """What a gain is, and why segments keep the common design."""
        reasons = [f"{name}: {reason}" for name, reason in self.why_not.items()]
        return [
            "gain: the loss of the segment's people with the common design minus that with their own, with the 95% "
            "interval of each for other people like those tested. *: above zero, with 95% confidence for all together.",
            *reasons[:5],
            *([f"… and {len(reasons) - 5} more segments."] if len(reasons) > 5 else []),
        ]

    @overload
    def plot(self, path: str | Path) -> Path: ...

    @overload
    def plot(self, path: None = None, *, ax: Axes | None = None) -> Axes: ...

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Path | Axes:
        """A picture: the gain of each segment by a design of its own, with the 95% interval, for every method and
        budget. Only gains with an interval are drawn; of many segments, the largest are.

        Args:
            path: the file to write (PNG, PDF or SVG), which is returned; without one, the axes are returned.
            ax: axes of matplotlib to draw into, instead of new ones.
        """
        with needs("a picture"):
            from taskveil.style import plotted
        return plotted(self._draw, path, ax)

    def _draw(self, ax: Axes) -> tuple[float, float]:
        from taskveil.style import legend_below

        known = [row for row in self.rows() if row["low"] is not None and row["high"] is not None]
        if not known:
            raise DataError("there is nothing to draw: no segment's gain has an interval. Print the table instead.")
        names = list(dict.fromkeys(row["segment"] for row in known))[:MOST_ROWS]
        designs = list(dict.fromkeys((row["method"], row["epsilon"]) for row in known))
        for place, (method, epsilon) in enumerate(designs):
            rows = [row for row in known if (row["method"], row["epsilon"]) == (method, epsilon)]
            rows = [row for row in rows if row["segment"] in names]
            gains, low, high = ([row[what] for row in rows] for what in ("gain", "low", "high"))
            apart = 0.6 * ((place + 0.5) / len(designs) - 0.5)
            ax.errorbar(
                gains, [-names.index(row["segment"]) - apart for row in rows],
                xerr=[np.subtract(gains, low), np.subtract(high, gains)],
                fmt="o", markersize=4, label=f"{method}, ε = {epsilon:g}",
            )  # fmt: skip
        ax.axvline(0.0, color="grey", linewidth=1)
        ax.set_yticks([-place for place in range(len(names))], [shortened(name) for name in names])
        ax.set_xlabel("loss of the common design minus that of the segment's own, 95% interval")
        legend_below(ax, columns=3)
        return 6.0, 1.8 + 0.1 * len(designs) + (0.2 + 0.12 * len(designs)) * len(names)

    def to_json(self, path: str | Path, *, losses: bool = True) -> Path:
        """The common frontier, those of all segments, and the rows of the table, in a file at `path`.

        With `losses`, those of single records are kept, so that all of it can be read again: treat such a file as you
        treat the test records.
        """
        content = {
            "common": self.common.content(losses=losses),
            "segments": {name: part.content(losses=losses) for name, part in self.segments.items()},
            "people": {name: list(counts) for name, counts in self.people.items()},
            "why_not": dict(self.why_not),
            "gains": self.rows(),
        }
        if losses:
            content["tested"] = {name: places.tolist() for name, places in self.tested.items()}
        return written(path, (json.dumps(content, indent=1) + "\n").encode())

    @classmethod
    def from_json(cls, path: str | Path) -> SegmentedFrontier:
        """What `to_json` wrote with the losses of single records; DataError if it is none."""
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            if "gains" in content and "tested" not in content:
                raise DataError(
                    f"{path} was written without the losses of single records, of which gains are computed: what they "
                    'were stands there under "gains".'
                )
            return cls(
                common=Frontier.read(content["common"]),
                segments={name: Frontier.read(part) for name, part in content["segments"].items()},
                people={name: (int(a), int(b)) for name, (a, b) in content["people"].items()},
                why_not=content["why_not"],
                tested={name: np.array(places, dtype=np.int64) for name, places in content["tested"].items()},
            )
        except DataError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise DataError(f"{path} holds no segments that `to_json` wrote: {type(error).__name__}.") from error


def _number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"
