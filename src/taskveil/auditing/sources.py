"""Checks of the source of randomness.

- No predictable generator (np.random, random, objects made by them) can be reached from the code that makes reports.
- Where the operating system gives no entropy, there is no report.
- No two processes draw the same noise.

Nothing here touches the entropy of this process. Replacements are made in a child process, so that other threads of the
caller keep their randomness. A child forked from a process with threads may find a lock held by a thread that it does
not have. It then gives no answer and is ended after a while, and its question stays unanswered.
"""

from __future__ import annotations

import _random
import builtins
import contextlib
import dataclasses
import dis
import functools
import gc
import hashlib
import importlib
import multiprocessing
import os
import random
import signal
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import BuiltinFunctionType, CodeType, FunctionType, MethodDescriptorType, MethodType, ModuleType
from typing import Any, Literal

import numpy as np

from taskveil.arrays import Array
from taskveil.auditing.bound import at_most
from taskveil.auditing.checks import equal_rows
from taskveil.auditing.target import ALPHA, CHUNK, Check, Target
from taskveil.client import entropy

_LIBRARIES = {"numpy", "scipy", "torch", "sklearn", "pandas", "polars", "pyarrow"}
_GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator, _random.Random)
_MERSENNE = _random.Random
_ATOMS = (ModuleType, CodeType, np.ndarray, str, bytes, int, float, complex, type(None))
"""What reaches nothing by itself; of a module, code names what it uses."""
_TORCHS = {
    "rand", "rand_like", "randn", "randn_like", "randint", "randint_like", "randperm", "normal", "bernoulli",
    "binomial", "multinomial", "poisson", "dropout", "uniform_", "normal_", "bernoulli_", "cauchy_",
    "exponential_", "geometric_", "log_normal_", "random_", "sample", "sample_n", "rsample",
}  # fmt: skip
"""Functions of torch, methods of its tensors and of its distributions that draw."""
_CALCULATED = {
    "pdf", "logpdf", "pmf", "logpmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf", "mean", "median", "var",
    "std", "entropy", "support",
}  # fmt: skip
"""Methods of scipy's distributions that draw nothing. Every distribution holds a generator for the others."""


def foreign_randomness(*roots: Any) -> list[str]:
    """Descriptions of every predictable generator within reach of these objects, in the order found.

    Objects are judged, never names: code is followed from the module that a name is bound to now to the attribute that
    is used of it, and every object found is looked into. A module that code is given, as an argument or an attribute of
    an object, may be behind any two attributes in a row: `self.xp.random.normal` is numpy's if numpy is within reach.
    """
    found: dict[str, None] = {}
    seen: dict[int, Any] = {}  # with the objects, since ids are only unique among living ones
    queue = [(root, "") for root in roots]
    given: list[ModuleType] = []
    rows: dict[tuple[str, str], str] = {}  # attributes in a row, and where
    while queue:
        item, where = queue.pop()
        if id(item) in seen:
            continue
        seen[id(item)] = item
        foreign = _foreign(item)
        if foreign:
            found[foreign + where] = None
            continue
        given += [item] if isinstance(item, ModuleType) else []
        where = f" in {item.__qualname__}" if isinstance(item, FunctionType) else where
        pairs: set[tuple[str, str]] = set()
        queue += [(part, where) for part in _touched_by(item, pairs)]
        rows |= dict.fromkeys(pairs, where)
    for (first, second), where in rows.items():
        for module in given:
            inner = vars(module).get(first)
            if isinstance(inner, ModuleType) and second in vars(inner) and (foreign := _foreign(inner)):
                found[foreign + where] = None
    return list(found)


