"""A bound that needs no assumption: any data, any ε-LDP report, any decoder, squared error.

**Setting.** Task outputs z with mean 0 and uncorrelated coordinates of variances λ₁ ≥ λ₂ ≥ …; a report y with p(y|z) ≤
e^ε p(y|z') for all z, z'. With q(y) = E p(y|z) and r = p(y|z)/q(y), the best decoder answers E[z|y] = E[r z], so
sending the report lowers the loss Σ λᵢ by Σ λᵢ cᵢ, cᵢ = E over y ~ q of (E[r gᵢ])², gᵢ = zᵢ/√λᵢ.

**Claim.** Σ cᵢ ≤ sinh²(ε/2) and every cᵢ ≤ tanh²(ε/2). The loss is therefore lowered by at most
tanh²(ε/2) · (λ₁ + … + λ_m + (cosh²(ε/2) − m) λ_{m+1}), m = ⌊cosh²(ε/2)⌋; in particular by at most λ₁ sinh²(ε/2).

**Proof of the sum.** The gᵢ are orthonormal and orthogonal to 1, so Σ (E[r gᵢ])² ≤ Var r for every y (Bessel). r has
mean 1 and lies in some [a, a e^ε], so Var r ≤ (1 − a)(a e^ε − 1), which is largest at a = (1 + e^−ε)/2: sinh²(ε/2).

**Proof for one direction.** Let f have mean 0. Every law of mean 0 is a mixture of laws of mean 0 on two values; let v
say which two, so that E[f|v] = 0. Telling the server v as well cannot raise the loss, so it is enough to show, for two
values of f with probabilities π and 1 − π, that Var E[f|y] ≤ tanh²(ε/2) Var f, and to average over v. Write p₁, p₂ for
the probability of y given either value (averages of p(y|z), so their ratio stays within e^±ε), b = π(1 − π) ≤ ¼, q =
πp₁ + (1 − π)p₂ and q' = (1 − π)p₁ + πp₂. Then Var E[f|y] / Var f = Σ_y b(p₁ − p₂)²/q and qq' = p₁p₂ + b(p₁ − p₂)².
With L = ln p₁/p₂, b(p₁ − p₂)² = 4b sinh²(L/2) p₁p₂ ≤ sinh²(ε/2) p₁p₂, hence b(p₁ − p₂)² ≤ tanh²(ε/2) qq' (as s/(1 + s)
grows in s). Divide by q and sum over y: Σ q' = 1. ∎

The second part is the contraction of χ² by an ε-LDP channel (Asoodeh and Zhang 2022). Both are reached: the second by
randomised response on two equally likely values, the first by reports that favour one in 1 + e^ε of many equally
likely values.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from taskveil.designs.moments import positive_variances
from taskveil.veil.veil import as_epsilon


def any_data_limit(variances: ArrayLike, epsilon: float) -> float:
    """The least loss of any ε-LDP report and decoder for any data whose task outputs have these variances.

    Args:
        variances: eigenvalues of the outputs' covariance, in any order; zeros are allowed.
        epsilon: the budget of the report.

    Returns:
        A bound that holds for every law with this covariance, so a small one: some laws are easy.
    """
    budget, ordered = as_epsilon(epsilon), positive_variances(variances)
    left = 4 * math.exp(-budget) / (1 + math.exp(-budget)) ** 2  # 1/cosh²(ε/2) = 1 − tanh²(ε/2), without cancellation
    capacity = 1 / left if left > 0 else math.inf
    served = np.clip(capacity - np.arange(len(ordered)), 0.0, 1.0)
    return float((ordered * (served * left + (1 - served))).sum())
