"""Families on a device: what is drawn, what is recorded, what is charged, and what is refused."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import taskveil as tv
from families import answers, chosen, drawn, means
from forged.families import forged, forgeries, with_member
from taskveil.client import entropy
from taskveil.client.client import Client
from taskveil.client.device import Device
from taskveil.client.families import (
    FAMILY,
    FAMILY_SIGNATURE,
    choice_of,
    draw,
    family_files,
    read_family,
)
from taskveil.client.wire import Report
from taskveil.errors import BudgetError, BudgetSpentError, DataError, LedgerError, ReleaseError, VersionError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    drawn().save(tmp_path / "family")
    return tmp_path / "family"


@pytest.fixture
def choices(tmp_path: Path) -> Path:
    chosen().save(tmp_path / "choices")
    return tmp_path / "choices"


def names(family: tv.Family) -> dict[bytes, str]:
    return {bytes.fromhex(veil.release_id): name for name, veil in family.members.items()}


def test_members_are_drawn_with_their_weights_and_collectors_recognise_the_reports(folder: Path) -> None:
    with Client.load(folder, ledger=folder.parent / "ledger", cap=1e6) as client:
        reports = [client.report([0.2, 0.7], round=i) for i in range(300)]
    found = Counter(names(drawn())[report.release] for report in reports)
    assert 12 <= found["survey"] <= 55  # 30 expected, 5 standard deviations
    for name, received in drawn().receive([bytes(report) for report in reports]).items():
        assert len(received) == found[name]
        assert not received.refused


def test_a_report_costs_the_largest_epsilon_and_is_recorded_under_the_familys_id(folder: Path) -> None:
    with Client.load(folder, ledger=folder.parent / "ledger", cap=5.0) as client:
        assert client.release.hex() == drawn().release_id
        assert client.epsilon == drawn().epsilon == answers().mechanism.epsilon
        first = client.report([0.2, 0.7])
        assert client.ledger.recorded(client.release, "0") == bytes(first)
        assert client.spent() == pytest.approx(client.epsilon, rel=1e-5)
        client.report([0.9, 0.1], round=1)
        with pytest.raises(BudgetSpentError):
            client.report([0.9, 0.1], round=2)


def test_a_retry_keeps_the_drawn_member_whatever_the_record_is_now(folder: Path) -> None:
    with Client.load(folder, ledger=folder.parent / "ledger", cap=1e6) as client:
        first = [client.report([0.2, 0.7], round=i) for i in range(60)]
    with Client.load(folder, ledger=folder.parent / "ledger", cap=1e6) as client:
        assert [client.report([0.9, 0.9], round=i) for i in range(60)] == first
        assert [client.recorded(i) for i in range(60)] == first
    assert len({report.release for report in first}) == 2


def test_the_draw_never_sees_the_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same entropy, the same member is drawn for all records: a draw by the record would differ."""
    order: list[str] = []
    real = entropy.uniform_below
    monkeypatch.setattr(entropy, "uniform_below", lambda *args: order.append("draw") or real(*args))
    privatize = Device.privatize
    monkeypatch.setattr(Device, "privatize", lambda *args: order.append("look") or privatize(*args))
    for seed in range(20):
        seen = set()
        for number, record in enumerate(([0.0, 0.0], [1.0, 1.0], [np.nan, 1e300], [0.3, None])):
            rng = np.random.default_rng(seed)
            monkeypatch.setattr(entropy, "system_bytes", rng.bytes)
            with Client.load(folder, ledger=folder.parent / f"{seed}.{number}", cap=1e6) as client:
                order.clear()
                seen.add(client.report(record).release)
                assert order.index("draw") < order.index("look")
        assert len(seen) == 1


def test_weights_are_exact_shares_of_a_uniform_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for u, place in ((0, 0), (2, 0), (3, 1), (4, 2), (7, 2)):
        monkeypatch.setattr(
            entropy, "uniform_below", lambda bound, count, u=u: np.full(count, u) if bound == 8 else None
        )
        assert draw([3, 1, 4]) == place
        assert draw([3, 1, 4], 2).tolist() == [place, place]
    monkeypatch.setattr(entropy, "uniform_below", lambda *_: pytest.fail("one member needs no entropy"))
    assert draw([5]) == 0


def test_people_choose_and_pay_what_they_chose(choices: Path) -> None:
    for epsilon in (0.5, 1, 2.0):
        with Client.load(choices, ledger=choices.parent / f"ledger{epsilon}", epsilon=epsilon) as client:
            assert client.epsilon == means(float(epsilon)).mechanism.epsilon
            report = client.report([0.2, 0.7])
            assert report.release.hex() == means(float(epsilon)).release_id
            assert client.spent() == pytest.approx(client.epsilon, rel=1e-5)
    for wrong in (None, 3.0, "one", float("nan")):
        with pytest.raises(BudgetError, match=r"0\.5, 1, 2"):
            Client.load(choices, ledger=choices.parent / "ledger", epsilon=wrong)


