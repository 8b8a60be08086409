"""Labels of means: name, unit, and as many digits as the interval supports.

- A category's value, a flag and a missing value are *shares* of people, between 0 and 1, written in percent.
- A *date* is computed as days since 1970 and written as a date. Its place in the year or week is two *waves* per
  cycle, which are not shown.
- A *number* is written in its unit.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from taskveil.client.base_field import Kind
from taskveil.client.values import DAY
from taskveil.errors import printable


class Label(NamedTuple):
    """The label of a mean."""

    name: str
    kind: Kind = "number"
    unit: str = ""
    repeats: bool = False
    """Whether tables leave it out because other rows say it: an attribute times its weight, the share of a flag's
    "no", a bin's band."""
    bounds: tuple[float, float] = (-math.inf, math.inf)
    """Every value lies between them, and so does the mean."""
    key: tuple[Any, ...] = ()
    """Of a survey: which statistic it is, as ("means", field), ("by", field, value, field)."""

    @property
    def same(self) -> Label:
        """What is equal for the rows of several releases about the same: tables may show it for one of them only."""
        return self._replace(repeats=False)

    @property
    def shown(self) -> bool:
        """Whether tables show it."""
        return self.kind != "wave" and not self.repeats

    @property
    def short(self) -> str:
        """The name, without the unit that dates are computed in."""
        return self.name.removesuffix(" in days") if self.kind == "date" else self.name

    @property
    def title(self) -> str:
        """The name with its unit, without control characters."""
        return printable(f"{self.short} [{self.unit}]" if self.unit else self.short)

    def interval(self, mean: float, low: float, high: float, *, change: bool = False) -> tuple[str, str]:
        """A mean and its limits as text; those of a `change` have their sign."""
        middle, least, most = (self.said(value, (high - low) / 2, change=change) for value in (mean, low, high))
        for unit in (" points", " days"):
            least = least.removesuffix(unit)  # once is enough
        return middle, f"{least} … {most}"

    def reach(self, value: float) -> str:
        """A distance that a mean can move to either side, as text."""
        return f"±{self.said(value, value, change=True).removeprefix('+')}" if math.isfinite(value) else "no limit"

    def said(self, value: float, error: float, *, change: bool = False) -> str:
        """A value whose interval reaches `error` to either side, as text; a `change` has its sign."""
        sign = "+" if change else ""
        if not math.isfinite(value):
            return "unknown"
        if self.kind == "share":
            return f"{100 * value:{sign}.{_decimals(100 * error, 100 * value)}f}{' points' if change else '%'}"
        if self.kind == "date" and change:
            return f"{value:{sign}.{_decimals(error, value)}f} days"
        if self.kind == "date":
            return str(np.datetime64(round(value * DAY), "s").astype("datetime64[D]"))
        if value != 0 and not 1e-4 <= max(abs(value), error) < 1e9:
            return f"{value:{sign}.3g}"
        return f"{value:{sign},.{_decimals(error, value)}f}"


def _decimals(error: float, value: float) -> int:
    """The number of decimals: two digits of the error, or four of a value that is known exactly."""
    scale = error if error > 0 and math.isfinite(error) else abs(value) / 100
    return min(max(1 - math.floor(math.log10(scale)), 0), 8) if scale > 0 else 0
