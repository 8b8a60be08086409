"""The field of a column that nobody has described, from what the volunteers' values show."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.client.fields import Category, Coded, Count, Date, Field, Flag, Number
from taskveil.client.values import NO_VALUE, seconds_of, text_of
from taskveil.errors import DataError, UnusedColumnWarning, WildRecordWarning, callers_line
from taskveil.records.column_warnings import FEWEST_VALUES, doubt_category, doubt_count, doubt_few, resembles
from taskveil.records.conversion import column_names
from taskveil.records.tables import DATE_FORMATS, ColumnType, ColumnValues, read_column, select
from taskveil.records.tails import harmless_range

MOST_CATEGORIES = 50
"""Of a column whose values nobody listed; the rarer ones are anything else."""

FEWEST_ALIKE = 5
"""Volunteers with a value, before it is written into a release that everybody may read."""

_DATES = 50  # different ones, before a cycle can be told from them


def needs_schema(X: Any) -> bool:
    """Whether a table holds other things than numbers that are never missing. A bare array does not, as it is."""
    names = column_names(X)
    if names is None or len(set(names)) < len(names):
        return False
    for column in select(X, names):
        of, values = read_column(column)
        if of.holds not in ("number", "whole", "flag") or not isinstance(values, np.ndarray):
            return True
        if values.dtype.kind == "f" and np.isnan(values).any():
            return True
    return False


def infer(name: str, of: ColumnType, values: ColumnValues) -> tuple[Field, ColumnType] | None:
    """The field of a column, and its type with the form of dates in it; None, with a warning, if it says nothing."""
    field: Field | None
    if of.holds in ("number", "whole"):
        field = _number(name, of, np.asarray(values, dtype=np.float64))
    elif of.holds == "flag":
        flags = Flag(missing=True).expand([] if isinstance(values, Coded) else values)
        there = flags[:, 1] == 0
        field = Flag(missing=not there.all(), fill=bool(flags[there, 0].mean() >= 0.5)) if there.any() else None
    elif of.holds == "date":
        field = _date(name, values)
    elif of.holds in ("text", "category") and isinstance(values, Coded):
        typed = dated(of, values) if of.holds == "text" else of
        if typed.form:
            of, field = typed, _date(name, _spread(values))
        else:
            field = _category(name, values)
            if field is not None:
                doubt_category(name, field, values)
                of = with_other(of, field, values)
    else:
        raise DataError(
            f"column {name!r} holds {of.name} that are neither numbers, text, flags nor dates: drop it first."
        )
    if field is None:
        hint = resembles(values) if isinstance(values, Coded) else ""
        warnings.warn(
            f"column {name!r} is left out: it holds nothing, or texts of which no {FEWEST_ALIKE} volunteers share one. "
            f"{hint or 'List its values with tv.Category, or drop it.'}",
            UnusedColumnWarning,
            stacklevel=callers_line(),
        )
        return None
    return field, of


def _number(name: str, of: ColumnType, values: Floats) -> Number | Count | None:
    there = values[np.isfinite(values)]
    if len(there) == 0:
        return None
    doubt_few(name, len(there), len(values))
    low, high = _rounded(*_range(name, there))
    if of.holds == "whole" and low >= 0 and high <= 2**53:
        doubt_count(name, there)
        low, high = float(np.floor(low)), float(np.ceil(high))
        middle = float(np.floor(rounded_middle(there, low, high)))
        return Count(low, high, missing=len(there) < len(values), fill=middle)
    return Number(low, high, missing=len(there) < len(values), fill=rounded_middle(there, low, high))


def rounded_middle(values: Floats, low: float, high: float) -> float:
    """The median of values (N,), rounded to about a hundredth of the range: an exact one is a volunteer's own value.
    The middle of the range where there are fewer than `FEWEST_VALUES`."""
    if len(values) < FEWEST_VALUES or not high > low:
        return low + (high - low) / 2
    digits = 2 - math.floor(math.log10(high - low))
    return float(np.clip(round(float(np.median(values)), digits), low, high))


def _range(name: str, there: Floats) -> tuple[float, float]:
    """The plausible range of finite values (N,), with a warning if some lie outside. Zeros and ones are flags: the
    only 1 is rare, and no slip."""
    if np.isin(there, (0.0, 1.0)).all():
        return float(there.min()), float(there.max())
    low, high = harmless_range(there)
    outside = int(((there < low) | (there > high)).sum())
    if outside:
        warnings.warn(
            f"of the volunteers' values in column {name!r}, {outside} out of line with all others: brought to where "
            "the others' tail might reach. Check their units, or give the bounds: "
            f"schema.replace({{{name!r}: tv.Number(low, high)}}).",
            WildRecordWarning,
            stacklevel=callers_line(),
        )
    return low, high


def _rounded(low: float, high: float) -> tuple[float, float]:
    """A range at least as wide, in round numbers: the release is public, and nobody's own value need be its bound."""
    span = high - low
    if not 0 < span < np.inf:
        return low, high
    step = 10.0 ** np.floor(np.log10(span) - 1)
    down, up = float(f"{np.floor(low / step) * step:.12g}"), float(f"{np.ceil(high / step) * step:.12g}")
    return (down, up) if down <= low and up >= high and np.isfinite([down, up]).all() else (low, high)


