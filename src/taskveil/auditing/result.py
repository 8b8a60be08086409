"""The result of an audit: what was tried and seen, the verdict, a table and a picture."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from taskveil.auditing.bound import largest_provable
from taskveil.auditing.picture import Sketch, draw
from taskveil.auditing.target import Check
from taskveil.errors import needs
from taskveil.notebooks import frame, summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADINGS = ("what was tried", "what was seen", "outcome")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One pair of inputs, and the event that separates them best.

    `first` and `second` are how many of `reports` reports each fell into the event; ε ≥ `epsilon_lower` follows with
    the audit's confidence. The ratio of this event is at most e^`epsilon_upper`.
    """

    pair: str
    event: str
    reports: int
    first: int
    second: int
    epsilon_lower: float
    epsilon_upper: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Audit:
    """The result of the attack. With probability `confidence`, the true ε is at least `epsilon_lower`.

    The bound takes reports to be independent draws; whether they are is one of the structural checks.

    `passed` means: nothing found contradicts the claim, neither the bound nor any of the structural `checks` (of which
    there are none if they were not asked for, and some may not apply). It is not a proof.

    `release` is the id of the veil that was attacked, None for a function; `date` is the day of the audit (UTC).

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> found = tv.audit(veil, trials=2000, structural=False)
        >>> found.passed, found.epsilon_lower <= found.epsilon_claimed
        (True, True)
    """

    epsilon_lower: float
    epsilon_claimed: float
    delta: float
    confidence: float
    trials: int
    provable: float
    findings: tuple[Finding, ...]
    checks: tuple[Check, ...]
    sketch: Sketch
    release: str | None = None
    date: str = ""

    def __repr__(self) -> str:
        return f"<Audit: {self.verdict}>"

    @property
    def passed(self) -> bool:
        """Whether nothing found contradicts the claim and no structural check broke."""
        return self.epsilon_lower <= self.epsilon_claimed and all(check.passed for check in self.checks)

    def provable_with(self, trials: int) -> float:
        """The largest lower bound of ε that an audit with so many `trials` could show for this release."""
        alpha = (1 - self.confidence) / len(self.findings)
        return largest_provable(trials - trials // 2, alpha=alpha, delta=self.delta)

    @property
    def verdict(self) -> str:
        """The outcome in a sentence."""
        failed = [check for check in self.checks if not check.passed]
        sure = f"with confidence 1 − {1 - self.confidence:.0e}"
        if self.epsilon_lower > self.epsilon_claimed:
            return (
                f"BROKEN. The claim is ε = {self.epsilon_claimed:.4g}, but reports of two inputs differ as only a "
                f"mechanism with ε ≥ {self.epsilon_lower:.4g} allows, {sure}. Do not release this."
            )
        if failed:
            return f"BROKEN. {failed[0].detail} Do not release this." + (
                f" ({len(failed)} checks failed.)" if len(failed) > 1 else ""
            )
        held = (
            f"HOLDS. No attack disproved ε = {self.epsilon_claimed:.4g}; the best one shows ε ≥ "
            f"{self.epsilon_lower:.4g}, {sure}. {self._structure}"
        )
        best = max(self.findings, key=lambda finding: finding.epsilon_lower)
        if self.epsilon_claimed > self.provable:
            return held + (
                f" This many trials can show ε ≥ {self.provable:.3g} at most, so sampling could not have disproved "
                "this claim" + (": only the structural checks speak for it." if self.checks else ".")
            )
        if best.epsilon_upper < 0.9 * self.epsilon_claimed:
            return held + (
                f" The best attack stays below ε = {best.epsilon_upper:.4g}: there is more noise than the claim needs, "
                "or the worst inputs were not found."
            )
        return held

    @property
    def _structure(self) -> str:
        """What the structural checks add to a claim that holds."""
        if not self.checks:
            return "No structural check was run."
        idle = [check.name for check in self.checks if check.outcome == "not applicable"]
        held = len(self.checks) - len(idle)
        return f"{held} structural checks held" + (f"; not applicable: {', '.join(idle)}." if idle else ".")

    @property
    def title(self) -> str:
        """What the table of the audit is called."""
        return f"Audit of ε = {self.epsilon_claimed:.4g}"

    def rows(self) -> list[dict[str, str | bool]]:
        """One row per pair of inputs, then one per structural check: what was `tried`, what was `seen`, the `outcome`,
        and whether the claim `held` there."""
        found: list[dict[str, str | bool]] = []
        for finding in self.findings:
            seen = f"{finding.first:,} and {finding.second:,} of {finding.reports:,} with {finding.event}"
            held, outcome = finding.epsilon_lower <= self.epsilon_claimed, f"ε ≥ {finding.epsilon_lower:.4g}"
            found.append({"tried": finding.pair, "seen": seen, "outcome": outcome, "held": held})
        return [*found, *rows_of(self.checks)]

    def to_pandas(self) -> Any:
        """A DataFrame of `rows`.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
            >>> found = tv.audit(veil, trials=2_000, structural=False)
            >>> list(found.to_pandas().columns)
            ['tried', 'seen', 'outcome', 'held']
        """
        return frame(self.rows())

    def _repr_html_(self) -> str:
        return html_of(self)

    @overload
    def plot(self, path: str | Path) -> Path: ...

    @overload
    def plot(self, path: None = None, *, ax: Axes | None = None) -> Axes: ...

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Path | Axes:
        """A picture of the scores of reports of the two inputs that were separated best; below it, how much likelier
        each score is for one of them, with the limit of e^ε.

        Args:
            path: the file to write (PNG, PDF or SVG), which is returned; without one, the axes are returned.
            ax: axes of matplotlib to draw into, instead of new ones. The two parts are `ax.child_axes`.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
            >>> found = tv.audit(veil, trials=2_000, structural=False)
            >>> ax = found.plot()
            >>> len(ax.child_axes)
            2
        """
        with needs("a picture"):
            from taskveil.style import plotted
        return plotted(self._draw, path, ax)

    def _draw(self, ax: Axes) -> tuple[float, float]:
        title = (
            f"claimed ε = {self.epsilon_claimed:.3g}, shown ε ≥ {self.epsilon_lower:.3g} (confidence "
            f"1 − {1 - self.confidence:.0e}): {'holds' if self.passed else 'BROKEN'}"
        )
        return draw(ax, self.sketch, claimed=self.epsilon_claimed, title=title)

    def to_dict(self) -> dict[str, Any]:
        """Everything but the sketch, ready for JSON."""
        return {
            "passed": self.passed,
            "verdict": self.verdict,
            "epsilon_lower": self.epsilon_lower,
            "epsilon_claimed": self.epsilon_claimed,
            "delta": self.delta,
            "confidence": self.confidence,
            "trials": self.trials,
            "release": self.release,
            "date": self.date,
            "findings": [asdict(finding) for finding in self.findings],
            "checks": [{**asdict(check), "passed": check.passed} for check in self.checks],
        }


def rows_of(checks: Iterable[Check]) -> list[dict[str, str | bool]]:
    """A row for each check, as in `Audit.rows`."""
    return [{"tried": one.name, "seen": one.detail, "outcome": one.outcome, "held": one.passed} for one in checks]


def html_of(found: Any) -> str:
    """The verdict and the rows of an audit as HTML."""
    rows = [[str(row["tried"]), str(row["seen"]), outcome(row)] for row in found.rows()]
    return summary(found.title, [found.verdict], head=HEADINGS, rows=rows)


def outcome(row: dict[str, str | bool]) -> str:
    """The outcome of a row in words, with "broken" where the claim did not hold."""
    said = str(row["outcome"])
    return said if row["held"] or said == "broken" else f"{said} broken"
