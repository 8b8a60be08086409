"""A part appears whole and once, whoever is killed while writing it, on every kind of storage."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pytest

from taskveil.errors import DataError
from taskveil.jobs.storage import DRAFT, Draft, Folder

BEGIN = """
import errno, json, os, resource, signal, sys
from taskveil.jobs import storage
from taskveil.jobs.storage import Folder
folder = Folder.of(sys.argv[1])

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def without_links(*_, **__):
    raise PermissionError(errno.EPERM, "no links here")
"""
NAMED = "del os.O_TMPFILE\n"
LINKLESS = "del os.O_TMPFILE; os.link = without_links\n"
DISKS = {"nameless": "", "named": NAMED, "linkless": LINKLESS}
WRITE = """
with folder.draft() as draft:
    for _ in range(2000):
        draft.file.write(bytes([65]) * 1000)
    draft.publish("part")
"""
WHOLE = b"A" * 2_000_000


def drafts(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name.startswith(DRAFT)]


@pytest.fixture(params=list(DISKS))
def disk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Drafts without a name, with one, and a disk that has no links either."""
    if request.param != "nameless":
        monkeypatch.delattr(os, "O_TMPFILE")
    if request.param == "linkless":

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError(1, "no links here")

        monkeypatch.setattr(os, "link", refuse)
    return str(request.param)


def test_what_is_there_stays(disk: str, tmp_path: Path) -> None:
    folder = Folder.of(tmp_path)
    with folder.draft() as draft:
        draft.file.write(b"first")
        assert [path for path in tmp_path.iterdir() if not path.name.startswith(DRAFT)] == []
        draft.publish("part")
    before = (tmp_path / "part").stat()
    with folder.draft() as draft:
        draft.file.write(b"second")
        with pytest.raises(FileExistsError):
            draft.publish("part")
    after = (tmp_path / "part").stat()
    assert folder.read("part") == b"first"
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert os.listdir(tmp_path) == ["part"]
    assert after.st_mode & 0o777 == 0o644


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o027, 0o640)])
def test_the_umask_is_kept(disk: str, tmp_path: Path, umask: int, mode: int) -> None:
    before = os.umask(umask)
    try:
        with Folder.of(tmp_path).draft() as draft:
            draft.file.write(b"first")
            draft.publish("part")
    finally:
        os.umask(before)
    assert (tmp_path / "part").stat().st_mode & 0o777 == mode
    assert os.listdir(tmp_path) == ["part"]


def test_whoever_replaces_never_shows_two(disk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Folder.of(tmp_path)
    (tmp_path / "part").write_bytes(b"first")
    publish, seen = Draft.publish, []

    def watched(self: Draft, name: str) -> None:
        seen.append((name, [path.name for path in tmp_path.iterdir() if not path.name.startswith(DRAFT)]))
        publish(self, name)

    monkeypatch.setattr(Draft, "publish", watched)
    with folder.draft() as draft:
        draft.file.write(b"second")
        draft.replace("part")
    assert seen == [("part", [])]
    assert folder.read("part") == b"second"
    assert os.listdir(tmp_path) == ["part"]


def test_drafts_that_are_given_up_are_gone(disk: str, tmp_path: Path) -> None:
    folder = Folder.of(tmp_path)
    with contextlib.suppress(KeyboardInterrupt), folder.draft() as draft:
        draft.file.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_dangling_link_is_something(tmp_path: Path) -> None:
    (tmp_path / "part").symlink_to(tmp_path / "nowhere")
    with Folder.of(tmp_path).draft() as draft, pytest.raises(FileExistsError):
        draft.publish("part")
    assert sorted(os.listdir(tmp_path)) == ["part"]


RACE = """
me = sys.argv[2].encode()
print("ready", flush=True)
for turn in range(150):
    sys.stdin.readline()
    won = True
    with folder.draft() as draft:
        draft.file.write(me * 50_000)
        try:
            draft.publish(f"part-{turn}")
        except FileExistsError:
            won = False
    print(int(won), flush=True)
"""


@pytest.mark.parametrize("disk", ["nameless", "named"])
def test_of_two_at_the_same_moment_one_wins(disk: str, tmp_path: Path) -> None:
    """Processes, started together for every part. A rename would let both win, and replace what somebody has seen."""
    script = BEGIN + DISKS[disk] + RACE
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(tmp_path), name], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for name in "XY"
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == b"ready\n"
    for turn in range(150):
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(b"\n")
            racer.stdin.flush()
        won = [int(racer.stdout.readline()) for racer in racers if racer.stdout]
        assert sum(won) == 1, turn
        assert (tmp_path / f"part-{turn}").read_bytes() == b"XY"[won.index(1) :][:1] * 50_000
    for racer in racers:
        racer.communicate()
        assert racer.returncode == 0
    assert len(os.listdir(tmp_path)) == 150


