"""Writes the files that the browser client is compared with: `python tests/vectors.py FOLDER [--full]`.

For every device of `releases.devices()`: its release files, `vectors.bin` (record, bits, report; repeated) made by the
Python client from injected bits, and, for some, the distribution of many reports of one record with real entropy.
Records of natural values are in `vectors.jsonl` instead, each with the numbers that it becomes.
Families are in `family.drawn` and `family.chosen`, in the form of records of natural values. `panel_vectors.py` writes
those of planned rounds.
`gaussian.json` holds single decisions and bounds of Gaussian noise, `forged.json` the releases that both clients must
refuse, and `promises.json` the words of budgets near round numbers.
`size.json` says how many vectors and reports there are, and how often Chromium is killed: 2,000, 200,000 and 3
(`make test`), or with `--full` 10,000, 1,000,000 and 100 (`make test-all`).
"""

from __future__ import annotations

import base64
import json
import math
import struct
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from decimal import Context
from fractions import Fraction
from pathlib import Path

import numpy as np

import mixed_records
import releases
from balls import wide_ball_devices
from forged.families import forgeries as forged_families
from forged.forgeries import forgeries
from hostile import hostile_records
from panel_vectors import write_panels
from releases import write_files
from taskveil.client import Client, entropy
from taskveil.client.concentrated import epsilon_bound
from taskveil.client.device import Device, Fields
from taskveil.client.families import CHOSEN, DRAWN, FAMILY, DeviceFamily, Member, family_manifest, family_statement
from taskveil.client.latent_encoders import AttributeEncoder, MeanEncoder, TabledEncoder
from taskveil.client.mechanisms import Gaussian, Laplace
from taskveil.client.networks import LEVELS
from taskveil.client.noise import _is_below
from taskveil.client.promise import chance, statement, together
from taskveil.client.reading import canonical
from taskveil.client.trees import TreeEncoder
from taskveil.veil.release import pack_device

SMALL = {"vectors": 2_000, "reports": 200_000, "kills": 3}
FULL = {"vectors": 10_000, "reports": 1_000_000, "kills": 100}
COUNTED = ("laplace_box", "codebook", "lattice", "gaussian", "gaussian_one")


def promises() -> Iterator[tuple[float, str]]:
    """Budgets whose e^ε is nearly a round number, and the words of their promise up to that number."""
    for number in (*range(2, 1000), *(n / 100 for n in range(101, 1000)), *(10.0**n for n in range(4, 13))):
        for epsilon in (math.log(number), math.nextafter(math.log(number), 0), math.nextafter(math.log(number), 99)):
            yield epsilon, statement(epsilon, 0.0, "").split(" times as")[0]


def totals() -> Iterator[tuple[float, float, str]]:
    """What was spent, the cap, and the words about all reports together; also where e^ε is nearly a round number."""
    budgets = (1e-9, 0.1, 0.3, 0.1 + 0.1 + 0.1, math.log(20), 2.0000004, 9.0, 30.0, 60.0, 1e6)
    for spent in (0.0, *budgets):
        for cap in budgets:
            yield spent, cap, together(spent, cap)


def chances() -> Iterator[tuple[float, int, str, str, str]]:
    """A δ and a number of reports, and the words about them: also where 1/δ is nearly a whole number."""
    rng = np.random.default_rng(4)
    deltas = [
        *(0.5, 0.3, 1 / 3, 2.0**-100, 2.0**-53),
        *(10.0**-n for n in range(1, 31)),
        *(2 ** -rng.uniform(1, 100, 500)),
    ]
    for delta in deltas:
        for near in (delta, math.nextafter(delta, 0), math.nextafter(delta, 1)):
            for count in (1, 3, 52, 10**6):
                yield near, count, chance(near, count), statement(1.0, near, ""), together(0.3, 9.0, near)


