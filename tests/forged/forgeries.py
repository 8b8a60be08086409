"""Releases that every client must refuse: whole in themselves, digests repaired, and wrong in one place each.

`python tests/vectors.py FOLDER` writes them to `forged.json`, so that the browser client is held against the same list.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from forged import networks
from forged.balls import BALLS
from forged.blocks import BLOCK_GROUPS
from forged.gaussians import GAUSSIANS, not_numbers
from forged.levels import LEVEL_GROUPS
from forged.means import MEANS
from forged.mixed import MIXED
from forged.panels import PANELS, in_an_older_schema
from forged.sums import SUMS
from forged.tools import (
    DEVICES,
    Arrays,
    Change,
    changed,
    first,
    packed,
    part,
    put,
    reheaded,
    respelled,
    restated,
    stored,
    tensor,
    whole,
    written,
)
from forged.trees import TREES
from taskveil.client.mechanisms import Response
from taskveil.client.reading import DEVICE_KINDS, canonical
from taskveil.veil.release import manifest_of, pack


@dataclass(frozen=True, kw_only=True)
class Forgery:
    """The two files of a release that must be refused, and why."""

    why: str
    manifest: bytes
    weights: bytes

    def to_json(self) -> dict[str, str]:
        """What another language reads: the bytes in base64."""
        files = {"manifest": self.manifest, "weights": self.weights}
        return {"why": self.why} | {name: base64.b64encode(raw).decode() for name, raw in files.items()}


def low(_: np.ndarray) -> dict[str, str]:
    return {"tensor": "encoder.low"}


def other_stages(content: dict[str, Any], arrays: Arrays, stages: list[Any]) -> None:
    content["mechanism"]["stages"] = stages
    for name in [name for name in arrays if "stages" in name]:
        del arrays[name]


def spelled(path: str, name: str) -> Change:
    """The number that is there, in text, which only numbers of 2^53 and more are."""
    return lambda content, _: part(content, path).update({name: whole(part(content, path)[name])})


def epsilon_of(a: int) -> float:
    return Response(size=64, favoured=1, a=a, b=1).epsilon


def unknown_tensor(content: dict[str, Any], arrays: Arrays) -> None:
    content["more"], arrays["more"] = {"tensor": "more"}, np.zeros(1000, dtype=np.int8)


def promised_tensor(content: dict[str, Any], arrays: Arrays) -> None:
    content["guarantee"]["more"], arrays["more"] = {"tensor": "more"}, np.zeros(1000, dtype=np.int8)


def repeated_stages(content: dict[str, Any], arrays: Arrays, count: int) -> None:
    """The first stage again and again, without shifts, and the ε of all."""
    stage = DEVICES["codebook"].mechanism.stages[0]  # type: ignore[union-attr]
    other_stages(content, arrays, [])
    for place in range(count):
        again = pack(stage, f"mechanism.stages.{place}", arrays, DEVICE_KINDS)
        arrays[f"mechanism.stages.{place}.shifts"] = np.zeros_like(stage.shifts)
        content["mechanism"]["stages"].append(again)
    total = math.fsum([stage.response.epsilon] * count)
    content["guarantee"]["epsilon"] = math.nextafter(total, math.inf)


def empty_layer(units: int) -> Change:
    """A hidden layer of many units and no attributes: no bytes at all, and room for all units when it is believed."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        arrays["encoder.low"] = arrays["encoder.high"] = np.empty(0)
        arrays["encoder.hidden_weights"] = np.empty((units, 0), dtype=np.int64)

    return change


