from __future__ import annotations

import numpy as np
import pytest
from torch import nn

from taskveil.designs.problem import OnDevice
from taskveil.errors import TaskError


def test_the_tasks_model_competes_only_where_it_is_shared() -> None:
    assert not OnDevice().allows("own")
    assert OnDevice(share_model=True).allows("own")
    assert OnDevice(encoder="own", share_model=True).allows("own")
    assert not OnDevice(encoder="light", share_model=True).allows("own")


def test_a_name_allows_itself_alone() -> None:
    assert [name for name in ("linear", "light", "trees") if OnDevice(encoder="trees").allows(name)] == ["trees"]
    assert not OnDevice(encoder=nn.Linear(2, 1)).allows("light")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"encoder": "forest"}, "encoder must be one of auto, linear"),
        ({"encoder": 3}, "a torch module or a callable; got int"),
        ({"encoder": nn.Linear}, "got type"),
        ({"encoder": "own"}, "share_model=True"),
        ({"max_bytes": 10}, "at least 1024"),
        ({"max_bytes": True}, "at least 1024"),
        ({"max_bytes": np.float64(1e6)}, "whole number"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(TaskError, match=says):
        OnDevice(**options)  # type: ignore[arg-type]
