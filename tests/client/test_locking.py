"""One at a time and undisturbed: threads, processes, forks, backups, interrupts and kills."""

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
from taskveil.client import Client, Ledger, locking
from taskveil.client.locking import alone, own_folder, undisturbed
from taskveil.errors import LedgerError

ONE = b"1" * 32


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.sqlite") as opened:
        yield opened


def never() -> bytes:
    raise AssertionError("a second report was made")


def test_two_cannot_be_inside(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with alone(path):
        open(path, "rb").close()  # would drop a POSIX lock
        with pytest.raises(LedgerError, match="has held"), alone(path, patience=0.05):
            pass
    with alone(path, patience=0.0):
        pass


def test_a_lock_on_a_file_that_was_deleted_meanwhile_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes next makes a new file and locks that: the first must lock it too."""
    path, take = tmp_path / "lock", locking._take

    def late(handle: int) -> bool:
        monkeypatch.undo()
        path.unlink()
        return take(handle)

    monkeypatch.setattr(locking, "_take", late)
    with alone(path), pytest.raises(LedgerError, match="has held"), alone(path, patience=0.05):
        pass


def test_a_lock_is_let_go_by_errors_and_kills(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with pytest.raises(ZeroDivisionError), alone(path):
        _ = 1 // 0
    code = (
        "import sys, time; from pathlib import Path; from taskveil.client.locking import alone\n"
        "with alone(Path(sys.argv[1])): print('inside', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "inside\n"
        with pytest.raises(LedgerError), alone(path, patience=0.0):
            pass
        other.kill()
    with alone(path, patience=5.0):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_process_that_was_forked_inside_does_not_let_go(tmp_path: Path) -> None:
    """It has the same lock as its parent, which is still at work."""
    with alone(tmp_path / "lock"):
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            with pytest.raises(LedgerError, match="has held"), alone(tmp_path / "lock", patience=0.0):
                pass
    if not child:
        os._exit(0)


def test_undisturbed_work_returns_and_raises_as_it_would() -> None:
    assert undisturbed(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        undisturbed(lambda: 1 // 0)
    assert undisturbed(threading.get_ident) != threading.get_ident()
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(undisturbed(threading.get_ident) == threading.get_ident()))
    thread.start()
    thread.join()
    assert seen == [True]  # no handler runs there anyway


def test_a_handler_that_raises_reaches_the_caller_and_not_the_work() -> None:
    def interrupt(*_: object) -> None:
        raise InterruptedError

    done = threading.Event()

    def work() -> None:
        time.sleep(0.2)
        done.set()

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(InterruptedError):
            undisturbed(work)
        assert not done.is_set()
        assert done.wait(5)
    finally:
        signal.signal(signal.SIGALRM, before)


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
        (lambda: None)()  # a signal that came just before is handled when a function begins: here, not below
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
        printed = [process.stdout.readline() for _ in range(chance.randrange(2, 8))]  # however slow the machine is
        time.sleep(chance.uniform(0, 0.02))
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate()
        for line in [*printed, *rest.splitlines(keepends=True)]:
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


def test_a_folder_is_private_and_goes_with_its_owner(tmp_path: Path) -> None:
    """Folders of killed owners are deleted, those of living ones and of other prefixes are not."""
    left, other = tmp_path / "tv-test-left", tmp_path / "tv-other-left"
    for folder in (left, other):
        folder.mkdir()
        (folder / "lock").touch()
    with own_folder("tv-test-", within=str(tmp_path), quiet=3600.0):
        assert left.exists()
    with own_folder("tv-test-", within=str(tmp_path)) as first, own_folder("tv-test-", within=str(tmp_path)) as second:
        assert first != second
        assert first.exists()
        assert first.stat().st_mode & 0o077 == 0
        assert not left.exists()
    assert list(tmp_path.iterdir()) == [other]
