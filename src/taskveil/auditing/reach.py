"""Which predictable generators can be reached from an object: np.random, random, and objects made by them.

The walk follows what code can touch without tricks: the globals and closures its functions name, the methods of its
class, the values it holds. It enters code of the audited package, not of numpy or the standard library.
"""

from __future__ import annotations

import dis
import random
import sys
from collections.abc import Iterator
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

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