def nested(depth: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(depth):
        found = [found]
    return found


def other_tables(width: int, count: int) -> Change:
    """Tables of another size, sound otherwise."""
    return lambda _, arrays: arrays.update({
        KNOTS: np.tile(np.arange(count, dtype=np.float64), (width, 1)),
        TABLED: np.tile(np.arange(count), (width, 1)),
    })  # fmt: skip


KNOTS, TABLED = "encoder.tables.knots", "encoder.tables.levels"
RESPONSE = "mechanism.stages.0.response"
BIG = whole(2**1990)


def moved(step: Callable[[float], float]) -> Change:
    """Another stated ε, for a mechanism that stays as it is."""

    def change(content: dict[str, Any], _: Arrays) -> None:
        content["guarantee"]["epsilon"] = step(content["guarantee"]["epsilon"])

    return change


def shared(content: dict[str, Any], arrays: Arrays) -> None:
    """One tensor for three parts, and another whose name is that of the two that are missing, joined by a comma."""
    name, parts = "encoder.encoders.0.low", content["encoder"]["encoders"]
    for other in (parts[0]["high"], parts[1]["low"]):
        del arrays[other["tensor"]]
        other["tensor"] = name
    arrays[f"{name},{name}"] = arrays[name]


CHANGED: list[tuple[str, str, Change]] = [
    *(
        (f"stated epsilon {words} of {name}", name, moved(step))
        for name in ("laplace_box", "codebook", "lattice", "sums", "levels", "blocks", "plane", "mixed")
        for words, step in {
            "one double above that": lambda epsilon: math.nextafter(epsilon, math.inf),
            "one double below that": lambda epsilon: math.nextafter(epsilon, 0.0),
            "2^-44 above that": lambda epsilon: epsilon + 2.0**-44,
        }.items()
    ),
    ("names of tensors that collide when they are joined", "codebook_mean", shared),
    ("stated epsilon of 0", "codebook", put("guarantee", epsilon=0.0)),
    ("stated epsilon below 0", "codebook", put("guarantee", epsilon=-1.0)),
    ("stated epsilon of half", "codebook", put("guarantee", epsilon=1.5)),
    ("stated epsilon of twice", "codebook", put("guarantee", epsilon=6.0)),
    ("stated epsilon in text", "codebook", put("guarantee", epsilon="3")),
    ("stated epsilon true", "codebook", put("guarantee", epsilon=True)),
    ("no stated epsilon", "codebook", lambda m, _: m["guarantee"].pop("epsilon")),
    ("a release that tells nothing", "codebook", restated(0.0, put(RESPONSE, a=1, b=1))),
    ("hardly anything told, less stated", "codebook", restated(-1e-13, put(RESPONSE, a=2**40 + 1, b=2**40))),
    ("stated delta", "codebook", put("guarantee", delta=1e-6)),
    ("a statement that is no text", "codebook", put("guarantee", statement=["safe"])),
    ("no guarantee", "codebook", lambda m, _: m.update(guarantee=None)),
    ("a = 2^1990", "codebook", restated(1990 * math.log(2), put(RESPONSE, a=BIG, b=1))),
    ("a = 2^1990 in a lattice", "lattice", restated(1990 * math.log(2), put("mechanism.response", a=BIG, b=1))),
    ("b above 2^64", "codebook", restated(math.log(3), put(RESPONSE, a=whole(3 * 2**65), b=whole(2**65)))),
    ("a below b", "codebook", put(RESPONSE, a=1, b=2)),
    ("b of 0", "codebook", put(RESPONSE, b=0)),
    ("a number in words", "codebook", put(RESPONSE, a={"integer": "many"})),
    ("nothing favoured", "codebook", put(RESPONSE, favoured=0)),
    ("everything favoured", "codebook", put(RESPONSE, favoured=64)),
    ("another size", "codebook", put(RESPONSE, size=63)),
    ("a step of 2^1023", "laplace_box", put("mechanism.region", step=2.0**1023)),
    ("a step of 2^901", "laplace_box", put("mechanism.region", step=2.0**901)),
    ("a step of 2^-1001", "laplace_box", put("mechanism.region", step=2.0**-1001)),
    ("a step that is no power of two", "laplace_box", put("mechanism.region", step=0.3)),
    ("a step of 0", "laplace_box", put("mechanism.region", step=0.0)),
    ("an encoder's step that is no power of two", "laplace_box", tensor("encoder.step", first(0.3))),
    ("an attribute's range from NaN", "laplace_box", tensor("encoder.low", first(np.nan))),
    ("weights that do not add up exactly", "laplace_box", tensor("encoder.weights", first(2**40))),
    ("a box turned inside out", "laplace_box", tensor("mechanism.region.low", first(2**30))),
    ("a box beyond 2^40", "laplace_box", tensor("mechanism.region.high", first(2**41))),
    ("bounds in doubles", "laplace_box", tensor("mechanism.region.low", lambda a: a.astype(np.float64))),
    ("bounds of another shape", "laplace_box", tensor("mechanism.region.low", lambda a: a[:2])),
    ("half the noise", "laplace_box", lambda m, _: m["mechanism"].update(scale=m["mechanism"]["scale"] / 2)),
    ("hardly any noise", "laplace_box", restated(2.0**11 * 98307, put("mechanism", scale=2.0**-11))),
    ("noise in text", "laplace_box", put("mechanism", scale="1")),
    ("a sign vector missing", "laplace_sign_hidden", tensor("mechanism.region.signs", lambda a: a[:3])),
    ("a sign vector twice", "laplace_sign_hidden", tensor("mechanism.region.signs", lambda a: a[[0, 1, 2, 2]])),
    ("one upper bound for all sign vectors", "laplace_sign_hidden", tensor("mechanism.region.upper", lambda a: a[:1])),
    ("one lower bound for all sign vectors", "laplace_sign_hidden", tensor("mechanism.region.lower", lambda a: a[:1])),
    ("a sign of 0", "laplace_sign_hidden", tensor("mechanism.region.signs", first(0))),
    ("a center outside", "laplace_sign_hidden", tensor("mechanism.region.center", first(2**30))),
    ("a radius below 0", "laplace_diamond", put("mechanism.region", radius=-1)),
    ("a radius beyond 2^40", "laplace_diamond", put("mechanism.region", radius=2**41)),
    ("a shift of 64", "laplace_sign_hidden", tensor("encoder.hidden_shift", first(64))),
    ("a softmax in words", "laplace_sign_hidden", put("encoder", softmax="yes")),
    ("scores that are not exact", "codebook", tensor("mechanism.stages.0.vectors", first(2**45))),
    ("no stages", "codebook", lambda m, arrays: other_stages(m, arrays, [])),
    ("levels of 2^53", "lattice", tensor("mechanism.lattice.levels", first(2**53))),
    ("levels beyond 2^24", "lattice", tensor("mechanism.lattice.levels", first(2**24 + 1))),
    ("a length below 0", "lattice", tensor("mechanism.lattice.lengths", first(-1))),
    ("a direction without a free level", "lattice", tensor("mechanism.lattice.lengths", lambda a: a + 1)),
    ("a budget beyond 2^15", "lattice", put("mechanism.lattice", budget=2**15 + 1)),
    ("another number of codewords", "lattice", put("mechanism.response", size=700)),
    ("two favoured codewords", "lattice", put("mechanism.response", favoured=2)),
    ("a lattice's region beyond 2^24", "lattice", tensor("mechanism.region.high", first(2**25))),
    ("an unknown encoder", "codebook", put("encoder", kind="affine_decoder")),
    ("an unknown mechanism", "codebook", put("mechanism", kind="identity")),
    ("an unknown region", "codebook", put("mechanism.region", kind="everything")),
    ("a name twice", "codebook", lambda m, _: m.update(columns=["a"] * 30)),
    ("a name that is no text", "codebook", lambda m, _: m.update(columns=list(range(30)))),
    ("too few names", "codebook", lambda m, _: m.update(columns=["a"])),
    ("too few units", "codebook", lambda m, _: m.update(units=["kW"])),
    ("a tensor that is not there", "codebook", put("encoder", offset={"tensor": "nowhere"})),
    ("a tensor that nothing uses", "codebook", lambda _, arrays: arrays.update(more=np.zeros(3))),
    ("a tensor used twice", "codebook", lambda m, arrays: m["encoder"].update(high=low(arrays.pop("encoder.high")))),
    ("a step of 2^1000 in an encoder", "laplace_box", tensor("encoder.step", first(2.0**1000))),
    ("a step of 2^-1050 in an encoder", "laplace_box", tensor("encoder.step", first(2.0**-1050))),
    ("a last shift of 2^60", "codebook", tensor("mechanism.stages.0.shifts", first(2**60))),
    ("a last shift of -2^63", "codebook", tensor("mechanism.stages.0.shifts", first(-(2**63)))),
    ("a length of 2^60", "lattice", tensor("mechanism.lattice.lengths", lambda a: np.append(a[:-1], 2**60))),
    ("counts in a row", "lattice", tensor("mechanism.lattice.counts", lambda a: a[None, :])),
    ("counts in a column", "lattice", tensor("mechanism.lattice.counts", lambda a: a[:, None])),
    ("no word about a softmax", "laplace_sign_hidden", lambda m, _: m["encoder"].pop("softmax")),
    ("a radius in text", "laplace_diamond", spelled("mechanism.region", "radius")),
    ("a small number of outputs in text", "codebook", spelled(RESPONSE, "size")),
    ("a small number favoured in text", "codebook", spelled(RESPONSE, "favoured")),
    ("a budget in text", "lattice", spelled("mechanism.lattice", "budget")),
    ("a step in text", "laplace_box", put("mechanism.region", step=whole(1))),
    ("noise as a whole number in text", "laplace_box", restated(98307 / 2**20, put("mechanism", scale=whole(2**20)))),
    ("a = 3 in text", "codebook", restated(epsilon_of(3), put(RESPONSE, a=whole(3), b=1))),
    ("a = 2^60 as a JSON number", "codebook", restated(epsilon_of(2**60), put(RESPONSE, a=2**60, b=1))),
    ("an unknown key", "codebook", lambda m, _: m.update(more=1)),
    ("a long list under an unknown key", "codebook", lambda m, _: m.update(more=[0] * 50_000)),
    ("a tensor under an unknown key", "codebook", unknown_tensor),
    ("a tensor in the guarantee", "codebook", promised_tensor),
    ("two stages", "codebook", lambda m, arrays: repeated_stages(m, arrays, 2)),
    ("knots that fall", "codebook_tabled", tensor(KNOTS, lambda a: a[:, ::-1].copy())),
    ("one knot above the next", "codebook_tabled", tensor(KNOTS, first(2.0**1021))),
    ("a knot of NaN", "codebook_tabled", tensor(KNOTS, first(np.nan))),
    ("a knot at infinity", "codebook_tabled", tensor(KNOTS, first(-np.inf))),
    ("a knot beyond 2^1022", "codebook_tabled", tensor(KNOTS, first(-(2.0**1023)))),
    ("knots in whole numbers", "codebook_tabled", tensor(KNOTS, lambda a: np.zeros(a.shape, dtype=np.int64))),
    ("one knot less than levels", "codebook_tabled", tensor(KNOTS, lambda a: a[:, 1:])),
    ("knots in one row", "codebook_tabled", tensor(KNOTS, np.ravel)),
    ("levels of a table that fall", "codebook_tabled", tensor(TABLED, lambda a: a[:, ::-1].copy())),
    ("a level of a table below 0", "codebook_tabled", tensor(TABLED, first(-1))),
    ("levels of a table beyond 2^20", "codebook_tabled", tensor(TABLED, lambda a: a + 2**20 + 1)),
    ("levels of a table in doubles", "codebook_tabled", tensor(TABLED, lambda a: a.astype(np.float64))),
    ("32,769 knots of a table", "codebook_tabled", other_tables(8, 2**15 + 1)),
    ("a table too many", "codebook_tabled", other_tables(9, 40)),
    ("a table too few", "codebook_tabled", other_tables(7, 40)),
    ("no tables", "codebook_tabled", lambda m, _: m["encoder"].pop("tables")),
    ("an encoder for tables", "codebook_tabled", lambda m, _: m["encoder"].update(tables=m["encoder"]["encoder"])),
    ("tables before tables", "codebook_tabled", put("encoder.encoder", kind="tabled_encoder")),
    ("parts in lists 900 deep", "codebook", lambda m, arrays: other_stages(m, arrays, nested(900))),
    ("names in lists 900 deep", "codebook", lambda m, _: m.update(columns=nested(900))),
]  # fmt: skip


def halves_that_do_not_fit(content: dict[str, Any], arrays: Arrays) -> None:
    """As many columns together as they should have, cut in another place."""
    both = np.hstack([arrays["encoder.weights"], arrays["encoder.skip"]])
    arrays["encoder.weights"], arrays["encoder.skip"] = both[:, :7], both[:, 7:]


def too_many_signs(content: dict[str, Any], arrays: Arrays) -> None:
    """A sign region of eleven latents, sound otherwise."""
    latents = 11
    bits = (np.arange(2 ** (latents - 1))[:, None] >> np.arange(latents)) & 1
    arrays["encoder.weights"] = np.ones((latents, 5), dtype=np.int64)
    arrays["encoder.offset"], arrays["encoder.step"] = np.zeros(latents, dtype=np.int64), np.ones(latents)
    for name in ("low", "high"):
        del arrays[f"mechanism.region.{name}"]
    region = {
        "signs": (1 - 2 * bits).astype(np.int8),
        "lower": np.full(len(bits), -100),
        "upper": np.full(len(bits), 100),
        "center": np.zeros(latents, dtype=np.int64),
    }
    arrays |= {f"mechanism.region.{name}": array for name, array in region.items()}
    content["mechanism"]["region"] = {
        "kind": "sign_region",
        "step": 1.0,
        **{name: {"tensor": f"mechanism.region.{name}"} for name in region},
    }
    content["mechanism"]["scale"], content["guarantee"]["epsilon"] = 200.0, 1.0


def long_reports(content: dict[str, Any], arrays: Arrays) -> None:
    """20,000 latents of four bytes each: more than the wire carries."""
    latents = 20_000
    arrays["encoder.weights"] = np.ones((latents, 5), dtype=np.int64)
    arrays["encoder.offset"], arrays["encoder.step"] = np.zeros(latents, dtype=np.int64), np.ones(latents)
    arrays["mechanism.region.low"] = np.zeros(latents, dtype=np.int64)
    arrays["mechanism.region.high"] = np.ones(latents, dtype=np.int64)
    content["mechanism"]["scale"], content["guarantee"]["epsilon"] = 2.0**20, latents / 2**20


def huge_lattice(directions: int, levels: int, budget: int, share: int = 1) -> Change:
    """A lattice whose tables would fill the memory."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        arrays["encoder.weights"] = np.ones((directions, 5), dtype=np.int64)
        arrays["encoder.offset"], arrays["encoder.step"] = np.zeros(directions, dtype=np.int64), np.ones(directions)
        arrays["mechanism.region.low"] = np.full(directions, -100)
        arrays["mechanism.region.high"] = np.full(directions, 100)
        arrays["mechanism.lattice.levels"] = np.tile(np.arange(levels), directions)
        arrays["mechanism.lattice.lengths"] = np.tile(np.arange(levels) // share, directions)
        arrays["mechanism.lattice.counts"] = np.full(directions, levels)
        content["mechanism"]["lattice"]["budget"] = budget

    return change


def level_lattice(directions: int, levels: int) -> Change:
    """A lattice of levels that are all of length 0, sound otherwise."""

    def change(content: dict[str, Any], arrays: Arrays) -> None:
        huge_lattice(directions, levels, 0, levels)(content, arrays)
        size = levels**directions
        content["mechanism"]["response"]["size"] = size if size < 2**53 else whole(size)

    return change


def overlapping(count: int = 4000, size: int = 1 << 20) -> tuple[bytes, bytes]:
    """1.4 MB that name the same megabyte 4,000 times."""
    manifest, _ = manifest_of(*packed(DEVICES["codebook"]))
    entry = {"dtype": "F64", "shape": [size // 8], "data_offsets": [0, size]}
    return written(manifest, stored({f"t{i}": entry for i in range(count)}, bytes(size)))


METADATA = {
    "text": b'"x"',
    "NaN": b"NaN",
    "an infinite number": b"-Infinity",
    "a number beyond all doubles": b"1e999",
    "half a character": b'"\xed\xa0\x80"',
    "brackets 5,000 deep": b"[" * 5000 + b"]" * 5000,
    "a number of 5,000 digits": b"9" * 5000,
}


def spellings() -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """Headers of the weights that JSON readers may take, each in its own way."""
    for what, value in METADATA.items():
        for place, before in (("metadata", b'{"__metadata__":'), ("a tensor named twice", b'{"encoder.low":')):
            yield f"{place}: {what}", respelled(lambda raw, new=before + value + b",": raw.replace(b"{", new, 1))
        yield (
            f"one more entry of a tensor: {what}",
            respelled(lambda raw, new=b'{"more":' + value + b',"dtype"': raw.replace(b'{"dtype"', new, 1)),
        )
    for code in ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-8-sig"):
        yield f"a header in {code}", respelled(lambda raw, code=code: raw.decode().encode(code))
    yield "a header with other blanks", respelled(lambda raw: raw.replace(b":", b": "))
    yield "a header that ends in a line", respelled(lambda raw: raw + b"\n")
    yield "a name in other letters", respelled(lambda raw: raw.replace(b'"encoder', b'"\\u0065ncoder'))
    yield "a length with a fraction", respelled(lambda raw: raw.replace(b'"shape":[30]', b'"shape":[30.0]'))
    long = b'"shape":[' + b"9," * 500_000
    yield "a shape of 500,000 lengths", respelled(lambda raw: raw.replace(b'"shape":[', long, 1))


def heads() -> Iterator[tuple[str, tuple[bytes, bytes]]]:
    """What can be wrong with the header of the weights."""

    def offsets(name: str, move: Callable[[int, int], list[int]]) -> Callable[[dict[str, Any]], None]:
        return lambda header: header[name].update(data_offsets=move(*header[name]["data_offsets"]))

    name = "encoder.low"
    yield "overlapping tensors, 4,000 of 1 MB", overlapping()
    yield (
        "a tensor over its neighbour",
        reheaded(offsets(name, lambda a, b: [a + 8 - 16 * (a > 0), b + 8 - 16 * (a > 0)])),
    )
    yield "bytes that belong to no tensor", reheaded(lambda _: None, bytes(8))
    yield "a tensor past the end", reheaded(offsets(name, lambda a, b: [a + (1 << 40), b + (1 << 40)]))
    yield "places below 0", reheaded(offsets(name, lambda a, b: [-8, b]))
    yield "places in text", reheaded(lambda h: h[name].update(data_offsets=["0", "8"]))
    yield "a shape that does not fit", reheaded(lambda h: h[name].update(shape=[29]))
    yield "a shape below 0", reheaded(lambda h: h[name].update(shape=[-30]))
    yield "single precision", reheaded(lambda h: h[name].update(dtype="F32", shape=[60]))
    yield "bytes as numbers", reheaded(lambda h: h[name].update(dtype="U8", shape=[240]))
    manifest, weights = manifest_of(*packed(DEVICES["codebook"]))
    yield "a header beyond the file", written(manifest, struct.pack("<Q", 1 << 62) + weights[8:])
    yield "a header that is a list", written(manifest, stored([], b""))  # type: ignore[arg-type]
    yield "no weights at all", written(manifest, b"")
    yield "weights of another release", (canonical(manifest), weights + b"\0")
    yield "a manifest of another digest", (canonical({**manifest, "columns": None}), weights)
    for schema in (2, 3, 4, 5, 6, 8, 0, "1", None):
        yield f"schema {schema!r}", written({**manifest, "schema": schema}, weights)
    manifest, weights = manifest_of(*packed(DEVICES["codebook_tabled"]))
    yield "tables in a release of the first schema", written({**manifest, "schema": 1}, weights)
    manifest, weights = manifest_of(*packed(DEVICES["codebook_trees"]))
    yield "trees in a release of the second schema", written({**manifest, "schema": 2}, weights)
    manifest, weights = manifest_of(*packed(DEVICES["sums"]))
    yield "a sum in a release of the second schema", written({**manifest, "schema": 2}, weights)
    manifest, weights = manifest_of(*packed(DEVICES["levels"]))
    yield "levels in a release of the fourth schema", written({**manifest, "schema": 4}, weights)
    manifest, weights = manifest_of(*packed(DEVICES["mixed"]))
    yield "fields in a release of the third schema", written({**manifest, "schema": 3}, weights)
    for name in ("blocks", "plane", "mixed_words"):
        manifest, weights = manifest_of(*packed(DEVICES[name]))
        yield f"{name} in a release of the fifth schema", written({**manifest, "schema": 5}, weights)
    yield "planned rounds in a release of the ninth schema", in_an_older_schema()
    yield "a manifest that is a list", (b"[]\n", weights)
    yield "a manifest in brackets", (b"[" * 100_000, weights)


def forgeries() -> list[Forgery]:
    """All of them, by what is wrong."""
    changes = [
        *CHANGED,
        *TREES,
        *networks.CHANGED,
        *SUMS,
        *BALLS,
        *GAUSSIANS,
        *LEVEL_GROUPS,
        *BLOCK_GROUPS,
        *MEANS,
        *MIXED,
        *PANELS,
    ]
    found = [(why, changed(name, change)) for why, name, change in changes]
    found += [
        ("halves of a hidden layer that do not fit", changed("laplace_sign_hidden", halves_that_do_not_fit)),
        ("a hidden layer of 2^28 units and no attributes", changed("laplace_sign_hidden", empty_layer(2**28))),
        ("a hidden layer of 2^40 units and no attributes", changed("laplace_sign_hidden", empty_layer(2**40))),
        ("sign vectors of eleven latents", changed("laplace_box", too_many_signs)),
        ("reports longer than the wire carries", changed("laplace_box", long_reports)),
        ("a lattice of 1,000 directions and a budget of 8,000", changed("lattice", huge_lattice(1000, 2, 8000))),
        ("a lattice of 30,000 levels and a budget of 30,000", changed("lattice", huge_lattice(3, 30_000, 30_000))),
        ("a lattice of 2^1004 codewords that states another number", changed("lattice", huge_lattice(600, 30, 430))),
        ("a lattice of exactly 2^1500 codewords", changed("lattice", level_lattice(750, 4))),
        ("a lattice of 66,000 levels and a budget of 0", changed("lattice", level_lattice(3, 22_000))),
        ("a lattice of more than 2^1500 codewords", changed("lattice", huge_lattice(600, 30, 430, 5))),
    ]
    found += [*heads(), *spellings(), *not_numbers()]
    return [Forgery(why=why, manifest=files[0], weights=files[1]) for why, files in found]
