"""One thread inside, the caller's number outside."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import scipy.linalg  # noqa: F401 - brings a BLAS of its own
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from taskveil.designs.selection import one_thread


@pytest.fixture(params=[2, 3])
def callers(request: pytest.FixtureRequest) -> int:
    """The number of threads of someone who calls us, unlike ours and, once, unlike the machine's."""
    before = torch.get_num_threads()
    with threadpool_limits(request.param):
        torch.set_num_threads(request.param)
        yield request.param
    torch.set_num_threads(before)


def in_use() -> set[int]:
    return {torch.get_num_threads()} | {library["num_threads"] for library in threadpool_info()}


def test_one_thread_inside_and_the_callers_number_afterwards(callers: int) -> None:
    assert in_use() == {callers}
    with one_thread():
        assert in_use() == {1}
        with one_thread():
            assert in_use() == {1}
        assert in_use() == {1}
    assert in_use() == {callers}


def test_an_error_restores_it_too(callers: int) -> None:
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert in_use() == {callers}


def test_as_a_decorator_every_call_is_limited(callers: int) -> None:
    @one_thread()
    def product() -> tuple[set[int], float]:
        return in_use(), float((np.ones((2, 2)) @ np.ones((2, 2))).sum())

    for _ in range(2):
        assert product() == ({1}, 8.0)
        assert in_use() == {callers}


def test_nobody_waits_for_torch_who_does_not_use_it() -> None:
    code = (
        "import sys; from taskveil.designs.selection import one_thread\n"
        "with one_thread(): pass\n"
        "print('torch' in sys.modules)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