def kept() -> Iterator[tuple[str, int, float, list[str], bool]]:
    """A word, a magnitude, a scale and more words, and whether they keep the magnitude as Gaussian noise: words next to
    the edge, which a double cannot decide, and others."""
    rng = np.random.default_rng(9)
    for number in range(3000):
        scale = float(2.0 ** rng.uniform(-10, 40))
        size = round(abs(float(rng.normal(scale=3))) * scale)
        away = (size / Fraction(scale) - 1) ** 2 / 2
        exact = Context(prec=80)
        edge = exact.multiply(exact.exp(exact.divide(-away.numerator, away.denominator)), 2**128)
        at = min(max(int(edge) + int(rng.integers(-2, 3)) * (1 << int(rng.integers(0, 120))), 0), 2**128 - 1)
        words = [at >> 64, at & (2**64 - 1), int(rng.integers(2**63)), 2**63]
        if number % 4 == 0:
            words[0] = int(rng.integers(2**64, dtype=np.uint64))
        left = iter(words[1:])
        entropy.system_bytes = lambda count, left=left: next(left).to_bytes(count, "little")
        below = _is_below(words[0], size, scale)
        yield str(words[0]), size, scale, [str(word) for word in words[1 : 4 - len(list(left))]], below


def bounds() -> Iterator[tuple[int, float, float, float, float]]:
    """A squared radius, a scale, a δ and an order, and the ε that they keep: also at the edges of what is allowed."""
    rng = np.random.default_rng(10)
    for _ in range(3000):
        squared_radius = int(2.0 ** rng.uniform(0, 52))
        scale = float(rng.choice([2.0 ** rng.uniform(-10, 40), math.sqrt(squared_radius) * 2.0 ** rng.uniform(-3, 6)]))
        scale = min(max(scale, 2.0**-10), 2.0**40)
        delta = float(rng.choice([2.0**-100, 0.5, 1e-6, 2.0 ** -rng.uniform(1, 100)]))
        order = float(rng.choice([1 + 2.0**-20, 2.0**20, 2.0, 1 + 2.0 ** rng.uniform(-20, 19.9)]))
        yield (
            squared_radius,
            scale,
            delta,
            order,
            epsilon_bound(2 * squared_radius / Fraction(scale) ** 2, delta, order),
        )


