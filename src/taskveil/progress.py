"""How far a long piece of work is: one bar on stderr, with what is being tried and an estimate of the time left.

By default a bar appears after two seconds of work, on a terminal or in a notebook, and is gone when the work ends. The
one who starts the work opens a `Progress` in a `with` statement and hands it down; everybody below only says what is
done. `rich` is imported when a bar appears on a terminal, and never before.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from types import TracebackType
from typing import Any, Protocol, Self

AFTER = 2.0
"""Seconds of work before a bar appears that nobody asked for."""

REDRAWN, NEW_LINE, OTHER_LINE = 0.2, 10.0, 1.0
"""Seconds between two states that a notebook shows; between two lines where a bar cannot be redrawn; and between two
that are about different things."""

_one_bar = threading.Lock()
"""Held by the bar that is on the screen: two would overwrite each other."""


class Progress:
    """Counts work, and shows it between `__enter__` and `__exit__`; the outermost `with` closes the bar."""

    def __init__(self, shown: bool | None = None) -> None:
        """None: a bar after `AFTER` seconds where a person watches. True and False force it."""
        self._shown = shown
        self._lock = threading.RLock()
        self._depth = 0
        self._timer: threading.Timer | None = None
        self._screen: _Screen | None = None
        self._reset()

    def _reset(self) -> None:
        self._since = time.monotonic()
        self._what = ""
        self._total = self._done = self._least = 0.0

    @classmethod
    def of(cls, progress: bool | Progress | None) -> Progress:
        """The one that was handed down, or a new one for what a caller asks for."""
        if isinstance(progress, Progress):
            return progress
        return SILENT if progress is False else cls(progress)

    def begin(self, what: str, steps: float) -> None:
        """A new stage: what it is, and its expected work in any unit, which is added to the total. A bar that knows all
        stages from the beginning does not go back: begin once with the sum where it is known."""
        with self._lock:
            self._what = what
            self._total += steps
            self._draw()

    def advance(self, what: str | None = None, steps: float = 1.0) -> None:
        """So many `steps` are done; `what` is what is being tried now, by default the same as before."""
        with self._lock:
            self._what = self._what if what is None else what
            self._done += steps
            self._draw()

    def reach(self, share: float) -> None:
        """At least this share of all the work is done, whatever was counted."""
        with self._lock:
            self._least = max(self._least, share)
            self._draw()

    def part(self, what: str, steps: float) -> Progress:
        """One that counts in its own unit and stands for `steps` of the steps begun here: `with` it, and they are done
        at its end. What it says is shown after `what`."""
        return _Part(self, what, steps)

    @property
    def share(self) -> float:
        """From 0 to 1: how much of the work known so far is done."""
        return min(1.0, max(self._least, self._done / self._total if self._total > 0 else 0.0))

    def __enter__(self) -> Self:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._reset()
                if self._shown:
                    self._appear()
                elif self._shown is None and (_in_notebook() or _on_terminal()):
                    # A thread of its own, because a first step may take minutes.
                    self._timer = threading.Timer(AFTER, self._appear)
                    self._timer.daemon = True
                    self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth > 0:
                return
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if self._screen is not None:
                try:
                    self._screen.close()
                finally:
                    self._screen = None
                    _one_bar.release()

    def __reduce__(self) -> tuple[Any, ...]:
        """Silent wherever it is sent: the screen is here."""
        return _silent, ()

    def _appear(self) -> None:
        with self._lock:
            if self._depth == 0 or self._screen is not None or not _one_bar.acquire(blocking=False):
                return
            try:
                self._screen = _screen()
                self._draw()
            finally:
                if self._screen is None:
                    _one_bar.release()

    def _draw(self) -> None:
        if self._screen is not None and (self._what or self._total > 0):  # or nobody said anything yet
            self._screen.show(self._what or "working", self.share if self._total > 0 else None, self._left())

    def _left(self) -> str:
        """The time that is left if the rest goes as fast as what was done; empty while that says nothing."""
        share, passed = self.share, time.monotonic() - self._since
        return f"about {_duration(passed * (1 - share) / share)} left" if 0.01 <= share < 1 else ""

    def _set(self, done: float, what: str) -> None:
        with self._lock:
            self._done, self._what = done, what
            self._draw()


class _Part(Progress):
    """A part of another's work, in a unit of its own."""

    def __init__(self, whole: Progress, name: str, steps: float) -> None:
        super().__init__(False)
        self._whole, self._name, self._steps, self._before = whole, name, steps, whole._done

    def __enter__(self) -> Self:
        with self._lock:
            self._depth += 1
            if self._depth == 1:
                self._reset()
                self._before = self._whole._done
                self._draw()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0 and error is None:
                self.reach(1.0)

    def _draw(self) -> None:
        what = f"{self._name}: {self._what}" if self._what else self._name
        self._whole._set(self._before + self._steps * self.share, what)


