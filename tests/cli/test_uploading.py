"""An upload that fails says what it is doing: the address, the attempt and the pause, and never the token."""

from __future__ import annotations

import logging
import re
import socket
import subprocess
import sys

import pytest

from taskveil.client import upload
from taskveil.client.wire import Report
from taskveil.errors import UploadError

REPORT = Report(release=b"r" * 32, id=b"i" * 16, payload=b"p")
TOKEN = "tv_0123abcd_secret-word"


@pytest.fixture
def dead() -> str:
    """An address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1/reports"


def test_each_failed_attempt_is_in_the_log(dead: str, caplog: pytest.LogCaptureFixture) -> None:
    waited: list[float] = []
    with caplog.at_level(logging.WARNING, "taskveil.client"), pytest.raises(UploadError):
        upload([REPORT], f"{dead}?key=hidden", token=TOKEN, attempts=3, sleep=waited.append)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 2  # after the third there is no other attempt, and the error says so
    for place, (line, pause) in enumerate(zip(lines, waited, strict=True), 1):
        assert line.startswith(f"attempt {place} of 3 to reach {dead} failed")
        assert line.endswith(f"the next in {pause:.1f} s")
        assert "secret" not in line
        assert "hidden" not in line


def test_a_person_sees_it_without_setting_up_a_log(dead: str) -> None:
    code = (
        "import sys\nfrom taskveil.client import upload\nfrom taskveil.client.wire import Report\n"
        "report = Report(release=b'r' * 32, id=b'i' * 16, payload=b'p')\n"
        "upload([report], sys.argv[1], token=sys.argv[2], attempts=2, pause=0.01)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, dead, TOKEN], capture_output=True, text=True, check=False)
    assert re.match(rf"attempt 1 of 2 to reach {re.escape(dead)} failed \(.*\); the next in 0\.0 s\n", done.stderr)
    assert "secret" not in done.stderr


def test_an_upload_that_succeeds_is_silent(caplog: pytest.LogCaptureFixture) -> None:
    assert upload([], "https://collector.example/v1/reports") == 0
    assert not caplog.records
