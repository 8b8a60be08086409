"""The arithmetic of the shares, on rows made up so that every count is known."""

from __future__ import annotations

import pytest

from taskveil.experiments.field import HELD_BACK, OTHERS, FieldRow
from taskveil.experiments.field_shares import parted, points_of, same_design, shares


def rows(
    split: int, epsilon: float, accuracies: dict[str, float] | None = None, model: str = "m", **losses: float
) -> list[FieldRow]:
    """One point of the made-up pair (t, m), or of the table with another model."""
    return [
        FieldRow(
            data="t", model=model, split=split, epsilon=epsilon, design=design, loss=loss,
            accuracy=None if accuracies is None else accuracies.get(design, 0.5),
        )
        for design, loss in losses.items()
    ]  # fmt: skip


MADE_UP = [
    # As good as label response within 1%, both ways.
    *rows(0, 1.0, constant=1.2, label_response=1.0, auto=1.01, auto_shared=0.9, no_privacy=0.1),
    # Model kept is 2% worse than the best simple method, which is the constant, and so above it.
    *rows(0, 2.0, constant=1.0, label_response=1.1, auto=1.02, auto_shared=1.0, no_privacy=0.1),
    *rows(1, 1.0, constant=1.2, label_response=1.0, auto=1.04, auto_shared=1.02, no_privacy=0.1),
    *rows(1, 2.0, constant=1.0, label_response=0.5, auto=0.4, auto_shared=0.4, no_privacy=0.1),
]


def test_points_are_those_of_single_splits_or_their_means() -> None:
    single, means = points_of(MADE_UP), points_of(MADE_UP, averaged=True)
    assert [point.epsilon for point in single] == [1.0, 2.0, 1.0, 2.0]
    assert [point.epsilon for point in means] == [1.0, 2.0]
    assert means[0].losses["auto"] == pytest.approx(1.025)
    assert means[1].best_simple == pytest.approx(0.8)  # the best method on average, not the average of the best
    assert single[1].best_simple == 1.0
    assert single[0].relative("auto_shared") == pytest.approx(0.9)


def test_shares_count_points() -> None:
    shipped, kept, *peers, constant, accurate_shipped, accurate_kept = shares(points_of(MADE_UP))
    assert (shipped.met, shipped.points) == (3, 4)
    assert (kept.met, kept.points) == (2, 4)
    assert (constant.met, constant.points) == (3, 4)
    assert [share.points for share in (*peers, accurate_shipped, accurate_kept)] == [0, 0, 0, 0]
    assert "3 of 4 points (75.0%; asked for: 90%)" in str(shipped)
    shipped, kept, _, _, constant, *_ = shares(points_of(MADE_UP, averaged=True), averaged=True)
    assert (shipped.asked, kept.asked) == (0.95, 0.95)
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


def test_the_responses_on_our_predictor_are_counted_apart() -> None:
    losses = {"constant": 2.0, "label_response": 1.5, "auto": 1.2, "auto_shared": 1.0}
    shipped, kept, shipped_beside, kept_beside, *_ = shares(points_of(rows(0, 1.0, label_response_ours=1.1, **losses)))
    assert (shipped.met, kept.met) == (1, 1)
    assert (shipped_beside.met, kept_beside.met) == (1, 0)
    assert (kept_beside.points, kept_beside.asked) == (1, None)


def test_two_models_with_one_design_count_once() -> None:
    one = {"constant": 2.0, "label_response": 1.0, "auto": 1.0, "auto_shared": 0.9}
    table = [
        *rows(0, 1.0, **one),
        *rows(0, 1.0, model="other", **{**one, "auto": 1.0 + 1e-12}),  # the same design
        *rows(0, 1.0, model="third", **{**one, "auto": 1.001}),  # another one
        *rows(0, 2.0, **one),  # another budget
        *rows(1, 1.0, **one),  # another split
        *rows(1, 1.0, model="other", **{**one, "label_response": 0.5}),  # the same design beside a better model
    ]
    shipped, kept, *_ = shares(points_of(table))
    assert (shipped.met, shipped.points) == (5, 6)
    assert (kept.met, kept.points) == (3, 4)
    groups = same_design(points_of(table), "auto")
    assert [[point.model for point in group] for group in groups] == [["m", "other"], ["third"], ["m"], ["m", "other"]]
    # Another table may have the same loss by chance.
    elsewhere = [FieldRow(**{**vars(row), "data": "u"}) for row in rows(0, 1.0, **one)]
    assert len(same_design(points_of([*table, *elsewhere]), "auto")) == 5


def test_pairs_that_nothing_was_tuned_on_are_apart() -> None:
    data, model = OTHERS[0]
    other = FieldRow(data=data, model=model, split=0, epsilon=1.0, design="auto", loss=1.0, accuracy=None)
    back = FieldRow(**{**vars(other), "data": HELD_BACK[0][0], "model": HELD_BACK[0][1]})
    found = parted([back, *MADE_UP, other])
    assert {group: len(mine) for group, mine in found.items()} == {
        "Named pairs": len(MADE_UP),
        "Further pairs": 1,
        "Held-back pairs": 1,
    }
    assert list(found) == ["Named pairs", "Further pairs", "Held-back pairs"]
    assert list(parted(MADE_UP)) == ["Named pairs"]
