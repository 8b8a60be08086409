"""docs/operate/grafana.json and alerts.yml ask for metrics, labels and values that /metrics really has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from collections_drawn import records
from running_collector import Asked, running, small_veil
from taskveil.collector.metrics import Metrics
from taskveil.collector.store import Fate

FOLDER = Path(__file__).parents[2] / "docs/operate"
PANELS = json.loads((FOLDER / "grafana.json").read_text(encoding="utf-8"))["panels"]
(GROUP,) = yaml.safe_load((FOLDER / "alerts.yml").read_text(encoding="utf-8"))["groups"]
RULES = GROUP["rules"]
ASKED = {
    **{f"panel {one['title']}": target["expr"] for one in PANELS for target in one["targets"]},
    **{f"alert {one['alert']}": one["expr"] for one in RULES},
}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Sample]]:
    """Every number of a collector that took reports, gave an estimate, and saw every fate of a report."""
    veil = small_veil()
    with running(tmp_path_factory.mktemp("collector"), veil) as asked:
        asked.send(veil, veil.privatize(records(100, np.random.default_rng(0))))
        assert asked.ask("GET", f"/v1/estimates?release={veil.release_id}", "read").status_code == 200
        asked.app.state.metrics.reports(veil.release_id, np.array(list(Fate)), refused=1)
        yield found(asked)


def found(asked: Asked) -> list[Sample]:
    text = asked.ask("GET", "/metrics", "read").text
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def values(samples: list[Sample], name: str) -> dict[str, set[str]]:
    """The labels of a metric with their values; empty if there is no such metric."""
    shown: dict[str, set[str]] = {}
    for sample in samples:
        for label, value in sample.labels.items() if sample.name == name else ():
            shown.setdefault(label, set()).add(value)
    return shown


def test_the_files_have_rules_and_panels() -> None:
    assert len({one["alert"] for one in RULES}) == len(RULES) > 8
    assert {one["labels"]["severity"] for one in RULES} == {"critical", "warning"}
    assert all(set(one) <= {"alert", "expr", "for", "labels", "annotations"} for one in RULES)
    assert len(PANELS) > 6
    assert len({one["id"] for one in PANELS}) == len(PANELS)


@pytest.mark.parametrize("name", ASKED)
def test_what_is_asked_for_is_there(samples: list[Sample], name: str) -> None:
    text = ASKED[name]
    assert [text.count(one) for one in "({["] == [text.count(one) for one in ")}]"]
    if name == "alert CollectorDown":  # of Prometheus itself
        assert text == 'up{job="taskveil"} == 0'
        return
    metrics = re.findall(r"\b(taskveil_\w+)(?:\{([^}]*)\})?", text)
    assert metrics
    known: set[str] = {"instance"}  # Prometheus adds it
    for metric, selected in metrics:
        assert metric in {one.name for one in samples}, metric
        labels = values(samples, metric)
        known |= labels.keys()
        for label, how, wanted in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', selected):
            assert label in labels, (metric, label)
            if how != "=~":
                assert wanted in labels[label], (metric, label, wanted)
            elif wanted != "$release" and label != "status":  # not every status happened
                assert set(wanted.split("|")) <= labels[label], (metric, label, wanted)
    for grouped in re.findall(r"\b(?:by|ignoring) \(([^)]*)\)", text):
        assert {one.strip() for one in grouped.split(",")} <= known, grouped


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(text for name, text in ASKED.items() if name.startswith("panel"))
    text = Metrics().text().decode()
    ours = [one.name for one in text_string_to_metric_families(text) if one.name.startswith("taskveil_")]
    assert len(ours) >= 8
    assert [name for name in ours if name not in shown] == []
