from __future__ import annotations

import numpy as np

from taskveil.experiments.demo_people import OTHERS, SCHEMA, later, people, table


def test_records_are_as_the_schema_has_them() -> None:
    records = people(300, seed=3)
    assert all(tuple(record) == SCHEMA.names for record in (*records, *OTHERS.values()))
    numbers = SCHEMA.expand(table(records))
    np.testing.assert_array_equal(numbers, SCHEMA.expand(records))  # as volunteers, and as devices have them
    low, high = SCHEMA.fields.box
    assert ((numbers >= low) & (numbers <= high)).all()
    assert {name for name in SCHEMA if any(record[name] is None for record in records)} == {
        *("resting pulse", "sport", "smokes", "last check-up"),
    }


def test_later_the_young_answer_and_are_less_fit() -> None:
    before, after = people(3000, seed=3), later(3000, seed=3)
    assert 1000 < len(after) < 2500
    assert all(record["age"] == before[place]["age"] for place, record in after.items())
    ages, pulses = ([record[name] for record in after.values()] for name in ("age", "resting pulse"))
    assert np.mean(ages) < np.mean([record["age"] for record in before]) - 5
    same = [(before[place]["resting pulse"], pulse) for place, pulse in zip(after, pulses, strict=True) if pulse]
    assert np.mean([later - earlier for earlier, later in same if earlier]) > 1
