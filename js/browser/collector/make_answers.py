"""Writes what a collector would answer, for the tests of its pages: `python js/browser/collector/make_answers.py`.

Three releases of made-up people: means and shares of a table with numbers, categories and dates, of which people in the
second round differ from the volunteers; a classifier; and population means. Apart from them, a survey over 26 planned
rounds. The estimates and curves are real ones.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

import taskveil as tv
from taskveil.client.panels import Panel, dated
from taskveil.collector.estimating import table_rows
from taskveil.collector.releases import Together
from taskveil.estimates.assumed import assumptions
from taskveil.estimates.result import finite
from taskveil.experiments.demo_people import SCHEMA, people, table, weights

HOME = Path(__file__).parent
BUDGETS = [0.5, 1.0, 2.0, 4.0, 8.0]


def answer(found: tv.Estimate, round: str | None) -> dict[str, Any]:
    """As `GET /v1/estimates` has it."""
    return {**found.content(), "round": round, "rows": table_rows(found)}


def changes(found: tv.Estimate, earlier: tv.Estimate) -> dict[str, Any]:
    """What changed since an earlier round, by group."""
    return {kind: [finite(one._asdict()) for one in part] for kind, part in found.minus(earlier).items()}


def listed(veil: tv.Veil, name: str, rounds: dict[str, int], **more: Any) -> dict[str, Any]:
    """As `GET /v1/releases` has it."""
    promise, last = veil.guarantee, list(rounds)[-1]
    return {
        "id": veil.release_id,
        "name": name,
        "method": veil.method,
        "open": True,
        "current": last,
        "rounds": [{"name": key, "open": key == last, "reports": count} for key, count in rounds.items()],
        "reports": sum(rounds.values()),
        "guarantee": {"epsilon": promise.epsilon, "delta": promise.delta, "statement": promise.statement,
                      "enforced_by": promise.enforced_by},
        "so_far": vars(Together.of([(promise.epsilon, len(rounds), len(rounds))])),
        "planned": vars(Together.of([(promise.epsilon, 52, 52)])) if len(rounds) > 1 else None,
        "panel": None,
        "attributes": list(veil.columns or ()),
        "outputs": list(veil.outputs.names) if veil.outputs else [],
        "report_bytes": veil.size.report_bytes,
        "client_bytes": veil.size.client_bytes,
        "estimates": True,
        "assumptions": list(assumptions(veil)),
        "frontier": True,
        **more,
    }  # fmt: skip


def collection(
    veil: tv.Veil, name: str, rounds: dict[str, Any], frontier: tv.Frontier | None, **more: Any
) -> dict[str, Any]:
    """Everything of one release: its entry in the list, its estimates by question, and its curve."""
    reports = {key: veil.privatize(records) for key, records in rounds.items()}
    estimates = {key: answer(tv.estimate(veil, those, anytime=True), key) for key, those in reports.items()}
    whole = np.concatenate(list(reports.values()))
    estimates[""] = answer(tv.estimate(veil, whole, anytime=True), None)
    first, *others = reports
    for key in others:
        now, then = (tv.estimate(veil, reports[one], anytime=True, confidence=0.975) for one in (key, first))
        estimates[f"{key} since {first}"] = {**estimates[key], "changes": changes(now, then)}
    for assumption in assumptions(veil):
        for key, those in {**reports, "": whole}.items():
            estimates[f"{key} assume {assumption}"] = answer(tv.estimate(veil, those, assume=assumption), key or None)
    curve = None
    if frontier is not None:
        path = frontier.to_json(HOME / "curve.json", losses=False)
        curve = {**json.loads(path.read_text(encoding="utf-8")), "points": []}
        path.unlink()
    counts = {key: len(records) for key, records in rounds.items()}
    return {"release": listed(veil, name, counts, frontier=curve is not None, **more), "estimates": estimates,
            "frontier": curve}  # fmt: skip


def wellbeing() -> dict[str, Any]:
    everybody = table(people(16_000)).to_pandas()
    volunteers = everybody.iloc[:1500]
    means = tv.MeanTask(np.diag(weights(SCHEMA.expand(everybody))))
    veil = tv.design(volunteers, means, epsilon=2.0, method="means", domain=SCHEMA)
    older = everybody.iloc[1500:].sort_values("age").iloc[4000:]  # the young stay away in the second round
    rounds = {"2026-W45": everybody.iloc[1500:6000], "2026-W46": older.sample(8000, random_state=0)}
    # A curve as a release for single answers has it.
    task = tv.LinearTask(np.diag(1 / SCHEMA.expand(everybody).std(axis=0)))
    methods: list[Any] = ["codebook", "task_aware", "task_agnostic"]
    frontier = tv.sweep(volunteers, task, epsilons=BUDGETS, methods=methods, seeds=1, domain=SCHEMA)
    return collection(veil, "wellbeing", rounds, frontier)


def commuting() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(14_000, 4)) @ rng.normal(size=(4, 4))
    y = np.argmax(X @ rng.normal(size=(4, 3)) + rng.gumbel(size=(14_000, 3)), axis=1)
    model = LogisticRegression().fit(X[:1200], np.array(["bicycle", "bus", "car"])[y[:1200]])
    task = tv.ModelTask(model, loss="cross_entropy")
    y = model.predict(X[:1200])
    veil = tv.design(X[:1200], task, y=y, epsilon=1.0, method="codebook")
    methods: list[Any] = ["codebook", "task_agnostic"]
    frontier = tv.sweep(X[:1200], task, y=y, epsilons=BUDGETS[:4], methods=methods, seeds=1)
    return collection(veil, "commuting", {"autumn": X[2000:8000]}, frontier, open=False, current="autumn")


def electricity() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    hours = ["morning in kWh", "noon in kWh", "evening in kWh"]
    X = pd.DataFrame(np.clip(rng.gamma(3.0, 0.3, size=(21_000, 3)), 0, 3), columns=hours)
    task = tv.MeanTask(np.eye(3))
    domain = tv.Box(np.zeros(3), np.full(3, 3.0))
    veil = tv.design(X[:500], task, epsilon=1.0, domain=domain)
    methods: list[Any] = ["means", "duchi", "piecewise"]
    frontier = tv.sweep(X[:500], task, epsilons=BUDGETS, methods=methods, seeds=1, domain=domain)
    return collection(veil, "electricity", {"day 1": X[1000:10_000], "day 2": X[10_000:]}, frontier)


def weekly() -> dict[str, Any]:
    """A release that plans 26 weekly rounds, of which 18 were collected; a person reports in two."""
    rng = np.random.default_rng(3)
    apps = ["maps", "mail", "music", "news", "photos"]

    def week(number: int) -> pd.DataFrame:
        shares = np.exp(0.3 * np.sin(number / 4 + np.arange(5)) - 0.3 * np.arange(5))
        hours = (5 + 1.2 * np.sin(number / 5) + rng.normal(0, 2, 1500)).clip(0, 12)
        return pd.DataFrame({"hours": hours, "app": rng.choice(apps, 1500, p=shares / shares.sum())})

    names = dated("2026-07-06", 7, 26)
    panel = Panel(reports=2, rounds=tuple(names), days=7)
    veil = replace(tv.design(week(0), tv.SurveyTask(), epsilon=2.0), panel=panel)
    reports = {name: veil.privatize(week(place)) for place, name in enumerate(names[:18])}
    series = tv.estimate(veil, reports, anytime=True)
    counts = {name: len(own) for name, own in reports.items()}
    promise = veil.guarantee.epsilon
    release = listed(
        veil, "screen time", counts, frontier=False,
        so_far=vars(Together.of([(promise, 18, 2)])), planned=vars(Together.of([(promise, 26, 2)])),
        panel={"reports": 2, "rounds": names, "days": 7},
    )  # fmt: skip
    latest = names[17]
    estimates = {latest: answer(tv.estimate(veil, reports[latest], anytime=True), latest)}
    both = {"series": series.content(), "series people": series.content(21_000)}
    return {"release": release, "estimates": estimates, "frontier": None, **both}


def write(name: str, found: Any) -> None:
    text = json.dumps(found, allow_nan=False, default=float)
    text = json.dumps(json.loads(text, parse_float=lambda number: float(f"{float(number):.6g}")), ensure_ascii=False)
    (HOME / name).write_text(text.replace('}, {"', '},\n{"') + "\n", encoding="utf-8")


def main() -> None:
    write("answers.json", [wellbeing(), commuting(), electricity()])
    write("over_time.json", weekly())


if __name__ == "__main__":
    main()
