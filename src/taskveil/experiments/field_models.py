"""The models of the comparison in the field, as people make them: usual settings, fitted to the design records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn import ensemble, linear_model, neighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from taskveil.arrays import Floats
from taskveil.errors import needs
from taskveil.tasks import LossName

if TYPE_CHECKING:
    from torch import nn

HIDDEN, EPOCHS, BATCH = 32, 200, 64

Fit = Callable[[Floats, NDArray[Any], LossName, int], Any]
"""From records (N, n), labels (N,), the loss and a seed to a fitted model that `ModelTask` takes."""


def _forest(X: Floats, y: NDArray[Any], loss: LossName, seed: int) -> Any:
    kind = ensemble.RandomForestRegressor if loss == "mse" else ensemble.RandomForestClassifier
    return kind(100, min_samples_leaf=3, random_state=seed).fit(X, y)


def _boosted(X: Floats, y: NDArray[Any], loss: LossName, seed: int) -> Any:
    kind = ensemble.HistGradientBoostingRegressor if loss == "mse" else ensemble.HistGradientBoostingClassifier
    return kind(max_iter=60, learning_rate=0.08, max_leaf_nodes=15, random_state=seed).fit(X, y)


def _linear(X: Floats, y: NDArray[Any], loss: LossName, seed: int) -> Any:  # noqa: ARG001 - nothing is random
    last = linear_model.Ridge() if loss == "mse" else linear_model.LogisticRegression(max_iter=2000)
    return make_pipeline(StandardScaler(), last).fit(X, y)


def _neighbours(X: Floats, y: NDArray[Any], loss: LossName, seed: int) -> Any:  # noqa: ARG001 - nothing is random
    kind = neighbors.KNeighborsRegressor if loss == "mse" else neighbors.KNeighborsClassifier
    return make_pipeline(StandardScaler(), kind(10)).fit(X, y)


def _network(X: Floats, y: NDArray[Any], loss: LossName, seed: int) -> nn.Module:
    """One hidden layer; the scales of attributes and of a numerical label are layers too."""
    with needs("a network of the comparison", extra="torch"):
        import torch
        from torch import nn

        from taskveil.experiments.models import network_seed, trained

    outputs = 1 if loss == "mse" else int(y.max()) + 1
    center, spread = X.mean(axis=0), np.maximum(X.std(axis=0), 1e-9)
    middle, unit = (float(y.mean()), float(y.std())) if loss == "mse" else (0.0, 1.0)
    with network_seed(seed):
        first, last = nn.Linear(X.shape[1], HIDDEN), nn.Linear(HIDDEN, outputs)
        network = nn.Sequential(first, nn.ReLU(), last)
        labels = ((y - middle) / unit)[:, None] if loss == "mse" else y
        trained(network, (X - center) / spread, labels, loss, epochs=EPOCHS, batch=BATCH)
    with torch.no_grad():  # the scales become part of the first and the last layer
        first.weight.div_(torch.as_tensor(spread, dtype=torch.float32))
        first.bias.sub_(first.weight @ torch.as_tensor(center, dtype=torch.float32))
        last.weight.mul_(unit)
        last.bias.mul_(unit).add_(middle)
    return network.eval()


MODELS: Mapping[str, Fit] = MappingProxyType(
    {
        "forest": _forest,
        "boosted": _boosted,
        "linear": _linear,
        "neighbours": _neighbours,
        "network": _network,
        "earlier_network": _network,
    }
)
