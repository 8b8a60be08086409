"""Joining a Ray cluster or starting one on this machine. If it fails, the error is one line."""

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

ANSWER_SECONDS = 5.0
"""The time in which a cluster's head must accept a connection."""
_JOIN = "import sys, ray; ray.init(sys.argv[1], log_to_driver=False, logging_level='ERROR')"


@contextlib.contextmanager
def connected(address: str | None = None, *, workers: int | None = None) -> Iterator[None]:
    """A connection to a Ray cluster, inside. A connection that exists already is used, and stays afterwards.

    Args:
        address: host:port of the head of a cluster that this machine is part of, or "auto" for a cluster that runs on
            this machine. By default RAY_ADDRESS; without it, a new cluster of this machine alone. Only a process with
            its token can use the new cluster, and it is ended afterwards together with its files on the disk.
        workers: cores of a new cluster, at most those of this machine; by default all.
    """
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends usage statistics only if you ask for it
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # we report failures ourselves
    if "ray" not in sys.modules:  # Ray reads these variables when it is imported
        # Otherwise the rest of a job whose cluster was lost would join another cluster on this machine.
        os.environ.setdefault("RAY_ENABLE_AUTO_CONNECT", "0")
    if address == "local" and "RAY_AUTH_MODE" not in os.environ:
        # Ray listens on every interface, and any process that reaches it can run code. So we ask for a token that only
        # this process knows. By default Ray keeps a token in a file that others can read, or asks for none.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        if getattr(sys.modules.get("ray"), "_raylet", None) is not None:
            sys.modules["ray"]._raylet.Config.initialize("")  # Ray was imported before: make it read them now
    try:
        with needs("--engine ray", extra="ray"):
            import ray
    except MissingExtraError:
        os.environ.pop("RAY_AUTH_MODE", None)  # so that a later use of Ray is not affected
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
    """A ClusterError unless the cluster at this address accepts us. Another process tries it, because Ray's own code
    tries for minutes, writes to the terminal meanwhile, and then ends the process."""
    if address.startswith("ray://"):
        raise ClusterError(
            f"{address} is for Ray's client, which folders and sweeps do not go through: run this on a machine of the "
            "cluster, with host:port or auto as its address."
        )
    host, _, port = address.rpartition(":")
    if host and port.isdigit():  # otherwise "auto", or a name that Ray knows
        try:
            socket.create_connection((host, int(port)), timeout=ANSWER_SECONDS).close()
        except OSError as error:
            raise _unreachable(address, error.strerror or str(error)) from error
    try:
        tried = subprocess.run(  # noqa: S603
            [sys.executable, "-P", "-c", _JOIN, address],
            timeout=3 * ANSWER_SECONDS,  # Python and Ray are loaded first
            capture_output=True,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise _unreachable(address, _said((error.stderr or b"").decode(errors="replace"))) from None
    if tried.returncode:
        raise _unreachable(address, _said(tried.stderr))


def _said(output: str) -> str:
    """Why the cluster did not accept us, from Ray's output."""
    if "InvalidAuthToken" in output:
        return "it asks for a token: RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN"
    raised = [line for line in output.splitlines() if re.match(r"[\w.]+(Error|Exception): ", line)]
    return raised[-1].partition(": ")[2] if raised else "no Ray cluster listens there"


def _unreachable(address: str, reason: str) -> ClusterError:
    return ClusterError(
        f"no Ray cluster answers at {address} ({reason.partition(chr(10))[0].rstrip('. ')}). Start one with `ray start "
        "--head`, or leave out the address to work on this machine alone."
    )


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Hides the messages that Ray's compiled code writes to the terminal."""
    try:
        shown = os.dup(2)
    except OSError:  # there is no standard error
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
