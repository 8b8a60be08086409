"""Collectors for tests: small releases, reports, an application without sockets, one in a process of its own."""

from __future__ import annotations

import datetime
import ipaddress
import json
import math
import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import releases as made
import taskveil as tv
from taskveil.client.mechanisms import Codebook
from taskveil.client.wire import Report
from taskveil.collector.api import create_app
from taskveil.collector.releases import register
from taskveil.collector.settings import Settings
from taskveil.collector.store import Store

CODES = 64
"""Different reports of the `counted` release, of one byte each."""


def counted() -> tv.Veil:
    """A release whose few different reports the store counts."""
    return made.veil(made.linear(6, 4), Codebook(region=made.box(4), stages=(made.stage(CODES, 4, 3.0, 4),)))


def summed() -> tv.Veil:
    """A release of whose reports the store keeps sums."""
    return made.veil(made.linear(), made.laplace(made.box(3), 1.0))


def registered(store: Store, folder: Path, veil: tv.Veil | None = None, **options: Any) -> str:
    """The id of a release that a store now knows."""
    veil = counted() if veil is None else veil
    veil.save(folder / veil.release_id[:8])
    return register(store, folder / veil.release_id[:8], **options)


def report(release: str, value: int | bytes = 1, id: bytes | None = None) -> Report:
    payload = bytes([value]) if isinstance(value, int) else value
    return Report(release=bytes.fromhex(release), id=id or secrets.token_bytes(16), payload=payload)


def reports(release: str, count: int) -> list[Report]:
    return [report(release, place % CODES) for place in range(count)]


@asynccontextmanager
async def application(store: Store | None, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a collector on this store, in this process and without sockets."""
    app = create_app(Settings(**{"uploads": "anyone", "rate": math.inf, **settings}), store)
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)  # type: ignore[arg-type]
        async with httpx.AsyncClient(transport=transport, base_url="http://collector") as client:
            client.app = app  # type: ignore[attr-defined]
            yield client


def certificate(folder: Path) -> tuple[Path, Path]:
    """The files of a certificate for 127.0.0.1 and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "collector")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "c.pem").write_bytes(made.public_bytes(pem))
    (folder / "k.pem").write_bytes(
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return folder / "c.pem", folder / "k.pem"


@dataclass
class Served:
    """A collector in a process of its own."""

    process: subprocess.Popen[str]
    url: str
    port: int
    db: Path
    release: str = ""

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def stop(self, sig: int = signal.SIGTERM) -> tuple[int, str]:
        """What it ended with, and all that it wrote."""
        self.process.send_signal(sig)
        return self.wait()

    def wait(self) -> tuple[int, str]:
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, errors


START = """
import json, sys
from taskveil.collector.serving import serve
from taskveil.collector.settings import Settings
sys.exit(serve(Settings(**json.loads(sys.argv[1])), bound=lambda url: print(url, flush=True)))
"""


@contextmanager
def served(db: Path, *, start: str = START, **settings: Any) -> Iterator[Served]:
    """A collector on an SQLite file, started as `taskveil serve` starts it."""
    told = {"db": f"sqlite:///{db}", "port": 0, "uploads": "anyone", "rate": math.inf, **settings}
    command: Sequence[str] = (sys.executable, "-c", start, json.dumps(told, default=str))
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url, process.communicate()[1]
        yield Served(process, url, int(url.rpartition(":")[2]), db)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
