"""Releases whose fields are forged: whole in themselves, digests repaired, wrong in one place, and refused."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hostile_values
from releases import write_files
from taskveil.client.base_field import MOST_COLUMNS
from taskveil.client.device import Device, Fields
from taskveil.client.fields import Category
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Laplace
from taskveil.client.reading import MANIFEST, MOST_MANIFEST, SCHEMA, canonical, client_files, digest, read_device
from taskveil.client.regions import BoxRegion
from taskveil.errors import ReleaseError, VersionError
from taskveil.veil.release import pack_device

Change = Callable[[dict[str, Any]], object]

NUMBER, COUNT, CATEGORY, FLAG, DATE = range(5)


def write(folder: Path, device: Device) -> Path:
    folder.mkdir(exist_ok=True)
    write_files(folder, *pack_device(device))
    return folder


def forge(folder: Path, change: Change) -> Path:
    """A forger who also repairs the digest: only the parts' own checks can object."""
    manifest = json.loads((folder / MANIFEST).read_bytes())
    change(manifest)
    del manifest["digest"]
    text = json.dumps({**manifest, "digest": _digest(manifest)}, sort_keys=True, indent=1, ensure_ascii=True) + "\n"
    (folder / MANIFEST).write_text(text)
    return folder


def _digest(manifest: dict[str, Any]) -> str:
    try:
        return digest(manifest)
    except ValueError:  # NaN, which the one way to write a manifest does not know
        return "0" * 64


def at(place: int, **changes: Any) -> Change:
    """Other values in one of the fields."""
    return lambda manifest: manifest["fields"]["fields"][place].update(changes)


def without(place: int, key: str) -> Change:
    return lambda manifest: manifest["fields"]["fields"][place].pop(key)


def instead(place: int, field: Any) -> Change:
    def change(manifest: dict[str, Any]) -> None:
        manifest["fields"]["fields"][place] = field

    return change