def test_a_round_that_was_answered_at_one_epsilon_is_answered(choices: Path) -> None:
    ledger = choices.parent / "ledger"
    with Client.load(choices, ledger=ledger, epsilon=0.5, cap=9) as client:
        first, spent = client.report([0.2, 0.7]), client.spent()
    with Client.load(choices, ledger=ledger, epsilon=2.0, cap=9) as client:
        assert client.report([0.9, 0.1]) == first == client.recorded()
        assert client.spent() == spent
        assert client.report([0.9, 0.1], round=1).release != first.release


def test_only_families_of_budgets_take_a_choice(folder: Path) -> None:
    with pytest.raises(BudgetError, match="cannot be chosen"):
        Client.load(folder, ledger=folder.parent / "ledger", epsilon=1.0)
    with pytest.raises(BudgetError, match="leave out"):
        Client.load(folder / "survey", ledger=folder.parent / "ledger", epsilon=1.0)


def test_the_statement_says_epsilon_and_that_the_choice_is_visible(folder: Path, choices: Path) -> None:
    first = Client.load(folder, ledger=folder.parent / "a")
    with first as one, Client.load(choices, ledger=folder.parent / "b", epsilon=1) as two:
        assert "ε = 2)" in one.statement
        assert "choice itself is visible" in one.statement
        assert "at random, before it looks at the record" in one.statement
        assert "ε = 1)" in two.statement
        assert "choice itself is visible" in two.statement
        assert "do not let it depend on your record" in two.statement


def test_a_member_alone_is_a_release_as_any_other(folder: Path) -> None:
    with Client.load(folder / "survey", ledger=folder.parent / "ledger") as client:
        assert client.release.hex() == means(1.0).release_id
        assert "visible" not in client.statement


def test_an_error_in_the_form_of_a_record_does_not_depend_on_the_draw(folder: Path) -> None:
    with Client.load(folder, ledger=folder.parent / "ledger", cap=1e6) as client:
        for i in range(30):
            with pytest.raises(DataError):
                client.report([1.0], round=i)
        assert client.spent() == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("place", ["after the draw", "after the report", "before the commit", "after the commit"])
def test_a_kill_leaves_no_report_or_the_recorded_one(folder: Path, place: str) -> None:
    """Killed between draw and ledger: what was drawn was seen by nobody, and the next attempt draws again."""
    ledger = folder.parent / "ledger"
    Client.load(folder, ledger=ledger, cap=1e6).close()
    if (child := os.fork()) == 0:
        try:
            _killed_at(place, folder, ledger)
        finally:
            os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    with Client.load(folder, ledger=ledger, cap=1e6) as client:
        kept, charged = client.recorded(), client.spent()
        assert (kept is None) == (charged == 0) == (place != "after the commit")
        report = client.report([0.5, 0.5])
        assert kept in (None, report)
        assert client.spent() == pytest.approx(client.epsilon, rel=1e-5)
        assert client.report([0.1, 0.1]) == report


def _killed_at(place: str, folder: Path, ledger: Path) -> None:
    client = Client.load(folder, ledger=ledger, cap=1e6)
    made: Any = client._make
    if place == "after the draw":
        Device.privatize = lambda *_: os._exit(9)  # type: ignore[method-assign,assignment]
    elif place == "after the report":
        client._make = lambda *records: made(*records) and os._exit(9)  # type: ignore[method-assign]
    elif place == "after the commit":
        client.ledger._write_mark = lambda *_: os._exit(9)  # type: ignore[method-assign]
    else:
        real = client.ledger._open()

        class Dying:
            in_transaction = True

            def execute(self, text: str, *values: Any) -> Any:
                return os._exit(9) if text == "COMMIT" else real.execute(text, *values)

        client.ledger._open = lambda: Dying()  # type: ignore[method-assign,assignment,return-value]
    client.report([0.2, 0.7])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_processes_do_not_draw_twice(folder: Path) -> None:
    ledger, rounds = folder.parent / "ledger", 25
    children = []
    for number in range(4):
        if (child := os.fork()) == 0:
            try:
                with Client.load(folder, ledger=ledger, cap=1e6) as client:
                    raw = [bytes(client.report([0.2 * number, 0.5], round=i)).hex() for i in range(rounds)]
                (folder.parent / f"out{number}").write_text("\n".join(raw))
            finally:
                os._exit(0)
        children.append(child)
    for child in children:
        os.waitpid(child, 0)
    outputs = {(folder.parent / f"out{number}").read_text() for number in range(4)}
    assert len(outputs) == 1
    with Client.load(folder, ledger=ledger, cap=1e6) as client:
        assert client.spent() == pytest.approx(rounds * client.epsilon, rel=1e-4)


def test_a_ledger_with_a_report_of_no_member_is_refused(folder: Path) -> None:
    with Client.load(folder, ledger=folder.parent / "ledger", cap=1e6) as client:
        other = Report(release=bytes(32), id=bytes(16), payload=b"\0")
        client.ledger.once(client.release, "0", 1.0, 9.0, other.to_bytes)
        with pytest.raises(LedgerError, match="another release"):
            client.recorded()


