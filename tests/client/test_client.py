from __future__ import annotations

import json
import math
import sqlite3
import subprocess
import sys
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import releases
import taskveil as tv
from hostile import hostile_records
from taskveil.client import Client, Report, entropy
from taskveil.client.families import family_statement
from taskveil.client.promise import round_up, rounded_up, together
from taskveil.client.reading import MANIFEST, canonical, digest
from taskveil.errors import (
    BudgetError,
    BudgetSpentError,
    DataError,
    EntropyError,
    LedgerError,
    ReleaseError,
    SignatureError,
)

RECORD = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "e": 0.5}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    veil = releases.veil(
        releases.linear(), releases.Codebook(region=releases.box(3), stages=(releases.stage(16, 4, 2.0),))
    )
    veil.save(tmp_path / "release")
    return tmp_path / "release"


@pytest.fixture
def client(folder: Path, tmp_path: Path) -> Iterator[Client]:
    with Client.load(folder, ledger=tmp_path / "ledger.sqlite", cap=1e6) as opened:
        yield opened


def test_devices_need_numpy_and_the_standard_library_alone() -> None:
    """In a fresh interpreter, every module the client loads belongs to numpy, to Python or to taskveil."""
    code = (
        "import sys, numpy; before = set(sys.modules); import taskveil.client\n"
        "names = {m.split('.')[0] for m in set(sys.modules) - before}\n"
        "import json; print(json.dumps(sorted(names - set(sys.stdlib_module_names))))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(json.loads(run.stdout)) <= {"numpy", "taskveil"}


def test_reports_have_one_length_and_fresh_ids(client: Client) -> None:
    reports = [client.report(RECORD, round=i) for i in range(200)]
    assert {len(report.to_bytes()) for report in reports} == {53}
    assert len({report.id for report in reports}) == 200
    assert len({report.payload for report in reports}) > 5
    assert {report.release for report in reports} == {client.release}


def test_a_retry_returns_the_same_bytes_whatever_the_record_says_now(client: Client) -> None:
    first = client.report(RECORD)
    assert client.report([9, 9, 9, 9, 9]).to_bytes() == first.to_bytes()
    assert client.report(RECORD, round="0") == first
    assert client.report(RECORD, round="1") != first


def test_reports_are_distributed_as_the_mechanism_says(client: Client) -> None:
    """The favoured outputs of a record appear with probability a/T each: 2,000 reports, five standard deviations."""
    (stage,) = client.device.mechanism.stages  # type: ignore[union-attr]
    record = client.device.record(RECORD)
    favoured = set(stage.favoured(client.device.mechanism.region.enforce(client.device.encoder(record)))[0].tolist())
    told = [client._make(record).payload[0] in favoured for _ in range(2000)]
    expected = 4 * stage.response.a / stage.response.total
    assert abs(np.mean(told) - expected) < 5 * np.sqrt(expected * (1 - expected) / 2000)


def test_names_not_order_decide(client: Client) -> None:
    backwards = OrderedDict(reversed(RECORD.items()))
    expected = client.device.record(list(RECORD.values()))
    assert np.array_equal(client.device.record(backwards), expected)
    assert np.array_equal(client.device.record(pd.Series(backwards)), expected)
    with pytest.raises(DataError, match=r"exactly the release's columns.*Pass None for a value that is not there"):
        client.report(pd.Series([1.0, 2.0, 3.0, 4.0, 5.0]))


def test_a_name_that_comes_twice_is_refused(client: Client) -> None:
    """Before, the last of its values won."""
    with pytest.raises(DataError, match="5 numbers"):
        client.report(pd.Series([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], index=[*RECORD, "e"]))
    assert client.ledger.spent == 0


def test_numbers_of_every_type_and_size_are_taken_as_in_browsers(client: Client) -> None:
    given = [True, False, 5, 10**30, -(10**400)]
    assert client.device.record(given).tolist() == [[1.0, 0.0, 5.0, 1e30, -math.inf]]


@pytest.mark.parametrize("form", [np.asarray, lambda row: np.ma.masked_equal(row, 4.0), lambda row: [row], pl.Series])
def test_other_lists_of_numbers_are_records(client: Client, form: Any) -> None:
    found = client.device.record(form([1.0, 2.0, 3.0, 4.0, 5.0]))
    masked = isinstance(form([4.0]), np.ma.MaskedArray)
    assert np.array_equal(found, [[1.0, 2.0, 3.0, math.nan if masked else 4.0, 5.0]], equal_nan=True)


@pytest.mark.parametrize(
    ("record", "says"),
    [
        ([1, 2, 3], "5 numbers"),
        ([[1, 2, 3, 4, 5], [1, 2, 3, 4, 5]], "5 numbers"),
        ([1, [2], 3, 4, 5], "5 numbers"),
        (3.0, "5 numbers"),
        (None, "5 numbers"),
        (["1", "2", "3", "4", "5"], "numbers only"),
        ([1, 2, 3, 4, "5"], "numbers only"),
        ([1, 2, 3, 4, 5j], "numbers only"),
        ([1, 2, 3, None, "5"], "numbers only"),
        ({**RECORD, "f": 1}, "extra=\\['f'\\]"),
        ({"a": 1}, "missing=\\['b', 'c', 'd', 'e'\\]"),
        ({**RECORD, "e": "high"}, "numbers only"),
        ({}, "missing"),
    ],
)
def test_records_of_the_wrong_form_are_refused_and_cost_nothing(client: Client, record: object, says: str) -> None:
    with pytest.raises(DataError, match=says):
        client.report(record)
    assert client.ledger.spent == 0


@pytest.mark.parametrize(
    "record",
    [
        [1.25, 2, 3, 4, "secret"],
        {**RECORD, "e": "secret"},
        [1.25, 2, 3, 4, 5j],
        [10**400, 1.25, 3, 4, "secret"],
        [1.25, ["secret"], 3, 4, 5],
        [[1.25], [2, "secret"]],
        [1.25, None, "secret", 4, 5],
    ],
)
def test_refusals_do_not_repeat_the_record(client: Client, record: object) -> None:
    with pytest.raises(DataError) as refusal:
        client.report(record)
    told = "".join(traceback.format_exception(refusal.value)).split("DataError", 1)[
        -1
    ]  # the code above is not its words
    assert "secret" not in told
    assert "1.25" not in told


@pytest.mark.parametrize("nothing", [None, math.nan, pd.NA, pd.NaT, np.float32("nan"), Decimal("nan"), Decimal("snan")])
def test_what_is_missing_is_reported_like_anything_else(client: Client, nothing: object) -> None:
    expected = client.device.record([0.1, 0.2, math.nan, 0.4, 0.5])
    for record in ([0.1, 0.2, nothing, 0.4, 0.5], {**RECORD, "c": nothing}, pd.Series({**RECORD, "c": nothing})):
        assert np.array_equal(client.device.record(record), expected, equal_nan=True)
    assert isinstance(client.report({**RECORD, "c": nothing}), Report)


@pytest.mark.parametrize("name", list(releases.devices()))
def test_no_value_raises_whatever_numpy_was_told(name: str) -> None:
    """np.seterr(all="raise") made some values raise in 0.1."""
    device = releases.devices()[name]
    client = Client(device=device, release=bytes(32), ledger=None, cap=None)  # type: ignore[arg-type]
    odd = [*hostile_records(device.encoder.width)[::4], np.full(device.encoder.width, 1e-320)]
    with np.errstate(all="raise"):
        for row in odd:
            client._make(client.device.record(row[: device.attributes]))
        client._make(client.device.record(np.full(device.attributes, np.longdouble("1e-4000"))))
        encoded = device.encoder(np.array(odd))
        device.privatize(np.array(odd))
        device.mechanism.bound(encoded)


def test_odd_rounds_are_refused_and_cost_nothing(client: Client) -> None:
    for odd in ("\ud800", "", "x" * 1001, 10**2000, 10**5000, None, True, 1.0, math.nan, b"0", [], {}):
        with pytest.raises(DataError, match="a round is text or a whole number"):
            client.report(RECORD, round=odd)  # type: ignore[arg-type]
    assert client.ledger.spent == 0


def test_a_number_and_its_digits_name_one_round(client: Client) -> None:
    assert (
        client.report(RECORD, round=3) == client.report(RECORD, round="3") == client.report(RECORD, round=np.int32(3))
    )


@pytest.mark.parametrize("cap", ["3", "abc", True, 10**400, -(10**400), 0, -1, math.nan, math.inf, 3j, [], b"3"])
def test_odd_caps_are_refused(folder: Path, tmp_path: Path, cap: object) -> None:
    with pytest.raises(BudgetError, match="the cap must be a finite number above zero"):
        Client.load(folder, ledger=tmp_path / "l", cap=cap)  # type: ignore[arg-type]


def test_other_kinds_of_numbers_are_caps(folder: Path, tmp_path: Path) -> None:
    for cap in (3, Fraction(7, 2), np.float32(2.5), np.int64(4)):
        with Client.load(folder, ledger=tmp_path / "l", cap=cap) as client:  # type: ignore[arg-type]
            assert client.cap == float(cap)


@pytest.mark.parametrize("path", ["\ud800", "a\0b", "loop"])
def test_odd_paths_are_explained(folder: Path, tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ReleaseError):
        Client.load(path, ledger="l")
    with pytest.raises(LedgerError):
        Client.load(folder, ledger=path)
    with pytest.raises(SignatureError):
        Client.load(folder, ledger="l", verify_key=path)


def test_an_altered_report_is_not_sent(client: Client, tmp_path: Path) -> None:
    """What the ledger holds is checked like anything else that is read."""
    client.report(RECORD)
    for raw in (b"", b"TV", b"secret" * 20, client.report(RECORD, round=1).to_bytes() + b"x"):
        connection = sqlite3.connect(tmp_path / "ledger.sqlite")
        connection.execute("UPDATE reports SET bytes = ? WHERE round = '0'", (raw,))
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError, match="was altered"):
            client.report(RECORD)


