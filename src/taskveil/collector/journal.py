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
    """Writes an exception's kind and the code it went through, without its words: for what libraries write."""

    def format(self, record: logging.LogRecord) -> str:
        """As always, but not with the words that another formatter may have kept in the record."""
        record.exc_text = None
        return super().format(record)

    def formatException(self, ei: Any) -> str:
        """The lines of code, innermost last, and the kind."""
        return where(ei[1])


def where(error: BaseException) -> str:
    """The lines of code that an exception went through, innermost last, and its kind."""
    return "".join(traceback.format_tb(error.__traceback__)) + type(error).__name__


def failed(what: str, error: BaseException) -> None:
    """Note that something failed that should not have."""
    journal.error("%s\n%s", what, where(error))


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
        "discreet": {"()": "taskveil.collector.journal.Discreet", "fmt": "%(asctime)s %(levelname)s %(message)s"}
    },
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "discreet"}},
    "loggers": {
        "taskveil.collector": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        # Below ERROR uvicorn writes addresses, and a line for everything that a port scanner sends.
        "uvicorn": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
        "uvicorn.error": {"level": "ERROR"},
        "uvicorn.access": {"handlers": [], "level": "CRITICAL", "propagate": False},
        "asyncio": {"handlers": ["stderr"], "level": "CRITICAL", "propagate": False},
        # Its warnings are the server's own words, and everything that it warns of is raised as well.
        "psycopg": {"handlers": [], "level": "CRITICAL", "propagate": False},
    },
}
"""For `logging.config.dictConfig`, in every process."""