def test_forged_descriptions_are_release_errors(folder: Path) -> None:
    manifest, ledger = json.loads((folder / FAMILY).read_bytes()), folder.parent / "ledger"
    found = list(forgeries(manifest))
    assert len(found) > 50
    for why, raw in found:
        (folder / FAMILY).write_bytes(raw)
        for load in (tv.Family.load, lambda place: Client.load(place, ledger=ledger)):
            with pytest.raises(VersionError if why == "version 2" else ReleaseError):
                pytest.fail(f"{why}: {load(folder)}")
    (folder / FAMILY).unlink()
    (folder / FAMILY).mkdir()
    refused(folder)


def refused(folder: Path, error: type[Exception] = ReleaseError) -> None:
    with pytest.raises(error):
        Client.load(folder, ledger=folder.parent / "ledger", epsilon=None)
    with pytest.raises(error):
        tv.Family.load(folder)


def test_every_changed_bit_of_the_description_is_found(folder: Path) -> None:
    good = (folder / FAMILY).read_bytes()
    files = family_files(folder)
    for place in range(0, len(good) * 8, 5):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        with pytest.raises(ReleaseError):
            read_family({**files, FAMILY: bytes(bad)})


def test_exchanged_members_and_other_fields_are_refused(folder: Path, tmp_path: Path, veil: tv.Veil) -> None:
    files = drawn().files()
    swapped = {
        name.replace("answers/", "x/").replace("survey/", "answers/").replace("x/", "survey/"): content
        for name, content in files.items()
    }
    with pytest.raises(ReleaseError, match="another release"):
        read_family(swapped)
    manifest = json.loads(files[FAMILY])
    members = with_member(manifest, release=veil.release_id, epsilon=veil.mechanism.epsilon)
    other = {f"answers/{name}": content for name, content in veil.files().items()}
    mixed = {**files, **other, FAMILY: forged(manifest, members=members)}
    with pytest.raises(ReleaseError, match="the same record"):
        read_family(mixed)
    with pytest.raises(ReleaseError, match="the same record"):
        tv.Family.from_files(mixed)


def test_a_choice_that_costs_more_than_it_says_is_refused(choices: Path) -> None:
    manifest = json.loads((choices / FAMILY).read_bytes())
    (choices / "0.5").rename(choices / "0.4")
    (choices / FAMILY).write_bytes(forged(manifest, members=with_member(manifest, name="0.4")))
    refused(choices)
    (choices / FAMILY).write_bytes(forged(manifest, members=with_member(manifest, name="many")))
    refused(choices)
    for name in ("1_0", "0x10", "nan", "inf", "1e999", "0", "1e5"):
        with pytest.raises(DataError, match="named after"):
            choice_of(name)
    (choices / FAMILY).write_bytes(forged(manifest, members=with_member(manifest, weight=2)))
    refused(choices)


def test_members_are_too_large_together(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from taskveil.client import families

    size = len((folder / "answers/client/weights.safetensors").read_bytes())
    monkeypatch.setattr(families, "MOST_WEIGHTS", size + 100)
    with pytest.raises(ReleaseError, match="too large"):
        family_files(folder)


def test_a_signature_covers_the_members(folder: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ed25519

    from taskveil.errors import SignatureError
    from taskveil.veil.family import sign
    from veil.test_signing import pem

    key, other = ed25519.Ed25519PrivateKey.generate(), ed25519.Ed25519PrivateKey.generate()
    public, wrong = key.public_key().public_bytes_raw(), other.public_key().public_bytes_raw()
    with pytest.raises(SignatureError, match="not signed"):
        Client.load(folder, ledger=folder.parent / "ledger", verify_key=public)
    sign(folder, pem(key))
    with Client.load(folder, ledger=folder.parent / "ledger", verify_key=public) as client:
        client.report([0.2, 0.7])
    assert tv.Family.load(folder, verify_key=public).release_id == drawn().release_id
    for bad in (wrong, bytes(32)):
        with pytest.raises(SignatureError):
            Client.load(folder, ledger=folder.parent / "ledger", verify_key=bad)
        with pytest.raises(SignatureError):
            tv.Family.load(folder, verify_key=bad)
    (folder / "answers/client/manifest.sig").unlink()  # the family's signature is enough for devices
    Client.load(folder, ledger=folder.parent / "ledger", verify_key=public).close()
    with pytest.raises(SignatureError):
        tv.Family.load(folder, verify_key=public)
    manifest = json.loads((folder / FAMILY).read_bytes())
    (folder / FAMILY).write_bytes(forged(manifest, members=with_member(manifest, weight=1)))
    with pytest.raises(SignatureError):
        Client.load(folder, ledger=folder.parent / "ledger", verify_key=public)
    (folder / FAMILY_SIGNATURE).write_bytes(b"short")
    with pytest.raises(SignatureError, match="not signed"):
        Client.load(folder, ledger=folder.parent / "ledger", verify_key=public)
