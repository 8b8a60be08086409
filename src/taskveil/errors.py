"""Every error taskveil raises on purpose, and the warnings it gives.

Each says what was wrong, what was expected and what to do, and is raised by the call that received the bad
value. They also derive from the built-in error a caller would naturally catch (`ValueError`, `OSError`).
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import sys
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_JOINERS = "\u200c\u200d"
"""Some scripts need them."""


def printable(text: str) -> str:
    """The text with � for each control or invisible character, so that a name from a file cannot move a terminal's
    cursor, begin a line of its own, reverse the text after it, or look like another name."""
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if unicodedata.category(letter) in ("Cc", "Cf", "Cs", "Zl", "Zp") and letter not in _JOINERS
        else letter
        for letter in text
    )


class TaskveilError(Exception):
    """Base of all errors raised on purpose; catch this to catch them all.

    Example:
        >>> import taskveil as tv
        >>> try:
        ...     tv.Cost(epsilon=-1.0)
        ... except tv.TaskveilError as error:
        ...     print(type(error).__name__)
        BudgetError
    """


class RenamedError(TaskveilError, TypeError):
    """An argument that has another name now. The message is one line with the new one."""


class DataError(TaskveilError, ValueError):
    """Records that cannot be used: empty, NaN among the volunteers, text columns, wrong width."""


class TooFewReportsError(DataError):
    """Fewer reports than an estimate needs. The message says how many it needs."""


class ResumeError(DataError):
    """A file of finished points that is of no use here. `found` says what it keeps."""

    def __init__(self, found: str) -> None:
        super().__init__(f"{found} Name another file to resume from, or remove it.")
        self.found = found


class BudgetError(TaskveilError, ValueError):
    """A privacy budget that is no budget: zero, negative, NaN, infinite."""


class TaskError(TaskveilError, ValueError):
    """A task that does not fit the data or the design."""


class DomainError(TaskveilError, ValueError):
    """A domain that is empty, unbounded or of the wrong dimension."""


class MechanismError(TaskveilError, ValueError):
    """Parameters under which a mechanism would not keep its promise; nothing is built."""


class SensitivityError(TaskveilError, ValueError):
    """An exact sensitivity that cannot be computed in reasonable time; the message names the way out."""


class EntropyError(TaskveilError, OSError):
    """The operating system gave no randomness; no report is made."""


class ReleaseError(TaskveilError, ValueError):
    """Release files that are missing, truncated, altered or malformed."""


class ClusterError(TaskveilError, OSError):
    """A Ray cluster that cannot be reached, or that lost what it was given to do. The message says what is kept."""


class VersionError(ReleaseError):
    """Release files written by a newer taskveil than this one."""


class AuditError(TaskveilError, ValueError):
    """Something that cannot be audited as asked: no claim to test, too few trials, reports that are no numbers."""


class SignatureError(ReleaseError):
    """Release files whose signature is missing, wrong, or cannot be checked here."""


class LedgerError(TaskveilError, OSError):
    """A ledger that cannot be read or written; no report was made, because it could not have been recorded."""


class BudgetSpentError(TaskveilError):
    """The person's budget does not allow another report; none was made."""


class WireError(TaskveilError, ValueError):
    """Bytes that are no report, or a report of another release or version."""


class UploadError(TaskveilError, OSError):
    """Reports that were not accepted. `sent` were, `rejected` never will be (the reasons, by place in the list that was
    passed); those after the first sent + len(rejected) may be sent again, unchanged."""

    def __init__(
        self, message: str, *, sent: int = 0, status: int | None = None, rejected: Mapping[int, str] | None = None
    ) -> None:
        super().__init__(message)
        self.sent = sent
        self.status = status
        self.rejected = dict(rejected or {})


class FewRecordsWarning(UserWarning):
    """A mean that a few records decide: its interval is less sure than it looks."""


class WildRecordWarning(UserWarning):
    """A few cells of the volunteers' table carry much of an attribute's variance; the message says which and what was
    done."""


class UnusedColumnWarning(UserWarning):
    """A column of the volunteers' table that says nothing a release could hold; the message says what to do."""


