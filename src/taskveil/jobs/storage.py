"""Folders on this machine's disk, or on any filesystem that Arrow knows, in which each file appears exactly once.

The process that writes a file may be killed at any moment, be run again, or run twice at the same time. So a file is a
*draft* until all of it is written. One step then publishes it under its name, and that step is refused if the name is
taken. Two attempts at one file therefore never become two files, and no file is ever incomplete.

- On a disk, a draft has no name if Linux allows it (O_TMPFILE). When its writer dies, the kernel deletes it, and it
  never appears in the folder. Otherwise its name begins with a dot. The step is a hard link, which unlike a rename
  does not replace a file.
- On S3, Google's and Azure's stores, a draft is a file without a name on the writer's own disk. The step is the upload:
  an object appears when all of it has arrived.
- On other filesystems (HDFS, fsspec), the name of a draft begins with a dot, and the step is a rename.

Drafts of killed processes are deleted unread (`forget_drafts`).
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import mmap
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from taskveil.errors import DataError, needs

with needs("a folder of records"):
    import pyarrow as pa
    from pyarrow import fs as arrow_fs

Place = str | Path
"""A path of this machine, or an address like s3://bucket/folder."""
PARQUET = (".parquet", ".pq")
"""The endings of Parquet files."""
DRAFT = ".taskveil-draft-"
"""The beginning of a draft's name, if it has one."""
_OBJECT_STORES = ("s3", "gcs", "abfs")  # a new object appears when it is complete


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder at `path` of an Arrow `filesystem`. Names are those of files in it, with slashes between."""

    filesystem: Any
    path: str

    @classmethod
    def of(cls, place: Place) -> Folder:
        """The folder at a path of this machine, or at an address like s3://bucket/folder."""
        text = str(place)
        with _naming(text):
            if "://" in text:
                filesystem, path = arrow_fs.FileSystem.from_uri(text)
                if filesystem.type_name == "local":
                    path = str(Path(path).resolve())  # or a target inside its source could hide behind ..
                return cls(filesystem=filesystem, path=path.rstrip("/"))
            return cls(filesystem=arrow_fs.LocalFileSystem(), path=str(Path(text).resolve()))

    @property
    def is_local(self) -> bool:
        """Whether it lies on a disk of this machine, or on one that is mounted there (NFS)."""
        return bool(self.filesystem.type_name == "local")

    def at(self, name: str) -> str:
        """The path of a file in it."""
        return f"{self.path}/{name}" if name else self.path

    def kind(self, name: str = "") -> str:
        """ "file", "folder" or "nothing", by what has this name."""
        with _naming(self.at(name)):
            found = self.filesystem.get_file_info(self.at(name)).type
        return {arrow_fs.FileType.File: "file", arrow_fs.FileType.Directory: "folder"}.get(found, "nothing")

    def tables(self) -> list[str]:
        """The names of all Parquet files in it and below, in order, without names and folders that begin with a dot or
        an underscore."""
        return [name for name in self.names(below=True) if name.lower().endswith(PARQUET) and _shown(name)]

    def names(self, *, below: bool = False) -> list[str]:
        """The names of all files in it, in order; with those in the folders `below` on request."""
        with _naming(self.path):
            selector = arrow_fs.FileSelector(self.path, recursive=below, allow_not_found=True)
            found = self.filesystem.get_file_info(selector)
        inside = [info.path for info in found if info.type == arrow_fs.FileType.File]
        return sorted(path.removeprefix(self.path).lstrip("/") for path in inside)

    def create(self) -> None:
        """Make it, if it is not there."""
        with _naming(self.path):
            self.filesystem.create_dir(self.path, recursive=True)

    def open(self, name: str) -> Any:
        """A file in it, opened by Arrow, that can be read from any position."""
        with _naming(self.at(name)):
            return self.filesystem.open_input_file(self.at(name))

    def read(self, name: str) -> bytes:
        """The content of a small file in it."""
        with self.open(name) as file:
            return bytes(file.readall())

    def sha256(self, name: str) -> str:
        """The SHA-256 of a file in it."""
        with _naming(self.at(name)), self.open(name) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def delete(self, name: str) -> None:
        """Delete a file of it, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            self.filesystem.delete_file(self.at(name))

    @contextlib.contextmanager
    def draft(self) -> Iterator[Draft]:
        """A file to write to that nobody else sees. It is deleted at the end, unless it was published."""
        with contextlib.ExitStack() as stack:
            with _naming(self.path, "write to"):
                file, path = stack.enter_context(_nameless(Path(self.path) if self.is_local else None))
            yield Draft(folder=self, file=file, path=path)

    def forget_drafts(self) -> int:
        """Delete the drafts of killed attempts, unread; returns how many. An attempt that still runs can then publish
        no more, and fails."""
        left = [name for name in self.names() if name.startswith(DRAFT)]
        for name in left:
            self.delete(name)
        return len(left)


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A `file` that will be published in a `folder`; `path` is its path on the disk where it is now."""

    folder: Folder
    file: IO[bytes]
    path: str

    def publish(self, name: str) -> None:
        """Publish the file under `name`, all of it at once. If the name is taken, that file stays as it is, and a
        FileExistsError is raised."""
        folder, target = self.folder, self.folder.at(name)
        self.file.flush()
        if folder.is_local:
            if Path(self.path).name.startswith(DRAFT):
                os.fchmod(self.file.fileno(), _mode_beside(self.path))  # until now nobody else could read it
            os.fsync(self.file.fileno())  # or a power cut may keep the name and lose the bytes
            _link(self.path, Path(target))
            return
        if folder.kind(name) != "nothing":
            raise FileExistsError(errno.EEXIST, "exists already", target)
        if folder.filesystem.type_name in _OBJECT_STORES:
            self._upload(target)
            return
        place = f"{DRAFT}{secrets.token_hex(8)}"
        try:
            self._upload(folder.at(place))
            folder.filesystem.move(folder.at(place), target)
        finally:
            folder.delete(place)

    def replace(self, name: str) -> None:
        """Publish the file under `name`, and delete an earlier file first: at no moment can two be compared."""
        self.file.flush()
        os.fsync(self.file.fileno())
        with _naming(self.folder.at(name), "replace"):
            self.folder.delete(name)
        self.publish(name)

    def _upload(self, place: str) -> None:
        """Upload the file in one call: if a stream is closed early, an object store keeps an incomplete object."""
        with (
            mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ) as content,
            self.folder.filesystem.open_output_stream(place) as stream,
        ):
            stream.write(content)


