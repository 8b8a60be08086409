"""The mechanism under audit with its claim, and the result of a check."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.auditing.natural import NamedInputs
from taskveil.errors import AuditError
from taskveil.records.tables import as_records
from taskveil.veil import Veil
from taskveil.veil.guarantee import as_epsilon

Outcome = Literal["held", "broken", "not applicable"]

ALPHA = 1e-9
"""The chance of a false alarm in each check that compares samples, shared out (Bonferroni) among all it compares."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One question, its answer, and a sentence about the evidence.

    'Held' means that the attack was carried out and failed, 'broken' that it succeeded, 'not applicable' that it could
    not be carried out: that speaks neither for the mechanism nor against it.
    """

    name: str
    outcome: Outcome
    detail: str

    @property
    def passed(self) -> bool:
        """Nothing was found against the mechanism: the check held or does not apply. `outcome` says which."""
        return self.outcome != "broken"

    @classmethod
    def of(cls, name: str, detail: str, *, held: bool) -> Check:
        """The answer of a check that was carried out."""
        return cls(name=name, outcome="held" if held else "broken", detail=detail)

    @classmethod
    def not_applicable(cls, name: str, why: str) -> Check:
        """The answer of a check that could not be carried out, and why."""
        return cls(name=name, outcome="not applicable", detail=f"Not applicable: {why}")


_CHUNK = 1 << 16  # reports in one call


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """Records (N, n) → reports (N, width), the claim about it, and a box (low, high) the records usually lie in.

    With `natural`, records have names and natural values: inputs are arrays of objects. A veil takes their numbers too,
    so that both ways in are attacked; somebody else's client gets mappings and nothing else, and its box is empty.
    """

    call: Callable[[Any], Any]
    epsilon: float
    delta: float
    low: Floats
    high: Floats
    records: Floats
    veil: Veil | None
    natural: NamedInputs | None = None

    @classmethod
    def of(cls, what: Any, *, epsilon: float | None, delta: float, records: Any) -> Target:
        """A veil brings its claim and its box; a callable needs `epsilon` and some `records`."""
        veil = what if isinstance(what, Veil) else None
        if not 0 <= delta < 1:
            raise AuditError(f"delta must lie in [0, 1), got {delta}.")
        if veil is not None:
            box = veil.encoder.low, veil.encoder.high
            known = np.empty((0, len(box[0])))
            if records is not None:
                known = veil.schema.expand(records)
            natural = None if veil.schema.unbounded else NamedInputs.of_schema(veil.schema, records)
            promise = veil.guarantee
            epsilon = promise.epsilon if epsilon is None else epsilon
            delta = max(delta, promise.delta)
            call: Callable[[Any], Any] = veil.privatize
        elif callable(what):
            if epsilon is None or records is None:
                raise AuditError("to audit a callable, pass the epsilon it claims and some records it may receive.")
            natural = NamedInputs.of_records(records)
            known = as_records(records) if natural is None else np.empty((1, 0))
            finite = np.where(np.isfinite(known), known, 0.0)
            box = finite.min(axis=0), finite.max(axis=0)
            call = what
        else:
            raise AuditError(f"audit takes a Veil or a callable from records to reports, got {type(what).__name__}.")
        claim = as_epsilon(epsilon)
        target = cls(call=call, epsilon=claim, delta=delta, low=box[0], high=box[1], records=known, veil=veil)
        return replace(target, natural=natural)

    @property
    def width(self) -> int:
        """The number of attributes of a record."""
        return len(self.low)

    @property
    def numeric(self) -> bool:
        """Whether it takes numbers, with or without natural values."""
        return self.natural is None or self.veil is not None

    @property
    def middle(self) -> Array:
        """The middle of the box (n,): an input like any other."""
        if self.natural is not None and not self.numeric:
            return self.natural.middle
        return np.asarray(self.low + (self.high - self.low) / 2)

    def beside(self, record: Array) -> Array:
        """An ordinary input (n,) of the same kind as this one."""
        return self.natural.middle if self.natural is not None and record.dtype == object else self.middle

    def numbers(self, records: Sequence[Array]) -> Floats:
        """The numbers (N, n) that a veil makes of inputs of either kind; NaN where it makes none."""
        made = np.full((len(records), self.width), np.nan)
        natural = [place for place, record in enumerate(records) if record.dtype == object]
        for place in set(range(len(records))) - set(natural):
            made[place] = records[place]
        if natural and not self._expand(made, records, natural):  # a refusal is judged by the structural checks
            for place in natural:
                self._expand(made, records, [place])
        return made

    def _expand(self, made: Floats, records: Sequence[Array], places: list[int]) -> bool:
        """Whether numbers could be made of these natural records, which then stand in `made` (N, n)."""
        try:
            found = self.veil.schema.expand(np.stack([records[place] for place in places]))  # type: ignore[union-attr]
            whole = found.shape == (len(places), self.width)
        except Exception:
            return False
        if whole:
            made[places] = found
        return whole

    def report(self, records: Array) -> Array:
        """One call: the reports as a numeric matrix, one row per record; those that are bytes, byte by byte."""
        made = self.call(records if self.numeric or self.natural is None else self.natural.as_mappings(records))
        if isinstance(made, Sequence) and len(made) > 0 and all(isinstance(one, bytes) for one in made):
            if len({len(one) for one in made}) > 1:
                raise AuditError("reports have different lengths, and a length reveals something about the record.")
            made = np.frombuffer(b"".join(made), dtype=np.uint8).reshape(len(made), -1)
        made = np.asarray(made)
        made = made[:, None] if made.ndim == 1 else made
        if made.ndim != 2 or len(made) != len(records) or made.dtype.kind not in "biuf":
            raise AuditError(
                f"reports must be numbers, one row per record: got shape {made.shape} of {made.dtype} "
                f"for {len(records)} records."
            )
        return made.astype(np.int64) if made.dtype.kind in "bu" else made

    def values(self, reports: Array) -> Array:
        """The values that reports stand for, in units of latents for a veil."""
        return reports if self.veil is None else self.veil.mechanism.values(reports.astype(np.int64))

    def sample(self, record: Array, count: int) -> Array:
        """`count` reports of one record."""
        parts = [self.report(np.tile(record, (min(_CHUNK, count - start), 1))) for start in range(0, count, _CHUNK)]
        return np.concatenate(parts)
