"""A year of weeks: a survey of many people and one device, with a budget for all reports of a person together.

You learn that `tv.OverTime` lets the design choose in how many weeks a person reports, that a device draws its weeks at
random when it joins and is silent in all others, and what that gives beside a small report in every week. People's
hours change: three in ten people have other hours each week, and everybody works less in summer.
"""

from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd

import taskveil as tv

rng = np.random.default_rng(0)
PEOPLE, WEEKS = 10_000, 52
schema = tv.Schema({"hours": tv.Number(0, 60, "h"), "place": tv.Category(["home", "office"])})


def table(hours: np.ndarray) -> pd.DataFrame:
    """Records of people with these hours; those who work less are at home more often."""
    return pd.DataFrame({"hours": hours, "place": np.where(rng.random(len(hours)) * 60 < hours, "office", "home")})


volunteers = table(rng.normal(36, 8, 400).clip(0, 60))
year = tv.OverTime(lifetime=4.0, rounds=WEEKS, start="2026-11-16")
survey = tv.design(volunteers, tv.SurveyTask(), epsilon=year, schema=schema)
panel = survey.panel
for tried in sorted(survey.considered_panels, key=lambda one: one.reports):
    print(f"{tried.reports} report(s) of ε = {tried.epsilon:.3g}: variance of a week × people {tried.error:,.0f}")
print(f"chosen: each person reports {panel}; all reports together cost ε = {survey.guarantee.lifetime:.4g}\n")
print(tv.plan(volunteers, tv.SurveyTask(), people=PEOPLE, epsilons=[year, year.epsilon(WEEKS)], schema=schema).table())

# One device: most weeks it says nothing, and that says nothing.
with TemporaryDirectory() as folder:
    survey.save(f"{folder}/release")
    with tv.Client.load(f"{folder}/release", ledger=f"{folder}/ledger") as client:
        print(f"\n{client.panel.statement(client.epsilon, None)}\n")
        made = [client.report({"hours": 35.0, "place": "home"}, round=week) for week in panel.rounds]
        weeks = [week for week, report in zip(panel.rounds, made, strict=True) if report is not None]
        print(f"this device reported in {', '.join(weeks)} and has spent ε = {client.spent():.4g}\n")

# All people: as their devices would, each draws one week of every block.
starts = [panel.start(block) for block in range(panel.reports + 1)]
drawn = rng.integers(starts[:-1], starts[1:], size=(PEOPLE, panel.reports))
own = rng.normal(36, 8, PEOPLE)
print("week        reports  estimate of the mean hours  truly")
for place, week in enumerate(panel.rounds):
    own = np.where(rng.random(PEOPLE) < 0.3, rng.normal(36, 8, PEOPLE), own)
    hours = (own - 6 * np.sin(np.pi * place / WEEKS) ** 4).clip(0, 60)
    reporting = table(hours[(drawn == place).any(axis=1)])
    if place % 6 == 0:
        estimate = tv.estimate(survey, survey.privatize(reporting)).means["hours"]
        low, high = estimate.low, estimate.high
        print(
            f"{week}  {len(reporting):7}  {estimate.mean:5.1f} [{low:4.1f}, {high:4.1f}]          {hours.mean():7.1f}"
        )
