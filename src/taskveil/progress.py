"""A progress bar for long work, on a terminal (by `rich`) or in a notebook, and lines elsewhere.

The function that starts the work opens a `Progress` in a `with` statement and hands it down; functions below only count
what is done. `rich` is imported when a bar appears, not before.
"""

from __future__ import annotations

import contextlib
import html
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

from taskveil.errors import installed, printable

BAR_AFTER_SECONDS = 2.0
"""Work of this length gets a bar by default. Lines have this distance."""

Show = Callable[[str, float | None], None]
"""A function that takes a description and the share that is done: from 0 to 1, or None while it is not known."""

_one_bar = threading.Lock()
"""Held by the bar on the screen: two would overwrite each other."""


class Progress:
    """Counts work and shows it inside a `with` statement; the outermost one closes the bar."""

    def __init__(self, shown: bool | Show | None = None) -> None:
        """None: a bar after two seconds of work. True: at once. False: never. Or a function that is called instead.
        Where no bar can be redrawn (a file, a pipe), True prints lines."""
        self._shown = shown
        self._lock = threading.RLock()
        self._depth = 0
        self._timer: threading.Timer | None = None
        self._show: Show | None = None
        self._closing = contextlib.ExitStack()
        self._what = ""
        self._total = self._done = self._least = 0.0

    @classmethod
    def of(cls, progress: bool | Show | Progress | None) -> Progress:
        """The one that was handed down, or a new one for what a caller asks for."""
        if isinstance(progress, Progress):
            return progress
        return SILENT if progress is False else cls(progress)

    def begin(self, what: str, steps: float) -> None:
        """Start a new stage: a description, and its expected work in any unit, which is added to the total."""
        with self._lock:
            self._what = what
            self._total += steps
            self._draw()

    def advance(self, what: str | None = None, steps: float = 1.0) -> None:
        """Count so many `steps` as done; `what` describes the work of now, by default the same as before."""
        with self._lock:
            self._what = self._what if what is None else what
            self._done += steps
            self._draw()

    def reach(self, share: float) -> None:
        """Show at least this share of all the work as done, whatever was counted."""
        with self._lock:
            self._least = max(self._least, share)
            self._draw()

    def part(self, what: str, steps: float) -> Progress:
        """A progress with its own unit that stands for `steps` of the steps begun here; they are done at the end of its
        `with` statement. Its descriptions are shown after `what`."""
        return SILENT if self is SILENT else _Part(self, what, steps)

    @property
    def share(self) -> float:
        """From 0 to 1: the part of the work known so far that is done."""
        return min(1.0, max(self._least, self._done / self._total if self._total > 0 else 0.0))

    def __enter__(self) -> Self:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._what = ""
                self._total = self._done = self._least = 0.0
                self._open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._close(error)

    def __reduce__(self) -> tuple[Any, ...]:
        """Silent after pickling: the screen is here."""
        return _silent, ()

    def _open(self) -> None:
        if self._shown:
            self._appear()
        elif self._shown is None and (in_notebook() or _on_terminal()):
            # In a thread of its own, because the first step may take minutes.
            self._timer = threading.Timer(BAR_AFTER_SECONDS, self._appear)
            self._timer.daemon = True
            self._timer.start()

    def _close(self, error: BaseException | None) -> None:  # noqa: ARG002 - parts need it
        if self._timer is not None:
            self._timer.cancel()
        self._show = None
        self._closing.close()

    def _appear(self) -> None:
        with self._lock:
            if self._depth == 0 or self._show is not None or not _one_bar.acquire(blocking=False):
                return
            self._closing.callback(_one_bar.release)
            if callable(self._shown):
                self._show = self._shown
            else:
                self._show = self._closing.enter_context(_screen())
            self._draw()

    def _draw(self) -> None:
        if self._show is not None and (self._what or self._total > 0):
            self._show(self._what or "working", self.share if self._total > 0 else None)


class _Part(Progress):
    """A part of another's work, in a unit of its own."""

    def __init__(self, whole: Progress, name: str, steps: float) -> None:
        super().__init__(False)
        self._whole, self._name, self._steps, self._before = whole, name, steps, whole._done

    def _open(self) -> None:
        self._before = self._whole._done
        self._draw()

    def _close(self, error: BaseException | None) -> None:
        if error is None:
            self.reach(1.0)

    def _draw(self) -> None:
        whole = self._whole
        with whole._lock:
            whole._done = self._before + self._steps * self.share
            whole._what = f"{self._name}: {self._what}" if self._what else self._name
            whole._draw()


SILENT = Progress(False)
"""Never shows anything: the default of functions deep inside. One serves all threads."""


def _silent() -> Progress:
    return SILENT


def _screen() -> contextlib.AbstractContextManager[Show]:
    """The best that can be shown here: a bar, or lines where none can be redrawn."""
    if in_notebook():
        return _cell()
    return _bar() if installed("rich") and _on_terminal() else contextlib.nullcontext(_lines())


@contextlib.contextmanager
def _cell() -> Iterator[Show]:
    """A bar in the output of a notebook's cell, redrawn at most ten times a second; it is gone at the end."""
    from IPython.display import display

    handle = display(_shown(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
    due = 0.0

    def show(what: str, share: float | None) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + 0.1
            handle.update(_shown(what, share), raw=True)

    yield show
    handle.update(_shown(), raw=True)


def _shown(what: str = "", share: float | None = None) -> dict[str, str]:
    """A bar as text and as HTML; empty where there is nothing to say."""
    if not what:
        return {"text/plain": "", "text/html": ""}
    value, done = ("", "…") if share is None else (f' value="{share:.3f}"', f" {share:.0%}")
    words = printable(what) + done
    return {"text/plain": words, "text/html": f"<progress{value}></progress> {html.escape(words)}"}


@contextlib.contextmanager
def _bar() -> Iterator[Show]:
    """A bar by rich, below whatever is printed meanwhile; it is gone at the end."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    one_line = Column(no_wrap=True, overflow="ellipsis")  # also in a narrow window
    with Bar(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False, table_column=one_line),
        BarColumn(),
        TaskProgressColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
        # Output into a file or a pipe must not appear on the screen.
        redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
    ) as bar:
        job = bar.add_task("working", total=None)
        yield lambda what, share: bar.update(
            job, description=what, total=None if share is None else 1.0, completed=share
        )


def _lines() -> Show:
    """A function that prints a line on stderr, at most one every two seconds."""
    due = 0.0

    def show(what: str, share: float | None) -> None:
        nonlocal due
        if sys.stderr is not None and time.monotonic() >= due:
            due = time.monotonic() + BAR_AFTER_SECONDS
            print(f"{what}…" if share is None else f"{what}  {share:.0%}", file=sys.stderr, flush=True)

    return show


def _on_terminal() -> bool:
    """Whether stderr is a terminal on which a line can be redrawn."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "") not in {"dumb", "unknown"}


def in_notebook() -> bool:
    """Whether a kernel of IPython runs this. It has imported IPython, so nothing is imported here."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
