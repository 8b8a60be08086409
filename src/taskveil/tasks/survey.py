"""Population statistics of a table: means, shares, missing values, all of them by group, cross-tables, histograms."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Self

import numpy as np

from taskveil.arrays import Floats, own_arrays
from taskveil.client.base_field import BaseField, Kind
from taskveil.client.values import DAY, seconds_of
from taskveil.errors import TaskError
from taskveil.records.schema import Schema
from taskveil.tasks.costs import Cost, SquaredError


@dataclass(frozen=True)
class Pair:
    """Two fields whose cross-table is asked for. It unpacks: `first, second = pair`."""

    first: str
    second: str

    def __iter__(self) -> Iterator[str]:
        return iter((self.first, self.second))


@dataclass(frozen=True)
class Weight:
    """How much the statistics of a field count: 2 makes an error of 1 count as an error of 2."""

    name: str
    weight: float


@dataclass(frozen=True, eq=False)
class Histogram:
    """The field of a histogram and its public `edges` (bins + 1,), rising. Dates are days since 1970.

    The first bin also counts smaller values, the last one larger values.
    """

    name: str
    edges: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        edges = self.edges
        shaped = isinstance(edges, np.ndarray) and edges.ndim == 1 and len(edges) >= 3
        if not shaped or not (np.isfinite(edges).all() and (np.diff(edges) > 0).all()):
            raise TaskError(
                f"the histogram of {self.name!r} needs 3 or more edges that are finite and rise, for 2 or more bins."
            )


@dataclass(frozen=True, init=False, eq=False)
class SurveyTask:
    """Means of numbers, counts and dates, shares of categories and flags, and rates of missing values, unbiased for
    every population.

    Two of them::

        tv.SurveyTask()                                                # every field
        tv.SurveyTask(["income", "plan"], by="region", pairs=[("plan", "region")], weights={"income": 2.0},
                      histograms={"income": [0, 20e3, 40e3, 80e3]})

    A device draws one question at random, without looking at the record, and spends the whole budget on it. Reports say
    next to nothing about a person; `tv.estimate` makes the statistics from many of them.

    **One scale for all errors.** The design minimises a weighted sum of squared errors. The error of a mean is divided
    by the standard deviation of the volunteers' values, the error of a share is taken as it is, and a statistic of a
    group (`by`) counts in proportion to the group's share of the volunteers. A weight multiplies the errors of its
    field; without one it is 1.

    Attributes:
        fields: names of the fields; all of the schema's if none was named.
        by: fields by whose values all other fields are split.
        pairs: two fields each, whose cross-table is asked for.
        weights: of fields, those that are not 1.
        histograms: fields with the edges of their bins. A number with a histogram can be in `by` and `pairs`.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> schema = tv.Schema({"income": tv.Number(0, 100, "k€"), "plan": tv.Category(["Basic", "Pro"])})
        >>> print(tv.plan(schema, tv.SurveyTask(["income", "plan"]), people=10_000, epsilons=[2.0]).people)
        10000
        >>> task = tv.SurveyTask(["income"], by="plan", histograms={"income": [0, 20, 40, 100]})
    """

    fields: tuple[str, ...]
    by: tuple[str, ...]
    pairs: tuple[Pair, ...]
    weights: tuple[Weight, ...]
    histograms: tuple[Histogram, ...]
    _schema: Schema | None = field(init=False, default=None, repr=False)

    cost: ClassVar[Cost] = SquaredError()
    by_class: ClassVar[None] = None
    """Statistics are no classes that could be right or wrong."""
    differentiable: ClassVar[bool] = False
    outputs: ClassVar[int] = 0
    """There are no answers for single records."""
    scale: ClassVar[float] = 1.0

    def __init__(
        self,
        fields: Sequence[str] | str | None = None,
        by: Sequence[str] | str | None = None,
        pairs: Sequence[Any] | None = None,
        weights: Mapping[str, float] | Sequence[Weight] | None = None,
        histograms: Mapping[str, Any] | Sequence[Histogram] | None = None,
    ) -> None:
        """What is asked for.

        Args:
            fields: names of the fields; by default every field of the records.
            by: a name or several: every statistic of another field is also given for each value of this one. A number
                needs a histogram, whose bins are its values.
            pairs: pairs of names, for cross-tables.
            weights: by name, how much a field counts; 1 for the others.
            histograms: by name, the edges of bins: numbers, or dates as text. They are public.
        """
        named = _named("weights", weights, Weight)
        binned = _named("histograms", histograms, Histogram)
        object.__setattr__(self, "fields", _names("fields", fields))
        object.__setattr__(self, "by", _names("by", by))
        object.__setattr__(self, "pairs", _pairs(pairs))
        object.__setattr__(self, "weights", tuple(Weight(name, _weight(name, one)) for name, one in named.items()))
        object.__setattr__(self, "histograms", tuple(Histogram(name, _edges(name, e)) for name, e in binned.items()))
        object.__setattr__(self, "_schema", None)

    @property
    def schema(self) -> Schema:
        """The schema of the records; TaskError before `on`."""
        if self._schema is None:
            raise TaskError("this survey has not been brought to records yet: use task.on(schema).")
        return self._schema

    @property
    def asked(self) -> tuple[str, ...]:
        """Every field that a question is about, in the order of the records."""
        pairs = [name for pair in self.pairs for name in pair]
        named = {*self.fields, *self.by, *pairs, *(one.name for one in self.histograms)}
        return tuple(name for name in self.schema if name in named)

    def weight(self, name: str) -> float:
        """The weight of a field."""
        return next((one.weight for one in self.weights if one.name == name), 1.0)

    def edges(self, name: str) -> Floats | None:
        """The edges of the bins of a field, if it has a histogram."""
        return next((one.edges for one in self.histograms if one.name == name), None)

    @property
    def width(self) -> int:
        """How many numbers a record becomes."""
        return self.schema.width

    def check_width(self, width: int) -> None:
        """Raise TaskError unless records have `width` numbers."""
        if self._schema is not None and self.width != width:
            raise TaskError(f"the survey is about records of {self.width} numbers, but these have {width}.")

    @property
    def torch_module(self) -> NoReturn:
        """Nothing: there is no map from a record to an answer."""
        self.predict(())

    def parted(self, y: Any = None) -> tuple[tuple[Self, float, Any], ...]:
        """The tasks whose weighted sum this is, with weights and labels: itself."""
        return ((self, 1.0, y),)

    def on(self, schema: Schema) -> SurveyTask:
        """The same survey of records of a schema, every field by name; TaskError if it asks for something that these
        records do not have."""
        known = [*self.fields, *self.by, *(name for pair in self.pairs for name in pair)]
        known += [one.name for one in self.weights] + [one.name for one in self.histograms]
        if unknown := [name for name in known if name not in schema.names]:
            raise TaskError(f"the records have no field {unknown[0]!r}; they have {', '.join(schema.names)}.")
        for one in self.histograms:
            _check_bins(one, schema[one.name])
        for what, names in (("by", self.by), ("pairs", tuple(name for pair in self.pairs for name in pair))):
            for name in names:
                if schema[name].side is not None:
                    raise TaskError(f"{what}: {name!r} has an open vocabulary. Make it a tv.Category of a few values.")
                if kind_of(schema[name]) != "share" and self.edges(name) is None:
                    raise TaskError(
                        f"{what}: {name!r} is a {schema[name].kind}, whose values are not a few groups. Give bins: "
                        f"histograms={{{name!r}: [edge, edge, …]}}."
                    )
        found = SurveyTask(
            self.fields or tuple(name for name in schema if _varies(schema[name])),
            self.by or None,
            self.pairs or None,
            self.weights,
            self.histograms,
        )
        object.__setattr__(found, "_schema", schema)
        for name in found.asked:
            if not _varies(schema[name]):
                raise TaskError(f"{name!r} has the same value for everybody: leave it out.")
        if unasked := [one.name for one in self.weights if one.name not in found.asked]:
            raise TaskError(f"weights: the survey does not ask for {unasked[0]!r}.")
        return found

    def labels(self, y: Any, count: int) -> None:  # noqa: ARG002 - there is nothing to label
        """Labels y of `count` records: there must be none."""
        if y is not None:
            raise TaskError("a survey has no labels: leave out y. To ask for the label too, make it a column.")

    def truth(self, X: Floats, y: Any = None) -> Floats:  # noqa: ARG002 - no labels
        """The truth (N, 0) of single records X (N, n), whatever y: statistics are of all people, so there is none."""
        return np.empty((len(X), 0))

    def predict(self, X: Any) -> NoReturn:
        """Nothing: a TaskError says what to do instead, whatever the records X."""
        raise TaskError(f"a survey has no answers for {len(X)} single records: use tv.estimate for all people.")

    def losses(self, estimates: Floats, X: Floats, y: Any = None) -> NoReturn:  # noqa: ARG002
        """Nothing for `estimates` of single records X, whatever y: the error of a survey is that of statistics."""
        self.predict(X)

    pairwise_losses = output_losses = pairwise_output_losses = losses

    def linear_form(self, X: Floats, y: Any = None) -> NoReturn:  # noqa: ARG002
        """Nothing: there is no truth of single records X, whatever y."""
        self.predict(X)

    constant_output = linear_form

    def constant_losses(self, X: Floats, y: Any, X_test: Floats, y_test: Any) -> NoReturn:  # noqa: ARG002
        """Nothing: one answer for X, y to all records X_test, y_test is no statistic of them."""
        self.predict(X_test)

    constant_loss = constant_losses


def kind_of(one: BaseField) -> Kind:
    """What a survey measures of a field: the mean of a "number" or "date", or "share" for those of its values."""
    return one.reads_as[0]


def _varies(one: BaseField) -> bool:
    """Whether people can differ in a field."""
    low, high = one.box
    return one.exclusive or one.missing or high[0] > low[0]


def _check_bins(histogram: Histogram, one: BaseField) -> None:
    """TaskError unless the bins are of a number or date, and all of them can be reached."""
    name, inner = histogram.name, histogram.edges[1:-1]
    if kind_of(one) == "share" or one.side is not None:
        raise TaskError(f"histograms: {name!r} is a {one.kind}, which has no bins: leave it out.")
    low, high = one.box[0][0], one.box[1][0]
    if (inner <= low).any() or (inner > high).any():
        raise TaskError(
            f"histograms: {name!r} lies between {low:g} and {high:g}, so that some of its bins would always be empty. "
            "Leave out these edges, or widen the field's bounds in the schema."
        )


def _listed(given: Any) -> Any:
    """A list in place of an array, an index or a column of a table."""
    return given.tolist() if hasattr(given, "tolist") else given


def _names(what: str, given: Sequence[str] | str | None) -> tuple[str, ...]:
    """Names without duplicates; none if nothing was given."""
    given = _listed(given)
    if given is None or given == ():  # releases write an empty tuple
        return ()
    names = (given,) if isinstance(given, str) else tuple(given) if isinstance(given, Sequence) else (None,)
    if not all(isinstance(name, str) for name in names):
        raise TaskError(f'{what} is a list of names, ["income", "plan"], got {given!r}.')
    if not names:
        raise TaskError(
            f"{what} is an empty list: leave it out{' to ask for every field' if what == 'fields' else ''}."
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise TaskError(f"{what} names {twice[0]!r} twice.")
    return tuple(str(name) for name in names)


def _pairs(given: Sequence[Any] | None) -> tuple[Pair, ...]:
    if given is None or given == ():
        return ()
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TaskError(f'pairs is a list of pairs of names, [("plan", "region")], got {given!r}.')
    if not given:
        raise TaskError("pairs is an empty list: leave it out.")
    found: list[Pair] = []
    for one in given:
        names = () if isinstance(one, str) or not isinstance(one, Sequence | Pair) else tuple(one)
        if len(names) != 2 or not all(isinstance(name, str) for name in names):
            raise TaskError(f'a pair is two names, ("plan", "region"), got {one!r}.')
        if names[0] == names[1]:
            raise TaskError(f"pairs: {names[0]!r} with itself is no cross-table.")
        if any(set(names) == set(pair) for pair in found):
            raise TaskError(f"pairs names {names[0]!r} with {names[1]!r} twice.")
        found.append(Pair(*names))
    return tuple(found)


def _named(what: str, given: Any, part: type[Any]) -> dict[str, Any]:
    """Values by name; none if nothing was given."""
    if given is None:
        return {}
    if isinstance(given, Sequence) and all(isinstance(one, part) for one in given):  # of a release
        if len({one.name for one in given}) < len(given):
            raise TaskError(f"{what} has a name twice.")
        return {one.name: one.weight if isinstance(one, Weight) else one.edges for one in given}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        example = '{"income": 2.0}' if part is Weight else '{"income": [0, 20e3, 40e3]}'
        raise TaskError(f"{what} are given by name, {example}, got {given!r}.")
    return dict(given)


def _weight(name: str, given: Any) -> float:
    good = isinstance(given, int | float | np.number) and not isinstance(given, bool) and math.isfinite(given)
    if not good or not 1e-6 <= given <= 1e6:
        raise TaskError(
            f"weights: that of {name!r} is a number from a millionth to a million, got {given!r}. To ask nothing "
            "about a field, leave it out of fields."
        )
    return float(given)


def _edges(name: str, given: Any) -> Floats:
    """Edges as numbers; dates are days since 1970."""
    values = _listed(given)
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TaskError(f"histograms: the edges of {name!r} are a list of numbers or dates, got {given!r}.")
    if all(isinstance(one, int | float | np.number) and not isinstance(one, bool) for one in values):
        return np.array(values, dtype=np.float64)
    seconds, wrong = seconds_of(list(values))
    if wrong.any():
        raise TaskError(f"histograms: the edges of {name!r} are a list of numbers or dates, got {given!r}.")
    return np.asarray(seconds / DAY)
