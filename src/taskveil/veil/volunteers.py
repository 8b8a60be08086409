"""Sums over the volunteers, which the reports of other people are compared with.

A release keeps no volunteer's record. What `server/` holds of the volunteers are counts, means and variances over
groups of at least `FEWEST` of them: over *cells* (volunteers whose best code is the same; small cells are merged with
the nearest one), and over the classes of the label. Where a mechanism has no list of codes, all volunteers are one
cell.

Cells hold volunteers by their codes from encoders that were fitted without them. Shares of codes, over all volunteers
and by class, are those of new people with the released encoder. Codewords that are means of volunteers are read as if
the volunteer had no part in them. `veil/channels/listed.py` makes both corrections.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from taskveil.arrays import Floats, Integers, Integers8, check_arrays, own_arrays
from taskveil.client.mechanisms import Mechanism
from taskveil.errors import DataError
from taskveil.records.schema import Schema
from taskveil.tasks import ModelTask, Task
from taskveil.tasks.linear import MatrixTask
from taskveil.veil.channels import Encoded, channel_of
from taskveil.veil.decoders import Decoder

FEWEST = 10
"""People that a sum is over at least."""
FARTHEST = 1e150
"""Of a number that is kept: squares of larger ones overflow."""

FOLDS = 5
"""Parts of the volunteers: each is coded by encoders that were fitted without it."""

LABEL = "label"
"""What labels without a name are called."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Outputs:
    """Names of the task's outputs; `shares` (m,) marks by 1 those that are probabilities of classes, else 0.

    `labelled` says whether the volunteers had labels: without labels, the model's own answers are the truth.
    """

    names: tuple[str, ...]
    shares: Integers8
    labelled: bool

    def __post_init__(self) -> None:
        own_arrays(self)
        if self.shares.shape != (len(self.names),) or not ((self.shares == 0) | (self.shares == 1)).all():
            raise DataError("every output needs a name, and a mark: 1 for the probability of a class, else 0.")

    @property
    def kind(self) -> str:
        """What shares of classes are shares of."""
        return "labels" if self.labelled else "answers"

    def called(self, target: str) -> Outputs:
        """The same for labels from a column of this name."""
        names = tuple(target + name.removeprefix(LABEL) if name.startswith(LABEL) else name for name in self.names)
        return replace(self, names=names)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Groups:
    """Sums over groups of volunteers. Shapes: counts (G,), measured (G, p), means and variances (G, t).

    `measured` is the mean of what reports measure; `means` and `variances` are of the numbers of the records and,
    beside them, of the task's outputs where these are not Kx (`with_answers`).
    """

    counts: Integers
    measured: Floats
    means: Floats
    variances: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        groups = len(self.counts)
        check_arrays(
            measured=(self.measured, (groups, *self.measured.shape[1:])),
            means=(self.means, (groups, *self.means.shape[1:])),
            variances=(self.variances, self.means.shape),
        )
        if self.counts.ndim != 1 or self.measured.ndim != 2 or self.means.ndim != 2 or groups < 1:
            raise DataError("sums over volunteers are one row a group.")
        if self.counts.min() < 1 or self.counts.max() >= 2**53 or (self.variances < 0).any():
            raise DataError("groups of volunteers need a count of 1 or more and variances of 0 or more.")
        largest = (self.measured, self.means, np.sqrt(self.variances))
        if max(float(np.abs(array).max(initial=0.0)) for array in largest) > FARTHEST:
            raise DataError(f"volunteers' numbers must lie within ±{FARTHEST:g}: use larger units.")

    @classmethod
    def of(cls, group: Integers, measured: Floats, targets: Floats) -> Groups:
        """Sums over the volunteers (V,) of each group, numbered from 0; measured (V, p), targets (V, t)."""
        order = np.argsort(group, kind="stable")
        counts = np.bincount(group)
        starts = np.cumsum(counts) - counts

        def means(values: Floats) -> Floats:
            return np.asarray(np.add.reduceat(values[order], starts, axis=0) / counts[:, None])

        centre = means(targets)
        return cls(
            counts=counts, measured=means(measured), means=centre, variances=means((targets - centre[group]) ** 2)
        )

    def together(self, values: Floats) -> Floats:
        """The mean (…,) over all volunteers of values by group (G, …)."""
        return np.asarray(self.counts @ values / self.counts.sum())

    def overall(self, missing: Sequence[Missing]) -> tuple[Floats, Floats]:
        """Means and variances (t,) over all volunteers; of `missing` numbers, over those who have a value, and NaN
        where fewer than `FEWEST` have one."""
        mean, square = self.together(self.means), self.together(self.variances + self.means**2)
        absent, count = mean.copy(), int(self.counts.sum())
        for place, flag, fill in missing:
            there = 1.0 - float(absent[flag])
            if there * count < FEWEST - 0.5:
                mean[place] = square[place] = np.nan
                continue
            mean[place] = (mean[place] - fill * absent[flag]) / there
            square[place] = (square[place] - fill**2 * absent[flag]) / there
        return mean, np.maximum(square - mean**2, 0.0)

    def with_answers(self, task: Task | None) -> Groups:
        """The sums with those of the outputs Kx beside them, where the task has a matrix K. Their variances are upper
        bounds: exact ones would need the covariances of the attributes, which are not kept."""
        if not isinstance(task, MatrixTask):
            return self
        spread = np.sqrt(self.variances) @ np.abs(task.K).T
        means, variances = (self.means, self.means @ task.K.T), (self.variances, spread**2)
        return replace(self, means=np.hstack(means), variances=np.hstack(variances))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Classes:
    """How many volunteers each class has (C,), and the share of them that favours each code (C, K)."""

    counts: Integers
    measured: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        check_arrays(measured=(self.measured, (len(self.counts), *self.measured.shape[1:])))
        if self.counts.ndim != 1 or self.measured.ndim != 2 or len(self.counts) < 2:
            raise DataError("there are two classes or more, with one row each.")

    @property
    def groups(self) -> Groups:
        """The classes as groups, with the shares of the classes as what is asked for."""
        shares = np.eye(len(self.counts))
        return Groups(counts=self.counts, measured=self.measured, means=shares, variances=np.zeros_like(shares))


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Volunteers:
    """What a release keeps of its volunteers: sums by cell, and by class how many favour each code.

    `by_class` has one entry, or none where there is no label with classes; it has no means, since records and answers
    are summed by one partition only: the difference of two sums could be one person's record. `cell_of` (p,) is the
    cell of people whose best code is k; without a list of codes all are in cell 0.

    `mean` (p,) is the mean of what reports measure, for people like the volunteers. `variance` is that of what reports
    measure, over all volunteers (p,); of sums of codebooks, that of the codewords (n,). The variance of listed codes
    follows from their mean; theirs is that of the error of `mean` beyond the sampling error (K,), or one zero (1,).
    Covariances are not kept: that of a value that one person has would be the person's record. For the same reason
    variances of a model's answers are rounded up to a power of two.
    """

    cells: Groups
    by_class: tuple[Classes, ...]
    cell_of: Integers
    variance: Floats
    mean: Floats

    def __post_init__(self) -> None:
        own_arrays(self)
        measured = self.cells.measured.shape[1]
        check_arrays(mean=(self.mean, (measured,)))
        if self.cell_of.shape != (measured,) or not set(self.cell_of.tolist()) <= set(range(len(self.cells.counts))):
            raise DataError("every code belongs to one of the cells.")
        if self.variance.ndim != 1 or not (np.isfinite(self.variance).all() and (self.variance >= 0).all()):
            raise DataError("the variance must be of what reports measure.")
        if len(self.by_class) > 1 or any(one.measured.shape[1] != measured for one in self.by_class):
            raise DataError("sums by class must be of what reports measure.")
        counts = [self.cells.counts, *(one.counts for one in self.by_class)]
        if min(int(one.min()) for one in counts) < FEWEST or max(float(one.sum()) for one in counts) >= 2**53:
            raise DataError(f"sums over volunteers are over at least {FEWEST} of them.")

    def __repr__(self) -> str:
        return f"<Sums over {self.count:,} volunteers in {len(self.cells.counts)} cells>"

    @property
    def count(self) -> int:
        """How many volunteers there are."""
        return int(self.cells.counts.sum())

    @property
    def design_effect(self) -> float:
        """How many times the variance of shares of listed codes is that of as many independent volunteers."""
        independent = float((self.mean * (1.0 - self.mean)).sum()) / self.count
        return 1.0 + float(self.variance.sum()) / independent if independent > 0 else 1.0

    @property
    def classes(self) -> Groups | None:
        """The classes as groups, if there are classes."""
        return self.by_class[0].groups if self.by_class else None

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        decoder: Decoder,
        latents: Floats,
        X: Floats,
        task: Task,
        answers: tuple[Floats, Outputs],
        schema: Schema | None = None,
        drawn: Integers | None = None,
        *,
        refits: tuple[Floats, Integers] | None = None,
        person: Integers | None = None,
    ) -> Volunteers | None:
        """Sums over the volunteers; None for mechanisms whose reports measure nothing by themselves.

        Args:
            mechanism, decoder: of the release.
            latents: what devices compute for the volunteers (V, Z).
            X: the volunteers' records (V, n), of numbers that at least `FEWEST` of them have (`common_values`).
            task, answers: the task, its truth for them (V, m), and what that is.
            schema: what the numbers of a record stand for.
            drawn: which volunteer each row is (V,), where some appear several times: each is counted once.
            refits: of an encoder that learnt from the volunteers' labels, the latents (F, V, Z) by the encoders that
                were fitted without each of F folds, and every volunteer's fold (V,).
            person: the number of the person whose record each is (V,), the same for copies of one record. A table that
                was put together several times makes the shares of listed codes no more certain than once.
        """
        values, outputs = answers
        once = np.arange(len(X)) if drawn is None else np.unique(drawn, return_index=True)[1]
        X, latents, values = X[once], latents[once], values[once]
        if len(X) < FEWEST:
            return None
        refits = None if refits is None else (refits[0][:, once], refits[1][once])
        found = channel_of(mechanism, decoder).measured(Encoded(X, latents, refits=refits))
        if found is None:
            return None
        targets = X if isinstance(task, MatrixTask) else np.hstack([X, values])
        measured, corrected = found.values, found.values if found.corrected is None else found.corrected
        cell, cell_of = np.zeros(len(X), dtype=np.int64), np.zeros(measured.shape[1], dtype=np.int64)
        centres = np.zeros((1, 1))
        if found.best is not None and found.places is not None:
            cell_of = merged(np.bincount(found.best, minlength=len(found.places)), found.places)
            cell = cell_of[found.best]
            centres = np.array([found.places[cell_of == one].mean(axis=0) for one in range(int(cell_of.max()) + 1)])
        cells = _enough_values(Groups.of(cell, measured, targets), list(missing_in(schema)) if schema else [], centres)
        if not outputs.labelled:
            variances = cells.variances.copy()
            variances[:, X.shape[1] :] = _rounded_up(variances[:, X.shape[1] :])
            cells = replace(cells, variances=variances)
        mean, by_class = corrected.mean(axis=0), _by_class(values, outputs, corrected)
        if corrected is not measured:
            m = int(measured[0].sum())
            mean, by_class = (
                _shares(mean, m),
                tuple(replace(one, measured=_shares(one.measured, m)) for one in by_class),
            )
        variance = measured.var(axis=0) if found.variance is None else found.variance
        if found.best is not None and person is not None:
            copies = np.gcd.reduce(np.unique(person[once], return_counts=True)[1])
            variance = variance + (copies - 1.0) * mean * (1.0 - mean) / len(X)
        return cls(
            cells=cells,
            by_class=by_class,
            cell_of=cell_of,
            variance=variance,
            mean=mean,
        )


