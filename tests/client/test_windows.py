from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from taskveil.client.networks import MOST_NUMBERS, PoolingLayer, Window
from taskveil.errors import DataError

SIZES = {
    "channels": 2, "height": 4, "width": 4, "rows": 2, "columns": 2, "row_stride": 1, "column_stride": 1,
    "row_padding": 0, "column_padding": 0,
}  # fmt: skip


@st.composite
def windows(draw: st.DrawFn) -> Window:
    height, width = draw(st.integers(1, 7)), draw(st.integers(1, 7))
    rows, columns = draw(st.integers(1, height)), draw(st.integers(1, width))
    return Window(
        channels=draw(st.integers(1, 3)),
        height=height,
        width=width,
        rows=rows,
        columns=columns,
        row_stride=draw(st.integers(1, 3)),
        column_stride=draw(st.integers(1, 3)),
        row_padding=draw(st.integers(0, rows - 1)),
        column_padding=draw(st.integers(0, columns - 1)),
    )


def padded(window: Window, q: np.ndarray, value: float) -> torch.Tensor:
    pictures = torch.from_numpy(q).reshape(len(q), window.channels, window.height, window.width)
    sides = [window.column_padding] * 2 + [window.row_padding] * 2
    return F.pad(pictures, sides, value=value)


@given(windows(), st.integers(0, 1000))
def test_patches_are_torchs(window: Window, seed: int) -> None:
    q = np.random.default_rng(seed).integers(-9, 9, size=(3, window.inputs)).astype(float)
    strides = (window.row_stride, window.column_stride)
    theirs = F.unfold(padded(window, q, 5.0), (window.rows, window.columns), stride=strides).numpy()
    assert np.array_equal(window.patches(q, np.full(window.channels, 5.0)), theirs)


@given(windows(), st.integers(0, 1000), st.integers(0, 3))
def test_pooling_is_torchs(window: Window, seed: int, shift: int) -> None:
    q = np.random.default_rng(seed).integers(-99, 99, size=(3, window.inputs)).astype(float)
    size, strides = (window.rows, window.columns), (window.row_stride, window.column_stride)
    largest = F.max_pool2d(padded(window, q, -np.inf), size, strides).numpy().reshape(3, -1)
    assert np.array_equal(PoolingLayer(window=window, maximum=True, shift=0)(q), largest)
    sums = F.avg_pool2d(padded(window, q, 0.0), size, strides, divisor_override=1).numpy().reshape(3, -1)
    summed = PoolingLayer(window=window, maximum=False, shift=shift)
    assert np.array_equal(summed(q), np.floor(sums / 2**shift))
    assert (np.abs(summed(q)) <= summed.largest(summed.reach(99))).all()
    assert summed.operations == sums.shape[1] * window.rows * window.columns


@pytest.mark.parametrize("maximum", [True, False])
def test_no_window_takes_long(maximum: bool) -> None:
    """A million places in the window and one place of it: a loop over the window would take seconds."""
    wide = {"rows": 1024, "columns": 1024, "row_stride": 1024, "column_stride": 1024}
    window = Window(channels=1, height=1, width=1, row_padding=1023, column_padding=1023, **wide)
    begin = time.process_time()
    assert PoolingLayer(window=window, maximum=maximum, shift=0)(np.array([[7.0]])).tolist() == [[7.0]]
    assert window.patches(np.array([[7.0]]), np.zeros(1)).sum() == 7
    assert time.process_time() - begin < 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"height": 0}, {"row_stride": 0}, {"row_padding": -1}, {"row_padding": 2}, {"columns": 5}, {"rows": 2.0},
        {"channels": True}, {"height": MOST_NUMBERS}, {"height": 10**30},
    ],
    ids=str,
)  # fmt: skip
def test_windows_that_do_not_fit_are_refused(wrong: dict[str, int]) -> None:
    Window(**SIZES)
    with pytest.raises(DataError, match=r"window|numbers"):
        Window(**(SIZES | wrong))


def test_pooling_says_what_it_does() -> None:
    window = Window(**SIZES)
    for maximum, shift in ((True, 1), (False, 53), (False, -1), (1, 0)):
        with pytest.raises(DataError, match="pooling"):
            PoolingLayer(window=window, maximum=maximum, shift=shift)  # type: ignore[arg-type]
