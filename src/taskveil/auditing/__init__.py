"""Attacks that try to disprove the guarantee: statistical ones with a confidence, structural ones with a yes or no.

Call them with `tv.audit`.
"""

from __future__ import annotations

from typing import Any, overload

from taskveil.auditing.attack import Progress
from taskveil.auditing.attack import audit as audit_mechanism
from taskveil.auditing.families import FamilyAudit, audit_family
from taskveil.auditing.result import Audit, Finding
from taskveil.auditing.target import Check
from taskveil.errors import AuditError
from taskveil.veil import Family

__all__ = ["Audit", "Check", "FamilyAudit", "Finding", "audit"]


@overload
def audit(
    what: Family,
    *,
    delta: float = ...,
    records: Any = ...,
    confidence: float = ...,
    trials: int = ...,
    finalists: int = ...,
    structural: bool = ...,
    progress: Progress | None = ...,
) -> FamilyAudit: ...


@overload
def audit(
    what: Any,
    *,
    epsilon: float | None = ...,
    delta: float = ...,
    records: Any = ...,
    confidence: float = ...,
    trials: int = ...,
    finalists: int = ...,
    structural: bool = ...,
    progress: Progress | None = ...,
) -> Audit: ...


def audit(
    what: Any,
    *,
    epsilon: float | None = None,
    delta: float = 0.0,
    records: Any = None,
    confidence: float = 1 - 1e-6,
    trials: int = 1_000_000,
    finalists: int = 4,
    structural: bool = True,
    progress: Progress | None = None,
) -> Audit | FamilyAudit:
    """The result of an attack on a mechanism, or on every member of a family and on how it is drawn.

    Args:
        what: a Veil, a Family, or any callable that maps records (N, n), or a list of N mappings where `records` have
            names, to reports: one row of numbers, or one `bytes` of one length, per record.
        epsilon, delta: the claim; a veil and a family bring their own.
        records: some records the mechanism may receive: an array, a list of mappings, or a table. Needed for a
            callable, optional for a veil. A callable gets lists of mappings if `records` is such a list, or a table
            with text, dates or missing values.
        confidence: of the lower bound, over all pairs and events together.
        trials: reports of each of the two inputs of a finalist pair: half choose the event, half bound ε.
        finalists: pairs that are attacked in full; the confidence is split among them (Bonferroni).
        structural: also run the structural checks. Each of them gives a false alarm with probability 1e-9 at most.
        progress: called with a description and the share done.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> veil = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> found = tv.audit(veil, trials=2_000, structural=False)
        >>> found.passed
        True
        >>> found.epsilon_lower <= found.epsilon_claimed
        True
    """
    options: dict[str, Any] = {"records": records, "confidence": confidence, "trials": trials, "finalists": finalists}
    options |= {"structural": structural, "progress": progress, "delta": delta}
    if not isinstance(what, Family):
        return audit_mechanism(what, epsilon=epsilon, **options)
    if epsilon is not None:
        raise AuditError("the members of a family bring their own claims: leave out epsilon=.")
    return audit_family(what, **options)
