"""Along what people may differ from the volunteers: attributes, answers, and what attributes do not tell of answers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.arrays import Bools, Floats
from taskveil.errors import DataError
from taskveil.reference import Reference

_NOTHING = 1e-6  # of an answer's variance is left where it is linear in the attributes


@dataclass(frozen=True, kw_only=True, eq=False)
class Features:
    """Records (N, n) and answers (N, m) → features (N, f).

    Answers that are linear in the attributes would count twice and are left out. The others together count as much as
    all attributes together (`emphasis`): people may differ in the answer first and in the attributes that go with it,
    as well as the other way round. What attributes do not tell of an answer counts by itself too: labels may have moved
    although records did not.
    """

    slopes: Floats
    """(n + 1, m): from attributes and a one to the answers, by least squares."""
    own: Bools
    """(m,): answers that are more than that."""

    @classmethod
    def of(cls, reference: Reference) -> Features:
        """Those of a release's volunteers."""
        with_one = _with_one(reference.records)
        slopes: Floats = np.asarray(np.linalg.lstsq(with_one, reference.answers, rcond=None)[0], dtype=np.float64)
        left = (reference.answers - with_one @ slopes).var(axis=0)
        return cls(slopes=slopes, own=left > _NOTHING * reference.answers.var(axis=0))

    @property
    def emphasis(self) -> Floats:
        """(f,): how large a tilt along each feature is thought, against one attribute's."""
        attributes, answers = len(self.slopes) - 1, int(self.own.sum())
        together = np.sqrt(attributes / max(answers, 1))
        return np.concatenate([np.ones(attributes), np.full(answers, max(1.0, together)), np.ones(answers)])

    def __call__(self, records: Floats, answers: Floats) -> Floats:
        """Attributes, answers, and what is left of the answers."""
        if (records.shape[1] + 1, answers.shape[1]) != self.slopes.shape:
            raise DataError("this estimate is about other records or another task: design with those it was made for.")
        left = answers - _with_one(records) @ self.slopes
        return np.hstack([records, answers[:, self.own], left[:, self.own]])


def _with_one(records: Floats) -> Floats:
    return np.column_stack([records, np.ones(len(records))])
