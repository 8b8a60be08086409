"""What the collector writes about itself: that something failed and where in the code, never what was sent or by whom.

An exception's own words may quote a body, a header or an address, and so may the words of libraries below. Here an
exception is told by its kind and by the lines of code it went through.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

journal = logging.getLogger("taskveil.collector")


class Discreet(logging.Formatter):
    """Writes an exception's kind and the code it went through, without its words."""

    def formatException(self, ei: Any) -> str:
        """The lines of code, innermost last, and the kind."""
        kind, _, trace = ei
        return "".join(traceback.format_tb(trace)) + getattr(kind, "__name__", "nothing")

    def formatStack(self, stack_info: str) -> str:
        """As it is: lines of code."""
        return stack_info


def failed(what: str, error: BaseException) -> None:
    """Note that something failed that should not have."""
    journal.error(what, exc_info=error)


def quietly(_loop: Any, context: dict[str, Any]) -> None:
    """What an event loop calls when nobody else catches an exception. Its own handler would write addresses."""
    error = context.get("exception")
    if error is None or isinstance(error, OSError):  # OSError: a connection that broke, TLS that was none
        return
    failed("Something failed that nobody waited for.", error)


CONFIGURATION: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "discreet": {"()": "taskveil.server.collector.journal.Discreet", "fmt": "%(asctime)s %(levelname)s %(message)s"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "discreet"}},
    "loggers": {
        "taskveil.collector": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        # Below ERROR uvicorn writes addresses, and a line for everything that a port scanner sends.
        "uvicorn": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
        "uvicorn.error": {"level": "ERROR"},
        "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
        "asyncio": {"handlers": ["stderr"], "level": "CRITICAL", "propagate": False},
    },
}
"""For `logging.config.dictConfig`, in every process."""
