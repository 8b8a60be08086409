"""When a bar is shown, where, and what it says."""

from __future__ import annotations

import contextlib
import copy
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import taskveil as tv
import terminals
from designers import Noisy
from taskveil import progress as module
from taskveil.designs.problem import Problem
from taskveil.progress import SILENT, Progress

WORK = """
import time
from taskveil import progress
progress.BAR_AFTER_SECONDS = {after}
with progress.Progress({shown}) as bar:
    bar.begin("counting sheep", 4)
    for _ in range(2):
        time.sleep(0.15)
        bar.advance()
    print("result")
"""


def work(shown: bool | None, *, terminal: bool, after: float = 0.05, **variables: str) -> terminals.Shown:
    """What a program shows that does half of four steps in 0.3 s."""
    found = terminals.run(WORK.format(shown=shown, after=after), terminal=terminal, **variables)
    assert (found.code, found.out) == (0, "result\n")  # whatever is shown, what is printed into a pipe stays there
    return found


def test_a_terminal_gets_a_bar_that_says_what_and_how_long_and_is_gone_at_the_end() -> None:
    found = work(None, terminal=True)
    assert "counting sheep" in found.err
    assert " 50%" in found.err
    assert "0:00:0" in found.err
    assert terminals.screen(found.err) == ""
    before = found.err[: found.err.rindex("counting sheep")]
    assert "counting sheep" in terminals.screen(before + "counting sheep")  # the screen can show what it holds


def test_short_work_shows_nothing() -> None:
    assert module.BAR_AFTER_SECONDS == 2.0
    assert work(None, terminal=True, after=2.0).err == ""


def test_a_pipe_gets_nothing_unless_forced() -> None:
    assert work(None, terminal=False).err == ""
    assert work(None, terminal=False, FORCE_COLOR="1").err == ""
    forced = work(True, terminal=False).err
    assert forced.startswith("counting sheep")
    assert "\x1b" not in forced


def test_lines_are_few(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))
    with Progress(True) as bar:
        bar.begin("first", 80)
        for step in range(80):
            now[0] += 0.125
            bar.advance("first" if step < 40 else "second")
    assert [line.split("  ")[:2] for line in capsys.readouterr().err.splitlines()] == [
        ["first", "0%"], ["first", "20%"], ["first", "40%"], ["second", "60%"], ["second", "80%"], ["second", "100%"],
    ]  # fmt: skip


def test_forced_on_a_terminal() -> None:
    assert "counting sheep" in work(True, terminal=True, after=60).err
    assert work(False, terminal=True).err == ""


def test_terminals_without_colours_and_without_a_cursor() -> None:
    plain = work(None, terminal=True, NO_COLOR="1").err
    assert "counting sheep" in plain
    assert "\x1b[3" not in plain
    assert "\x1b[3" in work(None, terminal=True).err
    assert work(None, terminal=True, TERM="dumb").err == ""
    assert work(True, terminal=True, TERM="dumb").err.startswith("counting sheep")


def test_a_long_first_step_shows_something_and_an_error_leaves_nothing() -> None:
    for error in ("ValueError", "KeyboardInterrupt"):
        found = terminals.run(
            "import sys, time\nfrom taskveil import progress\n"
            "progress.BAR_AFTER_SECONDS = 0.05\nsys.excepthook = lambda *_: None\n"
            f"with progress.Progress() as bar:\n bar.begin('thinking', 1)\n time.sleep(0.4)\n raise {error}",
            terminal=True,
        )
        assert found.code != 0
        assert "thinking" in found.err
        assert terminals.screen(found.err) == ""
        assert found.err.rindex("\x1b[?25h") > found.err.rindex("\x1b[?25l")  # the cursor is back


def test_rich_is_imported_with_the_first_bar() -> None:
    program = (
        "import sys\nfrom taskveil.progress import Progress\n"
        "with Progress() as bar: bar.begin('x', 1); bar.advance()\n"
        "assert 'rich' not in sys.modules"
    )
    assert terminals.run(program, terminal=True).code == 0


@dataclass
class Recorder:
    """A screen that remembers."""

    shown: list[tuple[str, float | None]] = field(default_factory=list)
    closed: int = 0

    def show(self, what: str, share: float | None) -> None:
        self.shown.append((what, share))


