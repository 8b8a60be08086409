"""Which tasks a sweep consists of: all that is missing, nothing twice, and together what shares its work."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from torch import nn

import taskveil as tv
from designers import Plain
from taskveil.designs.designing import DESIGNERS
from taskveil.sweeps.work import DesignWork, Place
from taskveil.tasks import Task

LINEAR, MODEL = tv.LinearTask(np.eye(3)), tv.ModelTask(nn.Linear(3, 1))


def places(works: list[DesignWork]) -> list[Place]:
    return [Place(w.segment, w.method, e, s) for w in works for e, s in product(w.epsilons, w.seeds)]


def test_all_that_is_missing_is_asked_for_once() -> None:
    everything = [Place(*place) for place in product((None, "NZ"), ("a", "b"), (1.0, 2.0, 4.0), (0, 1, 2))]
    works = DesignWork.missing(everything)
    assert sorted(places(works), key=str) == sorted(everything, key=str)
    assert len(works) == 4  # together, as far as segments and methods go
    some = [place for number, place in enumerate(everything) if number % 5]
    assert sorted(places(DesignWork.missing(some)), key=str) == sorted(some, key=str)
    assert DesignWork.missing([]) == []


@pytest.mark.parametrize(
    ("method", "task", "budgets", "seeds"),
    [
        ("codebook", LINEAR, 1, 1),
        ("task_aware", LINEAR, 1, 1),
        ("plain", LINEAR, 1, 1),
        ("means", tv.MeanTask(np.eye(3)), 1, 1),
        ("codebook", MODEL, 2, 1),  # predictors are fitted once for all budgets
        ("auto", MODEL, 2, 1),
        ("label_response", MODEL, 2, 1),
        ("task_aware", MODEL, 2, 3),  # learned together
    ],
)
def test_tasks_are_parted_where_nothing_is_shared(method: str, task: Task, budgets: int, seeds: int) -> None:
    whole = DesignWork(segment=None, method=method, epsilons=(1.0, 2.0), seeds=(0, 1, 2))
    parts = whole.parted(DESIGNERS.get(method, Plain()), task)
    assert sorted(places(parts)) == sorted(places([whole]))
    assert {(len(part.epsilons), len(part.seeds)) for part in parts} == {(budgets, seeds)}
