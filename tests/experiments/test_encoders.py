"""Which devices run a network."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from taskveil.client.latent_encoders import HiddenEncoder, LinearEncoder, MeanEncoder
from taskveil.experiments import breast_cancer, models
from taskveil.experiments.published_algorithm import Recipe
from taskveil.experiments.report import has_hidden_layer


@pytest.mark.parametrize(("encoder", "network"), [("linear", False), ("trees", False), ("light", True)])
def test_only_hidden_layers_make_a_network(encoder: str, network: bool) -> None:
    X, y = make_classification(120, 4, random_state=0)
    task = tv.ModelTask(LogisticRegression().fit(X, y), loss="cross_entropy")
    veil = tv.design(X, task, y=y, epsilon=2.0, method="codebook", on_device=tv.OnDevice(encoder=encoder))
    assert has_hidden_layer(veil.encoder) is network


def test_a_mean_with_a_network_is_one() -> None:
    linear = LinearEncoder.of(low=np.zeros(3), high=np.ones(3), weights=np.ones((2, 3)), offset=np.zeros(2))
    hidden = HiddenEncoder.of(
        low=np.zeros(3), high=np.ones(3), hidden_weights=np.ones((4, 3)), hidden_offset=np.zeros(4),
        weights=np.ones((2, 4)), offset=np.zeros(2),
    )  # fmt: skip
    shares = np.array([0.5, 0.5])
    assert has_hidden_layer(MeanEncoder(encoders=(linear, hidden), weights=shares))
    assert not has_hidden_layer(MeanEncoder(encoders=(linear, linear), weights=shares))


@pytest.mark.parametrize(
    ("hidden", "method", "network"), [(4, "task_aware", True), (None, "task_aware", False), (4, "task_agnostic", False)]
)
def test_published_encoders_are_networks_where_they_have_a_hidden_layer(
    hidden: int | None, method: str, network: bool
) -> None:
    quick = Recipe(hidden=hidden, epochs=1, steps=1)
    rows = models.published_rows(breast_cancer.problem(), quick, method=method, seeds=1, draws=2)
    assert {row.network for row in rows} == {network}
