"""Questions of a survey: exact for every row, variances as simulated, planes counted in bulk, forged files refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.client.mechanisms import BlockGroup, LevelGroup, LevelResponse, PlaneGroup, Response
from taskveil.errors import DataError, ReleaseError
from taskveil.veil.decoders import SurveyDecoder
from taskveil.veil.statistics import statistics
from taskveil.veil.surveys import OTHER, Rows, WordQuestion, questions

RNG = np.random.default_rng(7)
COUNT = 2000
TABLE = pd.DataFrame(
    {
        "income": np.where(RNG.random(COUNT) < 0.1, np.nan, RNG.gamma(3.0, 10.0, COUNT).clip(0, 100)),
        "visits": RNG.integers(0, 9, COUNT),
        "plan": RNG.choice(["Basic", "Plus", "Pro"], COUNT, p=[0.6, 0.3, 0.1]),
        "region": RNG.choice(["North", "South", None], COUNT, p=[0.5, 0.4, 0.1]),
        "active": RNG.random(COUNT) < 0.3,
        "joined": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 900, COUNT), unit="D"),
    }
)
SCHEMA = tv.Schema.of(TABLE).replace(income=tv.Number(0, 100, missing=True, fill=30))
TASKS = {
    "every field": tv.SurveyTask(),
    "by": tv.SurveyTask(["income", "plan", "active"], by="region", pairs=[("plan", "active")]),
    "bins": tv.SurveyTask(
        ["visits"],
        by="income",
        pairs=[("income", "plan")],
        histograms={"income": [0, 20, 40, 100], "visits": [0, 4, 9]},
    ),
    "many bins": tv.SurveyTask(["plan"], histograms={"income": np.linspace(0, 100, 41)}),
}


@cache
def survey(name: str, epsilon: float) -> tv.Veil:
    return tv.design(TABLE, TASKS[name], epsilon=epsilon, schema=SCHEMA)


@pytest.mark.parametrize("epsilon", [0.02, 1.0, 3.0, 8.0, 40.0])
@pytest.mark.parametrize("name", TASKS)
def test_every_statistic_is_exact_in_every_row(name: str, epsilon: float) -> None:
    """Σ_o P[o | row] · score(o) is the functional of the row, so that every population is estimated without bias."""
    veil = survey(name, epsilon)
    assert veil.guarantee.epsilon <= epsilon
    for question in questions(veil):
        found = statistics(veil.task, question)  # type: ignore[arg-type]
        scores, chances = question.scores(found.functionals), question.chances()
        # Where the budget is small, scores are large and doubles end sooner.
        unit = max(1.0, float(np.abs(scores).max()) * 1e-4)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)
        np.testing.assert_allclose(chances @ scores, found.functionals, atol=1e-9 * unit)
        np.testing.assert_allclose(question.by_row(scores[:, 0]), found.functionals[:, 0], atol=1e-9 * unit)
        np.testing.assert_allclose(question.expected(question.prior), question.prior @ chances, atol=1e-12)


@pytest.mark.parametrize("name", TASKS)
def test_devices_report_with_the_chances_that_scores_are_made_for(name: str) -> None:
    """The rows of real records, as the mechanism computes their chances, give the table's own statistics."""
    veil = survey(name, 2.0)
    exact = veil.mechanism.chances(veil.encoder(SCHEMA.expand(TABLE))).mean(axis=0)  # type: ignore[attr-defined]
    found: dict[Any, float] = {}
    for question in questions(veil):
        mine = exact[question.start : question.start + question.outputs]
        np.testing.assert_allclose(mine.sum(), question.chance, rtol=1e-9)
        for place, (field, levels) in enumerate(zip(question.fields, question.levels, strict=True)):
            for number, level in enumerate(levels):
                has = (question.values[place] == number).astype(float)[:, None]
                if question.binned[place] or isinstance(level, str | bool):
                    found[field, level] = float(mine @ question.scores(has)[:, 0] / mine.sum())
    for (field, level), share in found.items():
        if isinstance(level, float):
            edges = np.asarray(veil.task.edges(field))  # type: ignore[union-attr]
            place = int(np.flatnonzero(edges == level)[0])
            last = place == len(edges) - 2
            inside = (TABLE[field] >= level) & ((TABLE[field] < edges[place + 1]) | last)
            assert share == pytest.approx(float(inside.mean()), abs=1e-6)
        else:
            mine = TABLE[field].isna() if level is None else TABLE[field] == level
            assert share == pytest.approx(float(mine.mean()), abs=1e-6)
    assert found


