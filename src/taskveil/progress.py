"""A progress bar for long work, shown by `rich` on a terminal or in a notebook.

The function that starts the work opens a `Progress` in a `with` statement and hands it down; functions below only count
what is done. `rich` is imported when a bar appears, not before.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol, Self

from taskveil.errors import installed

BAR_AFTER_SECONDS = 2.0
"""Work of this length gets a bar by default."""

SECONDS_BETWEEN_LINES = 5.0
"""Where a bar cannot be redrawn, one line of text is printed at most this often."""

Show = Callable[[str, float | None], None]
"""A function that takes a description and the share that is done: from 0 to 1, or None while it is not known."""

_one_bar = threading.Lock()
"""Held by the bar on the screen: two would overwrite each other."""


class Progress:
    """Counts work and shows it inside a `with` statement; the outermost one closes the bar."""

    def __init__(self, shown: bool | Show | None = None) -> None:
        """None: a bar after two seconds of work, on a terminal or in a notebook. True and False force it. Or a function
        that is called instead."""
        self._shown = shown
        self._lock = threading.RLock()
        self._depth = 0
        self._timer: threading.Timer | None = None
        self._screen: Screen | None = None
        self._reset()

    def _reset(self) -> None:
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
                self._reset()
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
        elif self._shown is None and (_in_notebook() or _on_terminal()):
            # In a thread of its own, because the first step may take minutes.
            self._timer = threading.Timer(BAR_AFTER_SECONDS, self._appear)
            self._timer.daemon = True
            self._timer.start()

    def _close(self, error: BaseException | None) -> None:  # noqa: ARG002 - parts need it
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._screen is not None:
            try:
                self._screen.close()
            finally:
                self._screen = None
                _one_bar.release()

    def _appear(self) -> None:
        with self._lock:
            if self._depth == 0 or self._screen is not None or not _one_bar.acquire(blocking=False):
                return
            try:
                self._screen = _Called(self._shown) if callable(self._shown) else _screen()
                self._draw()
            finally:
                if self._screen is None:
                    _one_bar.release()

    def _draw(self) -> None:
        if self._screen is not None and (self._what or self._total > 0):
            self._screen.show(self._what or "working", self.share if self._total > 0 else None)


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


class Screen(Protocol):
    """Where progress is shown."""

    def show(self, what: str, share: float | None) -> None:
        """Show a description and the share that is done, or None while it is not known."""

    def close(self) -> None:
        """Remove what is shown."""


class _Called:
    """Calls a function of the user's."""

    def __init__(self, show: Show) -> None:
        self.show = show

    def close(self) -> None:
        pass


class _Bar:
    """A bar by rich, below whatever is printed meanwhile; it is gone at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        self._bar = Bar(
            SpinnerColumn(),
            TextColumn(
                "{task.description}", markup=False, table_column=Column(no_wrap=True, overflow="ellipsis")
            ),  # one line, also in a narrow window
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
            # Output into a file or a pipe must not appear on the screen.
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )
        self._job = self._bar.add_task("working", total=None)
        self._bar.start()

    def show(self, what: str, share: float | None) -> None:
        self._bar.update(self._job, description=what, total=None if share is None else 1.0, completed=share)

    def close(self) -> None:
        self._bar.stop()


class _Lines:
    """A line from time to time, for files, pipes and terminals that cannot redraw."""

    def __init__(self) -> None:
        self._next = 0.0

    def show(self, what: str, share: float | None) -> None:
        if sys.stderr is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + SECONDS_BETWEEN_LINES
            print(f"{what}…" if share is None else f"{what}  {share:.0%}", file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


def _screen() -> Screen:
    """A bar where it can be redrawn, else lines. In a notebook rich draws with ipywidgets."""
    drawn = installed("ipywidgets") if _in_notebook() else _on_terminal()
    return _Bar() if drawn and installed("rich") else _Lines()


def _on_terminal() -> bool:
    """Whether stderr is a terminal on which a line can be redrawn."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "") not in {"dumb", "unknown"}


def _in_notebook() -> bool:
    """Whether a kernel of IPython runs this. It has imported IPython, so nothing is imported here."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
