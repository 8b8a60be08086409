"""Events are chosen on some reports and counted on others."""

from __future__ import annotations

import math

import numpy as np
import pytest

from taskveil.auditing.scores import choose_event, ideas


@pytest.mark.parametrize("swapped", [False, True])
def test_the_event_of_a_biased_coin(swapped: bool) -> None:
    rng = np.random.default_rng(0)
    often, seldom = ((rng.random((20_000, 1)) < p).astype(np.int64) for p in (0.5, 0.5 / math.e))
    first, second = (seldom, often) if swapped else (often, seldom)
    tried = ideas(None, np.array([[0.0], [1.0]]), first)
    event = choose_event(tried, first, second, trials=20_000, alpha=1e-6, delta=0.0)
    p, q = event.counted(event.score(first), event.score(second))
    assert {p, q} in ({int(often.sum()), int(seldom.sum())}, {int((1 - often).sum()), int((1 - seldom).sum())})
    assert p > q
    assert str(event).startswith(event.name)
    assert event.in_words(("this", "that")).endswith("“that”" if event.tail.below else "“this”")
