"""What a sweep found: loss against budget, as a table, a picture, JSON, and a page that opens offline."""

from __future__ import annotations

import base64
import html
import json
import math
from dataclasses import asdict, dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import BudgetError, TaskError

if TYPE_CHECKING:
    from taskveil.losses import Loss


@dataclass(frozen=True, kw_only=True)
class Point:
    """The expected test loss of one design; low and high bound it with 95% confidence for other records."""

    method: str
    epsilon: float
    seed: int
    loss: float
    low: float
    high: float

    @classmethod
    def of(cls, method: str, epsilon: float, seed: int, loss: Loss) -> Point:
        """The point of a design with this expected loss on the test records."""
        return cls(method=method, epsilon=epsilon, seed=seed, loss=loss.mean, low=loss.low, high=loss.high)


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """All points of a sweep. `clear` is the loss without any privacy, `constant` that of one answer for everybody."""

    points: tuple[Point, ...]
    clear: float
    constant: float

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
        return [p.loss for p in self.points if p.method == method and p.epsilon == epsilon]

    def loss(self, method: str, epsilon: float) -> float:
        """The mean loss over the seeds of a `method` at one `epsilon`."""
        found = self.losses(method, epsilon)
        if not found:
            raise TaskError(f"the sweep has no point for {method!r} at ε = {epsilon:g}.")
        return float(np.mean(found))

    @property
    def nothing_to_keep(self) -> str | None:
        """Why no design can be said to keep a share of the signal, in a sentence; None where shares have a meaning."""
        if self.clear < self.constant:
            return None
        return (
            f"the model without privacy is no better than a constant answer (losses {self.clear:.4g} and "
            f"{self.constant:.4g}): there is no signal of which a share could be kept."
        )

    def kept(self, method: str, epsilon: float) -> float | None:
        """The share of the usable signal that `method` keeps at `epsilon`: 1 as good as without privacy, 0 no better
        than a constant; None where there is no signal (`nothing_to_keep`)."""
        loss = self.loss(method, epsilon)
        return None if self.nothing_to_keep else (self.constant - loss) / (self.constant - self.clear)

    def epsilon_for(self, kept: float = 0.95, method: str | None = None) -> float:
        """The smallest budget of the sweep that keeps the share `kept` of the usable signal, with the best method or
        the one named. BudgetError says how far the sweep came if none does."""
        if not 0 < kept <= 1:
            raise BudgetError(f"kept is a share of the usable signal, above 0 and at most 1; got {kept}.")
        if method is not None and method not in self.methods:
            raise TaskError(f"the sweep has no method {method!r}, only {', '.join(self.methods)}.")
        if self.nothing_to_keep:
            raise BudgetError(f"no budget can be named: {self.nothing_to_keep} Improve the model first.")
        shares: dict[float, float] = {}
        for row in self.rows():
            if method in (None, row["method"]):
                shares[row["epsilon"]] = max(row["kept"], shares.get(row["epsilon"], -math.inf))
        enough = [epsilon for epsilon, share in shares.items() if share >= kept]
        if not enough:
            best = max(shares, key=lambda epsilon: shares[epsilon])
            raise BudgetError(
                f"no budget of the sweep keeps {kept:.0%} of the usable signal; the most is {shares[best]:.1%} at "
                f"ε = {best:g}. Sweep larger budgets, or ask for less."
            )
        return min(enough)

    def rows(self) -> list[dict[str, Any]]:
        """One row per method and budget: mean, least and greatest loss over seeds, share kept."""
        return [
            {
                "method": method,
                "epsilon": epsilon,
                "loss": self.loss(method, epsilon),
                "least": min(self.losses(method, epsilon)),
                "greatest": max(self.losses(method, epsilon)),
                "seeds": len(self.losses(method, epsilon)),
                "kept": self.kept(method, epsilon),
            }
            for method in self.methods
            for epsilon in self.epsilons
            if self.losses(method, epsilon)
        ]

    def table(self) -> str:
        """A plain text table: methods down, budgets across, loss and share kept in every cell."""
        cells = {(r["method"], r["epsilon"]): f"{r['loss']:.4g} ({_share(r['kept'])})" for r in self.rows()}
        lines = [["method", *(f"ε = {e:g}" for e in self.epsilons)]]
        lines += [[m, *(cells.get((m, e), "") for e in self.epsilons)] for m in self.methods]
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        text.append(f"no privacy: {self.clear:.4g}    constant answer: {self.constant:.4g}    (share of signal kept)")
        if self.nothing_to_keep:
            text.append(f"–: {self.nothing_to_keep}")
        return "\n".join(line.rstrip() for line in text)

    def plot(self, path: str | Path) -> Path:
        """The picture: mean loss against ε, bands over seeds, lines for no privacy and the constant answer."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(self._png())
        return target

    def _png(self) -> bytes:
        from taskveil import style

        fig, (ax,) = style.figure(width=7.0)
        for method in self.methods:
            found = [row for row in self.rows() if row["method"] == method]
            x = [row["epsilon"] for row in found]
            (line,) = ax.plot(
                x,
                [row["loss"] for row in found],
                color=style.COLORS.get(method),
                marker=style.MARKERS.get(method, "d"),
                label=style.LABELS.get(method, method),
            )
            least, greatest = [row["least"] for row in found], [row["greatest"] for row in found]
            ax.fill_between(x, least, greatest, color=line.get_color(), alpha=0.15, linewidth=0)
        ax.axhline(self.clear, color="grey", linestyle="-.", linewidth=1, label="no privacy")
        ax.axhline(self.constant, color="grey", linestyle=":", label="constant answer")
        # Whatever is worse than the constant at small budgets may leave the picture, but no curve leaves it altogether.
        top = max(self.constant, *(min(r["loss"] for r in self.rows() if r["method"] == m) for m in self.methods))
        ax.set(
            xscale="log",
            ylim=(min(0.0, self.clear), 1.4 * top),
            xlabel="privacy budget ε (smaller is more private)",
            ylabel="task loss (lower is better)",
        )
        ax.set_xticks(self.epsilons, [f"{e:g}" for e in self.epsilons])
        ax.minorticks_off()
        ax.legend(fontsize=8)
        buffer = BytesIO()
        style.save_to(fig, buffer)
        return buffer.getvalue()

    def to_json(self, path: str | Path) -> Path:
        """All points, the two lines and the rows of the table."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(self._content(), indent=1) + "\n", encoding="utf-8")
        return target

    @classmethod
    def from_json(cls, path: str | Path) -> Frontier:
        """What `to_json` wrote."""
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        points = tuple(Point(**point) for point in content["points"])
        return cls(points=points, clear=content["clear"], constant=content["constant"])

    def _content(self) -> dict[str, Any]:
        return {
            "clear": self.clear,
            "constant": self.constant,
            "rows": self.rows(),
            "points": [asdict(point) for point in self.points],
        }

    def to_html(self, path: str | Path, *, title: str = "Task loss against privacy budget") -> Path:
        """One file at `path` with `title`, picture, table and data inside; it needs no network and no script."""
        picture = base64.b64encode(self._png()).decode("ascii")
        head = "".join(f"<th>ε = {e:g}</th>" for e in self.epsilons)
        cells = {(r["method"], r["epsilon"]): r for r in self.rows()}
        body = "".join(
            f"<tr><th>{html.escape(m)}</th>" + "".join(_cell(cells.get((m, e))) for e in self.epsilons) + "</tr>"
            for m in self.methods
        )
        # "<" is written as an escape, so that no text in the data can end the element.
        data = json.dumps(self._content()).replace("<", "\\u003c")
        page = _PAGE.format(
            title=html.escape(title), advice=html.escape(self._advice()), picture=picture, head=head, body=body,
            clear=f"{self.clear:.4g}", constant=f"{self.constant:.4g}", data=data,
        )  # fmt: skip
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page, encoding="utf-8")
        return target

    def _advice(self) -> str:
        if self.nothing_to_keep:
            return f"No budget can be advised: {self.nothing_to_keep}"
        sentences = []
        for share in (0.5, 0.8, 0.95):
            try:
                sentences.append(f"ε = {self.epsilon_for(share):g} keeps {share:.0%} of the usable signal.")
            except BudgetError:
                sentences.append(f"No budget tried keeps {share:.0%}.")
        return " ".join(sentences)


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return "<td></td>"
    return f"<td>{row['loss']:.4g}<small>{_share(row['kept'])} kept{_range(row)}</small></td>"


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }}
img {{ max-width: 100%; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; }}
th, td {{ padding: .4rem .8rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }}
th:first-child {{ text-align: left; }}
small {{ display: block; color: #666; }}
</style></head><body>
<h1>{title}</h1>
<p>{advice}</p>
<img alt="Task loss against privacy budget for every method" src="data:image/png;base64,{picture}">
<table><thead><tr><th>method</th>{head}</tr></thead><tbody>{body}</tbody></table>
<p>Without any privacy the loss is {clear}; one answer for everybody costs {constant}. The share kept says where a
design lies between the two. Small print: least and greatest loss over seeds, on records that no design has seen.</p>
<script type="application/json" id="data">{data}</script>
</body></html>
"""


def _share(kept: float | None) -> str:
    """Whole percent, rounded towards zero: 94.9% must not read as the 95% somebody asked for."""
    return "–" if kept is None or not math.isfinite(kept) else f"{int(kept * 100)}%"


def _range(row: dict[str, Any]) -> str:
    """Least and greatest loss over seeds, where there are several."""
    return f"<br>{row['least']:.4g} to {row['greatest']:.4g}" if row["least"] < row["greatest"] else ""
