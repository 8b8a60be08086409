"""What to expect before anything is collected: `plan`, margins for a number of people, and people for a margin.

A margin is half the width of a 95% interval. One report has a score for every statistic, whose variance is known
exactly for a design and for people like the volunteers. With N people, of whom the share c answers the question, the
margin is 1.96·√(variance/(c·N)). Questions that measure the same statistic are pooled by precision, as `tv.estimate`
pools them. The variance contains the differences between people: the margin is about the population that they are
drawn from.

Of a plan over time (`tv.OverTime`), N/L of N people report in a round of a block of L rounds. If r does not divide T,
blocks have two lengths, and L is the larger one: margins of the other rounds are smaller. The change between two rounds
is a difference: the people of two rounds of one block are different ones, so variances add up. In rounds of different
blocks the same people may report, whose values depend on each other; the standard errors of both together are then a
bound.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from taskveil.arrays import Floats, Integers
from taskveil.designs.designing import design
from taskveil.designs.domain import Domain
from taskveil.designs.over_time import Budget, OverTime, budget_of
from taskveil.designs.problem import OnDevice
from taskveil.designs.selection import SEEN
from taskveil.errors import BudgetError, DataError, TaskError, needs, printable
from taskveil.estimates.labels import Label
from taskveil.estimates.picture import MOST_ROWS
from taskveil.estimates.rows import SCARCE, attribute_labels
from taskveil.estimates.survey_statistics import Statistic, statistics, titled
from taskveil.notebooks import frame, shortened, summary
from taskveil.progress import Progress, Show
from taskveil.records.even import even_records
from taskveil.records.schema import Schema
from taskveil.records.tables import take_rows
from taskveil.sweeps.expected import UNKNOWN, Expected, budget_content, margin_text, reach_text, said, whole
from taskveil.sweeps.frontier import Frontier
from taskveil.sweeps.sweep import sweep
from taskveil.tasks import MeanTask, SurveyTask, Task, take_labels
from taskveil.veil import Veil
from taskveil.veil.surveys import OTHER, Question, questions
from taskveil.veil.volunteers import missing_in

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The expected margins of a survey or of means at every budget; for a model, the share of the signal kept. Of a
    budget over time, margins are those of one round and of the change between two.

    `rows` are empty for a model, and `kept` is empty for others. `basis` says in a sentence what it was computed from.

    Example:
        >>> import taskveil as tv
        >>> schema = tv.Schema({"income": tv.Number(0, 100, "k€"), "plan": tv.Category(["Basic", "Pro"])})
        >>> plan = tv.plan(schema, tv.SurveyTask(), people=10_000, epsilons=[1.0, 4.0])
        >>> few, many = (plan.people_for("plan=Pro", margin=0.01, epsilon=epsilon) for epsilon in (4.0, 1.0))
        >>> few < many
        True
    """

    people: int
    epsilons: tuple[Budget, ...]
    rows: tuple[Expected, ...]
    kept: tuple[float | None, ...]
    basis: str

    def __repr__(self) -> str:
        budgets = ", ".join(map(said, self.epsilons))
        return f"<Plan for {self.people:,} people at {budgets}; .table() has the margins or the share kept>"

    def row(self, name: str, epsilon: Budget) -> Expected:
        """What is expected of a statistic at a budget of the plan."""
        names = dict.fromkeys(row.name for row in self.rows)
        if name not in names:
            raise DataError(f"the plan has no statistic {name!r}, only {', '.join(names) or 'the share kept'}.")
        if epsilon not in self.epsilons:
            raise BudgetError(f"the plan has no {said(epsilon)}, only {', '.join(map(said, self.epsilons))}.")
        return next(row for row in self.rows if row.name == name and row.budget == epsilon)

    def margin(self, name: str, epsilon: Budget) -> float:
        """The expected 95% margin of a statistic in one round, in its own unit; 0.02 is two points of a share."""
        return self.row(name, epsilon).margin(self.people)

    def people_for(self, name: str, *, margin: float, epsilon: Budget) -> int:
        """How many people are needed for a 95% margin of a statistic, in its own unit, at a budget of the plan."""
        return self.row(name, epsilon).people(_as_margin(margin))

    def widest(self, epsilon: Budget) -> Expected:
        """The statistic of the widest margin at a budget, as a share of its range."""
        return max(
            (row for row in self.rows if row.budget == epsilon and row.label.shown),
            key=lambda row: row.margin(self.people) / row.width if row.width > 0 else 0.0,
        )

    def epsilon_for(self, *, margin: float) -> Budget:
        """The smallest budget of the plan at which every margin is within `margin`: of shares as it is, of other
        statistics as a share of their range. Infinite if there is none. Budgets over time count with their lifetime."""
        if not self.rows:
            raise TaskError("a plan for a model has no margins: choose by the share of the signal kept.")
        enough = (
            epsilon
            for epsilon in sorted(self.epsilons, key=whole)
            if (wide := self.widest(epsilon)).margin(self.people) <= _as_margin(margin) * wide.width
        )
        return next(enough, math.inf)

    def advice(self, *, margin: float) -> str:
        """The smallest budget for a `margin` in words, or how many people it would need."""
        asked = f"± {100 * margin:g} points of a share and ± {100 * margin:g}% of the range of a number"
        epsilon = self.epsilon_for(margin=margin)
        if isinstance(epsilon, OverTime) or math.isfinite(epsilon):
            wide = self.widest(epsilon)
            return (
                f"{said(epsilon)} is the smallest budget of the plan whose margins with {self.people:,} people are "
                f"all within {asked}; the widest is that of {wide.label.title}, {margin_text(wide, self.people)}."
                f"{self._in_units(epsilon)} At this budget {wide.people(margin * wide.width):,} people are enough."
            )
        largest = max(self.epsilons, key=whole)
        wide = self.widest(largest)
        return (
            f"No budget of the plan is enough for {asked} with {self.people:,} people. At {said(largest)} it takes "
            f"{wide.people(margin * wide.width):,} people, for the sake of {wide.label.title}. Ask more people, ask "
            "for less, or plan larger budgets."
        )

    def _in_units(self, epsilon: Budget) -> str:
        """The margins of numbers and dates at a budget, in the units of their columns, as a sentence."""
        rows = [row for row in self.rows if row.budget == epsilon and row.label.shown and row.label.kind != "share"]
        listed = [f"{row.label.title} {margin_text(row, self.people)}" for row in rows[:MOST_ROWS]]
        more = f" and {len(rows) - MOST_ROWS} more" if len(rows) > MOST_ROWS else ""
        return f" In the columns' units: {', '.join(listed)}{more}." if listed else ""

    def table(self) -> str:
        """A plain text table: statistics down, budgets across, a margin in every cell."""
        lines = self._lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
        return "\n".join(line.rstrip() for line in [self._title, *text, *self._words()])

    @property
    def _title(self) -> str:
        return f"95% margins with {self.people:,} people" if self.rows else "a quick design"

    def _lines(self) -> list[list[str]]:
        """The cells of the table, its header first."""
        if not self.rows:
            return [["", *map(said, self.epsilons)], ["share of the signal kept", *map(_percent, self.kept)]]
        heads = {epsilon: self._heads(epsilon) for epsilon in self.epsilons}
        lines = [["statistic", "expected", *(head for each in heads.values() for head in each)]]
        for rows in self._by_name().values():
            value = rows[0].label.said(rows[0].value, rows[0].margin(self.people))
            there = {row.budget: row for row in rows}
            cells = [
                cell
                for epsilon, each in heads.items()
                for cell in (self._cells(there[epsilon]) if epsilon in there else [""] * len(each))
            ]
            lines.append([rows[0].label.title, value, *cells])
        return lines

    def _heads(self, epsilon: Budget) -> list[str]:
        """The titles of a budget's columns: over time, those of a round and of changes between two."""
        first = next(row for row in self.rows if row.budget == epsilon)
        if first.over_time is None:
            return [said(epsilon)]
        one = f"ε = {first.epsilon:.4g} in {first.reports} of {first.over_time.total} rounds"
        if first.reports == 1:
            return [one, "change between rounds"]
        return [one, "change within a block", "between blocks, at most"]

    def _cells(self, row: Expected) -> list[str]:
        """The margins of a statistic at one budget: over time, those of a round and of changes between two."""
        one = margin_text(row, self.people)
        if row.over_time is None:
            return [one]
        kinds = [True] if row.reports == 1 else [True, False]
        return [one, *(reach_text(row, row.change(self.people, block=block)) for block in kinds)]

    def _words(self) -> list[str]:
        """Below the table: what it says in place of numbers, and what it was computed from."""
        wide = any(UNKNOWN in line for line in self._lines())
        notes = [f"{UNKNOWN}: the margin is wider than the range in which the statistic lies."] if wide else []
        return [*notes, self.basis]

    def _repr_html_(self) -> str:
        head, *rows = self._lines()
        return summary(f"Plan: {self._title}", self._words(), head=head, rows=rows)

    def _by_name(self) -> dict[str, list[Expected]]:
        found: dict[str, list[Expected]] = {}
        for row in self.rows:
            if row.label.shown:
                found.setdefault(row.name, []).append(row)
        return found

    def to_dicts(self) -> list[dict[str, Any]]:
        """One dictionary per statistic and budget, or per budget for a model."""
        if not self.rows:
            return [
                {**budget_content(epsilon), "kept": kept}
                for epsilon, kept in zip(self.epsilons, self.kept, strict=True)
            ]
        return [row.content(self.people) for row in self.rows]

    def to_json(self) -> str:
        """All rows and what they were computed from, as JSON."""
        return json.dumps({"people": self.people, "basis": self.basis, "rows": self.to_dicts()}, indent=1)

    def to_pandas(self) -> Any:
        """A DataFrame with one row per statistic and budget."""
        return frame(self.to_dicts())

    @overload
    def plot(self, path: str | Path) -> Path: ...

    @overload
    def plot(self, path: None = None, *, ax: Axes | None = None) -> Axes: ...

    def plot(self, path: str | Path | None = None, *, ax: Axes | None = None) -> Path | Axes:
        """A picture: for every statistic its margins as a share of its range, a mark for each budget; for a model, the
        share of the signal kept.

        Args:
            path: the file to write (PNG, PDF or SVG), which is returned; without one, the axes are returned.
            ax: axes of matplotlib to draw into, instead of new ones.
        """
        with needs("a picture"):
            from taskveil.style import plotted
        return plotted(self._draw, path, ax)

    def _draw(self, ax: Axes) -> tuple[float, float]:
        from taskveil.style import legend_below

        named = list(self._by_name().values())
        named.sort(key=lambda rows: rows[0].margin(self.people) / (rows[0].width or 1.0))
        shown = named[-MOST_ROWS:]
        if not self.rows:
            wholes = [whole(epsilon) for epsilon in self.epsilons]
            ax.plot(wholes, [math.nan if one is None else one for one in self.kept], "o-")
            ax.set(xscale="log", xlabel="privacy budget ε", ylabel="share of the signal kept", ylim=(0.0, 1.05))
            ax.set_xticks(wholes, [f"{epsilon:g}" for epsilon in wholes])
            ax.minorticks_off()
            return 7.0, 3.6
        for epsilon in self.epsilons:
            there = [(place, row) for place, rows in enumerate(shown) for row in rows if row.budget == epsilon]
            margins = [min(100.0, 100.0 * row.margin(self.people) / (row.width or 1.0)) for _, row in there]
            ax.plot(margins, [place for place, _ in there], "o", markersize=4, label=said(epsilon))
        most = f"; the widest {MOST_ROWS} of {len(named)}" if len(named) > MOST_ROWS else ""
        ax.set_xscale("log")
        # Names may leave half of the width: the label has two lines.
        ax.set_xlabel("95% margin:\npoints of a share, % of the range of a number", fontsize=9)
        low, high = ax.get_xlim()
        marks = [one * 10.0**power for power in range(-6, 7) for one in (1, 2, 5)]
        marks = [mark for mark in marks if low <= mark <= high]
        ax.set_xticks(marks, [f"{mark:g}" for mark in marks])
        ax.minorticks_off()
        ax.set_yticks(range(len(shown)), [shortened(rows[0].label.title) for rows in shown], fontsize=8)
        ax.set_title(f"{self.people:,} people{most}", fontsize=10, loc="left")
        legend_below(ax, columns=6)
        return 7.0, 1.6 + 0.22 * len(shown)