def test_means_of_those_who_have_a_value() -> None:
    veil = survey("every field", 2.0)
    exact = veil.mechanism.chances(veil.encoder(SCHEMA.expand(TABLE))).mean(axis=0)  # type: ignore[attr-defined]
    question = next(one for one in questions(veil) if "income" in one.fields)
    place = question.fields.index("income")
    levels = np.array([np.nan if level is None else level for level in question.levels[place]])[question.values[place]]
    parts = np.stack([np.nan_to_num(levels), ~np.isnan(levels)], axis=1)
    mine = exact[question.start : question.start + question.outputs]
    total, there = mine @ question.scores(parts) / mine.sum()
    assert total / there == pytest.approx(float(TABLE["income"].mean()), rel=1e-5)
    assert there == pytest.approx(float(TABLE["income"].notna().mean()), abs=1e-6)


@pytest.mark.parametrize("name", TASKS)
def test_expected_variances_are_those_of_simulated_reports(name: str) -> None:
    veil = survey(name, 1.5)
    rng = np.random.default_rng(1)
    for question in questions(veil):
        found = statistics(veil.task, question)  # type: ignore[arg-type]
        said = question.variances(found.functionals, question.prior)
        drawn = rng.choice(question.outputs, 60_000, p=question.expected(question.prior))
        seen = question.scores(found.functionals)[drawn].var(axis=0)
        np.testing.assert_allclose(seen, said, rtol=0.06, atol=1e-3 * said.max())
        assert question.variance(found.functionals[:, 0], question.prior) == pytest.approx(said[0])


def test_the_expected_loss_is_the_weighted_error_of_all_statistics() -> None:
    """Over people like the prior it is the sum of weight · variance / chance, where one question measures each."""
    veil = survey("every field", 1.0)
    wanted = 0.0
    for question in questions(veil):
        found = statistics(veil.task, question)  # type: ignore[arg-type]
        wanted += float(found.weights @ question.variances(found.functionals, question.prior)) / question.chance
    loss = veil.loss(TABLE)
    assert loss.exact
    assert loss.mean == pytest.approx(wanted, rel=0.03)
    assert loss.mean == pytest.approx(float(veil.losses(TABLE).mean()))


def test_levels_have_their_natural_values() -> None:
    values = {
        field: levels
        for name in ("by", "bins")
        for one in questions(survey(name, 0.5))
        for field, levels in zip(one.fields, one.levels, strict=True)
    }
    assert values["plan"] == (OTHER, "Basic", "Plus", "Pro")
    assert values["region"] == (OTHER, "North", "South", None)
    assert values["active"] == (False, True)
    assert values["income"] == (0.0, 20.0, 40.0, None)
    assert str(OTHER) == "other values"


def test_one_person_is_not_answered_for() -> None:
    veil = survey("by", 1.0)
    reports = veil.privatize(TABLE[:20])
    for call in (veil.decode, veil.predict, veil.estimates):
        with pytest.raises(DataError, match=r"tv\.estimate\(veil, reports\), or (with )?taskveil estimate"):
            call(reports)
    with pytest.raises(DataError, match="no survey"):
        questions(tv.design(np.random.default_rng(0).random((50, 2)), tv.MeanTask(np.eye(2)), epsilon=1.0))


def of_words(part: PlaneGroup) -> WordQuestion:
    rows: dict[str, Any] = {"fields": ("word",), "levels": (), "binned": (), "prior": np.ones(1)}
    return WordQuestion(**rows, group=0, start=0, outputs=part.outputs, part=part, chance=1.0)