@contextlib.contextmanager
def _nameless(folder: Path | None) -> Iterator[tuple[IO[bytes], str]]:
    """An open file and its path: in the folder, without a name if Linux can, otherwise with a draft's name. Without a
    folder, a temporary file of this machine that never has a name."""
    if folder is None:
        with tempfile.TemporaryFile() as file:
            yield file, ""
        return
    path = ""
    try:
        descriptor = os.open(folder, os.O_TMPFILE | os.O_RDWR, 0o644)
    except (AttributeError, OSError) as error:  # not Linux; or a filesystem that cannot, such as NFS
        if isinstance(error, OSError) and error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
        descriptor, path = tempfile.mkstemp(prefix=DRAFT, dir=folder)
    try:
        with open(descriptor, "w+b") as file:
            yield file, path or f"/proc/self/fd/{descriptor}"
    finally:
        if path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def _mode_beside(draft: str) -> int:
    """The mode of a new file in a draft's folder. Reading the umask would change it for all threads."""
    probe = f"{draft}-mode"
    descriptor = os.open(probe, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
    try:
        return stat.S_IMODE(os.fstat(descriptor).st_mode)
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(probe)


def _link(draft: str, target: Path) -> None:
    """Give a draft its final name; or raise a FileExistsError if the name is taken."""
    home = os.open(target.parent, os.O_RDONLY)
    try:
        try:
            # Only with a folder's descriptor does Python follow /proc's links to drafts without a name.
            os.link(draft, target.name, dst_dir_fd=home, follow_symlinks=True)
        except OSError as error:
            if isinstance(error, FileExistsError):
                raise
            if os.path.lexists(target):  # also if the first attempt has deleted this draft
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(target)) from error
            if isinstance(error, FileNotFoundError):
                raise DataError(
                    f"a draft of {target} was deleted: another run of this job has begun. Let that one end, or end it "
                    "and run this again."
                ) from error
            if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
                raise
            # A disk without links (FAT, some shares): here, two attempts at the same moment could both rename.
            os.rename(draft, target)
        os.fsync(home)
    finally:
        os.close(home)


def _shown(name: str) -> bool:
    return not any(part.startswith((".", "_")) for part in name.split("/"))


@contextlib.contextmanager
def _naming(place: str, doing: str = "use") -> Iterator[None]:
    """Turns errors about a place into a DataError that names it."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:
        # Arrow's messages about places (no network, no such bucket, no rights) quote no record.
        reason = getattr(error, "strerror", None) or str(error).partition("\n")[0].rstrip(". ") or type(error).__name__
        said = re.sub("//[^/@]*@", "//…@", f"cannot {doing} {place!r}: {reason}.")  # an address may hold a key
        raise DataError(said) from error