class DoubtfulColumnWarning(UserWarning):
    """A column that was probably meant to be something else than what it was taken for; the message says what to do."""


class HardlyAskedWarning(UserWarning):
    """Attributes that hardly any report is about, because the task weighs others far more; the message names them."""


class NothingToReportWarning(UserWarning):
    """`method="auto"` found nothing better than one answer for everybody, and designed a veil that tells nothing."""


class NamedModelWarning(UserWarning):
    """The best encoder is a model that a release can only name: Python clients bring it, browsers cannot."""


class UnusedModelWarning(UserWarning):
    """The task's own model was shared, but cannot run on devices as it is; the message says why."""


def callers_line() -> int:
    """The `stacklevel` with which a warning shows the line outside this package that led here, however many of our
    own calls, generators and decorators lie between."""
    level, frame, between = 1, sys._getframe(1), ("taskveil", "contextlib")
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] in between:
        level, frame = level + 1, frame.f_back
    return level


class MissingExtraError(TaskveilError, ImportError):
    """A package that this install was made without. The message is one line with the command that brings it."""


@contextlib.contextmanager
def needs(what: str, *, extra: str = "design") -> Iterator[None]:
    """Around imports of packages that only an extra of taskveil brings: says what to type when one is missing.

    Args:
        what: what the caller wanted, as the first words of the message ("tv.design").
        extra: the extra that holds all it needs.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "taskveil"):  # a mistake of ours, which no install would mend
            raise
        extra = "torch" if package == "torch" else extra  # no other extra brings it
        wanted = package if package in ("pandas", "polars") else f"'taskveil[{extra}]'"  # no extra brings tables
        raise MissingExtraError(f"{what} needs {package}: pip install {wanted}", name=error.name) from None


def installed(package: str) -> bool:
    """Whether a package could be imported. It is looked for and not imported: torch takes a second."""
    try:
        return importlib.util.find_spec(package) is not None
    except (ImportError, ValueError):  # hidden, or half imported
        return False


RENAMED = {
    "encoder=": "is now on_device=tv.OnDevice(encoder=...)",
    "share_model=": "is now on_device=tv.OnDevice(share_model=...)",
    "volunteers_unseen=": "is now on_device=tv.OnDevice(volunteers_unseen=...)",
    "client_bytes=": "is now on_device=tv.OnDevice(max_bytes=...)",
    "latent_dim=": "is now on_device=tv.OnDevice(latent_dim=...)",
    "answers=": "is now tv.ModelTask(model, answering=...)",
    "device=": "is now torch_device=",
    "torch_device=": 'is now engine="cuda" in tv.sweep, or engine=tv.Ray(gpus=1)',
    "X_test=": "is now test=X_test or test=(X_test, y_test)",
    "y_test=": "is now test=(X_test, y_test)",
    "address=": "is now engine=tv.Ray(address=...)",
    "workers=": "is now engine=tv.Ray(workers=...)",
    "num_gpus=": "is now engine=tv.Ray(gpus=...)",
    "segment=": "is now tv.sweep_segments(X, task, segment=...)",
    "segment_test=": "is now tv.sweep_segments(X, task, segment_test=...)",
    "releases=": "is now tv.sweep_segments(X, task, releases=...); for one release for everybody use tv.design",
    'engine="ray"': "is now engine=tv.Ray()",
    'engine="plain"': "is now engine=None, the default",
    'method="nothing"': 'is now method="constant"',
    "tv.PrivateReports": "is now taskveil.sklearn.PrivateReports",
    "tv.Frontier": "is now taskveil.sweeps.frontier.Frontier",
    "tv.SegmentedFrontier": "is now taskveil.sweeps.segments.SegmentedFrontier",
}
"""Names of 0.2 before its release, and the new ones. Errors quote this table; it goes with the next release."""


def refusing_old_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """The same function. An argument with an old name is a RenamedError that names the new one."""
    known = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in kwargs:
            if name not in known and (new := RENAMED.get(f"{name}=")):
                raise RenamedError(f"{name}= {new}.")
        return function(*args, **kwargs)

    return checked
