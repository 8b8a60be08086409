from __future__ import annotations

import inspect

import taskveil as tv
from taskveil.cli import options


def test_what_a_client_may_take_by_default_is_what_design_says() -> None:
    """The command line states it too, so that `--help` need not load what designs need."""
    assert inspect.signature(tv.design).parameters["client_bytes"].default == options.CLIENT_BYTES