def _date(name: str, values: Any) -> Date | None:
    """Bounds of the volunteers' dates, and the cycles that so many different ones can tell of."""
    seconds, lost = seconds_of(values)
    there = seconds[~lost]
    if len(there) == 0:
        return None
    doubt_few(name, len(there), len(seconds))
    low, high = _range(name, there.astype(np.float64))
    stamps = np.unique(there).astype("datetime64[s]")
    days = np.unique(stamps.astype("datetime64[D]"))
    of_year = np.unique(days - days.astype("datetime64[Y]").astype("datetime64[D]"))
    cycles = ["year"] if len(of_year) > _DATES else []
    cycles += ["week"] if len(days) > _DATES and len(np.unique(days.astype(np.int64) % 7)) > 5 else []
    of_day = np.unique(stamps - stamps.astype("datetime64[D]"))
    cycles += ["day"] if len(of_day) > 4 else []
    first, last = (str(np.int64(end).astype("datetime64[s]")) for end in (np.floor(low), np.ceil(high)))
    whole = len(of_day) == 1 and last.endswith("T00:00:00")
    first, last = first[:10], last[:10] if whole else f"{last[:10]}T23:59:59"  # nobody's own second
    return Date(first, last, missing=bool(lost.any()), cycles=tuple(cycles))


def _category(name: str, values: Coded) -> Category | None:
    """The most frequent values that enough volunteers share, in the order of the alphabet."""
    if any(text_of(value) == NO_VALUE for value in values.values):
        raise DataError(
            f"the categories of column {name!r} are neither text, whole numbers nor flags. Write them as text: "
            f"X[{name!r}].astype(str).astype('category'), or as numbers."
        )
    counts = np.bincount(values.codes[values.codes >= 0], minlength=len(values.values))
    often = [place for place in np.argsort(-counts, kind="stable")[:MOST_CATEGORIES] if counts[place] >= FEWEST_ALIKE]
    chosen = [values.values[place] for place in sorted(often)] if often else []
    if not chosen:
        return None
    ordered = sorted(chosen) if all(isinstance(value, str) for value in chosen) else chosen
    return Category(tuple(ordered), missing=bool((values.codes < 0).any()))


def with_other(of: ColumnType, field: Category, values: ColumnValues) -> ColumnType:
    """The type of a category's column with the most frequent of the volunteers' values that the category does not list,
    which a model has seen and may be asked about (without any, the first that it lists); and with those that it lists
    though no volunteer had them."""
    had: Counter[str] = Counter()
    if isinstance(values, Coded):
        counts = np.bincount(values.codes[values.codes >= 0], minlength=len(values.values)).tolist()
        for value, count in zip(values.values, counts, strict=True):
            had[text_of(value) or ""] += count
    else:
        had.update(text_of(value) or "" for value in np.asarray(values, dtype=object).tolist())
    had = +had  # without those that nobody had
    unlisted = [(-count, text) for text, count in had.items() if text not in (*field.values, "", NO_VALUE)]
    unseen = tuple(value for value in field.values if value not in had)
    first = next((value for value in field.values if value in had), field.values[0])
    return replace(of, other=min(unlisted, default=(0, first))[1], unseen=unseen)


def dated(of: ColumnType, values: ColumnValues) -> ColumnType:
    """The type of a text column with the form of the dates in it, if all its texts are dates: the one that all
    have, or, where there is no such one, that of a day or of a second."""
    texts = [text for text in values.values if text] if isinstance(values, Coded) else []
    if of.holds != "text" or not texts or seconds_of(texts)[1].any():
        return of
    stamps = seconds_of(texts)[0].astype("datetime64[s]").tolist()
    forms = (form for form in DATE_FORMATS if all(t.strftime(form) == s for t, s in zip(stamps, texts, strict=True)))
    days = all(stamp.hour == stamp.minute == stamp.second == 0 for stamp in stamps)
    return replace(of, form=next(forms, "%Y-%m-%d" if days else "%Y-%m-%d %H:%M:%S"))


def _spread(column: Coded) -> Array:
    """A coded column of dates as text, one by one."""
    seconds, lost = seconds_of([*column.values, None])
    stamps = seconds.astype("datetime64[s]")
    stamps[lost] = np.datetime64("NaT")
    return np.asarray(stamps[column.codes])