def named(*names: Any) -> Change:
    """Other names, in the columns too."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["fields"]["names"] = manifest["columns"] = list(names)

    return change


def moved(manifest: dict[str, Any]) -> None:
    """Every unit is that of the next field."""
    manifest["units"] = [*manifest["units"][1:], "hp"]


def one_more(manifest: dict[str, Any]) -> None:
    manifest["fields"]["names"].append("more")
    manifest["fields"]["fields"].append({"kind": "flag", "missing": False, "fill": False})


ABC = list("abcdef")

FORGERIES: dict[str, Change] = {
    "no fields but the key": lambda manifest: manifest.update(fields=None),
    "a list": lambda manifest: manifest.update(fields=[]),
    "a text": lambda manifest: manifest.update(fields="number"),
    "a number alone": lambda manifest: manifest.update(fields=manifest["fields"]["fields"][NUMBER]),
    "an encoder": lambda manifest: manifest.update(fields=manifest["encoder"]),
    "another kind": at(NUMBER, kind="amount"),
    "no kind": without(NUMBER, "kind"),
    "kind of a list": at(NUMBER, kind=["number"]),
    "a region among the fields": at(NUMBER, kind="box_region"),
    "a mechanism among the fields": lambda manifest: instead(NUMBER, manifest["mechanism"])(manifest),
    "fields among the fields": lambda manifest: instead(NUMBER, deepcopy(manifest["fields"]))(manifest),
    "text among the fields": instead(NUMBER, "number"),
    "nothing among the fields": instead(NUMBER, None),
    "a list among the fields": instead(NUMBER, []),
    "an extra key in the fields": lambda manifest: manifest["fields"].update(more=1),
    "an extra key in a field": at(NUMBER, more=1),
    "a key of another kind": at(FLAG, unit=""),
    "a key left out": without(NUMBER, "fill"),
    "names left out": lambda manifest: manifest["fields"].pop("names"),
    "bounds the wrong way round": at(NUMBER, low=200.0, high=0.0),
    "a bound as text": at(NUMBER, low="0"),
    "a bound as a truth": at(NUMBER, low=False),
    "no bound": at(NUMBER, low=None),
    "a bound that is no number": at(NUMBER, high=float("nan")),
    "an infinite bound": at(NUMBER, high=float("inf")),
    "bounds too far apart": at(NUMBER, low=-1.7e308, high=1.7e308),
    "a bound of 2^53 as a whole number": at(NUMBER, high=2**53),
    "a bound in a tensor": at(NUMBER, low={"tensor": "encoder.low"}),
    "a fill out of bounds": at(NUMBER, fill=201.0),
    "a fill that is no number": at(NUMBER, fill=float("nan")),
    "a unit that is no text": at(NUMBER, unit=1),
    "missing that is no truth": at(NUMBER, missing=1),
    "a count from a fraction": at(COUNT, low=0.5),
    "a count beyond 2^53": at(COUNT, high=2.0**54),
    "a category of a text": at(CATEGORY, values="Europe"),
    "a category of nothing": at(CATEGORY, values=[]),
    "a category of numbers": at(CATEGORY, values=[1, 2, 3, 4]),
    "a category of nulls": at(CATEGORY, values=[None, "Japan", "4", "true"]),
    "a category of lists": at(CATEGORY, values=[["Europe"], "Japan", "4", "true"]),
    "a category twice": at(CATEGORY, values=["Europe", "Europe", "4", "true"]),
    "the text that no category has": at(CATEGORY, values=["\0", "Japan", "4", "true"]),
    "more columns than the encoder takes": at(CATEGORY, values=["Europe", "Japan", "4", "true", "USA"]),
    "fewer columns than the encoder takes": at(CATEGORY, missing=False),
    "a flag's fill as a number": at(FLAG, fill=0),
    "a date that is none": at(DATE, low="2020-02-30"),
    "dates the wrong way round": at(DATE, low="2024-12-31", high="2020-01-01"),
    "a date as a number": at(DATE, low=18262.0),
    "an unknown cycle": at(DATE, cycles=["year", "week", "moon"]),
    "a cycle twice": at(DATE, cycles=["year", "year", "week"]),
    "cycles as text": at(DATE, cycles="day"),
    "a name twice": named("a", "b", "c", "d", "e", "e"),
    "a name that is no text": named("a", "b", "c", "d", "e", 6),
    "a name too few": named("a", "b", "c", "d", "e"),
    "a field too few": lambda manifest: manifest["fields"]["fields"].pop(),
    "no fields at all": lambda manifest: manifest["fields"].update(fields=[], names=[]),
    "other columns": lambda manifest: manifest.update(columns=ABC),
    "columns in another order": lambda manifest: manifest["columns"].reverse(),
    "no columns": lambda manifest: manifest.update(columns=None),
    "other units": moved,
    "no units": lambda manifest: manifest.update(units=None),
    "fields in schema 3": lambda manifest: manifest.update(schema=3),
    "schema 4 without fields": lambda manifest: manifest.pop("fields"),
    "a table for the device": lambda manifest: manifest.update(table={}),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "client", hostile_values.mixed_veil().device)


def test_what_was_written_is_read(folder: Path) -> None:
    device, manifest = read_device(client_files(forge(folder, lambda _: None)))
    assert manifest["schema"] == 4
    assert device.fields == hostile_values.FIELDS


def test_whole_numbers_count_as_doubles_as_in_every_part(folder: Path) -> None:
    device, _ = read_device(client_files(forge(folder, at(NUMBER, low=0, high=200))))
    assert device.fields == hostile_values.FIELDS
    assert type(device.fields.fields[NUMBER].high) is float


@pytest.mark.parametrize("why", FORGERIES)
def test_forged_fields_are_refused(why: str, folder: Path) -> None:
    with pytest.raises(ReleaseError):
        read_device(client_files(forge(folder, FORGERIES[why])))


def test_a_newer_schema_is_named(folder: Path) -> None:
    with pytest.raises(VersionError, match="newer taskveil"):
        read_device(client_files(forge(folder, lambda manifest: manifest.update(schema=SCHEMA + 1))))


def test_the_list_is_long_and_every_forgery_changes_something(folder: Path) -> None:
    assert len(FORGERIES) > 50
    written = json.loads((folder / MANIFEST).read_bytes())
    for why, change in FORGERIES.items():
        forged = deepcopy(written)
        change(forged)
        assert json.dumps(forged) != json.dumps(written), why


def test_a_million_categories_are_refused_before_they_take_memory(folder: Path) -> None:
    forge(folder, at(CATEGORY, values=[str(i) for i in range(1_000_000)]))
    tracemalloc.start()
    try:
        with pytest.raises(ReleaseError, match="too large"):
            read_device(client_files(folder))
        assert tracemalloc.get_traced_memory()[1] < 4 * MOST_MANIFEST
    finally:
        tracemalloc.stop()
    with pytest.raises(ReleaseError, match=str(MOST_COLUMNS)):
        read_device(client_files(forge(folder, at(CATEGORY, values=[str(i) for i in range(MOST_COLUMNS + 1)]))))


def test_the_largest_record_there_may_be_takes_little_memory(tmp_path: Path) -> None:
    """Sixteen categories of 4,096 values: listing a row for every value would take two gigabytes."""
    values = tuple(str(i) for i in range(4096))
    count = MOST_COLUMNS // len(values)
    fields = Fields(names=tuple(f"c{i}" for i in range(count)), fields=(Category(values),) * count)
    low, high = fields.box
    encoder = LinearEncoder.of(low=low, high=high, weights=np.ones((1, len(low))), offset=np.zeros(1))
    region = BoxRegion(step=2.0**-10, low=np.array([0]), high=np.array([1 << 15]))
    device = Device(
        encoder=encoder,
        mechanism=Laplace.calibrated(region=region, epsilon=1.0),
        columns=fields.names,
        units=fields.units,
        fields=fields,
    )
    read, _ = read_device(client_files(write(tmp_path / "client", device)))
    tracemalloc.start()
    try:
        assert read.privatize(read.fields.expand_one(["7"] * count)).shape == (1, 1)
        assert tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()
    forge(tmp_path / "client", one_more)
    with pytest.raises(ReleaseError, match="at most"):
        read_device(client_files(tmp_path / "client"))


def test_canonical_text_has_no_number_that_is_none() -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical({"low": float("nan")})
