"""The percentages that the paper states, again from its figures, from our rows as published, and at the true ε."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from taskveil.experiments.report import ResultRow, published, published_curve

TITLE = "## The paper's percentages at the true ε"

INTRODUCTION = """The paper states the largest improvement of its task-aware design over each of two other designs. An
improvement is 1 − loss / loss of the other design. Each cell has it at the ε that the paper names. Where another budget
of the same figure has a larger one, the cell has this one too.

- *Stated*: in the paper's text.
- *Published*: from the losses of its figures. They hold for √2·ε and for the measured records only
  ([corrections.md](../theory/corrections.md)).
- *As published by us*: from the rows `task aware`, `task agnostic` and `privacy agnostic`, *as published*.
- *Honest*: from the rows with the same names that hold at the true ε, with bounds that devices enforce. The honest
  task-aware design is ours: it also chooses its bounds, and for a model its network. The two others are honest versions
  of the paper's. So this column says what task-aware Laplace noise is worth now, not what the paper's algorithm is.

{source}
"""

REMARKS = """Three of the stated percentages are not those of the figures. For households the figure gives more than
the text. For the digits the text has loss of the other design / loss − 1.

Each published point is one draw of the noise, and the text states the largest improvement among several. *As published
by us* compares means over draws and seeds.
"""

FROM_ROWS = "Computed from these rows before they were rounded for the tables below."


@dataclass(frozen=True, kw_only=True)
class Headline:
    """One statement of the paper and what became of it: shares of the other design's loss, by ε."""

    experiment: str
    against: str
    epsilon: float
    stated: float
    published: dict[float, float]
    as_published: dict[float, float]
    honest: dict[float, float]


def headlines(experiment: str, rows: Iterable[ResultRow]) -> list[Headline]:
    """What the paper states about an experiment, if anything, and the improvements of the published losses and of ours.

    Args:
        experiment: its name.
        rows: of this experiment, on the paper's split.
    """
    key, rows = experiment.replace("-", "_"), list(rows)
    return [
        Headline(
            experiment=experiment,
            against=against,
            epsilon=statement["epsilon"],
            stated=statement["improvement"],
            published=improvements(_published(key, "task_aware"), _published(key, against)),
            as_published=improvements(_ours(rows, "task_aware", True), _ours(rows, against, True)),
            honest=improvements(_ours(rows, "task_aware", False), _ours(rows, against, False)),
        )
        for against, statement in published("stated").get(key, {}).items()
    ]


def improvements(losses: Mapping[float, float], others: Mapping[float, float]) -> dict[float, float]:
    """{ε: 1 − loss / other loss} at all budgets that both have."""
    return {epsilon: 1 - loss / others[epsilon] for epsilon, loss in losses.items() if epsilon in others}


def headline_lines(rows: Mapping[str, Iterable[ResultRow]], source: str = FROM_ROWS) -> list[str]:
    """The section as lines of Markdown; none if the paper states nothing about these experiments.

    Args:
        rows: of every experiment, by its name.
        source: a sentence that says what the rows are.
    """
    found = [headline for name, mine in rows.items() for headline in headlines(name, mine)]
    if not found:
        return []
    return [
        TITLE,
        "",
        *INTRODUCTION.format(source=source).splitlines(),
        "",
        "| experiment | against | ε | stated | published | as published by us | honest |",
        "|" + " --- |" * 7,
        *map(_line, found),
        "",
        *REMARKS.splitlines(),
        "",
    ]


def _line(headline: Headline) -> str:
    against, at = headline.against.replace("_", " "), headline.epsilon
    ours = (_cell(shares, at, ".0%") for shares in (headline.as_published, headline.honest))
    cells = (f"{at:g}", f"{headline.stated:.1%}", _cell(headline.published, at, ".1%"), *ours)
    return f"| {headline.experiment} | {against} | " + " | ".join(cells) + " |"


def _cell(shares: Mapping[float, float], epsilon: float, digits: str) -> str:
    if epsilon not in shares:
        return ""
    here, best = format(shares[epsilon], digits), max(shares, key=lambda each: shares[each])
    most = format(shares[best], digits)
    return here if most == here else f"{here}, most {most} (ε = {best:g})"


def _published(key: str, design: str) -> dict[float, float]:
    return {epsilon: loss for epsilon, (loss, _) in published_curve(key, design).items()}


def _ours(rows: Iterable[ResultRow], design: str, as_published: bool) -> dict[float, float]:
    return {row.epsilon: row.loss for row in rows if (row.design, row.as_published) == (design, as_published)}
