"""What the protocol promises, of both stores."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from databases import RELEASE, opened, options, submission
from taskveil.collector.store import Fate, Store, StoredToken, StoreError, Submission, open_store

OTHER = "cd" * 32
TOKEN = StoredToken(name="a", key="k", digest=b"\0\xff" * 16, scope="upload", release=None, expires=None, rate=None)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def fates(store: Store, *submissions: Submission) -> list[list[Fate]]:
    return [[Fate(one) for one in each] for each in store.ingest(submissions)]


def sound(store: Any) -> bool:
    return store.check() == []


def test_a_release_is_kept_with_its_files_and_rounds(store: Store) -> None:
    before = store.version()
    files = {"client/manifest.json": b"{}", "server/weights.safetensors": bytes(range(256))}
    store.add_release(RELEASE, name="first", counted=True, files=files, round="r1")
    store.add_release(OTHER, name="second", counted=False, files={}, round="s1")
    first, second = store.releases()
    assert (first.id, first.name, first.open, first.counted, first.current) == (RELEASE, "first", True, True, "r1")
    assert (second.id, second.counted, second.current) == (OTHER, False, "s1")
    assert [(one.name, one.open, one.reports) for one in first.rounds] == [("r1", True, 0)]
    assert store.files(RELEASE) == files
    assert store.files(OTHER) == {}
    assert store.version() > before


def test_a_release_that_comes_again_is_opened_with_a_new_round(store: Store) -> None:
    store.add_release(RELEASE, name="first", counted=True, files={"a": b"1", "b": b"2"}, round="r1")
    store.set_open(RELEASE, open=False)
    store.add_release(RELEASE, name="renamed", counted=True, files={"a": b"3"}, round="r2")
    (known,) = store.releases()
    assert (known.name, known.open, known.current) == ("renamed", True, "r2")
    assert [one.name for one in known.rounds] == ["r1", "r2"]
    assert store.files(RELEASE) == {"a": b"3"}


def test_rounds_open_close_and_open_again(store: Store, rng: np.random.Generator) -> None:
    first = opened(store, round="r1")
    store.open_round(RELEASE, "r2")
    (known,) = store.releases()
    assert known.current == "r2"
    assert [one.open for one in known.rounds] == [True, True]
    store.close_round(RELEASE, "r1")
    assert set(fates(store, submission(first, 3, rng))[0]) == {Fate.CLOSED}
    store.open_round(RELEASE, "r1")
    assert store.releases()[0].current == "r1"
    assert set(fates(store, submission(first, 3, rng))[0]) == {Fate.ACCEPTED}
    assert [one.reports for one in store.releases()[0].rounds] == [3, 0]


def test_what_is_unknown_is_a_key_error(store: Store) -> None:
    opened(store)
    calls: list[tuple[Any, ...]] = [
        *((store.files, OTHER), (store.counts, OTHER), (store.moments, OTHER), (store.open_round, OTHER, "r")),
        *((store.close_round, RELEASE, "none"), (store.forget_round, RELEASE, "none"), (store.revoke_token, "none")),
        *((store.counts, RELEASE, "none"), (lambda one: next(iter(store.payloads(one))), OTHER)),
        (lambda one: store.set_open(one, open=True), OTHER),
    ]
    for call, *arguments in calls:
        with pytest.raises(KeyError):
            call(*arguments)


def test_reports_are_stored_once(store: Store, rng: np.random.Generator) -> None:
    one = submission(opened(store), 300, rng)
    assert set(fates(store, one)[0]) == {Fate.ACCEPTED}
    assert set(fates(store, one)[0]) == {Fate.DUPLICATE}
    other = replace(one, payloads=one.payloads + 1)
    assert set(fates(store, other)[0]) == {Fate.CONFLICT}
    more = submission(one.round, 3, rng)
    payloads = np.vstack([other.payloads[:1], one.payloads[1:2], more.payloads])
    mixed = replace(one, ids=np.vstack([one.ids[:2], more.ids]), payloads=payloads)
    assert fates(store, mixed) == [[Fate.CONFLICT, Fate.DUPLICATE, *[Fate.ACCEPTED] * 3]]
    assert store.releases()[0].rounds[0].reports == 303
    assert sound(store)


@pytest.mark.parametrize("count", [1, 200])  # PostgreSQL takes few by arrays, many by COPY
def test_an_id_is_unique_in_its_release_whatever_the_round(store: Store, rng: np.random.Generator, count: int) -> None:
    first, other = opened(store, round="r1"), opened(store, release=OTHER)
    second = opened(store, round="r2")
    one = submission(first, count, rng)
    again, elsewhere = replace(one, round=second), replace(one, round=other)
    assert [set(each) for each in fates(store, one, again, elsewhere)] == [
        {Fate.ACCEPTED},
        {Fate.DUPLICATE},
        {Fate.ACCEPTED},
    ]
    assert set(fates(store, replace(again, payloads=again.payloads + 1))[0]) == {Fate.CONFLICT}
    assert [one.reports for one in store.releases()[0].rounds] == [count, 0]
    assert sound(store)


@pytest.mark.parametrize("count", [1, 200])
def test_in_one_call_the_first_of_an_id_wins(store: Store, rng: np.random.Generator, count: int) -> None:
    one = submission(opened(store), count, rng)
    other = replace(one, payloads=one.payloads + 1)
    assert [set(each) for each in fates(store, one, other, one)] == [{Fate.ACCEPTED}, {Fate.CONFLICT}, {Fate.DUPLICATE}]
    assert [set(each) for each in fates(store, other, one)] == [{Fate.CONFLICT}, {Fate.DUPLICATE}]
    (payloads,) = [found for _, found in store.payloads(RELEASE)]
    order = np.lexsort(one.ids.T[::-1])
    assert np.array_equal(payloads, one.payloads[order])
    assert sound(store)


def test_submissions_of_several_releases_and_sizes_go_together(store: Store, rng: np.random.Generator) -> None:
    first, second = opened(store), opened(store, release=OTHER)
    given = submission(first, 150, rng), submission(second, 150, rng, size=3), submission(first, 0, rng)
    assert [set(each) for each in fates(store, *given)] == [{Fate.ACCEPTED}, {Fate.ACCEPTED}, set()]
    assert store.counts(RELEASE)[0].shape[1] == 1
    assert store.counts(OTHER)[0].shape[1] == 3
    assert sound(store)


def test_closed_and_unknown_rounds_take_nothing_and_cost_others_nothing(store: Store, rng: np.random.Generator) -> None:
    first, second = opened(store), opened(store, release=OTHER)
    store.set_open(OTHER, open=False)
    given = [submission(number, 2, rng) for number in (first, second, 999)]
    assert [set(each) for each in fates(store, *given)] == [{Fate.ACCEPTED}, {Fate.CLOSED}, {Fate.CLOSED}]
    # The same report to a closed round first does not take the id from the open one.
    one = submission(first, 2, rng)
    assert [set(each) for each in fates(store, replace(one, round=999), one)] == [{Fate.CLOSED}, {Fate.ACCEPTED}]
    assert fates(store) == []
    assert sound(store)


def test_counts_are_those_of_the_payloads(store: Store, rng: np.random.Generator) -> None:
    numbers = [opened(store, round=name) for name in ("r1", "r2")]
    given = [submission(numbers[place % 2], 40, rng, size=2) for place in range(6)]
    for each in given:
        store.ingest([each])
    for name, chosen in (("r1", given[0::2]), ("r2", given[1::2]), (None, given)):
        values, times = np.unique(np.vstack([each.payloads for each in chosen]), axis=0, return_counts=True)
        payloads, counts = store.counts(RELEASE, name)
        assert np.array_equal(payloads, values)
        assert np.array_equal(counts, times)
    assert [len(part) for part in store.counts(opened(store, release=OTHER) and OTHER)] == [0, 0]


def test_moments_are_added_up_for_new_reports_only(store: Store, rng: np.random.Generator) -> None:
    number = opened(store, counted=False)
    assert store.moments(RELEASE)[0] == 0
    given = []
    for _ in range(4):
        one = submission(number, 30, rng, size=4)
        values = one.payloads.astype(float)
        given.append(replace(one, moments=lambda new, values=values: values[new].sum(axis=0)))
    store.ingest(given[:2])
    store.ingest(given[1:])
    count, moments = store.moments(RELEASE, "week 1")
    assert count == 120
    np.testing.assert_allclose(moments, np.vstack([one.payloads for one in given]).sum(axis=0), rtol=1e-12)
    assert len(store.counts(RELEASE)[0]) == 0, "nothing is counted of such a release"
    assert sound(store)


def test_payloads_come_page_by_page_in_the_order_of_ids(
    store: Store, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    from taskveil.collector.store import base

    monkeypatch.setattr(base, "PAGE", 50)
    numbers = [opened(store, round=name) for name in ("r1", "r2")]
    given = [submission(number, 175, rng, size=3, values=250) for number in numbers]
    store.ingest(given)
    for name, one in zip(("r1", "r2"), given, strict=True):
        pages = list(store.payloads(RELEASE, name))
        assert {found for names, _ in pages for found in names} == {name}
        assert max(len(page) for _, page in pages) == 50
        ordered = one.payloads[np.lexsort(one.ids.T[::-1])]
        assert np.array_equal(np.vstack([page for _, page in pages]), ordered)
        of_both = np.vstack([page[np.array(names) == name] for names, page in store.payloads(RELEASE)])
        assert np.array_equal(of_both, ordered)
    reading = store.payloads(RELEASE)
    next(reading)
    store.ingest([submission(opened(store, round="r3"), 20, rng, size=3)])  # while somebody reads
    assert sum(len(page) for _, page in reading) >= 300


def test_planned_rounds_are_kept_until_others_are_planned(store: Store) -> None:
    opened(store)
    opened(store, release="1f" * 32)
    before = store.version()
    store.plan(RELEASE, 52)
    assert store.version() > before
    opened(store, round="another")
    assert [one.planned for one in store.releases()] == [52, None]
    store.plan(RELEASE, 26)
    assert [one.planned for one in store.releases()] == [26, None]
    with pytest.raises(KeyError):
        store.plan("2e" * 32, 1)


def test_a_forgotten_round_is_gone_and_its_number_never_used_again(store: Store, rng: np.random.Generator) -> None:
    first, second = opened(store, round="r1"), opened(store, round="r2")
    one = submission(second, 120, rng)
    store.ingest([submission(first, 10, rng), one])
    before = store.version()
    assert store.forget_round(RELEASE, "r2") == 120
    (known,) = store.releases()
    assert [(each.name, each.reports) for each in known.rounds] == [("r1", 10)]
    assert known.current == "", "reports that name no round must not fall into another one"
    assert (len(known.rounds), known.had) == (1, 2), "people have spent budget on the deleted round too"
    assert store.version() > before
    assert set(fates(store, one)[0]) == {Fate.CLOSED}
    third = opened(store, round="r2")
    assert third > second
    assert set(fates(store, replace(one, round=third))[0]) == {Fate.ACCEPTED}, "its ids are forgotten too"
    assert sound(store)


def test_tokens_are_kept_and_revoked(store: Store) -> None:
    expires = datetime(2027, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
    other = replace(TOKEN, name="b", key="l", release=RELEASE, expires=expires, rate=2.5)
    before = store.version()
    store.add_token(TOKEN)
    store.add_token(other)
    assert store.tokens() == (TOKEN, other)
    assert store.version() > before
    with pytest.raises(ValueError, match="name"):
        store.add_token(replace(TOKEN, key="m"))
    store.revoke_token("a")
    assert store.tokens() == (other,)


def test_reports_do_not_change_the_version(store: Store, rng: np.random.Generator) -> None:
    number = opened(store)
    before = store.version()
    store.ingest([submission(number, 10, rng)])
    store.ping()
    assert store.version() == before


def test_all_is_there_when_the_store_is_opened_again(store: Store, store_url: str, rng: np.random.Generator) -> None:
    number = opened(store)
    store.ingest([submission(number, 200, rng)])
    store.add_token(TOKEN)
    before = store.releases(), store.tokens(), store.version(), store.counts(RELEASE)[1].tolist()
    store.close()
    again = open_store(store_url, **options(store_url))
    assert (again.releases(), again.tokens(), again.version(), again.counts(RELEASE)[1].tolist()) == before
    again.close()


def test_check_finds_a_count_that_is_wrong(store: Any, rng: np.random.Generator) -> None:
    store.ingest([submission(opened(store), 20, rng)])
    with store.writing() as execute:
        execute("UPDATE totals SET reports = reports + 1")
    assert len(store.check()) == 1
    with store.writing() as execute:
        execute("UPDATE counts SET count = count + 1")
    assert len(store.check()) == 2


@pytest.mark.parametrize("url", ["mysql://secret@host/x", "collector", "sqlite://", "sqlite:///", "postgresql:/secret"])
def test_an_address_that_is_none_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(StoreError) as caught:
        open_store(url)
    assert "secret" not in str(caught.value)
