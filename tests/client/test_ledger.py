"""The ledger keeps its promise through kills, full disks, forks and crowds."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import releases
from taskveil.client import Client, Ledger
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


@pytest.mark.parametrize("then", ["del ledger", "shutil.copy(path, path + '.backup')", "Ledger(path).close()"])
def test_a_fork_forgets_nothing_whatever_its_parent_does(then: str, tmp_path: Path) -> None:
    """Parent and child use the ledger in turns while the parent closes or copies it: one report a round."""
    code = """
import os, shutil, sys
from taskveil.client import Ledger
path = sys.argv[1]
ledger = Ledger(path)
make = lambda: os.urandom(8)
ledger.once(b"1" * 32, "0", 1.0, 9.0, make)
ready, go, done = os.pipe(), os.pipe(), os.pipe()
if os.fork() == 0:
    ledger.spent
    os.write(ready[1], b".")
    os.read(go[0], 1)
    os.write(done[1], ledger.once(b"1" * 32, "1", 1.0, 9.0, make))
    os._exit(0)
os.read(ready[0], 1)
THEN
os.write(go[1], b".")
first = os.read(done[0], 8)
again = Ledger(path)
print(again.once(b"1" * 32, "1", 1.0, 9.0, make) == first, again.spent)
"""
    script = code.replace("THEN", then)
    out = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "l")], capture_output=True, text=True, check=True, timeout=60
    ).stdout.split()
    assert out == ["True", "2.0"]


def test_a_fork_in_the_middle_of_a_report_waits(tmp_path: Path) -> None:
    code = """
import os, sys, threading, time
from taskveil.client import Ledger
ledger = Ledger(sys.argv[1])
started = threading.Event()
def slowly():
    started.set()
    time.sleep(0.5)
    return b"slow"
thread = threading.Thread(target=lambda: ledger.once(b"1" * 32, "0", 1.0, 9.0, slowly))
thread.start()
started.wait()
child = os.fork()
if child == 0:
    os._exit(0 if ledger.once(b"1" * 32, "0", 1.0, 9.0, lambda: b"second") == b"slow" else 1)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "l")]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split() == ["0"]


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