@pytest.mark.parametrize("prime", [2, 13, 101])
def test_words_are_counted_in_bulk_as_one_by_one(prime: int) -> None:
    response = Response.calibrated(size=prime, favoured=max(1, prime // 4), epsilon=1.0)
    part = PlaneGroup(places=np.array([0, 1]), prime=prime, response=response, chance=1)
    question = of_words(part)
    rng = np.random.default_rng(0)
    points = rng.integers(0, prime, (40, 2))
    outputs = rng.integers(0, part.outputs, 300)
    likely = part.likelihood(outputs, points) > response.base / (prime**2 - 1) * 1.01
    assert question.contained(outputs, points).tolist() == likely.sum(axis=0).tolist()


def test_chances_of_words_are_those_of_a_small_plane() -> None:
    response = Response.calibrated(size=7, favoured=2, epsilon=1.0)
    part = PlaneGroup(places=np.array([0, 1]), prime=7, response=response, chance=1)
    question = of_words(part)
    points = np.array([[3, 4], [0, 0], [6, 1]])
    chances = part.chances(points)
    inside = chances > response.base / 48 * 1.01
    has, others = question.hits
    seen = chances @ inside.T
    np.testing.assert_allclose(np.diag(seen), has)
    np.testing.assert_allclose(seen[~np.eye(3, dtype=bool)], others)
    with pytest.raises(DataError, match="contained"):
        question.scores(np.zeros((1, 1)))


def test_a_survey_with_words_finds_their_shares(tmp_path: Any) -> None:
    rng = np.random.default_rng(3)
    words = [f"word {number}" for number in range(60)]
    table = pd.DataFrame(
        {"word": rng.choice(words[:3], 30_000, p=[0.5, 0.3, 0.2]), "plan": rng.choice(["a", "b"], 30_000)}
    )
    schema = tv.Schema({"word": tv.Words(211), "plan": tv.Category(["a", "b"])})
    tv.design(table, tv.SurveyTask(), epsilon=3.0, schema=schema).save(tmp_path / "survey")
    veil = tv.Veil.load(tmp_path / "survey")
    question = next(one for one in questions(veil) if one.fields == ("word",))
    reports = veil.privatize(table)[:, 0]
    mine = reports[(reports >= question.start) & (reports < question.start + question.outputs)] - question.start
    points = schema["word"].expand(words).astype(np.int64)
    has, others = question.hits
    shares = (question.contained(mine, points) / len(mine) - others) / (has - others)
    np.testing.assert_allclose(shares[:3], [0.5, 0.3, 0.2], atol=0.06)
    assert np.abs(shares[3:]).max() < 0.08
    assert veil.loss(table).mean > 0


def test_releases_keep_a_survey(tmp_path: Any) -> None:
    for name in TASKS:
        veil = survey(name, 1.0)
        veil.save(tmp_path / name)
        loaded = tv.Veil.load(tmp_path / name)
        assert loaded.release_id == veil.release_id
        np.testing.assert_allclose(loaded.losses(TABLE[:50]), veil.losses(TABLE[:50]), rtol=1e-12)
        for one, other in zip(questions(loaded), questions(veil), strict=True):
            assert (one.fields, one.levels, one.binned) == (other.fields, other.levels, other.binned)
        with tv.Client.load(tmp_path / name, ledger=tmp_path / f"ledger of {name}") as client:
            received = loaded.receive(client.report(TABLE.iloc[0].to_dict()).to_bytes())
        assert len(received.reports) == 1
        assert loaded.size == veil.size


def other_blocks(veil: tv.Veil) -> tv.Veil:
    """Blocks that do not tell all rows apart: the residues 0 and R/2 are the same for every odd frequency."""
    mechanism = veil.mechanism
    assert isinstance(mechanism, LevelResponse)
    groups = list(mechanism.groups)
    place = next(n for n, one in enumerate(groups) if isinstance(one, BlockGroup) and one.rows % 2 == 0)
    group = groups[place]
    assert isinstance(group, BlockGroup)
    response = Response(size=group.rows, favoured=2, a=group.response.a, b=group.response.b)
    groups[place] = replace(group, blocks=np.array([[0, group.rows // 2]]), response=response)
    return replace(veil, mechanism=replace(mechanism, groups=tuple(groups)))


def with_group(change: Callable[[Any], Any]) -> Callable[[tv.Veil], tv.Veil]:
    def changed(veil: tv.Veil) -> tv.Veil:
        mechanism: Any = veil.mechanism
        return replace(veil, mechanism=replace(mechanism, groups=tuple(change(mechanism.groups))))

    return changed


def moved(groups: tuple[Any, ...]) -> list[Any]:
    """The levels of a number, not from its low to its high in the right places."""
    found = list(groups)
    place = next(n for n, one in enumerate(found) if isinstance(one, LevelGroup))
    levels = found[place].levels.copy()
    levels[-2] += 1  # of the largest value, before the one of missing values
    found[place] = replace(found[place], levels=levels)
    return found


TASK = tv.SurveyTask(["income", "plan"], pairs=[("plan", "region")], histograms={"income": [0, 20, 100]})

FORGERIES: dict[str, Callable[[tv.Veil], tv.Veil]] = {
    "another task": lambda veil: replace(veil, task=tv.MeanTask(np.eye(veil.encoder.width))),
    "another decoder": lambda veil: replace(
        veil, decoder=tv.design(TABLE, tv.MeanTask(np.eye(SCHEMA.width)), epsilon=1.0, schema=SCHEMA).decoder
    ),
    "a prior too few": lambda veil: replace(
        veil, decoder=SurveyDecoder(priors=veil.decoder.priors[:-1], width=veil.encoder.width)  # type: ignore[union-attr]
    ),
    "priors in another order": lambda veil: replace(
        veil, decoder=SurveyDecoder(priors=veil.decoder.priors[::-1], width=veil.encoder.width)  # type: ignore[union-attr]
    ),
    "more than it asks": lambda veil: replace(veil, task=tv.SurveyTask().on(SCHEMA)),
    "other bins": lambda veil: replace(
        veil, task=tv.SurveyTask(TASK.fields, None, TASK.pairs, None, {"income": [0, 9, 99]}).on(SCHEMA)
    ),
    "another encoder": lambda veil: replace(veil, encoder=replace(veil.encoder, offset=veil.encoder.offset + 1)),  # type: ignore[union-attr, type-var]
    "a question too few": with_group(lambda groups: groups[1:]),
    "moved levels": with_group(moved),
    "blind blocks": other_blocks,
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_forged_surveys_are_refused(name: str) -> None:
    veil = tv.design(TABLE, TASK, epsilon=1.0, schema=SCHEMA)
    assert tv.Veil.from_files(veil.files()).release_id == veil.release_id
    with pytest.raises((ReleaseError, DataError)) as refused:
        tv.Veil.from_files(FORGERIES[name](veil).files())
    assert isinstance(refused.value, ReleaseError) or name in ("another decoder",)


def test_a_table_of_bins_has_its_rows_twice() -> None:
    """Else people of one bin would be read as two kinds."""
    task = tv.SurveyTask(["plan"], histograms={"income": [0, 20, 40, 100]})
    veil = tv.design(TABLE, task, epsilon=1.0, schema=SCHEMA)
    place = next(n for n, one in enumerate(questions(veil)) if one.fields == ("income",))
    mechanism: Any = veil.mechanism
    group = mechanism.groups[place]
    assert isinstance(group, LevelGroup)
    table = group.table.copy()
    table[[1, 2]] = table[[2, 1]]
    groups = [*mechanism.groups[:place], replace(group, table=table), *mechanism.groups[place + 1 :]]
    forged = replace(veil, mechanism=replace(mechanism, groups=tuple(groups)))
    with pytest.raises(ReleaseError, match="two equal rows"):
        tv.Veil.from_files(forged.files())


def test_edges_of_a_histogram_count_where_people_are_on_both_sides() -> None:
    task = tv.SurveyTask(["x"], histograms={"x": [0, 1, 2, 3, 4]}).on(tv.Schema({"x": tv.Number(0.0, 4.0)}))
    for people, order in (([0.4, 0.4, 0.1, 0.1], [0, 1, 2]), ([0.01, 0.01, 0.08, 0.9], [2, 1, 0])):
        rows = Rows(fields=("x",), levels=((0.0, 1.0, 2.0, 3.0),), binned=(True,), prior=np.array(people))
        found = statistics(task, rows)
        weights = np.array([w for key, w in zip(found.keys, found.weights, strict=True) if key[0] == "above"])
        assert np.argsort(-weights, kind="stable").tolist() == order
        assert weights.min() > 0.0
        assert weights.sum() == pytest.approx(0.75)  # the inner edges stand for so much of the range
