"""Checks of the source of randomness.

- No predictable generator (np.random, random, objects made by them) can be reached from the code that makes reports.
- Where the operating system gives no entropy, there is no report.
- No two processes draw the same noise.

Nothing here touches the entropy of this process. Replacements are made in a child process, so that other threads of the
caller keep their randomness. A child forked from a process with threads may find a lock held by a thread that it does
not have. It then gives no answer and is ended after a while, and its question stays unanswered.
"""

from __future__ import annotations

import dis
import hashlib
import multiprocessing
import os
import random
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Literal

import numpy as np

from taskveil.arrays import Array
from taskveil.auditing.bound import at_most
from taskveil.auditing.checks import equal_rows
from taskveil.auditing.target import ALPHA, CHUNK, Check, Target
from taskveil.client import entropy

_CLOSED = {"numpy", "scipy", "torch", "sklearn", "pandas", "polars", "pyarrow"} | set(sys.stdlib_module_names)
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, random.Random)


def foreign_randomness(*roots: Any) -> list[str]:
    """Descriptions of every predictable generator within reach, in the order found."""
    found: dict[str, None] = {}
    seen: set[int] = set()
    queue = list(roots)
    keep = []  # ids are only unique among living objects
    while queue:
        item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        keep.append(item)
        complaint = _is_foreign(item)
        if complaint:
            found[complaint] = None
            continue
        for next_item in _touches(item):
            if isinstance(next_item, str):
                found[next_item] = None
            else:
                queue.append(next_item[0])
    return list(found)


def _is_foreign(item: Any) -> str | None:
    if isinstance(item, random.SystemRandom):
        return None
    if isinstance(item, _GENERATORS):
        return f"a {type(item).__name__} object"
    if item is random or item is np.random:
        return f"the module {item.__name__}"
    if isinstance(item, BuiltinFunctionType | MethodType) and isinstance(item.__self__, _GENERATORS):
        return _is_foreign(item.__self__) and f"{type(item.__self__).__name__}.{item.__name__}"
    home = getattr(item, "__module__", None)
    if callable(item) and isinstance(home, str) and home.startswith("numpy.random"):
        return f"numpy.random.{getattr(item, '__name__', type(item).__name__)}"
    return None


def _touches(item: Any) -> Iterator[tuple[Any] | str]:
    """What `item` can touch, wrapped in a tuple, or the description of a generator it names."""
    if isinstance(item, FunctionType):
        if _open(item.__module__):
            yield from _named(item)
    elif isinstance(item, MethodType):
        yield (item.__func__,)
        yield (item.__self__,)
    elif isinstance(item, partial):
        yield from ((part,) for part in (item.func, *item.args, *item.keywords.values()))
    elif isinstance(item, property):
        yield (item.fget,)
    elif isinstance(item, staticmethod | classmethod):
        yield (item.__func__,)
    elif isinstance(item, type):
        if _open(item.__module__):
            yield from ((value,) for kind in item.__mro__ if _open(kind.__module__) for value in vars(kind).values())
    elif isinstance(item, list | tuple | set | frozenset):
        yield from ((value,) for value in list(item)[:1000])
    elif isinstance(item, dict):
        yield from ((value,) for value in list(item.values())[:1000])
    elif not isinstance(item, ModuleType | np.ndarray | str | bytes | int | float | CodeType):
        yield (type(item),)
        yield from ((value,) for value in getattr(item, "__dict__", {}).values())


def _named(function: FunctionType) -> Iterator[tuple[Any] | str]:
    for cell in function.__closure__ or ():
        try:
            yield (cell.cell_contents,)
        except ValueError:  # a name not bound yet
            continue
    yield from ((value,) for value in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()))
    for code in _codes(function.__code__):
        names = set(code.co_names)
        for name in sorted(names):
            if name not in function.__globals__:
                continue
            value = function.__globals__[name]
            if not isinstance(value, ModuleType):
                yield (value,)
            elif value is random:
                if "SystemRandom" not in names:
                    yield f"random in {function.__qualname__}"
            elif (value is np and "random" in names) or value is np.random:
                yield f"np.random in {function.__qualname__}"
            elif _open(value.__name__):
                yield from ((getattr(value, other),) for other in sorted(names) if hasattr(value, other))
        for step in dis.get_instructions(code):
            inside = step.opname == "IMPORT_NAME" and (
                step.argval in ("random", "numpy.random") or (step.argval == "numpy" and "random" in names)
            )
            if inside and "SystemRandom" not in names:
                yield f"import {step.argval} in {function.__qualname__}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _open(module: str | None) -> bool:
    return module is not None and module.partition(".")[0] not in _CLOSED


Bytes = Callable[[int], bytes]

_PATIENCE = 60.0
"""Seconds until a child that gives no answer is ended."""

Digest = tuple[str, str]
"""(of the reports, of the random bytes drawn for them; empty if none were seen)"""


def in_child(ask: Callable[[], Any], *, patience: float = _PATIENCE) -> Any:
    """The result of `ask` in a forked child; None if the system cannot fork or no answer came in time.

    An error in the child is no answer either: `ask` catches those that it expects.
    """
    if not hasattr(os, "fork"):
        return None
    reader, writer = multiprocessing.Pipe(duplex=False)
    with warnings.catch_warnings():
        # Python warns of forks beside threads; what may happen then is what the time-out is for.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            writer.send(ask())
        finally:
            os._exit(0)  # whatever happens: a forked child must not run its parent's exit handlers
    writer.close()
    try:
        return reader.recv() if reader.poll(patience) else None
    except EOFError:
        return None
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        reader.close()