def plan(
    X: Any,
    task: Task,
    *,
    people: int,
    epsilons: Sequence[Budget],
    y: Any = None,
    schema: Schema | None = None,
    domain: Domain | None = None,
    seed: int = 0,
    progress: bool | Show | Progress | None = None,
) -> Plan:
    """The expected 95% margins of every statistic of a survey, or of every mean, at each budget.

    Args:
        X: volunteers' records, or a `Schema` alone. With a schema, shares of values are taken as even, numbers and
            dates as spread evenly over their bounds, no value as missing, and fields as independent.
        task: a SurveyTask or a MeanTask. For any other task the plan is the share of the signal kept, by a quick design
            with at most 1,000 records, of which 30% test it.
        people: how many will take part.
        epsilons: the budgets to compare: of one report or, as a `tv.OverTime`, of all reports in planned rounds. The
            plan then has the margins of one round and of the change between two.
        y, schema, domain, seed, progress: as in `design`.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> schema = tv.Schema({"income": tv.Number(0, 100, "k€"), "plan": tv.Category(["Basic", "Pro"])})
        >>> plan = tv.plan(schema, tv.SurveyTask(), people=10_000, epsilons=[1.0, 4.0])
        >>> plan.margin("plan=Pro", 4.0) < plan.margin("plan=Pro", 1.0) < 0.05
        True
    """
    if not isinstance(people, Integral) or people < 1:
        raise DataError(f"a plan is for 1 person or more, people=40_000, got {people!r}.")
    if isinstance(epsilons, str) or not isinstance(epsilons, Iterable):
        raise BudgetError(f"a plan compares a list of budgets, epsilons=[0.5, 1, 2], got {epsilons!r}.")
    budgets = tuple(dict.fromkeys(map(budget_of, epsilons)))
    if not budgets:
        raise BudgetError("a plan needs at least one ε, as in epsilons=[0.5, 1, 2].")
    alone = isinstance(X, Schema)
    if alone:
        schema, X = X, even_records(X)
    count = len(X) if hasattr(X, "__len__") else X.num_rows
    basis = (
        "Computed for people as the schema allows: even shares, numbers spread over their bounds, nothing missing."
        if alone
        else f"Computed for people like the {count:,} volunteers."
        + (
            " Expected values come from the smoothed shares in the release: they are rough for skewed numbers and "
            "small groups, and where a question joins many fields."
            if isinstance(task, SurveyTask)
            else ""
        )
    )
    given: dict[str, Any] = {"schema": schema, "domain": domain}
    rows: list[Expected] = []
    scarce: dict[str, None] = {}
    kept: tuple[float | None, ...] = ()
    with Progress.of(progress) as bar:
        if isinstance(task, SurveyTask | MeanTask):
            bar.begin("planning", float(len(budgets)))
            for epsilon in budgets:
                with bar.part(said(epsilon), 1.0) as part:
                    veil = design(X, task, epsilon=epsilon, seed=seed, progress=part, **given)
                    expected = _survey(veil) if isinstance(task, SurveyTask) else _means(veil, X)
                    rows += _planned(expected, veil, epsilon)
                    scarce |= _scarce(veil)
            basis += _left_out(scarce)
        else:
            if alone:
                raise DataError(
                    "a plan for a model needs volunteers' records: a schema says nothing about its answers."
                )
            some: Integers = np.sort(np.random.default_rng(seed).permutation(count)[:SEEN])
            quick = OnDevice(encoder="linear") if hasattr(task, "model") else None
            front = sweep(
                take_rows(X, some), task, epsilons=budgets, y=take_labels(task, y, some), methods=["codebook"],
                on_device=quick, progress=bar, seeds=[seed], **given,
            )  # fmt: skip
            kept = tuple(_most_kept(front, budget) for budget in budgets)
            basis = (
                f"By a quick design with one linear encoder and {len(some):,} of {count:,} volunteers, of whom 30% "
                "tested it: tv.design searches longer and keeps more."
            )
    return Plan(people=people, epsilons=budgets, rows=tuple(rows), kept=kept, basis=basis)


