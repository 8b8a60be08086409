"""Segments: groups of people by a label, those large enough for a design of their own, and folders named after them.

Which release a report is of tells its segment. So a segment is something that the server knows anyway, or that needs
no protection: nothing here makes it private.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Any

import numpy as np

from taskveil.arrays import Integers
from taskveil.client.fields import Coded
from taskveil.designs.crossfit import FOLDS
from taskveil.designs.folds import people
from taskveil.designs.problem import FEWEST
from taskveil.errors import DataError
from taskveil.records.conversion import column_names
from taskveil.records.tables import read_column, select
from taskveil.sweeps.trials import Trial

FEWEST_VOLUNTEERS = FOLDS * FEWEST
"""Volunteers that a segment needs for a design of its own: a design judges itself on a fifth of them at a time, and no
part may be smaller than what a design needs at all."""

FEWEST_TESTED = 50
"""People of a segment who are needed to judge its design: of 20 whose losses are skewed, a 95% interval misses the
truth up to one time in five; of 50, one in ten."""

MOST_SEGMENTS = 1000
"""Releases that somebody can look after; a column with more values is no grouping of people."""

COMMON = "common"
"""The folder of what everybody gets."""

FOLDERS = "folders.json"
"""The file beside them that says which folder is whose: not every name can be a folder's."""

_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}(?<![.])")
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)  # of which Windows makes no folder


@dataclass(frozen=True, kw_only=True, eq=False)
class Group:
    """The people of one segment, by their places among the volunteers and among the test records of a trial.

    `why_not` says in a sentence why they keep the common design, None if they get one of their own.
    """

    volunteers: Integers
    tested: Integers
    why_not: str | None


def groups_of(trial: Trial, labels: Sequence[str | None], test_labels: Sequence[str | None]) -> dict[str, Group]:
    """All segments by their names, the largest first; whoever has no label belongs to none.

    Copies of a record count once, as one person: in deciding who is enough, and among those who judge. Ten copies would
    else make a gain look three times as sure as it is.

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
    # In the order of time, records that are alike are times that were alike, and neighbours count as the block says.
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
        found[name] = Group(volunteers=volunteers, tested=judges, why_not=why_not)
    return found


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
