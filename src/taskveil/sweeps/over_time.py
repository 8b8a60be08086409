"""A sweep against the number of reports: what a budget for all reports of a person gives, split into few or many."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from taskveil.designs.over_time import OverTime
from taskveil.errors import TaskError, needs
from taskveil.notebooks import frame, summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class OverTimePoint:
    """What so many reports of a person, each of `epsilon`, cost the task.

    For answers, `error` is the mean loss over all people and rounds, where the constant prediction answers for those
    who are silent. For means, it is the variance of a round's estimate times the number of people.
    """

    method: str
    reports: int
    epsilon: float
    error: float


@dataclass(frozen=True, kw_only=True)
class OverTimeFrontier:
    """All points of a sweep over time: `frontier.over_time(tv.OverTime(…))`. `constant` is the loss of the constant
    prediction and `clear` that without privacy; both are None for means.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X, year = np.random.default_rng(0).normal(size=(200, 2)), tv.OverTime(lifetime=4.0, rounds=52)
        >>> found = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[year], methods=["task_aware"]).over_time(year)
        >>> found.best("task_aware") in found.reports
        True
    """

    over_time: OverTime
    points: tuple[OverTimePoint, ...]
    clear: float | None
    constant: float | None

    def __repr__(self) -> str:
        counts = ", ".join(map(str, self.reports))
        return f"<Sweep over time: {counts} reports in {self.over_time.total} rounds; .table() has the errors>"

    @property
    def reports(self) -> list[int]:
        """The numbers of reports, ascending."""
        return sorted({point.reports for point in self.points})

    @property
    def methods(self) -> list[str]:
        """The names of the designs, in the order they were asked for."""
        return list(dict.fromkeys(point.method for point in self.points))

    def error(self, method: str, reports: int) -> float:
        """What so many `reports` with designs of a `method` cost the task."""
        for point in self.points:
            if (point.method, point.reports) == (method, reports):
                return point.error
        raise TaskError(f"the sweep has no point for {method!r} with {reports} reports.")

    def best(self, method: str) -> int:
        """The number of reports at which a `method` costs the task least."""
        return min(self.reports, key=lambda reports: self.error(method, reports))

    def table(self) -> str:
        """A plain text table: methods down, numbers of reports across."""
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join(line.rstrip() for line in [*text, self._words])

    def _lines(self) -> list[list[str]]:
        epsilons = {point.reports: point.epsilon for point in self.points}
        head = ["method", *(f"{count} × ε = {epsilons[count]:.3g}" for count in self.reports)]
        return [head, *([one, *(f"{self.error(one, count):.4g}" for count in self.reports)] for one in self.methods)]

    @property
    def _words(self) -> str:
        rounds = f"{self.over_time.total} rounds, lifetime ε = {self.over_time.lifetime:g}"
        if self.constant is None:
            return f"{rounds}. Variance of a round's mean times the number of people."
        return (
            f"{rounds}. Mean loss over all people and rounds; no privacy: {self.clear:.4g}, "
            f"constant prediction: {self.constant:.4g}"
        )

    def _repr_html_(self) -> str:
        head, *rows = self._lines()
        return summary("Reports over time", [self._words], head=head, rows=rows)

    def to_pandas(self) -> Any:
        """A DataFrame with one row per method and number of reports."""
        return frame([vars(point) for point in self.points])

    @overload
    def plot(self, path: str | Path) -> Path: ...

    @overload
    def plot(self, path: None = None, *, ax: Axes | None = None) -> Axes: ...

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Path | Axes:
        """A picture: what the task loses against the number of reports of a person.

        Args:
            path: the file to write (PNG, PDF or SVG), which is returned; without one, the axes are returned.
            ax: axes of matplotlib to draw into, instead of new ones.
        """
        with needs("a picture"):
            from taskveil.style import plotted
        return plotted(self._draw, path, ax)

    def _draw(self, ax: Axes) -> tuple[float, float]:
        from taskveil import style

        for method in self.methods:
            ax.plot(
                self.reports,
                [self.error(method, count) for count in self.reports],
                color=style.COLORS.get(method),
                marker=style.MARKERS.get(method, "d"),
                label=style.LABELS.get(method, method),
            )
        if self.constant is not None and self.clear is not None:
            ax.axhline(self.clear, color="grey", linestyle="-.", linewidth=1, label="no privacy")
            ax.axhline(self.constant, color="grey", linestyle=":", label="one answer for everybody")
        ax.set(xscale="log", yscale="log" if self.constant is None else "linear")
        ax.set_xlabel(f"reports of a person in {self.over_time.total} rounds, ε = {self.over_time.lifetime:g} together")
        ax.set_ylabel("variance of a round's mean × people" if self.constant is None else "mean loss of all rounds")
        ax.set_xticks(self.reports, [str(count) for count in self.reports])
        ax.minorticks_off()
        style.legend_below(ax, columns=3)
        return 7.0, 4.2
