"""docs/tutorial/command-line.md: its commands run one after the other in one folder, with the files its reader has."""

from __future__ import annotations

import json
import re
import shlex
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import taskveil as tv
from cli.running import run
from taskveil.jobs.ray_cluster import connected

TEXT = (Path(__file__).parents[2] / "docs/tutorial/command-line.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.DOTALL | re.MULTILINE)


def cars(rng: np.random.Generator, count: int) -> pd.DataFrame:
    origin = rng.choice(["Europe", "Japan", "USA"], count)
    weight = rng.normal(1400, 250, count) + 300 * (origin == "USA")
    power = weight / 12 + rng.normal(0, 15, count)
    days = pd.to_timedelta(rng.integers(0, 3000, count), "D")
    return pd.DataFrame({
        "origin": origin,
        "power": np.where(rng.random(count) < 0.05, np.nan, power.round(1)),
        "weight": weight.round().astype(int),
        "registered": pd.to_datetime("2015-01-01") + days,
        "litres": (weight / 200 + power / 50 - 1.5 * (origin == "Japan") + rng.normal(0, 0.7, count)).round(2),
    })  # fmt: skip


def write_keys() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    key = Ed25519PrivateKey.generate()
    Path("key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    Path("public.pem").write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    rng = np.random.default_rng(0)
    tables = {"our_cars": cars(rng, 300), "volunteers": cars(rng, 200), "people": cars(rng, 400)}
    for name, table in tables.items():
        table.to_csv(f"{name}.csv", index=False)
    german = tables["volunteers"].assign(registered=tables["volunteers"]["registered"].dt.strftime("%d.%m.%Y"))
    german.to_csv("spreadsheet.csv", sep=";", decimal=",", index=False)
    Path("people").mkdir()
    for place, some in enumerate(np.array_split(np.arange(400), 3)):
        tables["people"].iloc[some].to_parquet(f"people/{place}.parquet", index=False)
    (module,) = blocks("python")
    Path("my_models.py").write_text(module)
    said = {}
    for block in blocks("sh"):
        # One cluster for all commands of a block: the page's reader, who has none, waits for one at each.
        with connected(workers=2) if "--engine ray" in block else nullcontext():
            for line in block.splitlines():
                program, command, *arguments = shlex.split(line)
                if program == "openssl":  # not on every machine
                    write_keys()
                else:
                    assert program == "taskveil"
                    said[command, "ray" in arguments] = run(command, *arguments)
    sys.modules.pop("my_models")
    assert Path("frontier/frontier.html").exists()
    drawn, known = tv.Schema.from_json("from-spreadsheet.json"), tv.Schema.from_json("schema.json")
    assert [drawn[name] for name in known] == [known[name] for name in known]
    assert len(pd.read_csv("estimates.csv")) == 400
    assert tv.Veil.load("second").guarantee.epsilon <= 4
    assert "segment" in Path("segments/table.txt").read_text(encoding="utf-8")
    assert Path("by-origin/common/task_aware-4/client").is_dir()
    assert "constant prediction" in said["design", False]
    assert "400 reports in 3 parts" in said["privatize", True]
    assert pq.read_table("estimates").num_rows == 400
    assert pq.read_table("estimates").schema.names == ["origin", "power", "weight", "registered"]
    assert "400 reports" in said["estimate", True]
    people, veil = tables["people"], tv.Veil.load("release", verify_key="public.pem")
    estimates = pq.read_table("estimates.parquet").to_pandas()
    assert list(estimates)[::2] == list(veil.columns or ()) == ["origin", "power", "weight", "registered"]
    assert set(estimates["origin"].dropna()) <= {"Europe", "Japan", "USA"}
    (answer,) = pq.read_table("answers.parquet").columns
    off = people["litres"] - answer.to_numpy()
    assert np.mean(off**2) < 0.7 * people["litres"].var()
    (litres,) = json.loads(Path("estimate.json").read_text())["answers"]
    reach = litres["high"] - litres["low"]
    assert abs(litres["mean"] - people["litres"].mean()) < 1.5 * reach
    assert reach < np.ptp(people["litres"]) / 2
    assert "covariate shift" in litres["assumes"]
