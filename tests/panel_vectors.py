"""What the browser's planned rounds are compared with: written by `vectors.py` into its folder.

`panels.jsonl` holds panels, each with entropy and the rounds that Python draws from it, its blocks, a day and its
round, and the statement. `panels.read.jsonl` holds manifests with randomly changed panels, and whether Python reads
them.
`panels.release`, `panels.family` and `panels.apart` are a release over time, a family of such releases, and one that
must be refused, because its members have different rounds. From `panels.chosen` people choose their ε, and
`panels.chosen/said.json` is what Python says to somebody who has made a report with the first choice, by choice.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from forged.panels import NAME, random_panel
from forged.tools import DEVICES
from releases import write_files
from taskveil.client import Client, entropy
from taskveil.client.device import Device
from taskveil.client.families import CHOSEN, DRAWN, FAMILY, family_manifest
from taskveil.client.ledger import Ledger
from taskveil.client.panels import Panel, dated
from taskveil.client.reading import canonical, digest, read_device
from taskveil.errors import DataError, ReleaseError, VersionError
from taskveil.veil.release import manifest_of, pack_device

WEEKS = Panel(reports=3, rounds=tuple(dated("2026-11-16", 7, 12)), days=7)
FIRST = (date(2024, 2, 27), date(1900, 2, 25), date(2000, 2, 1), date(2100, 2, 28), date.min, date(9999, 12, 30))


class Taken:
    """Random bytes that remember what was taken. Every third stream is full of words that are often rejected."""

    def __init__(self, rng: np.random.Generator, *, odd: bool) -> None:
        self.rng, self.odd, self.bytes = rng, odd, b""

    def __call__(self, count: int) -> bytes:
        raw = self.rng.bytes(count)
        if self.odd and self.rng.random() < 0.5:
            raw = b"\xff" * count
        self.bytes += raw
        return raw


def write_panels(folder: Path, count: int) -> None:
    """All of it, with so many vectors of each kind."""
    real, rng = entropy.system_bytes, np.random.default_rng(33)
    try:
        with (folder / "panels.jsonl").open("w") as file:
            for number in range(count):
                file.write(json.dumps(vector(rng, odd=number % 3 == 0)) + "\n")
    finally:
        entropy.system_bytes = real
    with (folder / "panels.read.jsonl").open("w") as file:
        for _ in range(count):
            manifest, accepted = changed_release(rng)
            file.write(json.dumps({"manifest": manifest.decode(), "accepted": accepted}) + "\n")
    write_release(folder / "panels.release")
    later = Panel(reports=3, rounds=tuple(dated("2026-11-23", 7, 12)), days=7)
    for name, panels in (("panels.family", (WEEKS, WEEKS)), ("panels.apart", (WEEKS, later))):
        write_family(folder / name, panels)
    write_chosen(folder / "panels.chosen")


def some_panel(rng: np.random.Generator) -> Panel:
    """From one round to a thousand, with dates or with names."""
    count = int(rng.choice([rng.integers(1, 9), rng.integers(1, 61), 365, 1000], p=[0.5, 0.47, 0.02, 0.01]))
    reports = int(rng.integers(1, count + 1)) if rng.random() < 0.5 else int(rng.integers(1, min(count, 4) + 1))
    if rng.random() < 0.3:
        return Panel(reports=reports, rounds=tuple(f"round {place} é" for place in range(count)), days=0)
    days = int(rng.choice([1, 7, rng.integers(1, 100)]))
    first = FIRST[rng.integers(len(FIRST))]
    if (date.max - first).days < days * count or rng.random() < 0.3:
        first = date.min + timedelta(days=int(rng.integers(0, (date.max - date.min).days - days * count)))
    return Panel(reports=reports, rounds=tuple(dated(first.isoformat(), days, count)), days=days)


def vector(rng: np.random.Generator, *, odd: bool) -> dict[str, Any]:
    """A panel and what Python makes of it."""
    panel = some_panel(rng)
    place, reports = int(rng.integers(len(panel.rounds))), panel.reports
    entropy.system_bytes = taken = Taken(rng, odd=odd)
    drawn = panel.draw_places(place)
    delta = float(rng.choice([0.0, 1e-6, 2 ** -rng.uniform(1, 100)]))
    epsilon = float(rng.choice([rng.uniform(0.01, 8), 4 / 52, math.log(20) / reports, 1e-9, 0.1, 31.0]))
    joined = [None, len(drawn), int(rng.integers(reports + 1))][rng.integers(3)]
    day = date.fromordinal(int(rng.integers(1, date.max.toordinal() + 1)))
    if panel.days:
        near = date.fromisoformat(panel.rounds[rng.integers(len(panel.rounds))]).toordinal()
        near += int(rng.choice([-1, 0, 1, panel.days - 1, panel.days]))
        day = date.fromordinal(min(max(near, 1), date.max.toordinal()))
    try:
        found = panel.round_on(day)
    except DataError:
        found = None
    block = panel.block(place)
    return {
        "reports": reports,
        "rounds": list(panel.rounds),
        "days": panel.days,
        "place": place,
        "bits": taken.bytes.hex(),
        "drawn": panel.written(drawn).decode(),
        "block": block,
        "start": panel.start(block),
        "block_rounds": list(panel.block_rounds(block)),
        "first_block": panel.first_block(place),
        "epsilon": epsilon,
        "delta": delta,
        "joined": joined,
        "statement": panel.statement(epsilon, joined, delta=delta),
        "day": day.isoformat(),
        "round_on": found,
    }


def changed_release(rng: np.random.Generator) -> tuple[bytes, str | None]:
    """A manifest with a changed panel, and the release's id if Python reads it."""
    content, arrays = pack_device(DEVICES[NAME])
    manifest, weights = manifest_of({**content, "panel": random_panel(rng)}, arrays)
    if rng.random() < 0.05:
        manifest["schema"] = int(rng.choice([1, 9, 10, 11]))
    manifest["digest"] = digest({key: value for key, value in manifest.items() if key != "digest"})
    raw = canonical(manifest)
    try:
        device, _ = read_device({"client/manifest.json": raw, "client/weights.safetensors": weights})
    except (ReleaseError, VersionError):
        return raw, None
    assert device.panel is not None
    return raw, manifest["digest"]


