"""What is audited: anything that turns records into reports, with what it claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.arrays import Array, Floats
from taskveil.errors import AuditError
from taskveil.guarantee import as_epsilon
from taskveil.records import as_records
from taskveil.veil import Veil

_CHUNK = 1 << 16


@dataclass(frozen=True, kw_only=True, eq=False)
class Target:
    """Records (N, n) → reports (N, width), the claim about it, and a box (low, high) the records usually lie in."""

    call: Callable[[Floats], Any]
    epsilon: float
    delta: float
    low: Floats
    high: Floats
    records: Floats
    veil: Veil | None

    @classmethod
    def of(cls, what: Any, *, epsilon: float | None, delta: float, records: Any) -> Target:
        """A veil brings its claim and its box; a callable needs `epsilon` and some `records`."""
        veil = what if isinstance(what, Veil) else None
        if not 0 <= delta < 1:
            raise AuditError(f"delta must lie in [0, 1), got {delta}.")
        if veil is not None:
            box = veil.encoder.low, veil.encoder.high
            known = np.empty((0, len(box[0]))) if records is None else as_records(records, width=len(box[0]))
            promise = veil.guarantee
            epsilon = promise.epsilon if epsilon is None else epsilon
            delta = max(delta, promise.delta)
            call: Callable[[Floats], Any] = veil.privatize
        elif callable(what):
            if epsilon is None or records is None:
                raise AuditError("to audit a callable, pass the epsilon it claims and some records it may receive.")
            known = as_records(records)
            finite = np.where(np.isfinite(known), known, 0.0)
            box = finite.min(axis=0), finite.max(axis=0)
            call = what
        else:
            raise AuditError(f"audit takes a Veil or a callable from records to reports, got {type(what).__name__}.")
        claim = as_epsilon(epsilon)
        return cls(call=call, epsilon=claim, delta=delta, low=box[0], high=box[1], records=known, veil=veil)

    @property
    def width(self) -> int:
        """The number of attributes of a record."""
        return len(self.low)

    @property
    def middle(self) -> Floats:
        """The middle of the box (n,): an input like any other."""
        return np.asarray(self.low + (self.high - self.low) / 2)

    def report(self, records: Floats) -> Array:
        """One call: the reports as a numeric matrix, one row per record."""
        made = np.asarray(self.call(records))
        made = made[:, None] if made.ndim == 1 else made
        if made.ndim != 2 or len(made) != len(records) or made.dtype.kind not in "biuf":
            raise AuditError(
                f"reports must be numbers, one row per record: got shape {made.shape} of {made.dtype} "
                f"for {len(records)} records."
            )
        return made.astype(np.int64) if made.dtype.kind in "bu" else made

    def values(self, reports: Array) -> Array:
        """What the numbers of reports stand for, in the units of latents where a veil knows."""
        return reports if self.veil is None else self.veil.mechanism.values(reports.astype(np.int64))

    def sample(self, record: Floats, count: int) -> Array:
        """`count` reports of one record."""
        parts = [self.report(np.tile(record, (min(_CHUNK, count - start), 1))) for start in range(0, count, _CHUNK)]
        return np.concatenate(parts)
