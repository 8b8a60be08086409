"""Joining a Ray cluster, or starting one of our own; and in one line why that cannot be."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import secrets
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from taskveil.client.locking import own_folder
from taskveil.errors import ClusterError, MissingExtraError, needs

_ANSWERS = 5.0  # seconds in which somebody must answer at a cluster's address
_JOINED = 15.0  # seconds in which a cluster must have taken us in
_JOIN = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"


@contextlib.contextmanager
def connected(address: str | None = None, *, workers: int | None = None) -> Iterator[None]:
    """A Ray cluster to work on, inside. Whoever is connected already stays so, and keeps the connection afterwards.

    Args:
        address: of a cluster's head, host:port, of which this machine is a part; "auto" for one that runs on this
            machine. By default what RAY_ADDRESS says, or a cluster of this machine alone, started now, for nobody
            without its token, and ended afterwards, with all that it left on the disk.
        workers: cores that a cluster of our own has, as far as this machine has them; by default all.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # whoever wants to be counted by Ray's makers says so
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # Ray writes of failures here, in its words and ours too
    if "ray" not in sys.modules:  # which reads these when it is imported, and not again
        # What is left of a job whose cluster was lost would else look for another on this machine, and join that.
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    if address == "local" and "RAY_AUTH_MODE" not in os.environ:
        # Ray listens on every interface, whatever it is told, and whoever reaches it may run code: let nobody but
        # ourselves. Left alone, it keeps a token in a file that others may read, or asks for none.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        if getattr(sys.modules.get("ray"), "_raylet", None) is not None:
            sys.modules["ray"]._raylet.Config.initialize("")  # imported before, so it reads them now
    try:
        with needs("--engine ray", extra="ray"):
            import ray
    except MissingExtraError:
        os.environ.pop("RAY_AUTH_MODE", None)  # or whoever has Ray after all would be out of step with it
        raise
    if ray.is_initialized():
        yield
        return
    options: dict[str, Any] = {"address": address, "logging_level": logging.ERROR, "log_to_driver": False}
    with contextlib.ExitStack() as stack:
        if address == "local":
            # Ray keeps logs, sockets and spilled objects (volunteers' records, for example) in folders that every user
            # may write to. So they lie in a folder that only we can open. Its name is short: sockets lie 82 letters
            # below, and a socket's path has at most 103. A killed cluster may take up to 45 seconds to end.
            short = len(tempfile.gettempdir()) < 21 or os.name != "posix"
            home = stack.enter_context(own_folder("tv-ray-", within=None if short else "/tmp", quiet=45.0))  # noqa: S108
            cores = os.cpu_count() or 1
            options |= {
                "num_cpus": min(workers or cores, cores),
                "include_dashboard": False,
                "_temp_dir": os.path.join(home, "r"),
            }
        else:
            _check_joins(address)
        try:
            with _silence():
                ray.init(**options)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise _unreachable(address, str(error)) from error
        stack.callback(ray.shutdown)
        yield


def _check_joins(address: str) -> None:
    """A ClusterError unless a cluster at this address takes us in. Tried by another process, because Ray's own code
    tries for minutes, writes to the terminal as it does so, and ends the process."""
    if address.startswith("ray://"):
        raise ClusterError(
            f"{address} is for Ray's client, which folders and sweeps do not go through: run this on a machine of the "
            "cluster, with host:port or auto as its address."
        )
    host, _, port = address.rpartition(":")
    if host and port.isdigit():  # else "auto", or a name that Ray knows
        try:
            socket.create_connection((host, int(port)), timeout=_ANSWERS).close()
        except OSError as error:
            raise _unreachable(address, error.strerror or str(error)) from error
    try:
        tried = subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-c", _JOIN, address], timeout=_JOINED, capture_output=True, text=True, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise _unreachable(address, _said((error.stderr or b"").decode(errors="replace"))) from None
    if tried.returncode:
        raise _unreachable(address, _said(tried.stderr))


def _said(output: str) -> str:
    """Why a cluster did not take us in, by what Ray wrote."""
    if "InvalidAuthToken" in output:
        return "it asks for a token: RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN"
    raised = [line for line in output.splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
    return raised[-1].partition(": ")[2] if raised else "what listens there is none"


def _unreachable(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"no Ray cluster answers at {address} ({reason.partition(chr(10))[0].rstrip('. ')}). Start one with `ray start "
        "--head`, or leave out the address to work on this machine alone."
    )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Keeps off the terminal what Ray's compiled code says there of itself."""
    try:
        shown = os.dup(2)
    except OSError:  # there is nothing that it could be said on
        yield
        return
    sys.stderr.flush()
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)
