"""CSV files of volunteers' records."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from taskveil.arrays import Floats
from taskveil.errors import DataError


def read_csv(path: Path) -> tuple[tuple[str, ...], Floats]:
    """Column names and numbers (N, n) of a CSV file with a header; what is wrong is said without quoting a record."""
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read {path}: {error}.") from error
    if len(rows) < 2:
        raise DataError(f"{path} needs a header and at least one record.")
    names = tuple(rows[0])
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise DataError(f"{path}, line {number}: {len(row)} values for {len(names)} columns.")
    try:
        return names, np.array(rows[1:], dtype=np.float64)
    except ValueError:
        number, name = next(
            (number, name)
            for number, row in enumerate(rows[1:], start=2)
            for name, cell in zip(names, row, strict=True)
            if not _is_number(cell)
        )
        raise DataError(f"{path}, line {number}: column {name!r} holds something that is not a number.") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
