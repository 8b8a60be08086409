"""The field of a column that nobody has described, inferred from the volunteers' values.

**Plausible ranges.** A few values may be mistakes: one in the wrong unit among hundreds. Sort the distances from the
median. In any tail that is no heavier than a power law (normal, exponential, lognormal, Pareto), the gaps between the
log-distances are exponential, with at most the mean that the tail itself shows. A gap is suspicious if the others make
it less likely than `SUSPICION` and at most 2% of the values lie beyond it. Whole numbers may have been rounded: a gap
that rounding explains is not suspicious. Values beyond it are clipped to where the
tail of the others may plausibly reach (`PLAUSIBLE`), and no closer: a tail that is heavy by nature is hardly cut.

**Doubtful columns.** Warnings name columns that were probably meant to be something else: dates in another form and
numbers that became text, timestamps and row numbers that became counts, codes such as -99 that stand for no value.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats, Integers
from taskveil.client.base_field import BaseField, Coded
from taskveil.client.fields import Category, Count, Date, Field, Flag, Number
from taskveil.client.values import NO_VALUE, seconds_of, text_of
from taskveil.errors import DataError, DoubtfulColumnWarning, UnusedColumnWarning, WildRecordWarning, callers_line
from taskveil.records.tables import DATE_FORMATS, ColumnType, ColumnValues, column_names, read_column, select

MOST_CATEGORIES = 50
"""Values of an inferred category; rarer values are not listed. Dates show a cycle if more of them differ."""

FEWEST_ALIKE = 5
"""Volunteers who share a value, before a public release lists it."""

FEWEST_VALUES = 10
"""Values from which a statistic is computed: a median or a range that is published, a tail on one side of a median.
Among fewer than twice as many, no value is called an outlier, and numbers may be names of a few things."""

SUSPICION, PLAUSIBLE = 0.01, 0.1
"""Probabilities: of a gap that is suspicious, and of one that is still plausible."""

WILD_SHARE = 0.02
"""The largest share of the values that may be mistakes; more of them are a group."""

INFLATION = 0.2
"""The smallest harmful increase of the variance by values that are out of line, as a share."""

_NUMBER = re.compile(r"[^\w.,+-]{0,3}[+-]?(\d{1,3}([ .,'\u00a0]\d{3})+|\d+)?([.,]\d+)?\s?[^\W\d]{0,4}[^\w.,]{0,2}")
_POSTAL = re.compile(r"(?i)(?<![a-z])(zip|zip.?code|post.?code|postal.?code|plz|postleitzahl)(?![a-z])")
_LEADING_ZERO = re.compile(r"0\d+")
_NO_VALUE_CODE = re.compile(r"-[1-9]|-?(9{2,}|8{2,}|7{2,})")
_DAY_FIRST = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})\b.*")
_SEVERAL = re.compile(r"\d+([.,]\d+)?\s?[/x×:;-]\s?\d+([.,]\d+)?")


def needs_schema(X: Any) -> bool:
    """Whether a table holds more than numbers that are never missing; an array never does."""
    names = column_names(X)
    if names is None or len(set(names)) < len(names):
        return False
    for column in select(X, names):
        of, values = read_column(column)
        if not of.numeric or not isinstance(values, np.ndarray):
            return True
        if values.dtype.kind == "f" and np.isnan(values).any():
            return True
    return False


def infer(name: str, of: ColumnType, values: ColumnValues) -> tuple[Field, ColumnType] | None:
    """The field of a column, and its type with the form of dates in it; None, with a warning, if no field fits."""
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
        typed = dated(of, values)
        if typed.form:
            of, field = typed, _date(name, _spread(values))
        else:
            field = _category(name, values)
            if field is not None:
                doubt_category(name, field, values)
                of = with_other(of, field.values, values)
    else:
        raise DataError(
            f"column {name!r} holds {of.name} that are neither numbers, text, flags nor dates: drop it first."
        )
    if field is None:
        hint = resembles(values) if isinstance(values, Coded) else ""
        _warn(
            f"column {name!r} is left out: it holds nothing, or texts of which no {FEWEST_ALIKE} volunteers share one. "
            f"{hint or 'List its values with tv.Category, or drop it.'}",
            UnusedColumnWarning,
        )
        return None
    return field, of


def _number(name: str, of: ColumnType, values: Floats) -> Number | Count | None:
    there = values[np.isfinite(values)]
    if len(there) == 0:
        return None
    doubt_few(name, len(there), len(values))
    doubt_code(name, there)
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
    """The plausible range of finite values (N,), with a warning if some lie outside. Zeros and ones are flags: a single
    1 is rare, and no mistake."""
    if np.isin(there, (0.0, 1.0)).all():
        return float(there.min()), float(there.max())
    low, high = harmless_range(there)
    outside = int(((there < low) | (there > high)).sum())
    if outside:
        _warn(
            f"of the volunteers' values in column {name!r}, {outside} out of line with all others: brought to where "
            "the others' tail might reach. Check their units, or give the bounds: "
            f"schema.replace({{{name!r}: tv.Number(low, high)}}).",
            WildRecordWarning,
        )
    return low, high


def _rounded(low: float, high: float) -> tuple[float, float]:
    """A range at least as wide, in round numbers: the release is public, and a bound must be nobody's own value."""
    span = high - low
    if not 0 < span < np.inf:
        return low, high
    step = 10.0 ** np.floor(np.log10(span) - 1)
    down, up = float(f"{np.floor(low / step) * step:.12g}"), float(f"{np.ceil(high / step) * step:.12g}")
    return (down, up) if down <= low and up >= high and np.isfinite([down, up]).all() else (low, high)


