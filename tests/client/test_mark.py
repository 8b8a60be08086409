"""The mark beside a ledger: copies that have forgotten reports are noticed, and nothing else is refused."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from taskveil.client import Ledger
from taskveil.errors import BudgetSpentError, LedgerError

ONE, OTHER = b"1" * 32, b"2" * 32
LAST = 48
"""Where a mark says which report was the last."""


def never() -> bytes:
    raise AssertionError("a second report was made")


def made(path: Path, rounds: range, copies: Path | None = None) -> None:
    """Makes reports of ε = 1, and copies the ledger after each."""
    with Ledger(path) as ledger:
        for number in rounds:
            ledger.once(ONE, str(number), 1.0, 99.0, lambda: os.urandom(8))
            if copies:
                shutil.copy2(path, copies / str(number + 1))


def test_an_older_copy_of_a_ledger_is_refused(tmp_path: Path) -> None:
    """Before, a restored backup made a second report for a round: a cap of 8 became 12."""
    path = tmp_path / "l"
    made(path, range(8), tmp_path)
    for count in range(1, 7):
        shutil.copy2(tmp_path / str(count), path)
        with pytest.raises(LedgerError, match=rf"older copy.* {count} reports of ε = {count} .*but 8 of ε = 8"):
            Ledger(path)
    shutil.copy2(tmp_path / "8", path)
    with Ledger(path) as ledger:
        assert ledger.spent == 8.0
        with pytest.raises(BudgetSpentError):
            ledger.once(ONE, "8", 1.0, 8.0, never)
        shutil.copy2(tmp_path / "3", path)  # while it is open
        with pytest.raises(LedgerError):
            ledger.once(ONE, "3", 1.0, 99.0, never)


def test_a_deleted_ledger_is_missed(tmp_path: Path) -> None:
    made(tmp_path / "l", range(3))
    (tmp_path / "l").unlink()
    with pytest.raises(LedgerError, match="delete both files to start anew"):
        Ledger(tmp_path / "l")


def test_a_ledger_without_a_mark_gets_one(tmp_path: Path) -> None:
    """Ledgers of 0.2 have none; a power cut may leave an empty one, or zeros."""
    made(tmp_path / "l", range(4))
    mark = tmp_path / "l.mark"
    whole = mark.read_bytes()
    for left in (None, b"", bytes(len(whole))):
        mark.unlink() if left is None else mark.write_bytes(left)
        with Ledger(tmp_path / "l") as ledger:
            assert ledger.spent == 4.0
        assert mark.read_bytes()[:LAST] == whole[:LAST]  # which was the last, nobody knows any more


def test_a_mark_that_is_none_is_not_overwritten(tmp_path: Path) -> None:
    with Ledger(tmp_path / "l.mark") as other:  # somebody's ledger, of an unlucky name
        other.once(ONE, "0", 1.0, 1.0, lambda: b"other")
    with pytest.raises(LedgerError, match="mark"), Ledger(tmp_path / "l") as ledger:
        ledger.once(ONE, "0", 1.0, 1.0, never)
    with Ledger(tmp_path / "l.mark") as other:
        assert other.once(ONE, "0", 1.0, 1.0, never) == b"other"
    made(tmp_path / "k", range(2))
    raw = bytearray((tmp_path / "k.mark").read_bytes())
    raw[0] ^= 1
    (tmp_path / "k.mark").write_bytes(raw)
    with pytest.raises(LedgerError, match="damaged"):
        Ledger(tmp_path / "k")


def test_a_mark_that_is_ahead_by_one_report_counts_it_as_spent(tmp_path: Path) -> None:
    """A disk that lost its last commit must not lock the device out, however often that happens."""
    path = tmp_path / "l"
    made(path, range(2))
    for spent in (3.0, 4.0, 5.0):
        before = path.read_bytes()
        made(path, range(int(spent) - 1, int(spent)))
        path.write_bytes(before)
        with Ledger(path) as ledger:
            assert ledger.spent == pytest.approx(spent, abs=1e-12)
            assert ledger.spent >= spent
            assert ledger.recorded(ONE, str(int(spent) - 1)) is None
    with Ledger(path) as ledger, pytest.raises(BudgetSpentError):
        ledger.once(ONE, "more", 1.0, 5.5, never)


def test_a_round_whose_report_was_lost_gets_no_other(tmp_path: Path) -> None:
    """A copy older by one report made a second one for its round, and so did a disk that lost its last commit."""
    path = tmp_path / "l"
    made(path, range(1), tmp_path)
    made(path, range(1, 2))
    shutil.copy2(tmp_path / "1", path)
    for _ in range(2):
        with Ledger(path) as ledger:
            with pytest.raises(LedgerError, match="may have been sent"):
                ledger.once(ONE, "1", 1.0, 99.0, never)
            ledger.once(OTHER, "1", 1.0, 99.0, lambda: b"other")
    with Ledger(path) as ledger:
        ledger.once(ONE, "2", 1.0, 99.0, lambda: b"next")
        assert ledger.spent == pytest.approx(4.0)


def test_a_lost_report_is_known_after_a_kill_too(tmp_path: Path) -> None:
    """The mark that follows a ledger ahead of it knows the round of the last report as well."""
    path = tmp_path / "l"
    made(path, range(2), tmp_path)
    before = (tmp_path / "l.mark").read_bytes()
    made(path, range(2, 3))
    (tmp_path / "l.mark").write_bytes(before)  # as after a kill between the two writes
    made(path, range(0))
    shutil.copy2(tmp_path / "2", path)
    with Ledger(path) as ledger, pytest.raises(LedgerError, match="may have been sent"):
        ledger.once(ONE, "2", 1.0, 99.0, never)


def test_another_ledger_of_as_many_reports_is_refused(tmp_path: Path) -> None:
    made(tmp_path / "l", range(3))
    made(tmp_path / "k", range(1, 4))
    shutil.copy2(tmp_path / "k", tmp_path / "l")
    with pytest.raises(LedgerError, match="another ledger"):
        Ledger(tmp_path / "l")


@pytest.mark.parametrize("others", [1, 2, 5])
def test_a_copy_that_was_used_elsewhere_is_refused(others: int, tmp_path: Path) -> None:
    """It holds other reports than were made here, and made a second one for a round: with one report less the loss
    counted as that of another round, with more of them the mark followed it."""
    here, there = tmp_path / "l", tmp_path / "k"
    made(here, range(1))
    shutil.copy2(here, there)
    made(here, range(1, 4))
    made(there, range(10, 11 + others))
    shutil.copy2(there, here)
    with pytest.raises(LedgerError, match=f"another ledger: it holds {others + 2} reports"), Ledger(here) as ledger:
        ledger.once(ONE, "1", 1.0, 99.0, never)


def test_a_mark_of_the_second_kind_is_read(tmp_path: Path) -> None:
    """It had 52 bytes, and did not say which report was the last."""
    path, mark = tmp_path / "l", tmp_path / "l.mark"
    made(path, range(3), tmp_path)
    known = struct.unpack("<Qd32s32sI", mark.read_bytes())[:3]
    mark.write_bytes(struct.pack("<Qd32sI", *known, zlib.crc32(struct.pack("<Qd32sI", *known, 0))))
    shutil.copy2(tmp_path / "2", path)
    with Ledger(path) as ledger:
        with pytest.raises(LedgerError, match="may have been sent"):
            ledger.once(ONE, "2", 1.0, 99.0, never)
        ledger.once(ONE, "3", 1.0, 99.0, lambda: b"next")
    shutil.copy2(tmp_path / "2", path)
    with pytest.raises(LedgerError, match="older copy"):
        Ledger(path)


def test_a_mark_of_the_first_kind_is_read(tmp_path: Path) -> None:
    """It had 20 bytes, and did not say which reports were made: a loss of one is refused."""
    path, mark = tmp_path / "l", tmp_path / "l.mark"
    made(path, range(4), tmp_path)
    now = mark.read_bytes()
    old = struct.pack("<QdI", 4, 4.0, zlib.crc32(struct.pack("<QdI", 4, 4.0, 0)))
    mark.write_bytes(old)
    with Ledger(path) as ledger:
        assert ledger.once(ONE, "3", 1.0, 99.0, never)
    assert mark.read_bytes()[:LAST] == now[:LAST]
    mark.write_bytes(old)
    shutil.copy2(tmp_path / "3", path)
    with pytest.raises(LedgerError, match="older copy"):
        Ledger(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes here")
def test_a_pipe_in_the_marks_place_is_refused_at_once(tmp_path: Path) -> None:
    code = """
