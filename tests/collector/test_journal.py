"""What is written never holds what was sent."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys

import pytest

from taskveil.collector.journal import Discreet, failed, quietly


def raised() -> ValueError:
    words = "a secret"
    try:
        raise ValueError(words)
    except ValueError as error:
        return error


def test_an_exception_is_told_by_its_kind_and_its_place() -> None:
    record = logging.LogRecord("x", logging.ERROR, "file", 1, "It failed.", None, (ValueError, raised(), None))
    before = logging.Formatter("%(message)s").format(record)
    assert "secret" in before  # and it is kept in the record, for the next formatter
    written = Discreet("%(message)s").format(record)
    assert written.startswith("It failed.")
    assert "in raised" in written
    assert written.endswith("ValueError")
    assert "secret" not in written


def test_failures_are_discreet_by_themselves(caplog: pytest.LogCaptureFixture) -> None:
    failed("It failed.", raised())
    assert "ValueError" in caplog.text
    assert "secret" not in caplog.text


def test_what_nobody_waits_for_is_written_without_its_transport(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        asyncio.get_running_loop().set_exception_handler(quietly)
        loop = asyncio.get_running_loop()
        loop.call_exception_handler({"message": "10.1.2.3", "exception": raised(), "transport": "10.1.2.3"})
        loop.call_exception_handler({"message": "10.1.2.3", "exception": ConnectionResetError("10.1.2.3")})

    asyncio.run(run())
    assert caplog.text.count("background task") == 1
    assert "10.1.2.3" not in caplog.text
    assert "secret" not in caplog.text


def test_the_database_driver_does_not_write_past_the_journal() -> None:
    """In a process of its own: logging is configured once. Unheard, a warning would go to the standard error."""
    code = (
        "import logging, logging.config\n"
        "from taskveil.collector.journal import CONFIGURATION, journal\n"
        "logging.config.dictConfig(CONFIGURATION)\n"
        "for name in ('psycopg', 'psycopg.pool'):\n"
        "    logging.getLogger(name).warning('error ignored in rollback: a secret')\n"
        "journal.info('The end.')\n"
    )
    written = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stderr
    assert "The end." in written
    assert "secret" not in written
