"""Predictors together: weights by held-out loss, weak ones left out."""

from __future__ import annotations

import numpy as np
import pytest
from taskveil.designs.predictors.predictor import Evidence, Predictor
from taskveil.designs.predictors.together import best_weights, together

from taskveil.client.encoders import LinearEncoder, MeanEncoder
from taskveil.client.named import NamedEncoder
from taskveil.tasks.costs import SquaredError

RNG = np.random.default_rng(4)
X = RNG.random((400, 3))
TRUTH = (X @ [3.0, -2.0, 1.0])[:, None]


def evidence() -> Evidence:
    return Evidence(
        X=X,
        truth=TRUTH,
        cost=SquaredError(),
        fold=np.arange(400) % 5,
        low=np.zeros(3),
        high=np.ones(3),
        seed=0,
        most_bytes=2**19,
    )


def predictor(name: str, error: float) -> Predictor:
    said = TRUTH + error * RNG.normal(size=TRUTH.shape)
    weights = np.array([[3.0, -2.0, 1.0]])
    encoder = LinearEncoder.of(low=np.zeros(3), high=np.ones(3), weights=weights, offset=np.zeros(1))
    return Predictor(name=name, encoder=encoder, held_out=said)


def test_independent_errors_are_averaged_by_their_precision() -> None:
    """The best weights are proportional to 1/variance: here 4 to 1."""
    one, other = predictor("one", 0.5), predictor("other", 1.0)
    weights = best_weights(np.stack([one.held_out, other.held_out]), evidence())
    assert weights == pytest.approx([0.8, 0.2], abs=0.06)
    (both,) = together([one, other], evidence())
    assert both.preferred
    assert isinstance(both.encoder, MeanEncoder)
    assert both.encoder.weights == pytest.approx(weights)
    costs = [np.square(each.held_out - TRUTH).mean() for each in (both, one, other)]
    assert costs[0] < 0.9 * min(costs[1:])
    assert both.encoder(X) == pytest.approx(TRUTH, abs=1e-5)


def test_a_predictor_of_next_to_no_use_is_left_out() -> None:
    assert together([predictor("good", 0.1), predictor("bad", 5.0)], evidence()) == []
    (two,) = together([predictor("a", 0.3), predictor("bad", 8.0), predictor("b", 0.3)], evidence())
    assert two.name == "a and b"


def test_what_a_release_only_names_is_no_part_of_a_mean() -> None:
    named = NamedEncoder.of(lambda x: x[:, :1], name="model", low=np.zeros(3), high=np.ones(3), latents=1)
    other = Predictor(name="own", encoder=named, held_out=TRUTH + 0.1)
    assert together([predictor("a", 0.3), other], evidence()) == []