def _date(name: str, values: Any) -> Date | None:
    """A date between the volunteers' own, with the cycles that so many different dates can show."""
    seconds, lost = seconds_of(values)
    there = seconds[~lost]
    if len(there) == 0:
        return None
    doubt_few(name, len(there), len(seconds))
    low, high = _range(name, there.astype(np.float64))
    stamps = np.unique(there).astype("datetime64[s]")
    days = np.unique(stamps.astype("datetime64[D]"))
    of_year = np.unique(days - days.astype("datetime64[Y]").astype("datetime64[D]"))
    cycles = ["year"] if len(of_year) > MOST_CATEGORIES else []
    cycles += ["week"] if len(days) > MOST_CATEGORIES and len(np.unique(days.astype(np.int64) % 7)) > 5 else []
    of_day = np.unique(stamps - stamps.astype("datetime64[D]"))
    cycles += ["day"] if len(of_day) > 4 else []
    first, last = (str(np.int64(end).astype("datetime64[s]")) for end in (np.floor(low), np.ceil(high)))
    whole = len(of_day) == 1 and last.endswith("T00:00:00")
    first, last = first[:10], last[:10] if whole else f"{last[:10]}T23:59:59"  # nobody's own second
    return Date(first, last, missing=bool(lost.any()), cycles=tuple(cycles))


def _category(name: str, values: Coded) -> Category | None:
    """A category of the most frequent values that enough volunteers share, in alphabetical order."""
    texts = [text_of(value) for value in values.values]
    if any(text == NO_VALUE and not isinstance(value, str) for text, value in zip(texts, values.values, strict=True)):
        raise DataError(
            f"the categories of column {name!r} are neither text, whole numbers nor flags. Write them as text: "
            f"X[{name!r}].astype(str).astype('category'), or as numbers."
        )
    counts = np.bincount(values.codes[values.codes >= 0], minlength=len(values.values))
    shared = [place for place in np.argsort(-counts, kind="stable") if counts[place] >= FEWEST_ALIKE]
    often = [place for place in shared if texts[place] != NO_VALUE][:MOST_CATEGORIES]  # without texts that are too long
    chosen = [values.values[place] for place in sorted(often)] if often else []
    if not chosen:
        return None
    ordered = sorted(chosen) if all(isinstance(value, str) for value in chosen) else chosen
    return Category(tuple(ordered), missing=bool((values.codes < 0).any()))


def with_other(of: ColumnType, listed: Sequence[str], values: ColumnValues) -> ColumnType:
    """The type of a category's column, with the value that stands for all that are not `listed`: the most frequent one
    among the volunteers, because a model has seen it, or the first listed one. It also names the listed values that no
    volunteer had."""
    had: Counter[str] = Counter()
    if isinstance(values, Coded):
        counts = np.bincount(values.codes[values.codes >= 0], minlength=len(values.values)).tolist()
        for value, count in zip(values.values, counts, strict=True):
            had[text_of(value) or ""] += count
    else:
        had.update(text_of(value) or "" for value in np.asarray(values, dtype=object).tolist())
    had = +had  # without those that nobody had
    unlisted = [(-count, text) for text, count in had.items() if text not in (*listed, "", NO_VALUE)]
    unseen = tuple(value for value in listed if value not in had)
    first = next((value for value in listed if value in had), listed[0])
    return replace(of, other=min(unlisted, default=(0, first))[1], unseen=unseen)


def dated(of: ColumnType, values: ColumnValues) -> ColumnType:
    """The type of a text column with the form of its dates, if all its texts are dates. If they have different forms,
    it is that of a day or of a second."""
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


