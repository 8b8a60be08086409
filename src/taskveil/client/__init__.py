"""The client that ships to people's devices. It needs numpy and the standard library only.

with Client.load("release", ledger="budget.sqlite") as client:
    report = client.report({"power": 1.2, "gas": 0.4})
upload([report], "https://collector.example/v1/reports")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from taskveil.client.client import Client
from taskveil.client.ledger import Ledger
from taskveil.client.wire import Report

if TYPE_CHECKING:
    from taskveil.client.uploading import upload

__all__ = ["Client", "Ledger", "Report", "upload"]


def __getattr__(name: str) -> Any:
    """`upload` is imported on first use: the HTTP modules take longer to load than all of the above."""
    if name == "upload":
        return import_module("taskveil.client.uploading").upload
    raise AttributeError(f"taskveil.client has no {name!r}.")