def records(device: Device, count: int) -> np.ndarray:
    """Hostile records, edges of levels and ordinary ones, (count, n)."""
    encoder, rng = device.encoder, np.random.default_rng(11)
    low, high = encoder.low, encoder.high
    hostile = hostile_records(encoder.width)[: count // 2]
    size = (count - len(hostile), encoder.width)
    with np.errstate(all="ignore"):
        inside = low + rng.uniform(-0.2, 1.2, size=size) * (high - low)
        edges = low + (rng.integers(0, LEVELS, size=size) + 0.5) * ((high - low) / LEVELS)
    nearly = np.where(rng.random(size) < 0.5, np.nextafter(low, np.inf), np.nextafter(high, -np.inf))
    which = rng.integers(0, 4, size=(size[0], 1))
    if isinstance(encoder, AttributeEncoder):  # shorter vectors, of which some lie in the ball
        with np.errstate(all="ignore"):
            inside = low + (high - low) / 2 + (inside - (low + high) / 2) * rng.random((size[0], 1)) ** 4
    if isinstance(encoder, MeanEncoder):
        encoder = encoder.encoders[-1]
    if isinstance(
        encoder, TabledEncoder
    ):  # values at knots, next to them, and where the level between two of them rises
        knots, row = encoder.tables.knots, np.arange(encoder.width)
        place = rng.integers(0, knots.shape[1] - 1, size=size)
        edges, length = knots[row, place], np.diff(knots)[row, place]
        rise = np.maximum(np.diff(encoder.tables.levels)[row, place], 1)
        nearly = np.nextafter(edges, rng.choice([-np.inf, np.inf], size=size))
        inside = np.where(which == 2, edges + length * ((rng.integers(0, rise) + 0.5) / rise), inside)
    if isinstance(encoder, TreeEncoder):  # values at knots and next to them
        starts = np.cumsum(encoder.counts) - encoder.counts
        chosen = np.minimum(starts + rng.integers(0, np.maximum(encoder.counts, 1), size=size), len(encoder.knots) - 1)
        edges = encoder.knots[chosen]
        nearly = np.nextafter(edges, rng.choice([-np.inf, np.inf], size=size))
    return np.concatenate([hostile, np.where(which == 0, edges, np.where(which == 1, nearly, inside))])


class Bits:
    """A bit stream that remembers what was taken. Every third is full of words that need the exact arithmetic."""

    def __init__(self, rng: np.random.Generator, *, odd: bool) -> None:
        self.rng, self.odd, self.taken = rng, odd, b""

    def __call__(self, count: int) -> bytes:
        raw = self.rng.bytes(count)
        if self.odd:
            words = np.frombuffer(raw, dtype="<u8").copy()
            kind = self.rng.integers(0, 8, size=len(words))
            words[kind == 0] = 0
            words[kind == 1] = 2**64 - 1
            words[kind == 2] >>= np.uint64(17)
            words[kind == 3] &= np.uint64(1)
            raw = words.tobytes()
        self.taken += raw
        return raw


def write(folder: Path, size: dict[str, int]) -> None:
    """Everything, into `folder`; devices are independent, so both cores write some."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "size.json").write_text(json.dumps(size))
    count, reports = size["vectors"], size["reports"]
    (folder / "promises.json").write_text(
        json.dumps({"one": list(promises()), "together": list(totals()), "chances": list(chances())})
    )
    real = entropy.system_bytes
    (folder / "gaussian.json").write_text(json.dumps({"kept": list(kept()), "bounds": list(bounds())}))
    entropy.system_bytes = real
    (folder / "forged.json").write_text(json.dumps([forgery.to_json() for forgery in forgeries()]))
    with ProcessPoolExecutor(2) as pool:
        families = [pool.submit(write_family, folder, kind, count) for kind in (DRAWN, CHOSEN)]
        panels = [pool.submit(write_panels, folder, count)]
        wide = [pool.submit(write_device, folder, name, count // 10, reports) for name in wide_ball_devices()]
        others = [pool.submit(write_device, folder, name, count, reports) for name in releases.devices()]
        for done in families + panels + wide + others:
            done.result()


def write_device(folder: Path, name: str, count: int, reports: int) -> None:
    """Release, vectors and, for some, the distribution of reports of one device."""
    real, device = entropy.system_bytes, (releases.devices() | wide_ball_devices())[name]
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    release = bytes.fromhex(write_files(home, *pack_device(device)))
    client = Client(device=device, release=release, ledger=None, cap=None)  # type: ignore[arg-type]
    if device.fields is None:
        write_numbers(home / "vectors.bin", client, count)
    else:
        write_mixed(home / "vectors.jsonl", client, device.fields, count)
    entropy.system_bytes = real
    (home / "counts.json").unlink(missing_ok=True)
    if name in COUNTED:
        record = device.encoder.low + 0.3 * (device.encoder.high - device.encoder.low)
        noisy = isinstance(device.mechanism, Laplace | Gaussian)
        bucket = max(1, int(device.mechanism.scale / 4)) if noisy else 1
        tally: dict[int, int] = {}
        for _ in range(10):
            drawn = device.privatize(np.tile(record, (reports // 10, 1)))[:, 0]
            for key, times in zip(*np.unique(drawn // bucket, return_counts=True), strict=True):
                tally[int(key)] = tally.get(int(key), 0) + int(times)
        described = {"record": record.tolist(), "bucket": bucket, "counts": tally}
        (home / "counts.json").write_text(json.dumps(described))


def family_members(kind: str) -> dict[str, tuple[Device, int]]:
    """Devices of the same records by name, each with its weight."""
    fields, box = mixed_records.ORDINARY, releases.box(3)
    made = {
        "laplace": releases.mixed(fields, releases.laplace(box, 4.0)),
        "codes": releases.mixed(fields, releases.Codebook(region=box, stages=(releases.stage(64, 4, 2.0),))),
        "levels": releases.mixed(fields, releases.level_response(), latents=4),
        "gaussian": releases.mixed(fields, releases.gaussian(releases.ball(), 3.0)),
    }
    if kind == DRAWN:
        return dict(zip(made, zip(made.values(), (2**40, 3**25, 5**17, 7**14), strict=True), strict=True))
    named = {"4": made["laplace"], "2.5": made["codes"]}
    return {name: (device, 1) for name, device in named.items()}


def write_family(folder: Path, kind: str, count: int) -> None:
    """The files of a family for devices, what Python says of it, and vectors whose first bits draw the member."""
    home, members = folder / f"family.{kind}", []
    for name, (device, weight) in family_members(kind).items():
        place = home / name / "client"
        place.mkdir(parents=True, exist_ok=True)
        digest = write_files(place, *pack_device(device))
        members.append(Member(name=name, weight=weight, device=device, release=bytes.fromhex(digest)))
    manifest = family_manifest(kind, [(one.name, one.weight, one.release.hex(), one.epsilon) for one in members])
    (home / FAMILY).write_bytes(canonical(manifest))
    false = [(why, base64.b64encode(raw).decode()) for why, raw in forged_families(manifest)] if kind == DRAWN else []
    (home / "forged.json").write_text(json.dumps(false))
    family = DeviceFamily(release=bytes.fromhex(manifest["digest"]), kind=kind, members=tuple(members))
    clients = {
        choice: Client(
            device=members[0].device, release=bytes(32), ledger=None, cap=None, family=family, epsilon=choice
        )  # type: ignore[arg-type]
        for choice in ([None] if kind == DRAWN else [2.5, 4.0])
    }
    rng, fields = np.random.default_rng(8), mixed_records.ORDINARY
    with (home / "vectors.jsonl").open("w") as file:
        for number in range(count):
            choice = list(clients)[number % len(clients)]
            values = mixed_records.record(rng, fields)
            given = [mixed_records.given(value) for value in values]
            records = [member.device.record(given) for member in family.offered(choice)]
            entropy.system_bytes = bits = Bits(rng, odd=number % 3 == 0)
            report = clients[choice]._make(*records).to_bytes()
            line = {"values": [mixed_records.tagged(value) for value in values], "numbers": str(choice)}
            file.write(json.dumps(line | {"bits": bits.taken.hex(), "report": report.hex()}) + "\n")
    words = {choice: family_statement(family, family.offered(choice)) for choice in clients}
    said = {  # with the cap of the browser's tests
        str(choice): [f"{words[choice]} {together(0.0, 1e6, client.delta)}", client.epsilon, client.release.hex()]
        for choice, client in clients.items()
    }
    (home / "said.json").write_text(json.dumps(said))


def write_numbers(path: Path, client: Client, count: int) -> None:
    """Records of doubles, bits and reports."""
    rng = np.random.default_rng(5)
    with path.open("wb") as file:
        for number, row in enumerate(records(client.device, count)):
            entropy.system_bytes = bits = Bits(rng, odd=number % 3 == 0)
            report = client._make(row[None, :]).to_bytes()
            file.write(row.astype("<f8").tobytes())
            file.write(struct.pack("<HH", len(bits.taken), len(report)) + bits.taken + report)


def write_mixed(path: Path, client: Client, fields: Fields, count: int) -> None:
    """Records of natural values, by name and in order by turns, their numbers (doubles), bits and reports, in hex."""
    rng = np.random.default_rng(6)
    with path.open("w") as file:
        for number in range(count):
            values = mixed_records.record(rng, fields)
            given = [mixed_records.given(value) for value in values]
            x = client.device.record(dict(zip(fields.names, given, strict=True)) if number % 2 else given)
            entropy.system_bytes = bits = Bits(rng, odd=number % 3 == 0)
            report = client._make(x).to_bytes()
            told = {"numbers": x.astype("<f8").tobytes(), "bits": bits.taken, "report": report}
            line = {"values": [mixed_records.tagged(value) for value in values]}
            file.write(json.dumps(line | {name: raw.hex() for name, raw in told.items()}) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]), FULL if "--full" in sys.argv[2:] else SMALL)