def replace_entropy(source: Bytes, door: Bytes | None = None) -> None:
    """Make this process draw from `source` from now on. Only ever called in a child, because it cannot be undone.

    Replaced are `os.urandom` under every name a loaded module knows it by (`random.SystemRandom` and so `secrets` have
    their own) and taskveil's own door, by `door` where it differs. Code outside Python asks the system itself.
    """
    for module, name in _names_of_urandom(len(sys.modules)):
        setattr(module, name, source)
    entropy.system_bytes = door or source


@lru_cache(maxsize=1)
def _names_of_urandom(_modules: int) -> list[tuple[ModuleType, str]]:
    """Where this process keeps `os.urandom`. Looked up once, so that not every child has to (see `fork_digests`)."""
    return [
        (module, name)
        for module in list(sys.modules.values())
        if isinstance(module, ModuleType)
        for name, value in list(vars(module).items())
        if value is os.urandom
    ]


def digest(make: Callable[[], Array]) -> Digest:
    """Digests of the reports and of the bytes drawn for them. Only ever called in a child."""
    system, seen = os.urandom, hashlib.sha256()
    drawn = 0

    def watched(count: int) -> bytes:
        nonlocal drawn
        raw = system(count)
        drawn += len(raw)
        seen.update(raw)
        return raw

    replace_entropy(watched)
    reports = make()
    return hashlib.sha256(np.ascontiguousarray(reports).tobytes()).hexdigest(), seen.hexdigest() if drawn else ""


def fork_digests(make: Callable[[], Array], count: int) -> list[Digest]:
    """From `count` children forked here, one after the other; those that gave no answer are missing."""
    digests: list[Digest] = []
    _names_of_urandom(len(sys.modules))  # children inherit what was looked up
    for _ in range(count):
        answer = in_child(lambda: digest(make))
        if answer is None:
            return digests  # the next one would not answer either, and would take as long not to
        digests.append(answer)
    return digests


Failure = Literal["failed", "came short", "failed half way"]
FAILURES: tuple[Failure, ...] = ("failed", "came short", "failed half way")


def no_foreign_randomness(target: Target) -> Check:
    """Whether neither np.random nor random can be reached from the code that makes reports."""
    veil = target.veil
    roots = [target.call] if veil is None else [veil.mechanism, veil.encoder, veil.schema]
    found = foreign_randomness(*roots)
    detail = f"Predictable randomness is within reach: {', '.join(found[:3])}." if found else "None is within reach."
    return Check.of("no np.random, no random", detail, held=not found)


def no_entropy_no_report(target: Target) -> Check:
    """Whether there is an error and no report when the operating system gives no randomness, at once or half way.

    Every failure is injected into a child process. A mechanism that was not seen to ask (one that draws outside Python,
    or drew ahead) cannot be tried in this way.
    """
    name = "no entropy, no report"
    if not hasattr(os, "fork"):
        return Check.not_applicable(name, "failures are injected into forked processes, and this system cannot fork.")
    tried = []
    for failure in FAILURES:
        seen = in_child(lambda failure=failure: _starve(target, failure))  # type: ignore[misc]
        if seen is None:
            return Check.not_applicable(name, "a forked process gave no answer.")
        if seen["injected"] and seen["made"]:
            return Check.of(name, f"A report was made although the system's entropy {failure}.", held=False)
        if seen["injected"]:
            tried.append(failure)
        elif failure == "failed":
            why = "it was not seen to ask the system through Python, so no failure could be injected."
            return Check.not_applicable(name, why)
    return Check.of(name, f"Injected failures ({', '.join(tried)}) stop every report.", held=True)


def _starve(target: Target, failure: Failure) -> dict[str, Any]:
    """In a child: reports under failing entropy. `injected`: how often it failed; `made`: reports came all the same."""
    system = os.urandom
    asked = injected = 0

    def source(count: int) -> bytes:
        nonlocal asked, injected
        asked += 1
        if failure == "came short" or (failure == "failed half way" and asked == 1):
            return system(count)
        injected += 1
        raise OSError("entropy failure injected by the audit")

    def short(count: int) -> bytes:
        nonlocal injected
        injected += 1
        return bytes(max(count - 1, 0))

    records = np.tile(target.middle, (CHUNK if failure == "failed half way" else 1, 1))
    # Python's own os.urandom gives all it was asked for or fails; only taskveil's door may meet a source that does not.
    replace_entropy(source, door=short if failure == "came short" else None)
    try:
        target.report(records)
    except Exception:  # an error is what should happen
        return {"injected": injected, "made": False}
    return {"injected": injected, "made": True}


def no_shared_noise(target: Target, *, forks: int) -> Check:
    """Whether processes forked from this one never draw the same noise."""
    name = "no noise shared by processes"
    probe = np.tile(target.middle, (4096, 1))
    repeats = float(at_most(equal_rows(target.report(probe), target.report(probe)).sum(), 4096, ALPHA))
    rows = int(np.clip(np.ceil(-50 / np.log(min(max(repeats, 1e-3), 1 - 1e-9))), 64, 4096))
    batch = np.tile(target.middle, (rows, 1))
    digests = fork_digests(lambda: target.report(batch), forks)
    if len(digests) < 2:
        return Check.not_applicable(name, "no two other processes made reports.")
    # Nearly constant reports may agree by chance; then only the bytes drawn show it.
    telling = rows * np.log(repeats) + np.log(len(digests) ** 2) < np.log(ALPHA)
    made = [made for made, _ in digests]
    drawn = [drawn for _, drawn in digests if drawn]
    if (telling and len(set(made)) < len(made)) or len(set(drawn)) < len(drawn):
        return Check.of(name, "Two processes drew the same noise.", held=False)
    if not telling and len(drawn) < 2:
        return Check.not_applicable(name, "reports repeat too often, and no randomness was seen to be drawn.")
    return Check.of(name, f"{len(digests)} forked processes drew different noise.", held=True)
