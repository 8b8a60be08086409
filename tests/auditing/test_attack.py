"""What the audit says, and what it refuses to say."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from auditing import exhibits
from taskveil.auditing import Audit, Check, Finding
from taskveil.auditing.attack import Sketch
from taskveil.errors import AuditError

SEEN = Finding(pair="a / b", event="", reports=10, first=5, second=3, epsilon_lower=0.5, epsilon_upper=1.0)


def audited(*checks: Check, epsilon_lower: float = 0.5) -> Audit:
    return Audit(
        epsilon_lower=epsilon_lower,
        epsilon_claimed=1.0,
        delta=0.0,
        confidence=1 - 1e-6,
        trials=10_000,
        provable=5.0,
        findings=(SEEN,),
        checks=checks,
        sketch=Sketch(inputs=("a", "b"), event="", first=np.zeros(1), second=np.zeros(1), threshold=0.0, below=False),
    )


HELD = Check.of("one", "Fine.", held=True)
BROKEN = Check.of("two", "It leaks.", held=False)
IDLE = Check.not_applicable("three", "it cannot be tried.")


def test_a_check_has_three_outcomes() -> None:
    assert [check.outcome for check in (HELD, BROKEN, IDLE)] == ["held", "broken", "not applicable"]
    assert [check.passed for check in (HELD, BROKEN, IDLE)] == [True, False, True]


def test_the_verdict_claims_no_check_that_was_not_run() -> None:
    without = tv.audit(
        exhibits.laplace(exhibits.WIDE), epsilon=1.0, records=np.eye(1), trials=2000, finalists=1, structural=False
    )
    assert without.passed
    assert without.checks == ()
    assert "No structural check was run" in without.verdict
    assert "held" not in without.verdict


def test_the_verdict_counts_what_held_and_names_what_did_not_apply() -> None:
    verdict = audited(HELD, IDLE).verdict
    assert verdict.startswith("HOLDS")
    assert "1 structural checks held; not applicable: three." in verdict
    assert audited(HELD).passed
    assert audited(IDLE).passed
    assert not audited(HELD, BROKEN, IDLE).passed
    assert audited(HELD, BROKEN).verdict.startswith("BROKEN. It leaks.")
    assert audited(HELD, epsilon_lower=1.5).verdict.startswith("BROKEN. The claim is ε = 1")


def test_everything_fits_into_json() -> None:
    said = audited(HELD, BROKEN, IDLE).to_dict()
    assert [check["outcome"] for check in said["checks"]] == ["held", "broken", "not applicable"]
    assert [check["passed"] for check in said["checks"]] == [True, False, True]
    assert said["passed"] is False


@pytest.mark.parametrize(
    ("what", "options", "says"),
    [
        (3, {}, "Veil or a callable"),
        (np.sign, {}, "epsilon it claims"),
        (np.sign, {"epsilon": 1.0, "records": np.eye(2), "delta": 2.0}, "delta"),
        (np.sign, {"epsilon": 1.0, "records": np.eye(2), "trials": 10}, "1000 or more"),
        (lambda X: X.astype(str), {"epsilon": 1.0, "records": np.eye(2)}, "two inputs"),
    ],
)
def test_what_cannot_be_audited_is_explained(what: object, options: dict, says: str) -> None:
    with pytest.raises(AuditError, match=says):
        tv.audit(what, **options)
