"""Texts of open vocabularies as points of a plane."""

from __future__ import annotations

import hashlib

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

import block_releases
import taskveil as tv
from taskveil.client.base_field import Coded
from taskveil.client.fields import Words
from taskveil.client.mechanisms import LevelResponse
from taskveil.client.values import LONGEST_TEXT
from taskveil.errors import DataError

FIELD = Words(3001, "spring")


def point(text: str, salt: str = "spring", prime: int = 3001) -> list[float]:
    """As the docstring says it: the salt, the length, the text and zeros, in UTF-16."""
    letters = [*salt.encode("utf-16-le"), *len(text).to_bytes(2, "little"), *text.encode("utf-16-le")]
    letters += [0] * (2 * (len(salt) + 1 + LONGEST_TEXT) - len(letters))
    number = 1 + int(hashlib.sha256(bytes(letters)).hexdigest(), 16) % (prime**2 - 1)
    return [float(number // prime), float(number % prime)]


def test_words_are_the_points_that_their_hash_gives() -> None:
    texts = ["a", "a\0", "naïve", "word", "x" * 1000, "4", "true"]
    assert FIELD.expand(texts).tolist() == [point(text) for text in texts]
    assert FIELD.expand([4, True, 4.0, np.int8(4)]).tolist() == [point("4"), point("true"), point("4"), point("4")]
    assert Words(5, "s").expand(["b"]).tolist() == [point("b", "s", 5)]
    assert len(np.unique(FIELD.expand([str(n) for n in range(1000)]), axis=0)) == 1000


def test_missing_and_empty_texts_are_the_first_point_and_others_never_are() -> None:
    assert not FIELD.expand([None, "", np.nan, np.datetime64("NaT")]).any()
    found = np.unique(Words(2).expand([str(n) for n in range(100)]), axis=0)
    assert found.tolist() == [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    assert FIELD.expand([]).shape == (0, 2)


def test_what_is_no_text_or_too_long_is_one_point() -> None:
    odd = ["y" * 1001, 4.5, object(), [], b"word", "😀" * 501]
    assert FIELD.expand(odd).tolist() == [point("\0")] * len(odd)


def test_every_text_is_hashed_in_as_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = []

    class Counting:
        def __init__(self, start: bytes) -> None:
            self.start = start

        def copy(self) -> Counting:
            return self

        def update(self, raw: bytes) -> None:
            sizes.append(len(raw))

        def digest(self) -> bytes:
            return bytes(32)

    monkeypatch.setattr("taskveil.client.values.hashlib.sha256", Counting)
    FIELD.expand(["", None, "a", "x" * 1000, "y" * 100_000, 7, object()])
    assert set(sizes) == {2 + 2 * LONGEST_TEXT}
    assert len(sizes) == 7


def test_points_are_spread_evenly() -> None:
    points = Words(11, "s").expand([f"word {n}" for n in range(60_000)])
    counts = np.bincount((points @ [11, 1]).astype(int), minlength=121)
    assert counts[0] == 0
    assert chisquare(counts[1:]).pvalue > 1e-6


def test_encoders_keep_the_points_exactly() -> None:
    """The largest plane there may be: a linear encoder and the region's grid give back every number of a text."""
    device = block_releases.words_device()
    assert isinstance(device.mechanism, LevelResponse)
    records = [[f"word {n}", f"other {n}", "S", 3.0] for n in range(3000)]
    X = np.concatenate([device.record(record) for record in records])
    k = device.mechanism.region.enforce(device.encoder(X))
    assert (k[:, :4] == X[:, :4]).all()


def test_a_schema_writes_words_and_reads_them() -> None:
    schema = tv.Schema({"search": FIELD, "age": tv.Number(0, 120)})
    assert tv.Schema.from_json(schema.to_json()) == schema
    assert "Words(3001, salt='spring')" in repr(schema)
    assert schema.columns == ("search (first number)", "search (second number)", "age")
    assert schema["search"].outside(["a", "", None, "b"]) == (2, 0)
    assert schema["search"].outside(Coded(np.array([0, 1, -1]), ["a", "b"])) == (1, 0)
    table = pd.DataFrame({"search": ["a", None, "longer"], "age": [3, 4, 5]})
    X = schema.expand(table)
    assert X[:, :2].tolist() == [point("a"), [0.0, 0.0], point("longer")]
    assert schema.like(table).collapse(X)["search"].isna().all()  # no text can be found from its point


@pytest.mark.parametrize(
    "make",
    [
        lambda: Words(1),
        lambda: Words(2**20 + 1),
        lambda: Words(3001.0),  # type: ignore[arg-type]
        lambda: Words(True),
        lambda: Words(3001, 5),  # type: ignore[arg-type]
        lambda: Words(3001, "a" * 1001),
        lambda: Words(3001, "😀" * 501),
    ],
)
def test_words_that_are_none_are_refused(make: object) -> None:
    with pytest.raises(DataError, match=r"\.$"):
        make()  # type: ignore[operator]