@pytest.fixture
def screens(monkeypatch: pytest.MonkeyPatch) -> list[Recorder]:
    """All screens that are opened."""
    opened: list[Recorder] = []

    @contextlib.contextmanager
    def fresh() -> Iterator[module.Show]:
        screen = Recorder()
        opened.append(screen)
        try:
            yield screen.show
        finally:
            screen.closed += 1

    monkeypatch.setattr(module, "_screen", fresh)
    return opened


def test_parts_count_in_their_own_unit(screens: list[Recorder]) -> None:
    with Progress(True) as bar:
        bar.begin("all", 4)
        with bar.part("one", 3) as part:
            part.begin("steps", 100)
            part.advance(steps=50)
            part.advance("others", 25)
            part.begin("more", 50)
        bar.advance("two")
    ((*_, half, later, more, end, last),) = [screen.shown for screen in screens]
    assert half == ("one: steps", 3 / 8)
    assert later == ("one: others", 9 / 16)
    assert more == ("one: more", 3 / 8)  # there is more to do than was known
    assert end == ("one: more", 3 / 4)
    assert last == ("two", 1.0)


def test_a_part_that_fails_is_not_done() -> None:
    bar = Progress()
    bar.begin("all", 2)
    with pytest.raises(ZeroDivisionError), bar.part("one", 1):
        raise ZeroDivisionError
    assert bar.share == 0.0


def test_the_share_is_not_known_before_the_work_is(screens: list[Recorder]) -> None:
    with Progress(True) as bar:
        bar.begin("x", 0.0)
        bar.begin("x", 10)
        bar.advance(steps=2)
        bar.reach(0.1)  # less than is done
    assert screens[0].shown == [("x", None), ("x", 0.0), ("x", 0.2), ("x", 0.2)]


def test_a_function_is_called_instead() -> None:
    seen: list[tuple[str, float | None]] = []
    with Progress.of(lambda what, share: seen.append((what, share))) as bar:
        bar.begin("x", 4)
        bar.advance("y")
    assert seen == [("x", 0.0), ("y", 0.25)]
    tv.design(X, TASK, epsilon=1.0, method=Talking(), progress=lambda what, share: seen.append((what, share)))
    assert ("searching", 0.25) in seen


def test_the_one_who_opens_a_bar_closes_it(screens: list[Recorder]) -> None:
    bar = Progress(True)

    def fail() -> None:
        with bar:
            with Progress.of(bar) as same:
                assert same is bar
                same.begin("x", 1)
            assert screens[0].closed == 0
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert screens[0].closed == 1
    bar.advance()  # too late: nothing is shown
    assert len(screens) == 1
    with Progress.of(True) as another:  # the screen is free again
        another.begin("y", 1)
    assert len(screens) == 2


def test_no_second_bar_beside_the_first(screens: list[Recorder]) -> None:
    with Progress(True), Progress(True) as other:
        other.begin("x", 1)
    assert len(screens) == 1