MOMENTS = {
    "while it writes": ("", "draft.file.write(b'A' * 1_000_000); draft.file.flush(); die()", False),
    "before the bytes are safe": ("os.fsync = die", "", False),
    "before it has a name": ("os.link = os.rename = die", "", False),
    "when it has its name": ("os.link, os.rename = then_die(os.link), then_die(os.rename)", "", True),
    "when all is done": ("", "", True),
}
"""What is done before, what inside, and whether the part is there then."""
NURSERY = """
def then_die(step):
    def dying(*given, **named):
        step(*given, **named)
        die()
    return dying

for number, script in enumerate(json.load(sys.stdin)):
    home = f"{sys.argv[1]}/{number}"
    os.mkdir(home)
    if not (pid := os.fork()):
        folder = Folder.of(home)
        exec(script)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
CASES = [(disk, moment) for disk in DISKS for moment in MOMENTS]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Path]:
    """Folders in which writers were killed at every moment, on every disk. (Children of one process: that is quick.)"""
    home = tmp_path_factory.mktemp("killed")
    scripts = []
    for disk, moment in CASES:
        before, inside, _ = MOMENTS[moment]
        write = WRITE.replace("    draft.publish", f"    {inside}\n    draft.publish")
        scripts.append(f"{DISKS[disk]}{before}\n{write}\ndie()")
    ended = subprocess.run(
        [sys.executable, "-c", BEGIN + NURSERY, str(home)], input=json.dumps(scripts), capture_output=True, text=True
    )
    assert ended.stdout.split() == [str(-signal.SIGKILL)] * len(CASES), ended.stderr
    return {case: home / str(number) for number, case in enumerate(CASES)}


@pytest.mark.parametrize(("disk", "moment"), CASES)
def test_killed_writers_leave_nothing_or_everything(
    disk: str, moment: str, killed: dict[tuple[str, str], Path]
) -> None:
    home, whole = killed[disk, moment], MOMENTS[moment][2]
    left = drafts(home)
    shown = set(os.listdir(home)) - set(left)
    assert shown == ({"part"} if whole else set())
    assert not whole or (home / "part").read_bytes() == WHOLE
    if disk == "nameless" or moment == "when all is done":
        assert left == []
    elif not whole:  # nobody else may read it
        assert [(home / name).stat().st_mode & 0o077 for name in left if moment == "while it writes"] in ([], [0])
        assert len(left) == 1
    assert Folder.of(home).forget_drafts() == len(left)
    assert set(os.listdir(home)) == shown
    assert not whole or (home / "part").read_bytes() == WHOLE


def test_drafts_are_deleted_unread(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    draft = tmp_path / "target" / f"{DRAFT}left"
    draft.write_bytes(b"somebody's report")
    (tmp_path / "target" / f"{DRAFT[:-1]}x").write_bytes(b"not a draft")
    os.link(draft, tmp_path / "the same file")
    os.utime(tmp_path / "the same file", (1_000_000_000, 2_000_000_000))  # a read would count, as it is older
    assert Folder.of(tmp_path / "target").forget_drafts() == 1
    assert (tmp_path / "the same file").stat().st_atime == 1_000_000_000
    assert os.listdir(tmp_path / "target") == [f"{DRAFT[:-1]}x"]
    (tmp_path / "the same file").read_bytes()
    assert (tmp_path / "the same file").stat().st_atime != 1_000_000_000, "this disk does not tell who reads"


def test_whose_draft_was_deleted_cannot_publish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "O_TMPFILE")
    folder = Folder.of(tmp_path)
    with folder.draft() as draft:
        assert folder.forget_drafts() == 1
        with pytest.raises(DataError, match="another run of this job"):
            draft.publish("part")
    assert os.listdir(tmp_path) == []
    with folder.draft() as draft:
        folder.forget_drafts()
        (tmp_path / "part").write_bytes(b"of whoever was first")
        with pytest.raises(FileExistsError):
            draft.publish("part")
    assert folder.read("part") == b"of whoever was first"


FULL = """
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))
try:
    WRITE
except OSError as error:
    os._exit(error.errno)