def _foreign(item: Any) -> str | None:
    """What this object is, if it is a predictable generator, a way to make one, or a method of one."""
    if item is random or item is np.random or item is _random:
        return f"the module {item.__name__}"
    if isinstance(item, type):
        return f"the class {item.__qualname__}" if _predictable(item) else None
    if _predictable(type(item)):
        return f"a {type(item).__name__} object"
    if isinstance(item, BuiltinFunctionType | MethodType) and _predictable(type(item.__self__)):
        return f"{type(item.__self__).__name__}.{item.__name__}"
    home = getattr(item, "__module__", None)
    if callable(item) and isinstance(home, str) and home.startswith("numpy.random"):
        return f"numpy.random.{getattr(item, '__name__', type(item).__name__)}"
    if isinstance(item, MethodDescriptorType):
        home = item.__objclass__.__module__
    if isinstance(item, BuiltinFunctionType | MethodDescriptorType | FunctionType) and item.__name__ in _TORCHS:
        return f"torch's {item.__qualname__}" if str(home).partition(".")[0] == "torch" else None
    return None


def _predictable(kind: type[Any]) -> bool:
    """Whether objects of this type draw bits by themselves. `random.SystemRandom` replaces both ways to draw them."""
    if issubclass(kind, _MERSENNE) and not any(_of_mersenne(kind, way) for way in ("random", "getrandbits")):
        return False
    torchs = getattr(sys.modules.get("torch"), "Generator", None)
    return issubclass(kind, _GENERATORS) or (isinstance(torchs, type) and issubclass(kind, torchs))


def _home(function: FunctionType) -> ModuleType | None:
    """The module where a function really lives; None if it has only the name of one."""
    home = sys.modules.get(function.__globals__.get("__name__", ""))
    return home if home is not None and vars(home) is function.__globals__ else None


def _is_at_home(kind: type[Any]) -> bool:
    """Whether the module that a class states has it."""
    home = sys.modules.get(str(kind.__module__))
    return home is not None and vars(home).get(kind.__name__) is kind


def _is_elsewhere(kind: type[Any]) -> bool:
    """Whether a class that states a closed module, as any class may, has a method that lives in another one."""
    if _is_at_home(kind):
        return False
    for value in vars(kind).values():
        method = value.fget if isinstance(value, property) else value
        method = method.__func__ if isinstance(method, staticmethod | classmethod) else method
        home = _home(method) if isinstance(method, FunctionType) else None
        if home is not None and _open(home.__name__):
            return True
    return False


def _of_mersenne(kind: type[Any], way: str) -> bool:
    """Whether this way to draw bits is Mersenne's, or may ask for Mersenne's by `super()`, as one that counts draws."""
    for base in kind.__mro__:
        method = vars(base).get(way)
        if base is _MERSENNE:
            return True
        if method is not None and not (
            isinstance(method, FunctionType) and any("super" in code.co_names for code in _codes(method.__code__))
        ):
            return False
    return False


def _touched_by(item: Any, pairs: set[tuple[str, str]]) -> Iterator[Any]:
    """Objects that `item` uses or holds. Attributes that its code uses in a row go into `pairs`.

    Of a closed library's function the code is left out, but not what it holds: a decorator's function holds the one
    decorated. Annotations are left out, since nothing is drawn from them.
    """
    if isinstance(item, FunctionType):
        yield from (*(item.__defaults__ or ()), *(item.__kwdefaults__ or {}).values(), *vars(item).values())
        home = _home(item)
        if home is None or _open(home.__name__):
            yield from _used_by(item, pairs)
        else:
            yield from (value for values in _closure(item).values() for value in values)
    elif isinstance(item, type):
        yield type(item)
        for kind in item.__mro__:
            if _open(str(kind.__module__)) or _is_elsewhere(kind):
                yield from (value for name, value in vars(kind).items() if name != "__annotations__")
    elif isinstance(item, dataclasses.Field):
        yield from (item.default, item.default_factory, item.metadata)
    elif not isinstance(item, _ATOMS):
        yield type(item)
        whole = _namespace(item)
        yield from (part for part in gc.get_referents(item) if part is not whole)