def doubt_category(name: str, field: Category, values: Coded) -> None:
    """Warn if the category lists too few of the volunteers' values, or if they look like numbers or dates."""
    listed = np.array([text_of(value) in field.values for value in values.values] + [True])
    there = values.codes >= 0
    lost, hint = int((~listed[values.codes]).sum()), resembles(values)
    if 3 * lost > there.sum():
        advice = hint or "Group rare values, or list those that matter with tv.Category."
        _warn(
            f"column {name!r} became a category, and {lost:,} of {int(there.sum()):,} volunteers have none of its "
            f"{len(field.values)} values: too few others share theirs. No report tells them apart. {advice}"
        )
    elif hint and len(values.values) > 2 * FEWEST_VALUES:
        _warn(f"column {name!r} became a category of {len(field.values)} values. {hint}")


def doubt_few(name: str, there: int, rows: int) -> None:
    """Warn if the bounds of a column come from a few volunteers."""
    if there < FEWEST_VALUES <= rows:
        _warn(
            f"only {there} of {rows} volunteers have a value of {name!r}. Its bounds are theirs, and everybody can "
            "read them. Give bounds of your own (tv.Number, tv.Date), or leave the column out."
        )


def doubt_code(name: str, there: Floats) -> None:
    """Warn if the smallest or the largest of finite values (N,) looks like a code for no value, such as -99 or 9999.

    Such a code is shared by enough volunteers and lies apart from all others: the gap beside it is more than twice as
    wide as every other gap. A scale that begins at -1 or ends at 99 has no such gap.
    """
    different, counts = np.unique(there, return_counts=True)
    if len(different) < FEWEST_VALUES + 2:  # perhaps names of a few things
        return
    for end, near, others in ((0, 1, different[1:]), (-1, -2, different[:-1])):
        code = f"{different[end]:.0f}" if different[end] == np.floor(different[end]) else ""
        apart = abs(different[end] - different[near]) / 2 > np.diff(others).max()
        if apart and counts[end] >= FEWEST_ALIKE and _NO_VALUE_CODE.fullmatch(code):
            _warn(
                f"column {name!r} is {code} for {counts[end]:,} of {len(there):,} volunteers, far from all others. If "
                f"this stands for no value, leave such cells empty (in pandas column.where(column != {code}))."
            )


def doubt_fit(name: str, field: BaseField, values: ColumnValues) -> None:
    """Warn if most of the volunteers' values (N,) are none of the field's kind, or if none is a value of the field.

    A category may list a few of many values on purpose, and bounds may cut a tail: some values outside are no mistake.
    """
    if isinstance(values, Coded):
        empty, rows = int((values.codes < 0).sum()), len(values.codes)
    else:
        empty = values.count(None) if isinstance(values, list) else int((values != values).sum())  # NaN and NaT
        rows = len(values)
    missing, outside = field.outside(values)
    there, other = rows - empty, missing - empty
    if 2 * other > there or 0 < there == other + outside:
        fate = "they count as missing" if 2 * other > there else "they are out of range, not listed or of another kind"
        hint = resembles(values) if isinstance(values, Coded) else ""
        _warn(
            f"column {name!r}: {other + outside:,} of {there:,} values of volunteers do not fit its "
            f"tv.{type(field).__name__}: {fate}. {hint or 'Correct the table or the schema.'}"
        )


