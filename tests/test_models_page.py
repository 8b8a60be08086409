"""docs/guides/models.md: its code runs with a forest, a network and a function of ours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from pages import blocks
from taskveil.designs.predictors import networks

PAGE = Path(__file__).parents[1] / "docs/guides/models.md"


@pytest.mark.filterwarnings("ignore::taskveil.errors.NamedModelWarning")
def test_the_code_runs_with_models_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    torch, convert = pytest.importorskip("torch"), pytest.importorskip("skl2onnx").to_onnx
    from sklearn.ensemble import RandomForestClassifier

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(networks, "LOOKS", (30, 100))  # steps of training: the page is about the calls
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    labels = X @ [1.0, -1.0, 0.5] + 0.3 * rng.normal(size=150) > 0

    def function(records: np.ndarray) -> np.ndarray:
        share = 1 / (1 + np.exp(-records @ [3.0, -3.0, 1.5]))
        return np.column_stack([1 - share, share])

    names = {
        "X": X,
        "labels": labels,
        "forest": RandomForestClassifier(3, min_samples_leaf=5, random_state=0).fit(X, labels),
        "network": torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2)),
        "function": function,
        "Client": tv.Client,
        "Path": Path,
        "to_onnx": convert,
        "tv": tv,
    }
    code = [block for language, block in blocks(PAGE.read_text(encoding="utf-8")) if language == "python"]
    chosen, named, read = code
    exec(compile(chosen, "models.md, the encoder", "exec"), names)
    assert names["veil"].size.client_bytes < 40_000
    assert str(names["veil"].size) in capsys.readouterr().out
    exec(compile(named, "models.md, a named model", "exec"), names)
    assert "function" in (tmp_path / "release/client/manifest.json").read_text(encoding="utf-8")
    exec(compile(read, "models.md, an ONNX file", "exec"), names)
    assert names["task"].predict(X).shape == (150, 2)
