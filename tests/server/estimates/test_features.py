"""Along what people may differ from the volunteers."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.errors import DataError
from taskveil.reference import Reference
from taskveil.server.estimates.features import Features


def reference(answers: np.ndarray, records: np.ndarray) -> Reference:
    return Reference(
        records=records,
        latents=records[:, :1],
        answers=answers,
        shares=np.zeros(answers.shape[1], dtype=np.int8),
        names=tuple(f"y{place}" for place in range(answers.shape[1])),
        everybody=len(records),
    )


@pytest.fixture
def records() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(300, 3))


def test_answers_that_attributes_tell_do_not_count_twice(records: np.ndarray) -> None:
    features = Features.of(reference(records @ [[1.0], [2.0], [0.0]] + 4.0, records))
    assert np.array_equal(features(records, records[:, :1]), records)
    assert features.emphasis.tolist() == [1.0, 1.0, 1.0]


def test_what_attributes_do_not_tell_of_an_answer_counts_by_itself(records: np.ndarray) -> None:
    noise = np.random.default_rng(1).normal(size=(300, 1))
    answers = records[:, :1] + noise
    features = Features.of(reference(answers, records))
    found = features(records, answers)
    assert found.shape == (300, 5)
    assert np.abs(np.corrcoef(found[:, 4], records[:, 0])[0, 1]) < 1e-9
    assert np.corrcoef(found[:, 4], noise[:, 0])[0, 1] > 0.98
    assert features.emphasis[3] ** 2 == pytest.approx(3.0)  # as much as the three attributes together


def test_records_of_another_task_are_refused(records: np.ndarray) -> None:
    features = Features.of(reference(records[:, :1] ** 2, records))
    with pytest.raises(DataError, match="another task"):
        features(records[:, :2], records[:, :1])
