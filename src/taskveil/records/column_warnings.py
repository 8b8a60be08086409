"""Columns that were probably meant to be something else than what they were taken for, said before anybody designs with
them: dates in another form and numbers that became text, clocks and row numbers that became counts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

import numpy as np

from taskveil.arrays import Floats
from taskveil.client.fields import Category, Coded
from taskveil.client.values import text_of
from taskveil.errors import DoubtfulColumnWarning, callers_line

FEWEST_VALUES = 10
"""Volunteers who have a value, for their median or their range to say little about each."""

_MOST_LOST = 1 / 3  # of the volunteers with a value, in a category that lists theirs not
_MANY = 20  # different texts, before numbers and dates among them are more than names of a few things
_MOSTLY = 0.8  # of the different texts
_ROWS = 100  # different whole numbers, before their distances tell that they count rows

_NUMBER = re.compile(r"[^\w.,+-]{0,3}[+-]?(\d{1,3}([ .,'\u00a0]\d{3})+|\d+)?([.,]\d+)?\s?[^\W\d]{0,4}[^\w.,]{0,2}")
_LEADING_ZERO = re.compile(r"0\d+")
_DAY_FIRST = re.compile(r"\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2})\b.*")
_SEVERAL = re.compile(r"\d+([.,]\d+)?\s?[/x×:;-]\s?\d+([.,]\d+)?")


def doubt_category(name: str, field: Category, values: Coded) -> None:
    """Warn if the category lists too few of the volunteers' values, or if these look like numbers or dates."""
    listed = np.array([text_of(value) in field.values for value in values.values] + [True])
    there = values.codes >= 0
    lost, hint = int((~listed[values.codes]).sum()), resembles(values)
    if lost > _MOST_LOST * there.sum():
        advice = hint or "Group rare values, or list those that matter with tv.Category."
        _warn(
            f"column {name!r} became a category, and {lost:,} of {int(there.sum()):,} volunteers have none of its "
            f"{len(field.values)} values: too few others share theirs. No report tells them apart. {advice}"
        )
    elif hint and len(values.values) > _MANY:
        _warn(f"column {name!r} became a category of {len(field.values)} values. {hint}")


def doubt_few(name: str, there: int, rows: int) -> None:
    """Warn if bounds of a column come from a few of the volunteers."""
    if there < FEWEST_VALUES <= rows:
        _warn(
            f"only {there} of {rows} volunteers have a value of {name!r}. Its bounds are theirs, and everybody can "
            "read them. Give bounds of your own (tv.Number, tv.Date), or leave the column out."
        )


def doubt_count(name: str, there: Floats) -> None:
    """Warn if whole numbers (N,) look like a clock's, or as if they counted the rows."""
    low, high = there.min(), there.max()
    different = np.unique(there)
    steps = np.unique(np.diff(different), return_counts=True)[1]
    if len(different) <= _MANY:
        return
    for unit, second in (("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)):
        if 0.9e9 * second <= low and high <= 2.2e9 * second:  # 1998 to 2039
            _warn(
                f"column {name!r} became a count, but looks like the time since 1970. Write it as dates (in pandas "
                f"pd.to_datetime(column, unit={unit!r})), or leave the column out."
            )
            return
    if len(different) == len(there) >= _ROWS and steps.max() > len(steps) and steps.max() * 5 > len(there):
        _warn(
            f"column {name!r} became a count, but every volunteer has another and most are equally far apart: if it "
            "is a number of the row or of the person, leave the column out."
        )


def resembles(values: Coded) -> str:
    """What most of the different texts look like and what to do about it; empty if they look like text."""
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
            "They look like numbers: write them with a point, without units, and nothing where there is none (in "
            "pandas pd.to_numeric(column, errors='coerce'), after .str.replace(',', '.') if they have commas); or "
            "list them with tv.Category if they are names of something."
        )
    return ""


def _most(texts: Sequence[str], form: re.Pattern[str]) -> bool:
    fitting = sum(any(map(str.isdigit, text)) and form.fullmatch(text) is not None for text in texts)
    return fitting > _MOSTLY * len(texts)


def _warn(message: str) -> None:
    warnings.warn(message, DoubtfulColumnWarning, stacklevel=callers_line())
