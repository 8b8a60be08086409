"""The collector's log: that something failed and where in the code, never a request or its sender.

The text of an exception may quote a body, a header or an address. So the log has only an exception's kind and the lines
of code that it passed.
"""

from __future__ import annotations

import logging
import traceback
from typing import Any

journal = logging.getLogger("taskveil.collector")


class Discreet(logging.Formatter):
    """Formats exceptions of libraries with their kind and lines of code, without their text."""

    def format(self, record: logging.LogRecord) -> str:
        """As usual, without the text that another formatter may have kept in the record."""
        record.exc_text = None
        return super().format(record)

    def formatException(self, ei: Any) -> str:
        """As `where`."""
        return where(ei[1])


def where(error: BaseException) -> str:
    """The lines of code that an exception passed, innermost last, and its kind."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def failed(what: str, error: BaseException) -> None:
    """Log an unexpected failure."""
    journal.error("%s\n%s", what, where(error))


def quietly(_loop: Any, context: dict[str, Any]) -> None:
    """The event loop's handler of uncaught exceptions. The default handler would log addresses."""
    error = context.get("exception")
    if error is None or isinstance(error, OSError):  # OSError: a broken connection, or a client without TLS
        return
    failed("A background task failed.", error)


CONFIGURATION: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "discreet": {"()": "taskveil.collector.journal.Discreet", "fmt": "%(asctime)s %(levelname)s %(message)s"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "discreet"}},
    "loggers": {
        "taskveil.collector": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        # Below ERROR, uvicorn logs addresses, and a line for each request of a port scanner.
        "uvicorn": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
        "uvicorn.error": {"level": "ERROR"},
        "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
        "asyncio": {"handlers": ["stderr"], "level": "CRITICAL", "propagate": False},
        # Its warnings are texts of the server. Each of them is raised as an exception too.
        "psycopg": {"handlers": [], "level": "CRITICAL", "propagate": False},
    },
}
"""For `logging.config.dictConfig`, in each process."""