def planned(device: Device, panel: Panel) -> Device:
    return replace(device, panel=panel)


def write_release(home: Path) -> None:
    """A release over time, and what its client says before and after it has joined."""
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir()
    device = planned(DEVICES[NAME], WEEKS)
    release = bytes.fromhex(write_files(home, *pack_device(device)))
    said = {}
    for round in (None, *WEEKS.rounds):
        with (
            tempfile.TemporaryDirectory() as folder,
            Client(device=device, release=release, ledger=Ledger(Path(folder) / "ledger"), cap=None) as client,
        ):
            if round is not None:
                client.enrol(round)
            spent = client.spent()
            said[str(round)] = [client.statement, spent.so_far, spent.planned, spent.lifetime]
    (home / "said.json").write_text(json.dumps(said))


def write_chosen(home: Path) -> None:
    """A family over time from which people choose, and what its clients say after a report with the first choice, whose
    delta is above 0; that of the second is 0."""
    write_family(home, (WEEKS, WEEKS), CHOSEN, ("gaussian", "lattice"))
    record, said = [0.5] * DEVICES[NAME].attributes, {}
    with tempfile.TemporaryDirectory() as folder:
        first, second = (float(one.name) for one in sorted(home.iterdir()) if one.is_dir())
        with Client.load(home, ledger=Path(folder) / "ledger", epsilon=first) as client:
            made = [client.report(record, round=name) for name in (*WEEKS.rounds[:1], *WEEKS.rounds[3:4])]
            assert any(made)
        for epsilon in (first, second):
            with Client.load(home, ledger=Path(folder) / "ledger", epsilon=epsilon, cap=100.0) as client:
                spent = client.spent()
                said[str(epsilon)] = [client.statement, spent.so_far, spent.planned, spent.lifetime]
    (home / "said.json").write_text(json.dumps({"record": record, "said": said}))


def write_family(
    home: Path, panels: tuple[Panel, ...], kind: str = DRAWN, of: tuple[str, str] = ("lattice", "laplace_box")
) -> None:
    """A family whose members have these panels."""
    shutil.rmtree(home, ignore_errors=True)
    members = []
    for place, panel in enumerate(panels):
        device = planned(DEVICES[of[place]], panel)
        name = f"member{place}" if kind == DRAWN else f"{device.mechanism.epsilon:.17g}"
        (home / name / "client").mkdir(parents=True)
        members.append((name, 1, write_files(home / name / "client", *pack_device(device)), device.mechanism.epsilon))
    (home / FAMILY).write_bytes(canonical(family_manifest(kind, members)))