import os, sys
from taskveil.client import Ledger
from taskveil.errors import LedgerError
os.mkfifo(sys.argv[1] + ".mark")
try:
    Ledger(sys.argv[1])
except LedgerError as error:
    print("mark" in str(error))
"""
    command = [sys.executable, "-c", code, str(tmp_path / "l")]
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout == "True\n"


@pytest.mark.skipif(sys.platform == "win32", reason="no limits here")
def test_a_mark_is_written_whole_or_an_error(tmp_path: Path) -> None:
    """A disk with room for its first bytes only; the ledger itself is not written meanwhile."""
    code = """
import os, resource, signal, sys
from taskveil.client import Ledger
ledger = Ledger(sys.argv[1])
write, mark = ledger._write_mark, sys.argv[1] + ".mark"
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
def full(*known):
    os.unlink(mark)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, resource.RLIM_INFINITY))
    try:
        write(*known)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
ledger.once(b"1" * 32, "0", 1.0, 9.0, lambda: b"first")
ledger._write_mark = full
for round in "11":
    try:
        print(ledger.once(b"1" * 32, round, 1.0, 9.0, lambda: b"second"))
    except Exception as error:
        print(error)
os.unlink(mark)  # as the error says
ledger._write_mark = write
print(ledger.once(b"1" * 32, "1", 1.0, 9.0, None), ledger.spent)
"""
    command = [sys.executable, "-c", code, str(tmp_path / "l")]
    first, again, last = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "was recorded" in first
    assert "no report was made" not in first
    assert "damaged" in again
    assert "delete the mark alone" in again
    assert last == "b'second' 2.0"


def test_a_copy_of_both_files_is_not_detected(tmp_path: Path) -> None:
    """As the module says: what is documented is tested too."""
    path, mark = tmp_path / "l", tmp_path / "l.mark"
    made(path, range(2))
    both = path.read_bytes(), mark.read_bytes()
    made(path, range(2, 6))
    path.write_bytes(both[0])
    mark.write_bytes(both[1])
    with Ledger(path) as ledger:
        assert ledger.spent == 2.0


KILLED = """
import os, signal, sys
from taskveil.client import Ledger
step, kill, write = sys.argv[2], lambda *_: os.kill(os.getpid(), signal.SIGKILL), Ledger._write_mark
ledger = Ledger(sys.argv[1])
if step == "between them":
    Ledger._write_mark = kill
if step == "after both":
    Ledger._write_mark = lambda *known: (write(*known), kill())
print(ledger.once(b"1" * 32, "new", 1.0, 99.0, kill if step == "before both" else lambda: b"drawn"))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no SIGKILL here")
@pytest.mark.parametrize("step", ["before both", "between them", "after both"])
def test_a_kill_between_the_ledgers_two_writes_loses_nothing(step: str, tmp_path: Path) -> None:
    """At whichever write it comes: no lockout, nothing is spent twice, and a report that was recorded is the report."""
    path = tmp_path / "l"
    made(path, range(3))
    for life in range(2):  # a second kill in the same place does not add up
        command = [sys.executable, "-c", KILLED, str(path), step]
        killed = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        if life == 0 or step == "before both":
            assert (killed.returncode, killed.stdout) == (-signal.SIGKILL, "")
    recorded = step != "before both"
    with Ledger(path) as ledger:
        assert ledger.spent == 3.0 + recorded
        assert ledger.once(ONE, "new", 1.0, 99.0, never if recorded else lambda: b"drawn") == b"drawn"
        assert ledger.spent == 4.0
    made(path, range(10, 12))
    with Ledger(path) as ledger:
        assert ledger.spent == 6.0