class Missing(NamedTuple):
    """A number (its place) that may be missing (the place of the flag); `fill` then stands in for it."""

    place: int
    flag: int
    fill: float


def missing_in(schema: Schema) -> Iterator[Missing]:
    """The numbers of a record that may be missing; of a category, missing is one of its values."""
    for field, place in zip(schema.fields.fields, schema.fields.places, strict=True):
        if field.flagged:
            fills = field.expand([None])[0].tolist()
            yield from (Missing(place.start + i, place.stop - 1, fill) for i, fill in enumerate(fills[:-1]))


def common_values(X: Floats, schema: Schema) -> tuple[Floats, list[str]]:
    """Records (V, n) in which a number that fewer than `FEWEST` volunteers have is never there, and the names of these
    numbers: a sum over so few would reveal their values."""
    rare = []
    for place, flag, fill in missing_in(schema):
        there = X[:, flag] < 0.5
        if 0 < there.sum() < FEWEST:
            X = X.copy()
            X[there, place] = fill
            rare.append(schema.columns[place])
    return X, rare


def _enough_values(cells: Groups, missing: Sequence[Missing], centres: Floats) -> Groups:
    """The sums where every mean of a number is over at least `FEWEST` volunteers who have it: cells in which fewer have
    one share the mean with the nearest cells, by their `centres` (G, d)."""
    means, variances = cells.means.copy(), cells.variances.copy()
    for place, flag, fill in missing:
        there = np.rint((1.0 - means[:, flag]) * cells.counts)
        if there.sum() < FEWEST:
            continue
        together = merged(there.astype(np.int64), centres, empty=True)
        for group in range(int(together.max()) + 1):
            some = together == group
            number, absent = there[some], means[some, flag]
            if not number.sum() or some.sum() == 1:
                continue
            sums = cells.counts[some] * (means[some, place] - fill * absent)
            squares = cells.counts[some] * (variances[some, place] + means[some, place] ** 2 - fill**2 * absent)
            mean = sums.sum() / number.sum()
            variance = max(squares.sum() / number.sum() - mean**2, 0.0)
            means[some, place] = mean + (fill - mean) * absent
            variances[some, place] = variance * (1.0 - absent) + (mean - fill) ** 2 * absent * (1.0 - absent)
    return replace(cells, means=means, variances=variances)