def _namespace(item: Any) -> dict[str, Any] | None:
    """The names of a closed library's module, if a function that Cython compiled refers to all of them, as each does.

    Like a module they reach nothing by themselves: through pyarrow's registry of types, for example, they lead to
    whatever else is loaded, which depends on what ran before.
    """
    if type(item).__name__ != "cython_function_or_method" or not _is_at_home(type(item)):
        return None
    home = _home(item)
    return None if home is None or _open(home.__name__) else vars(home)


_SILENT = {"EXTENDED_ARG", "CACHE", "PUSH_NULL", "NOP", "COPY", "SWAP"}
_EVALUATE = (builtins.eval, builtins.exec, builtins.compile)
_IMPORT = (builtins.__import__, importlib.__import__, importlib.import_module)
_BY_STRING = (*_IMPORT, sys.modules, builtins.globals, *_EVALUATE)
"""Ways to a module, or to a name of the function's own module, that may be any string."""


def _used_by(
    function: FunctionType, pairs: set[tuple[str, str]] | None = None, *, methods: bool = True
) -> Iterator[Any]:
    """Objects that a function's code names. Attributes that it uses in a row go into `pairs`.

    Modules are followed, through local names and imports, to the attributes that are used of them. Of a module that is
    used in another way, as in `getattr(random, name)`, so are the attributes that a string of the code names. Strings
    that may be evaluated are read as code. With `methods`, so are the methods used of closed libraries' types.
    """
    known = _closure(function)  # objects of local names
    scope = {**vars(builtins), **function.__globals__}
    codes = [*_codes(function.__code__)] * 2  # a nested function may use a name that is bound further down
    evaluated: set[str] = set()
    for code in codes:  # which grows
        constants = (*code.co_consts, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
        strings = [text for text in constants if isinstance(text, str)]
        strings += [scope[name] for name in code.co_names if isinstance(scope.get(name), str)]
        imported: list[Any] = []
        by_string: list[Any] = []  # modules that a string may have led to
        kinds: dict[type[Any], None] = {}  # types of closed libraries
        here: list[Any] = []  # what the instruction before has put on the stack
        attribute = ""  # that the instruction before has read
        steps, before = list(dis.get_instructions(code)), 0
        for place, step in enumerate(steps):
            if step.opname in _SILENT:
                continue
            names = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            modules = [value for value in here if isinstance(value, ModuleType)]
            if methods:
                kinds.update(dict.fromkeys(kind for value in here for kind in _closed_types(value)))
            after: list[Any] = []
            calculated, last, attribute = False, attribute, ""
            match step.opname.split("_")[:2]:
                case ["LOAD", "ATTR" | "METHOD"]:
                    after = _attributes(modules, names[0])
                    yield from (draw for kind in kinds for draw in _draws(kind, names[0]))
                    calculated = names[0] in _CALCULATED
                    attribute = names[0]
                    if pairs is not None and last:
                        pairs.add((last, attribute))
                case ["IMPORT", "FROM"]:
                    after = _attributes(imported, names[0])
                case ["STORE", _]:
                    for name in names:
                        known[name] = [*known.get(name, []), *here]
                case _:
                    yield from modules
                    yield from (vars(module)[text] for module in modules for text in strings if text in vars(module))
            for value in here:
                if any(value is way for way in _BY_STRING):
                    reached = [sys.modules[text] for text in strings if text in sys.modules]
                    reached += [function.__globals__[text] for text in strings if text in function.__globals__]
                    yield from reached
                    by_string += [part for part in reached if isinstance(part, ModuleType)]
                    if any(value is way for way in _EVALUATE):
                        codes += [inner for text in strings if text not in evaluated for inner in _compiled(text)] * 2
                        evaluated.update(strings)
                elif not isinstance(value, ModuleType) and not (
                    _of_scipy(value) and (calculated or _read_of_call(steps, before) in _CALCULATED)
                ):
                    yield value
            match step.opname.split("_")[:2]:
                case ["IMPORT", "NAME"]:
                    loaded = dict.fromkeys((names[0], names[0].partition(".")[0]))
                    after = imported = [sys.modules[name] for name in loaded if name in sys.modules]
                case ["LOAD", "GLOBAL" | "NAME" | "FROM"]:
                    after = [*known.get(names[0], ()), *([scope[names[0]]] if names[0] in scope else [])]
                case ["LOAD" | "STORE", "FAST" | "DEREF" | "CLASSDEREF"] if "LOAD" in step.opname:
                    after = [value for name in names for value in known.get(name, ())]
                case ["BINARY" | "CALL", *_]:
                    after = [*by_string]
            here, before = after, place


def _read_of_call(steps: Sequence[dis.Instruction], place: int) -> str:
    """The attribute that is read of a call's result, if what the step at this place has put on the stack is called, and
    else nothing: "ppf" of `stats.norm(0, 1).ppf(u)`."""
    depth = 0  # of the stack above it
    for at, step in enumerate(steps[place + 1 :], place + 1):
        if step.opname == "PUSH_NULL" and at == place + 1:  # belongs to what is called, from Python 3.13 on
            continue
        if "JUMP" in step.opname:
            return ""
        depth += dis.stack_effect(step.opcode, step.arg, jump=False)
        if depth < 0:
            after = next((one for one in steps[at + 1 :] if one.opname not in _SILENT), step)
            called = depth == -1 and step.opname in ("CALL", "CALL_KW")  # of an argument, more is taken away
            return str(after.argval) if called and after.opname in ("LOAD_ATTR", "LOAD_METHOD") else ""
    return ""


def _closure(function: FunctionType) -> dict[str, list[Any]]:
    """What a function closes over, by name."""
    held: dict[str, list[Any]] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name not bound yet
            held[name] = [cell.cell_contents]
    return held


def _attributes(modules: Iterable[Any], name: str) -> list[Any]:
    """The attributes of modules with this name. A module may raise any error for a name that it no longer has."""
    found = []
    for module in modules:
        with contextlib.suppress(Exception):
            found.append(getattr(module, name))
    return found


def _closed_types(value: Any) -> Iterator[type[Any]]:
    """The types of closed libraries whose methods code that uses this object may call."""
    kind = value if isinstance(value, type) else type(value)
    if isinstance(value, ModuleType) and value.__name__ == "torch" and hasattr(value, "Tensor"):
        yield value.Tensor
    elif not isinstance(value, _ATOMS) and not _open(str(kind.__module__)):
        yield kind


def _draws(kind: type[Any], name: str) -> Iterator[Any]:
    """What a method of a closed library's type draws from, as far as its own code shows."""
    method = getattr(kind, name, None)
    if _foreign(method):
        yield method
    elif isinstance(method, FunctionType) and not _open(str(method.__module__)):
        yield from (part for part in _used_by(method, methods=False) if _foreign(part))


def _of_scipy(value: Any) -> bool:
    """Whether this is one of scipy's own distributions."""
    return str(type(value).__module__).startswith("scipy.stats.") and _is_at_home(type(value))


def _compiled(text: str) -> list[CodeType]:
    """The code that a string is, with the code inside it; nothing if it is none."""
    with warnings.catch_warnings(), contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        warnings.simplefilter("ignore")
        return [*_codes(compile(textwrap.dedent(text).strip(), "<string>", "exec", dont_inherit=True))]
    return []


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _open(module: str) -> bool:
    """Whether code of this module is looked into: neither the standard library nor one of the known libraries."""
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    standard = top in sys.stdlib_module_names and (file is None or Path(file).is_relative_to(Path(os.__file__).parent))
    return not standard and top not in _LIBRARIES


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


@functools.lru_cache(maxsize=1)
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
    roots = [target.call if veil is None else veil.device]
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