def test_a_bar_that_ends_in_time_never_appears(screens: list[Recorder], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_on_terminal", lambda: True)
    monkeypatch.setattr(module, "BAR_AFTER_SECONDS", 0.05)
    with Progress() as bar:
        bar.begin("x", 1)
    time.sleep(0.2)
    assert screens == []
    monkeypatch.setattr(module, "BAR_AFTER_SECONDS", 60.0)
    before = set(threading.enumerate())
    with Progress():
        (waiting,) = set(threading.enumerate()) - before
    waiting.join(5)
    assert not waiting.is_alive()  # nobody waits for work that is done
    monkeypatch.setattr(module, "BAR_AFTER_SECONDS", 0.05)
    with Progress():
        time.sleep(0.2)
    assert len(screens) == 1


def test_a_notebook_gets_a_bar_without_widgets_and_an_ipython_terminal_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`tests/test_notebooks.py` runs one in a kernel."""
    seen: list[dict[str, str]] = []
    handle = SimpleNamespace(update=lambda data, raw: seen.append(data))
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    monkeypatch.setitem(sys.modules, "IPython.display", SimpleNamespace(display=lambda data, **_: handle))
    with Progress(True) as bar:
        bar.begin("counting <sheep>", 4)
    assert [one["text/plain"] for one in seen] == ["counting <sheep> 0%", ""]
    assert "&lt;sheep&gt;" in seen[0]["text/html"]
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: SimpleNamespace()))
    assert not module.in_notebook()


def test_it_travels_as_silence(screens: list[Recorder]) -> None:
    with Progress(True) as bar:
        bar.begin("x", 1)
        for one in (bar, bar.part("y", 1), SILENT):
            assert pickle.loads(pickle.dumps(one)) is SILENT
            assert copy.deepcopy(one) is SILENT
    assert Progress.of(False) is SILENT
    with SILENT as silent, silent.part("z", 1) as part:
        part.begin("x", 1)
        part.advance()
        part.reach(0.5)
    assert part is SILENT
    assert len(screens) == 1


X = np.random.default_rng(0).normal(size=(60, 3))
TASK = tv.LinearTask(np.eye(3))


@dataclass(frozen=True)
class Talking(Noisy):
    """Says how far it is."""

    name: str = "talking"

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        problem.progress.begin("searching", 4)
        problem.progress.advance()
        yield from super().designs(problem, epsilons, seeds)


def test_designs_and_sweeps_have_one_bar(screens: list[Recorder]) -> None:
    tv.design(X, TASK, epsilon=1.0, method=Talking(), progress=True)
    assert ("searching", 0.25) in screens[0].shown
    options: dict[str, Any] = {"epsilons": [1.0, 2.0], "methods": [Talking(), Noisy()]}
    tv.sweep(X, TASK, progress=True, **options)
    seen = screens[1].shown
    assert ("talking: searching", 0.125) in seen
    assert ("noisy", 0.75) in seen  # a designer that says nothing: the first of its two designs
    assert seen[-1] == ("noisy", 1.0)
    where = ["a", "b"] * 210
    tv.sweep_segments(np.random.default_rng(1).normal(size=(420, 3)), TASK, progress=True, segment=where, **options)
    assert "b, talking: searching" in [what for what, _ in screens[2].shown]
    tv.sweep(X, TASK, progress=False, **options)
    assert [screen.closed for screen in screens] == [1, 1, 1]


@dataclass(frozen=True)
class Nesting(Noisy):
    """Calls `design` for itself, and hands nothing down."""

    name: str = "nesting"

    def designs(
        self, problem: Problem, epsilons: Sequence[float], seeds: Sequence[int]
    ) -> Iterator[tuple[float, int, tv.Veil]]:
        tv.design(problem.X, TASK, epsilon=1.0, method=Talking(), progress=True)
        yield from super().designs(problem, epsilons, seeds)
        raise ZeroDivisionError


def test_a_bar_is_closed_when_a_design_fails_and_there_is_one_if_it_is_nested(screens: list[Recorder]) -> None:
    with pytest.raises(ZeroDivisionError):
        tv.sweep(X, TASK, epsilons=[1.0], methods=[Nesting()], progress=True)
    assert [screen.closed for screen in screens] == [1]


def test_learning_moves_the_bar(screens: list[Recorder], monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import nn

    from taskveil.designs.laplace.gradient import LearningSettings

    settings = LearningSettings(steps=40, warm_up=20, inverse_steps=40, folds=2, checkpoints=4)
    monkeypatch.setattr(LearningSettings, "for_size", classmethod(lambda cls, records: settings))
    tv.design(
        X,
        tv.ModelTask(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))),
        epsilon=1.0,
        method="privacy_agnostic",
        progress=True,
    )
    shares: dict[str, list[float]] = {}
    for what, share in screens[0].shown:
        shares.setdefault(what, []).append(share or 0.0)
    stages = ("learning encoders without noise", "learning decoders", "inverting the task")
    assert [shares[what][-1] for what in stages] == pytest.approx([40 / 140, 80 / 140, 1.0])


def test_a_long_design_shows_a_bar_by_itself() -> None:
    program = (
        "import numpy as np, taskveil as tv\nfrom taskveil import progress\nfrom torch import nn\n"
        "from taskveil.designs.laplace.gradient import LearningSettings\n"
        "quick = LearningSettings(steps=100, warm_up=50, inverse_steps=100, folds=2, checkpoints=4)\n"
        "LearningSettings.for_size = classmethod(lambda cls, records: quick)\n"
        "progress.BAR_AFTER_SECONDS = 0.05\nX = np.random.default_rng(0).normal(size=(60, 3))\n"
        "network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))\n"
        "tv.design(X, tv.ModelTask(network), epsilon=1.0, method='task_aware')"
    )
    found = terminals.run(program, terminal=True)
    assert found.code == 0, found.err
    assert "━" in found.err  # which stage it names depends on how busy the machine is
    assert "%" in found.err
    assert terminals.screen(found.err) == ""
    piped = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (piped.stdout, piped.stderr) == ("", "")
