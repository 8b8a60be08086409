"""One thread for what designs compute on the processor.

Designs make thousands of tiny products. Waking several threads for each is no faster on an idle machine, and beside
other work the threads wait for each other: at least eight times slower.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS, OpenMP and torch use one thread inside; afterwards, also after an error, they have the caller's number.

    The setting holds for the whole process, so a generator must not yield inside: its caller would be slowed down
    between two items, and keep one thread if it never asked for the next. As a decorator it wraps a whole function.
    """
    torch = sys.modules.get(
        "torch"
    )  # if torch is in use, it is already imported; otherwise it is not imported, because that is slow
    threads = None if torch is None else torch.get_num_threads()  # before the limit, which torch's OpenMP follows
    with threadpool_limits(1):
        try:
            if torch is not None:
                torch.set_num_threads(1)
            yield
        finally:
            if torch is not None:
                torch.set_num_threads(threads)
