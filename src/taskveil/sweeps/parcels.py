"""What workers on other machines are sent: models and designers of the caller's own, whose modules only exist here.

Ray would send a class by the name of its module. What lies in a file of the caller's, and in no installed package, is
sent as it is instead, so that workers need no copy of that file. What cannot be sent, or not be read there, is said in
one line.
"""

from __future__ import annotations

import contextlib
import os
import sys
import sysconfig
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from taskveil.errors import TaskError


class Parcel(NamedTuple):
    """An object as bytes, and the contents of its arrays beside."""

    content: bytes
    arrays: list[Any]


def packed(thing: Any) -> Parcel:
    """`thing` for workers; a TaskError of one line if a part of it cannot be sent."""
    from ray import cloudpickle

    arrays: list[Any] = []
    with _modules_sent():
        try:
            content = cloudpickle.dumps(thing, protocol=5, buffer_callback=arrays.append)  # type: ignore[no-untyped-call]
        except Exception as error:  # whatever classes of the caller's own raise
            reason = str(error).partition("\n")[0].rstrip(".")
            raise TaskError(
                f"the task, its model, the encoder or a designer cannot be sent to workers ({reason}). Keep files, "
                'locks and connections out of it, or use engine="plain".'
            ) from error
    return Parcel(content, [np.frombuffer(array.raw(), dtype=np.uint8) for array in arrays])


def unpacked(parcel: Parcel) -> Any:
    """The thing again, on a worker; a TaskError if the machine lacks a package that it needs."""
    from ray import cloudpickle

    try:
        # Copies, since what lies in the cluster's memory cannot be written to, which torch warns of.
        return cloudpickle.loads(parcel.content, buffers=[array.copy() for array in parcel.arrays])
    except ImportError as error:
        raise TaskError(
            f"a machine of the cluster lacks what the task or a designer is made with ({error}): install the same "
            'packages on all of them, or use engine="plain".'
        ) from None


@contextlib.contextmanager
def _modules_sent() -> Iterator[None]:
    """Inside, what is defined in the caller's own files is sent itself, not by the name of its module."""
    from ray import cloudpickle

    installed = tuple({os.path.realpath(path) + os.sep for path in (*sysconfig.get_paths().values(), sys.base_prefix)})
    own = [module for name, module in list(sys.modules.items()) if _is_own(name, module, installed)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]


def _is_own(name: str, module: ModuleType, installed: tuple[str, ...]) -> bool:
    """Whether a module is a file of the caller's, and neither Python's nor an installed package's nor ours."""
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or name != getattr(module, "__name__", None):
        return False
    ours = name == "__main__" or name.partition(".")[0] == "taskveil"  # the first is sent as it is anyway
    return not ours and not os.path.realpath(file).startswith(installed)