class _Silent(Progress):
    """Shows and keeps nothing, so that one of them serves all threads."""

    def begin(self, what: str, steps: float) -> None:
        pass

    def advance(self, what: str | None = None, steps: float = 1.0) -> None:
        pass

    def reach(self, share: float) -> None:
        pass

    def part(self, what: str, steps: float) -> Progress:  # noqa: ARG002 - as the others
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


SILENT: Progress = _Silent(False)
"""Never shows anything: the default of functions deep inside."""


def _silent() -> Progress:
    return SILENT


class _Screen(Protocol):
    """Where a bar is shown; `share` is None while nobody knows how much there is to do."""

    def show(self, what: str, share: float | None, left: str) -> None: ...

    def close(self) -> None: ...


class _Terminal:
    """A bar by rich, below whatever is printed meanwhile."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, SpinnerColumn, TaskProgressColumn, TextColumn
        from rich.progress import Progress as Bar
        from rich.table import Column

        named = Column(no_wrap=True, overflow="ellipsis")  # one line, however narrow the window is
        self._bar = Bar(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False, table_column=named),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("{task.fields[left]}", markup=False, table_column=Column(no_wrap=True)),
            console=Console(stderr=True),
            transient=True,
            # What is printed into a file or a pipe must not come out on the screen.
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )
        self._job = self._bar.add_task("working", total=None, left="")
        self._bar.start()

    def show(self, what: str, share: float | None, left: str) -> None:
        if share is None:
            self._bar.update(self._job, description=what, left=left)
        else:
            self._bar.update(self._job, description=what, total=1.0, completed=share, left=left)

    def close(self) -> None:
        self._bar.stop()


class _Notebook:
    """One line of text that is replaced; it needs no widgets."""

    def __init__(self) -> None:
        display = importlib.import_module("IPython.display").display  # no dependency: who has a notebook has it
        self._handle: Any = display({"text/plain": ""}, raw=True, display_id=True)
        self._next = 0.0

    def show(self, what: str, share: float | None, left: str) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + REDRAWN
            self._handle.update({"text/plain": _line(what, share, left, width=24)}, raw=True)

    def close(self) -> None:
        self._handle.update({"text/plain": ""}, raw=True)


class _Lines:
    """A line from time to time, for files, pipes and terminals that cannot redraw."""

    def __init__(self) -> None:
        self._what, self._last = "", -NEW_LINE

    def show(self, what: str, share: float | None, left: str) -> None:
        pause = NEW_LINE if what == self._what else OTHER_LINE
        if sys.stderr is not None and time.monotonic() >= self._last + pause:
            self._what, self._last = what, time.monotonic()
            print(_line(what, share, left), file=sys.stderr, flush=True)

    def close(self) -> None:
        pass


def _line(what: str, share: float | None, left: str, width: int = 0) -> str:
    """What a bar says, in one line, with a bar of so many characters."""
    if share is None:
        return f"{what}…"
    full = round(width * share)
    bar = ["█" * full + "░" * (width - full)] if width else []
    return "  ".join([what, *bar, f"{share:.0%}", *([left] if left else [])])


def _screen() -> _Screen:
    """The best that is there for a bar that is to be shown."""
    if _in_notebook():
        return _Notebook()
    if _on_terminal():
        try:
            return _Terminal()
        except ImportError:  # a bar is no reason to fail
            pass
    return _Lines()


def _on_terminal() -> bool:
    """Whether stderr is a terminal on which a line can be redrawn."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "") not in {"dumb", "unknown"}


def _in_notebook() -> bool:
    """Whether a kernel of IPython runs this, which nobody can have started without its module."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


def _duration(seconds: float) -> str:
    if seconds < 100:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
