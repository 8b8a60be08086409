"""Attack a guarantee: a sound release, and a function with a hidden error.

You learn what `tv.audit` proves and what it does not, how to audit code of another library, and how the verdict looks
when a broken mechanism is caught.
"""

from __future__ import annotations

import numpy as np

import taskveil as tv

rng = np.random.default_rng(0)
records = rng.uniform(-1.0, 1.0, size=(400, 3))
veil = tv.design(records, tv.LinearTask(np.eye(3)), epsilon=1.5, domain=tv.Box(-1.0, 1.0))

# A lower bound on ε from the best attack found, with a confidence, and checks that need no statistics.
audit = tv.audit(veil, trials=40_000)
print(f"the release claims ε = {audit.epsilon_claimed:.3g}; attacks show ε ≥ {audit.epsilon_lower:.3g}")
print(audit.verdict)
print()


def careless(X: np.ndarray) -> np.ndarray:
    """Claims ε = 1.5 for records in [−1, 1]³, and is wrong: Δ₁ is 6, but the scale was made for one attribute, 2."""
    clipped = np.clip(np.nan_to_num(X), -1.0, 1.0)
    return clipped + np.random.default_rng().laplace(scale=2.0 / 1.5, size=clipped.shape)


# Any function from records (N, n) to reports can be audited; it cannot speak for itself, so the claim is passed.
audit = tv.audit(careless, epsilon=1.5, records=records, trials=40_000)
print(f"the function claims ε = {audit.epsilon_claimed:.3g}; attacks show ε ≥ {audit.epsilon_lower:.3g}")
print(audit.verdict)
for check in audit.checks:
    if not check.passed:
        print(f"failed, {check.name}: {check.detail}")