@pytest.mark.parametrize("name", list(releases.devices()))
def test_values_are_never_an_error(name: str, tmp_path: Path) -> None:
    """Refusing a record for its values would say something about them."""
    device = releases.devices()[name]
    client = Client(device=device, release=bytes(32), ledger=None, cap=None)  # type: ignore[arg-type]
    layout = device.mechanism.layout
    for row in hostile_records(device.attributes)[::5]:
        layout.unpack(client._make(client.device.record(row)).payload)
    for odd in (10**400, -(10**400), Fraction(1, 3), True, np.longdouble("1e4000")):
        client._make(client.device.record([odd] * device.attributes))


def test_releases_without_names_take_numbers_in_order(
    volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path
) -> None:
    tv.design(volunteers, task, epsilon=1.0).save(tmp_path / "r")
    with Client.load(tmp_path / "r" / "client", ledger=tmp_path / "l") as client:  # the client folder alone is enough
        assert len(client.report(volunteers[0]).to_bytes()) == len(client.report(volunteers[1]).to_bytes())
        with pytest.raises(DataError, match="names no columns"):
            client.report({"a": 1})


def test_names_and_units_travel_with_the_release(folder: Path, client: Client) -> None:
    assert tv.Veil.load(folder).units == ("kW",) * 5
    assert client.device.units == ("kW",) * 5
    assert client.device.columns == tuple("abcde")
    assert "times as likely" in client.statement


