"""How a CSV file is written: its separator, its decimal sign, its dates, and the texts that stand for no value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

from taskveil.errors import DataError

_EXAMPLE = datetime(2021, 3, 4)


@dataclass(frozen=True, kw_only=True)
class CsvFormat:
    """A way to write CSV. The default is that of this package: commas between cells, points in numbers, dates as
    2021-03-04."""

    separator: str = ","
    decimal: str = "."
    dates: str | None = None
    """The form of dates, in the codes of `datetime.strptime`; None for 2021-03-04 and 2021-03-04 13:45."""
    missing: tuple[str, ...] = ()
    """Texts that stand for no value, in every column. Empty cells and NA always do."""

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or not self.separator.isascii() or self.separator in '"\r\n':
            raise DataError(f"--sep is one character, such as ';', or the word tab; got {self.separator!r}.")
        if self.decimal not in (".", ",") or self.decimal == self.separator:
            raise DataError(
                f"--decimal is . or , and differs from --sep; got {self.decimal!r} with --sep {self.separator!r}."
            )
        if self.dates is not None and self.date(self.example) != "2021-03-04":
            raise DataError(
                "--date-format takes a code for the day, the month and the year, such as %d.%m.%Y for 04.03.2021 or "
                f"%m/%d/%Y for 03/04/2021; got {self.dates!r}."
            )

    @property
    def example(self) -> str:
        """The fourth of March 2021, written in the form of the dates."""
        return _EXAMPLE.strftime(self.dates or "%Y-%m-%d")

    @cached_property
    def number(self) -> Callable[[str], str]:
        """A function from a cell to the text with a decimal point. A cell with a point where the sign is a comma
        becomes a text that is no number."""
        swapped = str.maketrans(".,", ",.")
        return (lambda text: text) if self.decimal == "." else (lambda text: text.translate(swapped))

    def date(self, text: str) -> str | None:
        """The date in a cell, as 2021-03-04 or 2021-03-04 13:45:00; None if the cell is not in the form of dates."""
        try:
            found = datetime.strptime(text.strip(), self.dates or "").replace(tzinfo=None, microsecond=0)
        except (ValueError, IndexError):  # the second for a form that is no form, such as "%"
            return None
        return found.isoformat(" ").removesuffix(" 00:00:00")


USUAL = CsvFormat()
"""Commas, points, and dates as 2021-03-04."""
