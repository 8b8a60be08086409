"""docs/guides/scale.md: its tables follow from the measured numbers, and numbers in words are those of the code."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from taskveil.client import wire
from taskveil.collector.store import postgres
from taskveil.jobs.plans import PART_ROWS

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs/guides/scale.md").read_text(encoding="utf-8")


def _paper() -> Any:
    # By its path: in the path of all tests, benchmarks/ray.py would be found in place of Ray.
    spec = importlib.util.spec_from_file_location("paper", ROOT / "benchmarks/scaling/paper.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


paper = _paper()
MEASURED = json.loads(paper.MEASURED.read_text(encoding="utf-8"))


def test_the_tables_follow_from_what_was_measured() -> None:
    assert paper.written(TEXT, MEASURED) == TEXT, "run: python benchmarks/ray.py --paper docs/guides/scale.md"


def test_another_measurement_is_another_page() -> None:
    twice = json.loads(json.dumps(MEASURED))
    twice["database"]["ended_a_second"] *= 2
    twice["privatize"]["scaling"] = 1.59
    told = paper.written(TEXT, twice)
    assert told != TEXT
    assert "| 1.59 × | ≥ 1.6 × | **missed** |" in told


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="one place for the table bars"):
        paper.written("# Nothing", MEASURED)


def test_arithmetic_is_about_the_code_as_it_is() -> None:
    report = wire.Report(release=bytes(32), id=bytes(16), payload=bytes(1))
    assert len(report.to_bytes()) == paper.SINGLE
    assert len(wire.pack_batch([report] * 3)) - len(wire.pack_batch([report] * 2)) == paper.BATCHED
    assert pytest.approx(1 / (1 - 1 / (1 + postgres.SORT_SHARE))) == paper.COPIES
    assert pytest.approx(5e5, rel=0.05) == PART_ROWS
    assert "half a million rows each" in TEXT


def test_every_option_that_the_page_names_is_one_of_the_benchmark() -> None:
    told = set(re.findall(r"(--[a-z-]+)", " ".join(re.findall(r"python benchmarks/ray\.py([^`\n#]*)", TEXT))))
    code = (ROOT / "benchmarks/scaling/measuring.py").read_text(encoding="utf-8")
    assert told
    assert told <= set(re.findall(r'add_argument\("(--[a-z-]+)"', code))