def test_no_entropy_no_report(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(count: int) -> bytes:
        raise OSError("no entropy")

    monkeypatch.setattr(entropy, "system_bytes", broken)
    with pytest.raises(EntropyError):
        client.report(RECORD)
    assert client.ledger.spent == 0


def test_without_a_cap_one_report_is_all(folder: Path, tmp_path: Path) -> None:
    with Client.load(folder, ledger=tmp_path / "l") as client:
        first = client.report(RECORD)
        with pytest.raises(BudgetSpentError, match="no report was made"):
            client.report(RECORD, round=1)
        assert client.report(RECORD) == first


def test_the_default_ledger_is_one_per_user(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with Client.load(folder) as client:
        report = client.report(RECORD)
    assert isinstance(report, Report)
    assert (tmp_path / "state" / "taskveil" / "ledger.sqlite").exists()
    with Client.load(folder) as client:
        assert client.report(RECORD) == report
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(LedgerError, match="ledger=path"):
        Client.load(folder)


def test_the_promise_is_made_from_the_mechanism_not_from_the_files(folder: Path, tmp_path: Path) -> None:
    """A release whose text promises more than its mechanism keeps: people read the mechanism's own sentence."""
    path = folder / "client" / MANIFEST
    manifest = json.loads(path.read_bytes())
    del manifest["digest"]
    manifest["guarantee"]["statement"] = "Nobody learns anything (ε = 0.001)."
    path.write_bytes(canonical({**manifest, "digest": digest(manifest)}))
    with Client.load(folder / "client", ledger=tmp_path / "l") as client:
        assert "0.001" not in client.statement
        assert f"ε = {rounded_up(client.epsilon)}" in client.statement


def test_the_statement_follows_the_ledger(folder: Path, tmp_path: Path) -> None:
    """What was spent by another release of the same ledger counts too, and a retry costs nothing."""
    with Client.load(folder, ledger=tmp_path / "l", cap=60) as client:
        alone = family_statement(client._family, client._offered)
        assert client.statement == f"{alone} {together(0.0, 60.0)}"
        for round in (1, 2, 2):
            client.report(RECORD, round=round)
        client.ledger.once(bytes(32), "other", 1.5, 60.0, lambda: b"a report of another release")
        spent = 2 * client.epsilon + 1.5
        assert client.statement == f"{alone} {together(spent, 60.0)}"
        assert str(client.spent()) in client.statement
    with Client.load(folder, ledger=tmp_path / "l", cap=3) as strict:
        assert strict.statement.endswith("The cap of ε = 3 is reached.")


def test_a_recorded_report_can_be_had_again_without_a_record(folder: Path, tmp_path: Path) -> None:
    with Client.load(folder, ledger=tmp_path / "l", cap=1e6) as client:
        assert client.recorded("first") is None
        made = client.report(np.zeros(client.device.encoder.width), round="first")
        assert client.recorded("first") == made
        assert client.recorded("second") is None
        assert client.ledger.spent == pytest.approx(client.epsilon)


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        ([], 0.0),
        ([2.0, 2.0, 2.0], 6.0),
        ([1 / 3, 1 / 3], 0.666667),
        ([2.0000004], 2.00001),
        ([0.1, 0.1, 0.1], 0.300001),  # the doubles are a little more than their names say
        ([1234567.5, 0.25], 1234570.0),
        ([2.0000000000000004, 2.0, 2.0], 6.00001),  # the nearest double of the sum is 6
    ],
)
def test_what_was_spent_is_told_in_six_digits_rounded_up_as_in_browsers(
    folder: Path, tmp_path: Path, costs: list[float], told: float
) -> None:
    with Client.load(folder, ledger=tmp_path / "l", cap=1e6) as client:
        for i, cost in enumerate(costs):
            client.ledger.once(b"1" * 32, str(i), cost, 1e9, lambda: b"x")
        assert client.spent() == told
        assert client.ledger.spent == round_up(sum(map(Fraction, costs), Fraction()))
