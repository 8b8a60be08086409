"""The arithmetic of the shares, on rows made up so that every count is known."""

from __future__ import annotations

import pytest

from taskveil.experiments.field import OTHERS, FieldRow
from taskveil.experiments.field_shares import parted, points_of, shares


def rows(split: int, epsilon: float, accuracies: dict[str, float] | None = None, **losses: float) -> list[FieldRow]:
    """One point of the made-up pair (t, m)."""
    return [
        FieldRow(
            data="t", model="m", split=split, epsilon=epsilon, design=design, loss=loss,
            accuracy=None if accuracies is None else accuracies.get(design, 0.5),
        )
        for design, loss in losses.items()
    ]  # fmt: skip


MADE_UP = [
    # As good as label response within 1%, both ways.
    *rows(0, 1.0, constant=1.2, label_response=1.0, auto=1.01, auto_shared=0.9, no_privacy=0.1),
    # Model kept is 2% worse than the best simple way, which is the constant, and so above it.
    *rows(0, 2.0, constant=1.0, label_response=1.1, auto=1.02, auto_shared=1.0, no_privacy=0.1),
    *rows(1, 1.0, constant=1.2, label_response=1.0, auto=1.04, auto_shared=1.02, no_privacy=0.1),
    *rows(1, 2.0, constant=1.0, label_response=0.5, auto=0.4, auto_shared=0.4, no_privacy=0.1),
]


def test_points_are_those_of_single_splits_or_their_means() -> None:
    single, means = points_of(MADE_UP), points_of(MADE_UP, averaged=True)
    assert [point.epsilon for point in single] == [1.0, 2.0, 1.0, 2.0]
    assert [point.epsilon for point in means] == [1.0, 2.0]
    assert means[0].losses["auto"] == pytest.approx(1.025)
    assert means[1].best_simple == pytest.approx(0.8)  # the best way on average, not the average of the best
    assert single[1].best_simple == 1.0
    assert single[0].relative("auto_shared") == pytest.approx(0.9)


def test_shares_count_points() -> None:
    shipped, kept, constant, *accuracy = shares(points_of(MADE_UP))
    assert (shipped.met, shipped.points) == (3, 4)
    assert (kept.met, kept.points) == (2, 4)
    assert (constant.met, constant.points) == (3, 4)
    assert [share.points for share in accuracy] == [0, 0]
    assert "3 of 4 points (75.0%; asked for: 95%)" in str(shipped)
    shipped, kept, constant, *_ = shares(points_of(MADE_UP, averaged=True))
    assert (shipped.met, kept.met, constant.met) == (2, 1, 2)


def test_ratios_at_the_edge_count_as_equal() -> None:
    edge = rows(0, 1.0, constant=2.0, label_response=1.0, auto=1.01, auto_shared=1.0100001, no_privacy=0.1)
    shipped, kept, *_ = shares(points_of(edge))
    assert (shipped.met, kept.met) == (0, 1)


def test_accuracy_is_compared_with_label_response() -> None:
    losses = {"constant": 1.0, "label_response": 1.0, "accurate": 0.3, "accurate_shared": 0.3}
    few = [
        *rows(0, 1.0, {"label_response": 0.7, "accurate": 0.65, "accurate_shared": 0.691}, **losses),
        *rows(0, 2.0, {"label_response": 0.7, "accurate": 0.69, "accurate_shared": 0.8}, **losses),
    ]
    *_, shipped, kept = shares(points_of(few))
    assert (shipped.met, shipped.points) == (2, 2)
    assert (kept.met, kept.points) == (1, 2)


def test_pairs_that_nothing_was_tuned_on_are_apart() -> None:
    data, model = OTHERS[0]
    other = FieldRow(data=data, model=model, split=0, epsilon=1.0, design="auto", loss=1.0, accuracy=None)
    found = parted([*MADE_UP, other])
    assert [len(mine) for mine in found.values()] == [len(MADE_UP), 1]
    assert [group for group in found if "Further" in group] == ["Further pairs"]