def test_threads_share_one_report(ledger: Ledger) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(os.urandom(8))
        return made[-1]

    got: list[bytes] = []
    threads = [threading.Thread(target=lambda: got.append(ledger.once(ONE, "0", 1.0, 1.0, make))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert set(got) == set(made)


def test_forks_and_processes_share_one_report(ledger: Ledger, tmp_path: Path) -> None:
    ledger.once(ONE, "before", 1.0, 99.0, lambda: b"x")
    code = (
        "import sys, os; from taskveil.client import Ledger\n"
        "ledger = Ledger(sys.argv[1]); ledger.spent; os.fork()\n"
        "for place in range(20):\n"
        "    got = ledger.once(b'1' * 32, str(place), 1.0, 99.0, lambda: os.urandom(8)).hex()\n"
        "    os.write(1, f'{place} {got}\\n'.encode())"  # one write: both halves of a fork share the pipe
    )
    path = str(tmp_path / "ledger.sqlite")
    crowd = [subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    lines = [line for process in crowd for line in process.communicate(timeout=60)[0].splitlines()]
    assert len(lines) == 6 * 20
    assert len(set(lines)) == 20
    assert ledger.spent == 21.0


def test_a_fork_opens_its_own_connection(tmp_path: Path) -> None:
    code = (
        "import sys, os; from taskveil.client import Ledger\n"
        "ledger = Ledger(sys.argv[1]); parents = ledger._open(); child = os.fork()\n"
        "if child == 0: os._exit(0 if ledger._open() is not parents else 1)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), ledger._open() is parents)"
    )
    out = subprocess.run([sys.executable, "-c", code, str(tmp_path / "l")], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["0", "True"]


FIRST = """
import os, sys, threading
from taskveil.client import Ledger
path = sys.argv[1]
def slowly():
    print("inside", flush=True)
    backup = threading.Thread(target=lambda: open(path, "rb").close())
    backup.start()
    backup.join()
    sys.stdin.readline()
    return os.urandom(8)
ledger = Ledger(path)
print(ledger.once(b"1" * 32, "0", 1.0, 9.0, slowly).hex(), flush=True)
print(ledger.once(b"1" * 32, "0", 1.0, 9.0, slowly).hex(), flush=True)
ledger.close()
"""
SECOND = """
import os, sys
from taskveil.client import Ledger
ledger = Ledger(sys.argv[1])
print(ledger.once(b"1" * 32, "0", 1.0, 9.0, lambda: os.urandom(8)).hex(), flush=True)
ledger.close()
"""


def test_a_backup_in_the_middle_of_a_report_lets_nobody_else_in(tmp_path: Path) -> None:
    """Closing the file drops a process's POSIX locks on it: in 0.1 two processes then made a report each."""
    path = str(tmp_path / "l")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    first = subprocess.Popen([sys.executable, "-c", FIRST, path], **pipes)  # type: ignore[call-overload]
    assert first.stdout.readline() == "inside\n"
    second = subprocess.Popen([sys.executable, "-c", SECOND, path], **pipes)  # type: ignore[call-overload]
    with pytest.raises(subprocess.TimeoutExpired):  # it has to wait
        second.wait(timeout=2)
    said = first.communicate("go on\n", timeout=60)[0].split() + second.communicate(timeout=60)[0].split()
    assert len(said) == 3
    assert len(set(said)) == 1


def test_two_ledgers_of_one_process_take_turns(ledger: Ledger) -> None:
    """POSIX locks do not keep a process from itself."""
    inside = threading.Event()

    def slowly() -> bytes:
        inside.set()
        time.sleep(0.3)
        return b"slow"

    thread = threading.Thread(target=ledger.once, args=(ONE, "0", 1.0, 1.0, slowly))
    thread.start()
    inside.wait()
    with Ledger(ledger.path) as other:
        assert other.once(ONE, "0", 1.0, 1.0, never) == b"slow"
    thread.join()


INTERRUPTED = """
import os, random, signal, sqlite3, sys
from taskveil.client import Ledger
def interrupt(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, interrupt)
path, chance = sys.argv[1], random.Random(int(sys.argv[2]))
ledger = Ledger(path)
interrupted = 0
for number in range(150):
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(2e-5, 2e-3))
        ledger.once(b"1" * 32, str(number), 1.0, 1e9, lambda: os.urandom(8))
        signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        interrupted += 1
    other = sqlite3.connect(path, timeout=2, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # what another process would have to wait for
    (recorded,) = other.execute("SELECT count(*) FROM reports").fetchone()
    other.execute("ROLLBACK")
    other.close()
    assert recorded <= number + 1
    again = ledger.once(b"1" * 32, str(number), 1.0, 1e9, lambda: os.urandom(8))
    assert ledger.once(b"1" * 32, str(number), 1.0, 1e9, None) == again
print(interrupted, ledger.spent)
"""


@pytest.mark.parametrize("seed", ["0", "1"])
def test_interrupts_at_any_moment_wedge_nothing(seed: str, tmp_path: Path) -> None:
    """In 0.1 a signal between BEGIN and the code that would roll it back left the transaction open for ever."""
    command = [sys.executable, "-c", INTERRUPTED, str(tmp_path / "l"), seed]
    out = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert out.returncode == 0, out.stderr
    interrupted, spent = out.stdout.split()
    assert int(interrupted) > 20
    assert float(spent) == 150


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
        with pytest.raises(LedgerError, match=r"was altered.*Restore it from a backup"):
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
        with pytest.raises(LedgerError, match="Restore it from a backup"):
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
    assert modes == dict.fromkeys(("l", "l.lock", "l-journal"), "0o600")


def test_a_kill_while_a_ledger_is_made_leaves_none(tmp_path: Path) -> None:
    (tmp_path / "l.new").write_bytes(b"half of it")
    with Ledger(tmp_path / "l") as ledger:
        ledger.once(ONE, "0", 1.0, 1.0, lambda: b"x")
    assert not (tmp_path / "l.new").exists()


@pytest.mark.parametrize("path", ["\ud800", "a\0b", "", "x" * 5000, "loop", 7, None])
def test_odd_paths_are_ledger_errors(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(LedgerError, match="no report was made"):
        Ledger(path)


WORKER = """
import sys
from taskveil.client import Client
client = Client.load(sys.argv[1], ledger=sys.argv[2], cap=1e9)
print("ready", flush=True)
for place in range(int(sys.argv[3]), 10**6):
    report = client.report([0.5] * 5, round=place)
    print(place, report.to_bytes().hex(), flush=True)  # this is the network: what was printed has left the device
"""


def test_kill_at_any_moment(tmp_path: Path) -> None:
    """SIGKILL at many moments: whatever left the device is recorded, exactly once, and a retry repeats it."""
    veil = releases.veil(releases.linear(), releases.laplace(releases.box(3), 1.0))
    veil.save(tmp_path / "r")
    path, seen, chance = tmp_path / "ledger.sqlite", {}, random.Random(0)
    epsilon = veil.guarantee.epsilon
    for _ in range(25):
        start = str(max(len(seen) - 3, 0))  # every life first retries the last rounds of the life before
        arguments = [sys.executable, "-c", WORKER, str(tmp_path / "r"), str(path), start]
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(chance.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        for line in rest.splitlines(keepends=True):
            if line.endswith("\n"):  # a half-printed line is a connection cut in the middle
                place, sent = line.split()
                assert seen.setdefault(place, sent) == sent, "a retry changed what had been sent"
        with sqlite3.connect(path) as connection:
            recorded = dict(connection.execute("SELECT round, hex(bytes) FROM reports"))
        connection.close()
        assert {place: sent.upper() for place, sent in seen.items()}.items() <= recorded.items()
        assert len(recorded) <= len(seen) + 1  # at most the one report that was recorded but not yet sent
        seen = {place: sent.lower() for place, sent in recorded.items()}
    assert len(seen) > 25
    with Client.load(tmp_path / "r", ledger=path, cap=1e9) as client:
        assert client.ledger.spent == pytest.approx(len(seen) * epsilon)
        assert all(client.report([9.0] * 5, round=place).to_bytes().hex() == sent for place, sent in seen.items())