def doubt_count(name: str, there: Floats) -> None:
    """Warn if whole numbers (N,) look like postal codes, timestamps or row numbers."""
    low, high = there.min(), there.max()
    different = np.unique(there)
    if len(different) > FEWEST_VALUES and (_POSTAL.search(name) or _fills_digits(low, high, len(different))):
        _warn(
            f"column {name!r} became a count, but looks like a postal code or another code: its mean has no meaning. "
            "Write it as text, for example with the region alone, or leave the column out."
        )
        return
    steps = np.unique(np.diff(different), return_counts=True)[1]
    if len(different) <= 2 * FEWEST_VALUES:
        return
    for unit, second in (("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)):
        if 0.9e9 * second <= low and high <= 2.2e9 * second:  # 1998 to 2039
            _warn(
                f"column {name!r} became a count, but looks like the time since 1970. Write it as dates (in pandas "
                f"pd.to_datetime(column, unit={unit!r})), or leave the column out."
            )
            return
    if len(different) == len(there) >= 100 and steps.max() > len(steps) and steps.max() * 5 > len(there):
        _warn(
            f"column {name!r} became a count, but every volunteer has another and most are equally far apart: if it "
            "is a number of the row or of the person, leave the column out."
        )


def _fills_digits(low: float, high: float, different: int) -> bool:
    """Whether many numbers have four digits or more, all as many, and reach from the first such number to the last, as
    codes do. Quantities seldom end where the number of digits changes, on both sides."""
    least = 10.0 ** (len(str(int(low))) - 1)
    return different > 2 * MOST_CATEGORIES and 1000 <= least <= low <= 1.1 * least and 9.5 * least <= high < 10 * least


def resembles(values: Coded) -> str:
    """Advice about texts that mostly look like dates or numbers; empty if they look like text."""
    texts = [value.strip() for value in values.values if isinstance(value, str) and value.strip()]
    if _most(texts, _DAY_FIRST):
        return (
            "They look like dates: write them as 2021-03-04 (in pandas pd.to_datetime(column, dayfirst=True); False "
            "if the month comes first)."
        )
    if _most(texts, _SEVERAL):
        return "They look like several numbers in one text: make a column of each."
    if _most(texts, _NUMBER) and not any(_LEADING_ZERO.fullmatch(text) for text in texts):
        return (
            "They look like numbers: write them with a point, without units and separators of thousands, and nothing "
            "where there is none (in pandas pd.to_numeric(column, errors='coerce'), after .str.replace(',', '.') if "
            "they have commas); or list them with tv.Category if they are names of something."
        )
    return ""


def _most(texts: Sequence[str], form: re.Pattern[str]) -> bool:
    fitting = sum(any(map(str.isdigit, text)) and form.fullmatch(text) is not None for text in texts)
    return 5 * fitting > 4 * len(texts)


def _warn(message: str, category: type[Warning] = DoubtfulColumnWarning) -> None:
    warnings.warn(message, category, stacklevel=callers_line())


def plausible_range(values: Floats) -> tuple[float, float]:
    """The range of finite values (N,), without the few that are out of line with the others."""
    low, high = float(values.min()), float(values.max())
    if len(values) < 2 * FEWEST_VALUES:
        return low, high
    middle = float(np.median(values))
    spread = float(np.median(np.abs(values - middle)))
    half = 0.5 if (values == np.floor(values)).all() else 0.0
    below, above = _reach(middle - values, spread, half), _reach(values - middle, spread, half)
    return max(low, middle - below), min(high, middle + above)


def harmless_range(values: Floats) -> tuple[float, float]:
    """The plausible range of finite values (N,) if the values outside make the variance a fifth larger, else their
    whole range."""
    low, high = plausible_range(values)
    unit = float(np.abs(values).max()) or 1.0  # squares of wild values overflow
    bounded = float((np.clip(values, low, high) / unit).var())
    return (low, high) if (values / unit).var() > (1 + INFLATION) * bounded else (values.min(), values.max())


def _reach(distance: Floats, spread: float, half: float) -> float:
    """How far a tail may plausibly reach from the median; infinite if nothing is suspicious.

    Args:
        distance: from the median, (N,), positive on this side.
        spread: the median distance on both sides, which makes small distances count alike.
        half: how far rounding may have moved each value: 0.5 for whole numbers.
    """
    most, tail = max(1, int(WILD_SHARE * len(distance))), max(FEWEST_VALUES, len(distance) // 20)
    ordered = np.sort(np.maximum(distance, 0.0))[::-1][: most + tail + 1]
    there = ordered[ordered + spread > 0]
    logs, least = np.log(there + half + spread), np.log(np.maximum(there - half, 0.0) + spread)
    beyond = np.arange(1, min(most, len(logs) - 1) + 1)
    if len(beyond) == 0:  # nothing on this side, or one cell beside which all are equal
        return 0.0 if len(logs) == 1 else np.inf
    last = np.minimum(beyond + tail, len(logs) - 1)
    others = last - beyond  # m of them, beside the one that they are measured from
    sums = np.concatenate([[0.0], np.cumsum(logs)])
    # The largest slope and the smallest gap that the values may have had before they were rounded.
    slope = (sums[last] - sums[beyond]) / np.maximum(others, 1) - least[last]
    gap = beyond * (least[beyond - 1] - logs[beyond])
    # Exponential gaps against the mean of m others: P[gap > c · slope] = (1 + c/m)^−m. The chance is halved for each
    # place: all of them together err as often.
    threshold = _quantile(np.log(SUSPICION) - beyond * np.log(2.0), others) * slope
    # Where most values are equal, all others may lie beyond: a rare event, and no tail to be out of line with.
    wild = np.flatnonzero((others > 0) & (gap > np.maximum(threshold, 1e-9)))
    if len(wild) == 0:
        return np.inf
    place = wild[-1]
    reach = logs[beyond[place]] + _quantile(np.log(PLAUSIBLE), others)[place] * slope[place]
    # Through logarithms and back, the last of the others must not land outside: it may have many ties.
    return max(float(np.exp(reach) - spread), float(ordered[beyond[place]]))


def _quantile(log_chance: float | Floats, others: Integers) -> Floats:
    """c with (1 + c/m)^−m = chance for every number m of others, at least 1; in logarithms, since a chance that is
    halved a thousand times is none in doubles."""
    m = np.maximum(others, 1)
    return np.asarray(m * np.expm1(np.minimum(-log_chance / m, 700.0)))