def _rounded_up(variances: Floats) -> Floats:
    exponents = np.ceil(np.log2(variances, out=np.zeros_like(variances), where=variances > 0))
    return np.where(variances > 0, 2.0**exponents, 0.0)


def _by_class(values: Floats, outputs: Outputs, measured: Floats) -> tuple[Classes, ...]:
    """How many favour each code, by class; none where the outputs are not the classes of one label, or a class has too
    few volunteers."""
    if not outputs.shares.all() or values.shape[1] < 2 or not np.allclose(values.sum(axis=1), 1.0):
        return ()
    label = values.argmax(axis=1)
    if np.bincount(label, minlength=values.shape[1]).min() < FEWEST:
        return ()
    found = Groups.of(label, measured, values)
    return (Classes(counts=found.counts, measured=found.measured),)


def merged(counts: Integers, places: Floats, *, empty: bool = False) -> Integers:
    """The group of each of C sets of volunteers (C,): each smallest group is merged with the nearest one, by the mean
    of its members' `places` (C, d), until all have `FEWEST` volunteers by `counts` (C,). With `empty`, groups of none
    may stay."""
    counts, group = counts.astype(np.int64).copy(), np.arange(len(counts))
    middle = places / max(float(np.abs(places).max()), 1.0)
    weight = np.ones(len(counts))
    alive = np.ones(len(counts), dtype=bool)
    while True:
        small = alive & (counts < FEWEST) & ((counts > 0) | (not empty))
        if alive.sum() < 2 or not small.any():
            return np.unique(group, return_inverse=True)[1].astype(np.int64)
        least = int(np.flatnonzero(small)[counts[small].argmin()])
        alive[least] = False
        others = np.flatnonzero(alive)
        into = int(others[((middle[others] - middle[least]) ** 2).sum(axis=1).argmin()])
        middle[into] = (weight[into] * middle[into] + weight[least] * middle[least]) / (weight[into] + weight[least])
        weight[into] += weight[least]
        counts[into] += counts[least]
        group[group == least] = into


