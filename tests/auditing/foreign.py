"""Sound mechanisms made by others: OpenDP's, which draws its randomness outside Python, and the `secrets` module's."""

from __future__ import annotations

import math
import secrets

import numpy as np
import opendp.prelude as dp

dp.enable_features("contrib")

RANGE = 2.0  # the diameter of [−1, 1]
DELTA = 1e-5

_REALS = dp.vector_domain(dp.atom_domain(T=float, nan=False))
_LAPLACE = dp.m.make_laplace(_REALS, dp.l1_distance(T=float), scale=RANGE)
_GEOMETRIC = dp.m.make_geometric(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=40.0)
# σ of the analytic Gaussian mechanism for ε = 1 would be a little smaller; the classic formula is sound for ε ≤ 1.
_GAUSSIAN = dp.m.make_gaussian(
    _REALS, dp.l2_distance(T=float), scale=RANGE * math.sqrt(2 * math.log(1.25 / DELTA)) * 1.001
)
_COIN = dp.m.make_randomized_response_bool(math.e / (1 + math.e))


def _inside(X: np.ndarray) -> np.ndarray:
    return np.clip(np.where(np.isnan(X), 0.0, X), -1, 1)


def opendp_laplace(X: np.ndarray) -> np.ndarray:
    return np.array(_LAPLACE(_inside(X).ravel().tolist())).reshape(X.shape)


def opendp_geometric(X: np.ndarray) -> np.ndarray:
    k = np.rint(20 * _inside(X)).astype(int)
    return np.array(_GEOMETRIC(k.ravel().tolist())).reshape(X.shape)


def opendp_gaussian(X: np.ndarray) -> np.ndarray:
    return np.array(_GAUSSIAN(_inside(X).ravel().tolist())).reshape(X.shape)


def opendp_randomised_response(X: np.ndarray) -> np.ndarray:
    return np.array([[_COIN(bool(x > 0))] for x in _inside(X)[:, 0]])


def secrets_randomised_response(X: np.ndarray) -> np.ndarray:
    """k-ary with k = 4 and ε = 1: the truth with probability a / (a + 3b)."""
    b = 10**6
    a = math.floor(math.e * b)
    truth = np.minimum((_inside(X)[:, 0] + 1) * 2, 3).astype(int)

    def respond(k: int) -> int:
        drawn = secrets.randbelow(a + 3 * b)
        return k if drawn < a else (k + 1 + (drawn - a) // b) % 4

    return np.array([[respond(int(k))] for k in truth])
