"""Inputs of natural values: what the audit tries on clients that take text, dates, flags and holes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from auditing import mixed
from taskveil.auditing.checks import latents_inside, reports_on_grid
from taskveil.auditing.pairs import find_pairs
from taskveil.auditing.target import NamedInputs, Target
from taskveil.errors import AuditError


def of_client(client: object = mixed.answers, records: object = None) -> Target:
    return Target.of(client, epsilon=1.0, delta=0.0, records=mixed.records() if records is None else records)


def of_veil(veil: tv.Veil, records: object = None) -> Target:
    return Target.of(veil, epsilon=None, delta=0.0, records=records)


def kinds(values: object) -> set[str]:
    return {type(value).__name__ for value in values}


def test_hostile_records_hold_everything_that_goes_wrong() -> None:
    """Missing, unknown, of another type, out of bounds, too long: in every field, and beside ordinary values."""
    natural = of_veil(mixed.mixed_veil()).natural
    drawn = natural.draw(np.random.default_rng(0), 4000)
    assert drawn.shape == (4000, 4)
    for place, name in enumerate(natural.names):
        column = drawn[:, place].tolist()
        assert {"NoneType", "str", "float", "int", "bool", "list", "dict", "bytes", "object"} <= kinds(column), name
        texts = [value for value in column if isinstance(value, str)]
        assert max(map(len, texts)) > 1000
    power = [value for value in drawn[:, 1].tolist() if type(value) is float]
    assert min(power) < 0 < 200 < max(power)
    assert set(mixed.ORIGINS) < {value for value in drawn[:, 0].tolist() if isinstance(value, str)}


def test_somebody_elses_client_gets_mappings_of_what_a_message_can_say() -> None:
    seen: list[object] = []

    def client(records: list[dict[str, object]]) -> np.ndarray:
        seen.extend(value for record in records for value in record.values())
        assert all(list(record) == ["origin", "power", "since", "automatic"] for record in records)
        return mixed.answers(records)

    found = tv.audit(client, epsilon=1.0, records=mixed.records(), trials=1_000, finalists=1, structural=False)
    assert found.passed
    assert kinds(seen) == {"NoneType", "str", "float", "int", "bool", "list", "dict"}


def test_a_table_with_text_stands_for_mappings_and_one_of_numbers_for_an_array() -> None:
    table = pd.DataFrame(mixed.records())
    natural = NamedInputs.of_records(table)
    assert natural.names == tuple(table.columns)
    assert set(natural.ordinary[0]) == set(mixed.ORIGINS)
    assert NamedInputs.of_records(pd.DataFrame({"a": [1.0, 2.0]})) is None
    assert NamedInputs.of_records(np.zeros((3, 2))) is None
    with pytest.raises(AuditError, match="all of these names"):
        NamedInputs.of_records([{"a": 1}, {"b": 2}])


def test_half_of_the_pairs_are_natural_records_and_half_are_numbers() -> None:
    target = of_veil(mixed.mixed_veil(), records=pd.DataFrame(mixed.records()))
    assert len(target.natural.records) == len(target.records) == 50
    pairs = find_pairs(target, count=4, pilot=100, rng=np.random.default_rng(0))
    assert [pair.natural for pair in pairs] == [True, True, False, False]
    alone = find_pairs(target, count=1, pilot=100, rng=np.random.default_rng(0))
    assert alone[0].natural


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mixed.mixed_veil(mixed.Strict), "refused"),
        (lambda: mixed.mixed_veil(kind=mixed.WithoutHoles), "one row per record"),
    ],
    ids=["refuses unknown categories", "drops holes"],
)
def test_a_veil_that_does_not_answer_every_mixed_record_is_broken(make: object, says: str) -> None:
    target = of_veil(make())
    numbers = np.zeros((100, target.width))
    natural = target.natural.draw(np.random.default_rng(0), 500)
    assert reports_on_grid(target, [numbers]).outcome == "held"
    found = reports_on_grid(target, [numbers, natural])
    assert found.outcome == "broken"
    assert says in found.detail


def test_a_sound_veil_answers_every_mixed_record() -> None:
    target = of_veil(mixed.mixed_veil())
    natural = target.natural.draw(np.random.default_rng(0), 3000)
    assert reports_on_grid(target, [natural]).outcome == "held"
    assert latents_inside(target, [natural]).outcome == "held"


def test_reports_of_different_lengths_are_told() -> None:
    target = of_client(mixed.longer_for_long_names)
    long = target.natural.middle
    assert target.report(np.stack([long, long])).shape == (2, 2)
    long[0] = "x" * 300
    with pytest.raises(AuditError, match="lengths"):
        target.report(np.stack([long, target.natural.middle]))