def _shares(means: Floats, m: int) -> Floats:
    """The nearest shares (…, K) to `means` that lie between 0 and 1 and add up to m."""
    low, high = -1.0 - means.max(axis=-1, keepdims=True), 1.0 - means.min(axis=-1, keepdims=True)
    for _ in range(60):  # bisection to the last bit
        middle = (low + high) / 2.0
        more = np.clip(means + middle, 0.0, 1.0).sum(axis=-1, keepdims=True) < m
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.asarray(np.clip(means + high, 0.0, 1.0))


def truths(task: Task, X: Floats, y: Any, target: str | None = None) -> tuple[Floats, Outputs]:
    """The truth (N, m) of the task for every record, and what it is: `target` is what the label is called."""
    parts = [_truth(part, X, labels, target) for part, _, labels in task.parted(y)]
    shares = [np.full(len(names), by_class, dtype=np.int8) for _, by_class, names in parts]
    several = len(parts) > 1  # whose outputs may have the same names
    names = [f"task {place}: {name}" if several else name for place, part in enumerate(parts, 1) for name in part[2]]
    outputs = Outputs(names=tuple(names), shares=np.concatenate(shares), labelled=y is not None)
    return np.hstack([values for values, _, _ in parts]), outputs


def _truth(task: Any, X: Floats, y: Any, target: str | None) -> tuple[Floats, bool, list[str]]:
    model = task if isinstance(task, ModelTask) else None
    if model is not None and model.cost.logits is None:  # only the callable knows what labels mean
        values = model.predict(X)
    else:
        values = np.asarray(task.truth(X, y), dtype=np.float64).reshape(len(X), -1)
    by_class = model is not None and model.cost.logits is True
    called = target or ("answer" if y is None or isinstance(task, MatrixTask) else LABEL)
    count = values.shape[1]
    if by_class and model is not None:
        known = model.frozen.classes
        labels = known.tolist() if known is not None and len(known) == count else range(count)
        return values, True, [f"{called} = {label}" for label in labels]
    return values, False, [called] if count == 1 else [f"{called} {place}" for place in range(1, count + 1)]