def plan_of(veil: Veil, *, people: int = 10_000) -> Plan:
    """The expected margins of a survey or of means that are designed already, for so many people like the volunteers.
    Those of means need the sums over the volunteers in the release."""
    promise = veil.guarantee
    budget: Budget = promise.epsilon
    if (panel := promise.panel) is not None:
        budget = OverTime(lifetime=promise.lifetime, rounds=panel.rounds, per_report=promise.epsilon)
    if isinstance(veil.task, SurveyTask):
        expected = _survey(veil)
    elif isinstance(veil.task, MeanTask):
        expected = _means(veil, like_volunteers(veil))
    else:
        raise TaskError("only surveys and means have margins: a design for answers of single people has a loss.")
    rows = tuple(_planned(expected, veil, budget))
    like = (
        "those of the design" if veil.volunteers is None else "the volunteers of the design"
    )  # perhaps there were none
    basis = f"Computed for people like {like}.{_left_out(_scarce(veil))}"
    return Plan(people=people, epsilons=(budget,), rows=rows, kept=(), basis=basis)


def like_volunteers(veil: Veil) -> Floats:
    """Records (SEEN, n) with the means, variances and shares of the volunteers that the release keeps, fields
    independent: numbers are one standard deviation above or below their mean."""
    if veil.volunteers is None:
        raise DataError("this release keeps no sums over its volunteers, so the margins of its means are not known.")
    rng, cells, schema = np.random.default_rng(0), veil.volunteers.cells, veil.schema
    means = cells.together(cells.means)
    middle, variance = cells.overall(tuple(missing_in(schema)))
    halves = np.repeat([[-1.0], [1.0]], SEEN // 2, axis=0)
    records = middle + np.sqrt(variance) * rng.permuted(np.tile(halves, len(means)), axis=0)
    for field, place in zip(schema.fields.fields, schema.fields.places, strict=True):
        shares = means[place]
        drawn = (rng.permutation(SEEN)[:, None] + 0.5) / SEEN
        if field.exclusive:
            ends = np.cumsum(shares)
            records[:, place] = (drawn < ends) & (drawn >= ends - shares)
            continue
        if field.reads_as[0] == "share":
            records[:, place.start] = drawn[:, 0] < middle[place.start]
        if field.flagged:
            lost = rng.permutation(SEEN) < SEEN * shares[-1]
            records[:, place.stop - 1] = lost
            records[lost, place] = field.expand([None])[0]
    records = np.where(np.isnan(records[:, : schema.width]), means[: schema.width], records[:, : schema.width])
    return np.asarray(np.clip(records, veil.encoder.low, veil.encoder.high))


def _planned(expected: Iterable[Expected], veil: Veil, budget: Budget) -> Iterator[Expected]:
    """What is expected with the reports of a veil that was designed for this budget."""
    if isinstance(budget, float):  # the design may cost a little less
        return (replace(row, epsilon=budget) for row in expected)
    assert veil.panel is not None  # noqa: S101 - it was designed over time
    reports = veil.panel.reports
    return (replace(row, over_time=budget, reports=reports) for row in expected)


def _survey(veil: Veil) -> Iterator[Expected]:
    """Every statistic of a survey's design."""
    asked, epsilon = questions(veil), veil.guarantee.epsilon
    # Of a group that hardly anybody is in, nothing can be known: its margins would only frighten (`_left_out`).
    found = [_named(one) for one in statistics(veil, asked) if one.kind not in ("below", "bands")]
    found = [one for one in found if _people(one, asked) >= SCARCE]
    ratios = [_ratio(one, asked) for one in found]
    # All statistics of a question at once.
    precision = np.zeros(len(found))
    for place, question in enumerate(asked):
        wanted = [
            (number, (part.value - ratios[number] * _weight(part.weight)) / _mass(part.weight, question.prior))
            for number, one in enumerate(found)
            for part in one.parts
            if part.question == place
        ]
        if not wanted:
            continue
        numbers, functionals = zip(*wanted, strict=True)
        variances = question.variances(np.column_stack(functionals), question.prior) / question.chance
        np.add.at(precision, list(numbers), 1.0 / np.maximum(variances, 1e-300))
    for one, value, sure in zip(found, ratios, precision.tolist(), strict=True):
        yield Expected(label=one.label, epsilon=epsilon, value=value, variance=1.0 / sure)
    for question in asked:
        if not question.levels:  # a large vocabulary: its words are not listed
            inside, outside = question.hits
            variance = outside * (1.0 - outside) / (inside - outside) ** 2 / question.chance
            label = Label(f"{question.fields[0]}: a rare word", "share", bounds=(0.0, 1.0))
            yield Expected(label=label, epsilon=epsilon, value=0.0, variance=variance)


def _scarce(veil: Veil) -> dict[str, None]:
    """What a survey asks for and `_survey` leaves out, because it is about too few people: groups, and fields of which
    hardly anybody has a value. Values that are not listed are no group that somebody asked for."""
    if not isinstance(veil.task, SurveyTask):
        return {}
    asked, found = questions(veil), dict[str, None]()
    wanted = [one for one in statistics(veil, asked) if one.kind not in ("below", "bands")]
    planned = {one.label.key[:3] for one in wanted if _people(one, asked) >= SCARCE}
    for one in wanted:
        kind, *names = one.label.key
        if OTHER in names or _people(one, asked) >= SCARCE:
            continue
        group = kind == "by" and one.label.key[:3] not in planned
        found[titled(veil, *names[:2], binned=type(names[1]) is float) if group else one.label.short] = None
    return found


def _left_out(names: Iterable[str]) -> str:
    """A sentence that names what is left out, if anything is."""
    listed = [printable(name) for name in names]
    if not listed:
        return ""
    more = f" and {len(listed) - MOST_ROWS} more" if len(listed) > MOST_ROWS else ""
    shown = "; ".join(listed[:MOST_ROWS])
    return f" Left out, because they are about fewer than {100 * SCARCE:g}% of people: {shown}{more}."


def _named(one: Statistic) -> Statistic:
    """The statistic with a name of its own: a share within a group is not that of a cell of a cross-table."""
    within = one.kind == "by" and one.label.kind == "share"
    return one._replace(label=one.label._replace(name=f"{one.label.name} (within the group)")) if within else one


def _people(one: Statistic, asked: Sequence[Question]) -> float:
    """The share of people that a statistic is about."""
    return _mass(one.parts[0].weight, asked[one.parts[0].question].prior)


def _weight(weight: Floats | None) -> Floats | float:
    return 1.0 if weight is None else weight


def _mass(weight: Floats | None, prior: Floats) -> float:
    return 1.0 if weight is None else max(float(prior @ weight), 1e-300)


def _ratio(one: Statistic, asked: Sequence[Question]) -> float:
    """The value of a statistic for people of the priors."""
    part = one.parts[0]
    prior = asked[part.question].prior
    return float(prior @ part.value) / _mass(part.weight, prior)


def _means(veil: Veil, X: Any) -> Iterator[Expected]:
    """The mean of every column that a MeanTask weighs: the error of a report, and the spread of the people. A mean over
    those who have a value is a ratio, whose error is that of (v − fill·[missing] − ρ·[not missing])/P[not missing]."""
    schema, task = veil.schema, veil.task
    records = schema.expand(X)[: 4 * SEEN]
    asked = np.abs(task.on(schema).K).max(axis=0) > 0  # type: ignore[union-attr]
    unit, values = np.eye(records.shape[1]), records.mean(axis=0)
    for place, flag, fill in missing_in(schema):
        if asked[flag] and (present := 1.0 - values[flag]) >= SCARCE:
            values[place] = (values[place] - fill * values[flag]) / present
            unit[place, flag] = values[place] - fill
            unit[place] /= present
    for place, label in enumerate(attribute_labels(veil)):
        if label.shown and asked[place]:
            row = unit[place : place + 1]
            error = float(replace(veil, task=MeanTask(row)).losses(records).mean())
            spread = float((records @ row[0]).var())
            mean, epsilon = float(values[place]), veil.guarantee.epsilon
            yield Expected(label=label, epsilon=epsilon, value=mean, variance=error + spread)


def _as_margin(margin: float) -> float:
    if not 0.0 < margin < math.inf:
        raise DataError(f"a margin is a number above 0, got {margin}.")
    return margin


def _most_kept(front: Frontier, budget: Budget) -> float | None:
    """The share of the signal that a quick design keeps: over time, over all people and rounds, for the best number of
    reports."""
    if isinstance(budget, float):
        return front.kept("codebook", budget)
    found = front.over_time(budget)
    error = found.error("codebook", found.best("codebook"))
    return None if front.nothing_to_keep else (front.constant - error) / (front.constant - front.clear)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.0f}%"
