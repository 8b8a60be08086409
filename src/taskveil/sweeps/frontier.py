"""The result of a sweep: loss against budget and the budget to choose; as a table, a picture, JSON, and a page."""

from __future__ import annotations

import base64
import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from taskveil.arrays import Floats
from taskveil.designs.over_time import OverTime
from taskveil.errors import BudgetError, DataError, TaskError, needs
from taskveil.notebooks import frame, summary
from taskveil.sweeps.budgets import Budget, share_interval, share_text, smallest_budget
from taskveil.sweeps.frontier_page import draw, off_chart, page
from taskveil.sweeps.over_time import OverTimeFrontier, OverTimePoint
from taskveil.veil.loss_intervals import check_block, loss_interval
from taskveil.veil.veil import Size, in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Point:
    """The expected test loss of one design; low and high bound it with 95% confidence for other records.

    `client_bytes` and `operations` are the load on devices (`Veil.size`), None in files of older versions.
    `per_record` are the losses (N,) whose mean it is, in single precision; None in files of older versions.
    """

    method: str
    epsilon: float
    seed: int
    loss: float
    low: float
    high: float
    client_bytes: int | None = None
    operations: int | None = None
    per_record: Floats | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of(
        cls, method: str, epsilon: float, seed: int, losses: Floats, *, block: int = 1, size: Size | None = None
    ) -> Point:
        """The point of a design of that `size` with these expected `losses` (N,) on the test records, `block` of them
        together."""
        low, high = loss_interval(losses, block=block)
        return cls(
            method=method,
            epsilon=epsilon,
            seed=seed,
            loss=float(losses.mean()),
            low=float(low),
            high=float(high),
            client_bytes=None if size is None else size.client_bytes,
            operations=None if size is None else size.operations,
            per_record=losses,
        )

    def content(self, *, losses: bool = True) -> dict[str, Any]:
        """What a file keeps of it: plain values, and the `losses` of single records packed, if wanted."""
        plain = {part.name: getattr(self, part.name) for part in fields(self) if part.name != "per_record"}
        return {**plain, "per_record": _packed(self.per_record)} if losses and self.per_record is not None else plain

    @classmethod
    def read(cls, content: dict[str, Any]) -> Point:
        """The point of which `content` is kept."""
        return cls(**{**content, "per_record": _unpacked(content.get("per_record"))})


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """All points of a sweep. `clear` is the loss without privacy, `constant` that of the constant prediction; both also
    `per_record` (N,), on the same records as the points. `block` neighbours among the records count as one. For a
    MeanTask, `spread` is how much people differ: the sum of the variances of its outputs.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
        >>> frontier.loss("task_aware", 4) < frontier.loss("task_aware", 1) < frontier.constant
        True
    """

    points: tuple[Point, ...]
    clear: float
    constant: float
    block: int = 1
    spread: float = 0.0
    clear_per_record: Floats | None = field(default=None, compare=False, repr=False)
    constant_per_record: Floats | None = field(default=None, compare=False, repr=False)

    def __repr__(self) -> str:
        budgets = ", ".join(f"{epsilon:g}" for epsilon in self.epsilons)
        return f"<Frontier of {', '.join(self.methods)} at ε = {budgets}; .table() has the losses>"

    @property
    def methods(self) -> list[str]:
        """The names of the designs, in the order they were asked for."""
        return list(dict.fromkeys(point.method for point in self.points))

    @property
    def epsilons(self) -> list[float]:
        """The budgets, ascending."""
        return sorted({point.epsilon for point in self.points})

    def losses(self, method: str, epsilon: float) -> list[float]:
        """The losses of all seeds of a `method` at one `epsilon`."""
        return [p.loss for p in self._at(method, epsilon)]

    def loss(self, method: str, epsilon: float) -> float:
        """The mean loss over the seeds of a `method` at one `epsilon`."""
        found = self.losses(method, epsilon)
        if not found:
            raise TaskError(
                f"the sweep has no point for {method!r} at ε = {epsilon:g}: it has {', '.join(self.methods)} at "
                f"ε = {', '.join(f'{one:g}' for one in self.epsilons)}."
            )
        return float(np.mean(found))

    @property
    def nothing_to_keep(self) -> str | None:
        """Why the share of the signal that a design keeps is not defined, in a sentence; None if it is."""
        if self.clear < self.constant:
            return None
        if self.clear == self.constant == 0.0:
            return (
                "for a MeanTask the loss is not a share of a signal: divided by the number of people, it is the "
                "squared error of their mean."
            )
        return (
            f"the model without privacy is no better than a constant prediction (losses {self.clear:.4g} and "
            f"{self.constant:.4g}): there is no signal to keep."
        )

    def kept(self, method: str, epsilon: float) -> float | None:
        """The share of the usable signal that `method` keeps at `epsilon`: 1 as good as without privacy, 0 no better
        than a constant; None where there is no signal (`nothing_to_keep`)."""
        loss = self.loss(method, epsilon)
        return None if self.nothing_to_keep else (self.constant - loss) / (self.constant - self.clear)

    def epsilon_for(self, kept: float = 0.95, method: str | None = None, *, confidence: float = 0.9) -> Budget:
        """The smallest budget of the sweep that is sure to keep the share `kept` of the usable signal.

        If there is none, the result is infinite, which `tv.design` refuses, and its statement says how far the sweep
        came and what to do.

        Args:
            kept: the share asked for, above 0 and at most 1; 1 is as good as without privacy.
            method: the design to use; by default any of the sweep's.
            confidence: with 0.9, the answer is too small for about one set of test records in ten, if a design just
                misses the share; more often if rare people matter, of whom the test has few or none.

        Returns:
            A number with `.low` (smaller budgets fall short), `.high` (the number itself), the `.method` that reaches
            it, and `.statement` in words.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
            >>> budget = frontier.epsilon_for(kept=0.01)
            >>> budget.method, budget.kept
            ('task_aware', 0.01)
        """
        if not 0 < kept <= 1:
            raise BudgetError(f"kept is a share of the usable signal, above 0 and at most 1; got {kept}.")
        if not 0.5 <= confidence < 1:
            raise BudgetError(f"confidence lies between 0.5 and 1, as 0.9 for nine times in ten; got {confidence}.")
        if method is not None and method not in self.methods:
            raise TaskError(f"the sweep has no method {method!r}, only {', '.join(self.methods)}.")
        if self.nothing_to_keep:
            then = (
                " Improve the model first."
                if self.clear or self.constant
                else " Choose by how many people will answer: tv.plan(X, task, people=N, epsilons=[…])."
            )
            why = f"No budget can be named: {self.nothing_to_keep}{then}"
            return Budget(kept=kept, confidence=confidence, statement=why)
        designs = [design for design in self._designs() if method in (None, design[0])]
        losses = [found for design in designs if (found := self.per_record(*design)) is not None]
        if len(losses) < len(designs) or self.clear_per_record is None or self.constant_per_record is None:
            enough = min((e for m, e in designs if (self.kept(m, e) or 0.0) >= kept), default=None)
            why = (
                "No budget can be promised: this frontier was kept without the losses of single records. On average "
                f"over those tested, {'none' if enough is None else f'ε = {enough:g}'} keeps {100 * kept:g}% of the "
                "usable signal. Run the sweep again."
            )
            return Budget(kept=kept, confidence=confidence, statement=why)
        lines = self.clear_per_record, self.constant_per_record
        return smallest_budget(designs, np.array(losses), *lines, kept=kept, confidence=confidence, block=self.block)

    def over_time(self, over_time: OverTime) -> OverTimeFrontier:
        """What this sweep says about a budget for all reports, by the number of reports of a person.

        Args:
            over_time: what the sweep was asked for, `epsilons=[over_time]`.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X, year = np.random.default_rng(0).normal(size=(200, 2)), tv.OverTime(lifetime=4.0, rounds=52)
            >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[year], methods=["task_aware"])
            >>> frontier.over_time(year).reports
            [1, 2, 4, 8, 16, 32, 52]
        """
        points, means = [], self.clear == self.constant == 0.0
        for method in self.methods:
            for reports in over_time.compared:
                epsilon, share = over_time.epsilon(reports), reports / over_time.total
                loss = self.loss(method, epsilon)
                error = (loss + self.spread) / share if means else share * loss + (1.0 - share) * self.constant
                points.append(OverTimePoint(method=method, reports=reports, epsilon=epsilon, error=error))
        clear, constant = (None, None) if means else (self.clear, self.constant)
        return OverTimeFrontier(over_time=over_time, points=tuple(points), clear=clear, constant=constant)

    def advice(self) -> list[str]:
        """The budgets that keep 50%, 80% and 95% of the usable signal, in words. Of shares with the same budget only
        the largest is listed, of shares without one only the smallest."""
        found = [self.epsilon_for(kept) for kept in (0.5, 0.8, 0.95)]
        named = {(budget.high, budget.low, budget.method): budget.statement for budget in found if budget.method}
        return [*named.values(), *[budget.statement for budget in found if not budget.method][:1]]

    def per_record(self, method: str, epsilon: float) -> Floats | None:
        """Losses (N,) of the test records, the mean over the seeds of a `method` at one `epsilon`; None if not kept."""
        points = self._at(method, epsilon)
        found = [p.per_record for p in points if p.per_record is not None]
        return np.mean(found, axis=0) if 0 < len(found) == len(points) else None

    def rows(self) -> list[dict[str, Any]]:
        """One row per method and budget: the mean loss with its 95% interval for other records, least and greatest loss
        over seeds, share kept with its interval. None where something is not known."""
        return [self._row(method, epsilon) for method, epsilon in self._designs()]

    def _row(self, method: str, epsilon: float) -> dict[str, Any]:
        points, losses = self._at(method, epsilon), self.per_record(method, epsilon)
        clear, constant = self.clear_per_record, self.constant_per_record
        low, high = (float(np.mean([getattr(p, end) for p in points])) for end in ("low", "high"))
        kept: tuple[float | None, float | None] = (None, None)
        if losses is not None:
            low, high = map(float, loss_interval(losses, block=self.block))
            if clear is not None and constant is not None and not self.nothing_to_keep:
                kept = share_interval(losses, clear, constant, block=self.block)
        return {
            "method": method,
            "epsilon": epsilon,
            "loss": self.loss(method, epsilon),
            "low": low if math.isfinite(low) else None,
            "high": high if math.isfinite(high) else None,
            "least": min(p.loss for p in points),
            "greatest": max(p.loss for p in points),
            "seeds": len(points),
            "kept": self.kept(method, epsilon),
            "kept_low": kept[0],
            "kept_high": kept[1],
            "client_bytes": max((p.client_bytes for p in points if p.client_bytes is not None), default=None),
            "operations": max((p.operations for p in points if p.operations is not None), default=None),
        }

    def table(self) -> str:
        """A plain text table: methods down, budgets across, loss and share kept in every cell.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
            >>> print(frontier.table().splitlines()[0])
            method      ε = 1       ε = 4        on the device, at most
        """
        lines = self._lines()
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join(line.rstrip() for line in [*text, *self._words()])

    def _lines(self) -> list[list[str]]:
        """The cells of the table, its header first."""
        cells = {(m, e): f"{self.loss(m, e):.4g} ({share_text(self.kept(m, e))})" for m, e in self._designs()}
        head = ["method", *(f"ε = {e:g}" for e in self.epsilons), "on the device, at most"]
        return [head, *([m, *(cells.get((m, e), "") for e in self.epsilons), self._on_device(m)] for m in self.methods)]

    def _words(self) -> list[str]:
        """What the cells are compared with."""
        lines = f"no privacy: {self.clear:.4g}    constant prediction: {self.constant:.4g}    (share of signal kept)"
        return [lines, *([f"–: {self.nothing_to_keep}"] if self.nothing_to_keep else [])]

    def _repr_html_(self) -> str:
        head, *rows = self._lines()
        return summary("Loss against privacy budget", self._words(), head=head, rows=rows)

    def to_pandas(self) -> Any:
        """A DataFrame of `rows`: one row per method and budget.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
            >>> frontier.to_pandas()[["method", "epsilon"]].values.tolist()
            [['task_aware', 1.0], ['task_aware', 4.0]]
        """
        return frame(self.rows())

    def _on_device(self, method: str) -> str:
        """Bytes and operations that a method asks of a device at most, in words."""
        points = [p for p in self.points if p.method == method]
        known = [(p.client_bytes, p.operations) for p in points if p.client_bytes is not None]
        if not known:
            return ""
        size, operations = (max(number or 0 for number in column) for column in zip(*known, strict=True))
        return f"{in_words(size, 'B')}, {in_words(operations, 'operations')}"

    @overload
    def plot(self, path: str | Path) -> Path: ...

    @overload
    def plot(self, path: None = None, *, ax: Axes | None = None) -> Axes: ...

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Path | Axes:
        """A picture: the share kept against ε, 1 without privacy and 0 for a constant prediction, with the loss beside,
        and bands for other records and over seeds. It names points that are off the chart.

        Args:
            path: the file to write (PNG, PDF or SVG), which is returned; without one, the axes are returned.
            ax: axes of matplotlib to draw into, instead of new ones.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
            >>> ax = frontier.plot()
            >>> ax.get_xlabel()
            'privacy budget ε (smaller is more private)'
        """
        with needs("a picture"):
            from taskveil.style import plotted
        return plotted(self._draw, path, ax)

    def _draw(self, ax: Axes) -> tuple[float, float]:
        rows, clear, constant = self.rows(), self.clear, self.constant
        return draw(ax, rows, clear=clear, constant=constant, note=off_chart(rows, clear=clear, constant=constant))

    def to_html(self, path: str | Path, *, title: str = "What is kept, against the privacy budget") -> Path:
        """One file at `path` with `title`, picture, table and data inside; it needs no network and no script. Losses of
        single records are left out.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     print(frontier.to_html(f"{folder}/frontier.html").name)
            frontier.html
        """
        content = self.content(losses=False)
        text = page(
            content["rows"], clear=self.clear, constant=self.constant, title=title, advice=self.advice(), data=content
        )
        return written(path, text.encode())

    def to_json(self, path: str | Path, *, losses: bool = True) -> Path:
        """All points, the two lines and the rows of the table, in a file at `path`.

        With `losses`, the losses of single records are kept, and `epsilon_for` works after reading the file again.
        Values can be computed from them: treat such a file as you treat the test records.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> frontier = tv.sweep(X, tv.LinearTask([[1.0, 1.0]]), epsilons=[1, 4], methods=["task_aware"])
            >>> from tempfile import TemporaryDirectory
            >>> with TemporaryDirectory() as folder:
            ...     path = frontier.to_json(f"{folder}/frontier.json")
            ...     print(type(frontier).from_json(path).epsilons)
            [1.0, 4.0]
        """
        return written(path, (json.dumps(self.content(losses=losses), indent=1) + "\n").encode())

    def content(self, *, losses: bool) -> dict[str, Any]:
        """What `to_json` writes, with the `losses` of single records if wanted."""
        found: dict[str, Any] = {
            "clear": self.clear,
            "constant": self.constant,
            "block": self.block,
            "spread": self.spread,
            "rows": self.rows(),
            "points": [point.content(losses=losses) for point in self.points],
        }
        lines = {"clear": self.clear_per_record, "constant": self.constant_per_record}
        if losses:
            found["per_record"] = {name: _packed(line) for name, line in lines.items() if line is not None}
        return found

    @classmethod
    def from_json(cls, path: str | Path) -> Frontier:
        """The frontier in a file that `to_json` wrote, also of older versions; DataError if it is another file.

        If the file is without losses of single records, they are taken from frontier-losses.json beside it, which
        `taskveil sweep` writes.
        """
        try:
            content = json.loads(Path(path).read_text(encoding="utf-8"))
            found, more = cls.read(content), losses_beside(path)
            if "per_record" not in content and more.exists():
                fuller = cls.read(json.loads(more.read_text(encoding="utf-8")))
                return fuller if fuller == found else found
            return found
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise DataError(f"{path} holds no frontier that `to_json` wrote: {type(error).__name__}.") from error

    @classmethod
    def read(cls, content: dict[str, Any]) -> Frontier:
        """The frontier of which `content` is kept."""
        lines = content.get("per_record", {})
        return cls(
            points=tuple(map(Point.read, content["points"])),
            clear=float(content["clear"]),
            constant=float(content["constant"]),
            block=check_block(content.get("block", 1)),
            spread=float(content.get("spread", 0.0)),
            clear_per_record=_unpacked(lines.get("clear")),
            constant_per_record=_unpacked(lines.get("constant")),
        )

    def _at(self, method: str, epsilon: float) -> list[Point]:
        return [p for p in self.points if p.method == method and p.epsilon == epsilon]

    def _designs(self) -> list[tuple[str, float]]:
        return [(m, e) for m in self.methods for e in self.epsilons if self._at(m, e)]


def _packed(losses: Floats) -> str:
    return base64.b64encode(losses.astype("<f8").tobytes()).decode("ascii")


def _unpacked(text: str | None) -> Floats | None:
    return None if text is None else np.frombuffer(base64.b64decode(text, validate=True), dtype="<f8")


def losses_beside(path: str | Path) -> Path:
    """The file beside a frontier without losses of single records that has them: frontier-losses.json."""
    return Path(path).with_name(f"{Path(path).stem}-losses.json")


def written(path: str | Path, content: bytes) -> Path:
    """The `path` of a file, which now holds this `content`; folders on the way are made."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target
