"""The ledger keeps its promise through kills, full disks, forks and crowds."""

from __future__ import annotations

import math
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskveil.client import Ledger
from taskveil.errors import BudgetSpentError, LedgerError

ONE, OTHER = b"1" * 32, b"2" * 32


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def never() -> bytes:
    raise AssertionError("a second report was made")


def test_one_report_a_round_and_release(ledger: Ledger) -> None:
    assert ledger.once(ONE, "0", 1.0, 3.0, lambda: b"first") == b"first"
    assert ledger.once(ONE, "0", 1.0, 3.0, never) == b"first"
    assert ledger.once(ONE, "1", 1.0, 3.0, lambda: b"next round") == b"next round"
    assert ledger.once(OTHER, "0", 1.0, 3.0, lambda: b"other release") == b"other release"
    assert ledger.spent == 3.0


def test_the_cap_holds_across_releases_and_rounds(ledger: Ledger) -> None:
    ledger.once(ONE, "0", 1.0, 2.5, lambda: b"a")
    ledger.once(OTHER, "0", 1.0, 2.5, lambda: b"b")
    with pytest.raises(BudgetSpentError, match=r"2 of 2\.5 are spent"):
        ledger.once(OTHER, "1", 1.0, 2.5, never)
    assert ledger.once(ONE, "0", 1.0, 0.1, never) == b"a"  # resending costs nothing
    assert ledger.once(OTHER, "1", 0.5, 2.5, lambda: b"c") == b"c"


def test_a_cap_of_n_reports_allows_n(tmp_path: Path) -> None:
    for number in range(60):
        epsilon, count = random.Random(number).uniform(0.01, 3), 1 + number % 7
        with Ledger(tmp_path / f"{number}.sqlite") as ledger:
            for place in range(count):
                ledger.once(ONE, str(place), epsilon, count * epsilon, lambda: b"x")
            with pytest.raises(BudgetSpentError):
                ledger.once(ONE, "more", epsilon, count * epsilon, never)


def test_a_cap_counts_as_met_to_twelve_digits(ledger: Ledger) -> None:
    with pytest.raises(BudgetSpentError):
        ledger.once(ONE, "0", 1 + 2.0**-38, 1.0, never)
    assert ledger.once(ONE, "0", 1 + 2.0**-41, 1.0, lambda: b"x") == b"x"


def test_what_is_spent_is_rounded_up(ledger: Ledger) -> None:
    ledger.once(ONE, "0", 1.0, 9.0, lambda: b"x")
    ledger.once(ONE, "1", 2.0**-54, 9.0, lambda: b"x")  # the nearest double is 1
    assert ledger.spent == math.nextafter(1.0, 2.0)


def test_nan_buys_nothing(ledger: Ledger) -> None:
    with pytest.raises(BudgetSpentError):
        ledger.once(ONE, "0", float("nan"), 1.0, never)
    with pytest.raises(BudgetSpentError):
        ledger.once(ONE, "0", 1.0, float("nan"), never)


def test_a_negative_cost_buys_nothing(ledger: Ledger) -> None:
    with pytest.raises(BudgetSpentError):
        ledger.once(ONE, "0", -1e6, 1.0, never)
    assert ledger.spent == 0


def test_a_ledger_is_always_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Ledger(":memory:") as ledger:
        ledger.once(ONE, "0", 1.0, 1.0, lambda: b"kept")
    with Ledger(":memory:") as ledger:
        assert ledger.once(ONE, "0", 1.0, 1.0, never) == b"kept"