"""


@pytest.mark.parametrize("disk", ["nameless", "named"])
def test_a_full_disk_leaves_nothing(disk: str, tmp_path: Path) -> None:
    writer = subprocess.run(
        [
            sys.executable,
            "-c",
            BEGIN + DISKS[disk] + FULL.replace("WRITE", WRITE.replace("\n", "\n    ")),
            str(tmp_path),
        ]
    )
    assert writer.returncode == errno.EFBIG
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The part is there then, and whoever tries again finds it."""
    calls: list[int] = []

    def only_files(descriptor: int) -> None:
        calls.append(descriptor)
        if len(calls) == 2:
            raise OSError(errno.EPERM, "not here")

    monkeypatch.setattr(os, "fsync", only_files)
    with Folder.of(tmp_path).draft() as draft:
        draft.file.write(b"all of it")
        with pytest.raises(OSError, match="not here"):
            draft.publish("part")
        with pytest.raises(FileExistsError):
            draft.publish("part")
    assert (tmp_path / "part").read_bytes() == b"all of it"


class Store:
    """A store of other machines', as Arrow shows it: an object appears when its stream is closed, however much of it
    has been written by then."""

    def __init__(self, kind: str) -> None:
        self.type_name = kind
        self.objects: dict[str, bytes] = {}
        self.seen: list[set[str]] = []
        self.failing: dict[str, BaseException] = {}

    def get_file_info(self, asked: str | pa.fs.FileSelector) -> Any:
        if isinstance(asked, str):
            return pa.fs.FileInfo(asked, pa.fs.FileType.File if asked in self.objects else pa.fs.FileType.NotFound)
        return [pa.fs.FileInfo(path, pa.fs.FileType.File) for path in self.objects]

    @contextlib.contextmanager
    def open_output_stream(self, path: str) -> Iterator[Store]:
        self.open, self.content = True, b""
        try:
            yield self
        finally:
            self.objects[path] = self.content

    def write(self, content: Any) -> None:
        self.seen.append(set(self.objects))
        self.content += bytes(content)
        self._step("write")

    def move(self, source: str, target: str) -> None:
        self._step("move")
        self.seen.append(set(self.objects))
        self.objects[target] = self.objects.pop(source)

    def delete_file(self, path: str) -> None:
        if self.objects.pop(path, None) is None:
            raise FileNotFoundError(path)

    def _step(self, name: str) -> None:
        if name in self.failing:
            raise self.failing[name]


@pytest.mark.parametrize("kind", ["s3", "gcs", "abfs", "hdfs", "py::fsspec+ssh"])
@pytest.mark.parametrize("interrupted", ["", "write", "move"])
def test_stores_show_a_part_when_all_of_it_is_there(kind: str, interrupted: str) -> None:
    """A stream that is given up half way is closed all the same, and an object store keeps what arrived: so there must
    be no half way."""
    store = Store(kind)
    folder = Folder(filesystem=store, path="reports")
    whole = os.urandom(10_000_000)
    store.failing = {interrupted: KeyboardInterrupt()} if interrupted else {}
    with contextlib.suppress(KeyboardInterrupt), folder.draft() as draft:
        draft.file.write(whole)
        draft.publish("part")
    assert store.objects in ({}, {"reports/part": whole})
    assert all("reports/part" not in names for names in store.seen)
    if not interrupted:
        assert store.objects == {"reports/part": whole}
    before = dict(store.objects)
    store.failing = {}
    with folder.draft() as draft:
        draft.file.write(b"second")
        with pytest.raises(FileExistsError) if before else contextlib.nullcontext():
            draft.publish("part")
    assert store.objects == (before or {"reports/part": b"second"})


def test_drafts_left_in_a_store_are_deleted() -> None:
    store = Store("hdfs")
    store.objects = {f"reports/{DRAFT}abc": b"half", "reports/part": b"whole"}
    assert Folder(filesystem=store, path="reports").forget_drafts() == 1
    assert store.objects == {"reports/part": b"whole"}


def test_places_that_cannot_be_used_are_named_without_keys(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DataError, match=r"cannot write to .*file'"), Folder.of(tmp_path / "file").draft():
        pass
    with pytest.raises(DataError, match="nosuch://…@bucket") as refused:
        Folder.of("nosuch://key:word@bucket/reports")
    assert "word" not in str(refused.value)


def test_names(tmp_path: Path) -> None:
    for name in ("b.parquet", "a.PQ", "below/c.parquet", "_d.parquet", ".e.parquet", "_below/f.parquet", "g.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"")
    folder = Folder.of(tmp_path)
    assert folder.tables() == ["a.PQ", "b.parquet", "below/c.parquet"]
    assert (folder.kind(), folder.kind("b.parquet"), folder.kind("z")) == ("folder", "file", "nothing")
    assert Folder.of(tmp_path / "z").names() == []