def test_what_was_not_made_is_not_spent(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError):
        ledger.once(ONE, "0", 1.0, 1.0, lambda: bytes(1 // 0))
    assert ledger.spent == 0
    assert ledger.once(ONE, "0", 1.0, 1.0, lambda: b"now") == b"now"


def test_every_commit_is_synced(ledger: Ledger) -> None:
    """A kill cannot tell a synced commit from one in the page cache; a power cut can. FULL is 2."""
    assert ledger._open().execute("PRAGMA synchronous").fetchone() == (2,)
    assert ledger._open().execute("PRAGMA journal_mode").fetchone() == (b"persist",)


def test_nothing_is_left_open(tmp_path: Path) -> None:
    """Python 3.13 warns of every connection that is dropped instead of closed; failures on the way count too."""
    code = """
import gc, pathlib, sys, warnings
warnings.simplefilter("always")
from taskveil.client import Ledger
from taskveil.errors import LedgerError
with Ledger(sys.argv[1]) as ledger:
    ledger.once(b"1" * 32, "0", 1.0, 1.0, lambda: b"x")
    connection = ledger._connection
pathlib.Path(sys.argv[1] + ".text").write_text("a letter to my grandmother " * 500)
try:
    Ledger(sys.argv[1] + ".text")
except LedgerError:
    pass
gc.collect()
try:
    connection.execute("SELECT 1")
except Exception as error:
    print(type(error).__name__)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "l")]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.split() == ["ProgrammingError"]
    assert "ResourceWarning" not in out.stderr


def test_a_closed_ledger_makes_no_report(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l") as ledger:
        pass
    with pytest.raises(LedgerError, match="was closed"):
        ledger.once(ONE, "0", 1.0, 1.0, never)


def test_it_survives_reopening(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l") as ledger:
        ledger.once(ONE, "0", 1.0, 1.0, lambda: b"kept")
    with Ledger(tmp_path / "l") as ledger:
        assert ledger.once(ONE, "0", 1.0, 1.0, never) == b"kept"


def test_unusable_files_are_explained(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("this is not a database, it is a letter to my grandmother " * 50)
    (tmp_path / "folder").mkdir()
    for bad in ("text", "folder", "nowhere/ledger"):
        with pytest.raises(LedgerError, match="o report was made"):
            Ledger(tmp_path / bad)


def test_a_damaged_ledger_makes_no_report(ledger: Ledger, tmp_path: Path) -> None:
    for place in range(50):
        ledger.once(ONE, str(place), 1.0, 1e6, lambda: b"x" * 500)
    ledger.close()
    raw = bytearray((tmp_path / "ledger.sqlite").read_bytes())
    for place in range(100, len(raw)):
        raw[place] = 0xA5
    (tmp_path / "ledger.sqlite").write_bytes(bytes(raw))
    with pytest.raises(LedgerError), Ledger(tmp_path / "ledger.sqlite") as damaged:
        damaged.once(ONE, "new", 1.0, 1e6, never)


def test_a_full_disk_makes_no_report(tmp_path: Path) -> None:
    """With no room for another page the report is refused, and what was recorded stays readable."""
    code = """
import resource, signal, sys
from taskveil.client import Ledger
from taskveil.errors import LedgerError
ledger = Ledger(sys.argv[1])
first = ledger.once(b"1" * 32, "0", 1.0, 1e9, lambda: b"kept")
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import os
resource.setrlimit(resource.RLIMIT_FSIZE, (os.path.getsize(sys.argv[1]) + 8192, resource.RLIM_INFINITY))
refused = 0
for place in range(1, 400):
    try:
        ledger.once(b"1" * 32, str(place), 1.0, 1e9, lambda: b"x" * 4000)
    except LedgerError:
        refused += 1
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(refused, ledger.spent, ledger.once(b"1" * 32, "0", 1.0, 1e9, None) == first)
"""
    path = str(tmp_path / "l")
    out = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True).stdout.split()
    assert int(out[0]) > 0
    assert float(out[1]) == 400 - int(out[0])  # spent is exactly what was not refused
    assert out[2] == "True"


@pytest.mark.parametrize(
    "change",
    [
        "epsilon = -5.0",
        "epsilon = -1e-300",
        "epsilon = 'abc'",
        "epsilon = '1.0x'",
        "epsilon = x'0102'",
        "epsilon = 9e999",
        "epsilon = -9e999",
        "epsilon = CAST(x'ff' AS TEXT)",
        "bytes = 'text'",
        "bytes = 7",
    ],
)
def test_altered_numbers_are_not_believed(change: str, tmp_path: Path) -> None:
    """In 0.1 a negative budget in the file voided the cap, and others raised whatever they raised."""
    with Ledger(tmp_path / "l") as ledger:
        ledger.once(ONE, "0", 1.0, 9.0, lambda: b"x")
        connection = sqlite3.connect(tmp_path / "l")
        connection.execute(f"UPDATE reports SET {change}")
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match=r"was altered.*Restore its newest copy"):
            ledger.once(ONE, "0", 1.0, 9.0, never)


def test_a_ledger_that_was_cut_short_is_not_an_empty_one(tmp_path: Path) -> None:
    """In 0.1 a file of no bytes meant that nothing was spent."""
    path = tmp_path / "l"
    with Ledger(path) as ledger:
        for place in range(30):
            ledger.once(ONE, str(place), 1.0, 99.0, lambda: os.urandom(500))
    whole = path.read_bytes()
    for length in (0, 1, 50, 100, 4095, 4096, 8192, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(LedgerError, match="Restore its newest copy"):
            Ledger(path)
    path.write_bytes(whole)
    with Ledger(path) as ledger:
        assert ledger.spent == 30.0


def test_another_programs_database_is_no_ledger(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "l")
    connection.execute("CREATE TABLE grandmother (letter)")
    connection.close()
    with pytest.raises(LedgerError, match="is no ledger"):
        Ledger(tmp_path / "l")


def test_damage_anywhere_is_a_ledger_error_or_harmless(tmp_path: Path) -> None:
    """Random bytes written at random places: what was recorded comes back as it was, or a LedgerError, nothing else."""
    path, chance = tmp_path / "l", random.Random(0)
    with Ledger(path) as ledger:
        for place in range(20):
            ledger.once(ONE, str(place), 1.0, 99.0, lambda: b"r" * 60)
    whole, refused = path.read_bytes(), 0
    for _ in range(150):
        raw = bytearray(whole)
        start = chance.choice([chance.randrange(200), chance.randrange(len(raw))])
        raw[start : start + chance.choice([1, 4, 40])] = chance.randbytes(1) * chance.choice([1, 4, 40])
        path.write_bytes(bytes(raw))
        (tmp_path / "l.mark").unlink(missing_ok=True)  # it would refuse a copy without the last report
        try:
            with Ledger(path) as ledger:
                ledger.once(ONE, "3", 1.0, 1e9, lambda: b"new")
                ledger.once(ONE, "new", 1.0, 1e9, lambda: b"new")
        except LedgerError:
            refused += 1
    assert refused > 20


def test_new_files_are_their_owners_own(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Ledger(tmp_path / "l") as ledger:
            ledger.once(ONE, "0", 1.0, 1.0, lambda: b"x")
    finally:
        os.umask(before)
    modes = {file.name: oct(file.stat().st_mode & 0o777) for file in tmp_path.iterdir()}
    assert modes == dict.fromkeys(("l", "l.lock", "l.mark", "l-journal"), "0o600")


def test_a_new_ledger_touches_no_other_file(tmp_path: Path) -> None:
    """A ledger of any name may lie beside it: its spending must not be forgotten."""
    for name in ("l.new", "l.draft", "l.lock.new"):
        with Ledger(tmp_path / name) as other:
            other.once(ONE, "0", 1.0, 1.0, lambda: b"other")
    with Ledger(tmp_path / "l") as ledger:
        ledger.once(ONE, "0", 1.0, 1.0, lambda: b"x")
    long = "x" * 247  # as long as a name can be beside its journal
    with Ledger(tmp_path / long) as ledger:
        ledger.once(ONE, "0", 1.0, 1.0, lambda: b"x")
    for name in ("l.new", "l.draft", "l.lock.new"):
        with Ledger(tmp_path / name) as other:
            assert other.once(ONE, "0", 1.0, 1.0, never) == b"other"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_closing_in_a_child_leaves_the_parents_connection_alone(tmp_path: Path) -> None:
    """SQLite forbids a child to close what it inherited: it would drop its parent's locks."""
    code = """
import gc, os, sys
from taskveil.client import Ledger, ledger as module
ledger = Ledger(sys.argv[1])
connection = ledger._connection
if os.fork() == 0:
    ledger.close()
    kept = any(one is connection for one in module._INHERITED)
    os._exit(not kept)
print(os.wait()[1])
"""
    assert run(code, tmp_path / "l") == ["0"]


@pytest.mark.parametrize("path", ["\ud800", "a\0b", "", "x" * 5000, "loop", "l-wal", "l-journal", 7, None])
def test_odd_paths_are_ledger_errors(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger l deleted a ledger called l-wal and overwrote one called l-journal: SQLite takes them for its own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(LedgerError, match="no report was made"):
        Ledger(path)


FORKS = pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")


def run(code: str, path: Path) -> list[str]:
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout.split()


@FORKS
def test_a_fork_interrupted_anywhere_leaves_every_ledger_free(tmp_path: Path) -> None:
    """An exception of a signal handler is raised at the first, the second, … step that the hooks take."""
    code = """
import os, sys, threading
from taskveil.client import Ledger, ledger as module
sys.unraisablehook = threading.excepthook = lambda _: None
ledgers = [Ledger(sys.argv[1] + name) for name in "ab"]
free = []
for step in range(60):
    left = step
    def interrupt(frame, event, _):
        global left
        if frame.f_code.co_filename == module.__file__:
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
    sys.setprofile(interrupt)
    child = os.fork()
    sys.setprofile(None)
    def look():
        free.extend(ledger.spent for ledger in ledgers)
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(10.0)
    if child == 0:
        os._exit(len(free) != 2 * step + 2)
    if os.waitpid(child, 0)[1] or len(free) != 2 * step + 2:
        print("held at step", step, flush=True)
        os._exit(0)
print("free")
"""
    assert run(code, tmp_path / "l") == ["free"]


@FORKS
def test_a_signal_handler_may_report_in_the_middle_of_a_fork(tmp_path: Path) -> None:
    """Hooks before a fork run last to first: this one runs while the ledger's hook has done its work."""
    code = """
import faulthandler, os, sys
seen = []
os.register_at_fork(before=lambda: seen.append(ledger.once(b"1" * 32, "0", 1.0, 1.0, lambda: b"x")))
from taskveil.client import Ledger
ledger = Ledger(sys.argv[1])
faulthandler.dump_traceback_later(20, exit=True)
child = os.fork()
if child == 0:
    os._exit(ledger.spent != 1.0)
print(seen == [b"x"], os.waitpid(child, 0)[1], ledger.spent)
"""
    assert run(code, tmp_path / "l") == ["True", "0", "1.0"]


@FORKS
def test_a_fork_while_a_report_is_made_records_one(tmp_path: Path) -> None:
    code = """
import faulthandler, os, sys
from taskveil.client import Ledger
faulthandler.dump_traceback_later(20, exit=True)
ledger, children = Ledger(sys.argv[1]), []
def make():
    children.append(os.fork())
    return b"parent" if children[0] else b"child"
print(ledger.once(b"1" * 32, "0", 1.0, 9.0, make))
os.waitpid(children[0], 0)
print(Ledger(sys.argv[1]).once(b"1" * 32, "0", 1.0, 9.0, make))
"""
    assert run(code, tmp_path / "l") == ["b'parent'"] * 2


@FORKS
def test_a_process_forked_while_a_report_is_made_does_not_keep_the_ledger(tmp_path: Path) -> None:
    """A model may start workers that live on. They had the lock as well: the next report waited, then was refused."""
    code = """
import os, signal, sys, time
from taskveil.client import Ledger
ledger, children = Ledger(sys.argv[1]), []
def make():
    children.append(os.fork())
    if not children[0]:
        time.sleep(10)
        os._exit(0)
    return b"parent"
print(ledger.once(b"1" * 32, "0", 1.0, 9.0, make))
print(ledger.once(b"1" * 32, "1", 1.0, 9.0, lambda: b"next"), os.waitpid(children[0], os.WNOHANG)[0])
os.kill(children[0], signal.SIGKILL)
"""
    assert run(code, tmp_path / "l") == ["b'parent'", "b'next'", "0"]


class Meddling:
    """A connection at whose COMMIT something else happens first."""

    def __init__(self, connection: sqlite3.Connection, meddle: Callable[[], object]) -> None:
        self.connection, self.meddle = connection, meddle

    def execute(self, query: str, *values: object) -> sqlite3.Cursor:
        if query == "COMMIT":
            self.meddle()
        return self.connection.execute(query, *values)

    def __getattr__(self, name: str) -> object:
        return getattr(self.connection, name)


def test_no_report_is_returned_that_went_to_a_file_replaced_meanwhile(ledger: Ledger, tmp_path: Path) -> None:
    """A copy moved over the ledger before COMMIT knows nothing of the report: another would be made for the round."""
    ledger.once(ONE, "0", 1.0, 9.0, lambda: b"a")

    def replace() -> None:
        shutil.copy2(ledger.path, tmp_path / "copy")
        os.replace(tmp_path / "copy", ledger.path)

    assert ledger._connection is not None
    ledger._connection = Meddling(ledger._connection, replace)  # type: ignore[assignment]
    with pytest.raises(LedgerError, match="replaced"):
        ledger.once(ONE, "1", 1.0, 9.0, lambda: b"b")
    assert ledger.once(ONE, "1", 1.0, 9.0, lambda: b"c") == b"c"  # recorded where a restart will look
    with Ledger(ledger.path) as restarted:
        assert restarted.once(ONE, "1", 1.0, 9.0, never) == b"c"


def test_a_ledger_that_was_replaced_is_opened_anew(ledger: Ledger, tmp_path: Path) -> None:
    """Before, a running process went on with the deleted file, and was refused until it was restarted."""
    ledger.once(ONE, "0", 1.0, 9.0, lambda: b"a")
    shutil.copy2(ledger.path, tmp_path / "copy")
    os.replace(tmp_path / "copy", ledger.path)
    assert ledger.once(ONE, "1", 1.0, 9.0, lambda: b"b") == b"b"
    with Ledger(ledger.path) as restarted:
        assert restarted.spent == 2.0


def test_a_new_ledger_overwrites_none_that_appears_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Ledger(tmp_path / "old") as old:
        old.once(ONE, "0", 1.0, 9.0, lambda: b"recorded")
    connect = sqlite3.connect

    def late(path: Path, **options: Any) -> sqlite3.Connection:
        if Path(path).suffix == ".new" and not (tmp_path / "new").exists():
            shutil.copy2(tmp_path / "old", tmp_path / "new")  # a backup, restored at the worst moment
        return connect(path, **options)

    monkeypatch.setattr(sqlite3, "connect", late)
    with Ledger(tmp_path / "new") as new:
        assert new.once(ONE, "0", 1.0, 9.0, never) == b"recorded"
    assert not list(tmp_path.glob("*.new"))
