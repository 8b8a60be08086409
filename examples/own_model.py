"""A forest that may run on people's devices: what does it cost the device, and what do you gain?

You learn how to allow devices to run the task's own model (`OnDevice(share_model=True)`), what a device then has to
fetch and compute (`veil.size`), and how a report is made and answered. The loss is compared with a constant prediction
and with two simple methods: randomised response on a bin of the forest's prediction, and noise on the prediction.

Everybody with a device then has the forest, and may learn from it about the people it was fitted to:
docs/guides/models.md.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from sklearn.datasets import load_diabetes
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split

import taskveil as tv
from taskveil.client import Client

X, y = load_diabetes(return_X_y=True)
volunteers, people, labels, truth = train_test_split(X, y, test_size=0.4, random_state=0)
# Leaves of five people or more: in smaller ones a forest holds what was measured of single people.
forest = RandomForestRegressor(50, min_samples_leaf=5, random_state=0).fit(volunteers, labels)
task = tv.ModelTask(forest, loss="mse")

# Several predictors compete for the device. The forest is fitted again 15 times without some of the volunteers, so that
# each of them is judged by copies that did not see the volunteer.
veil = tv.design(volunteers, task, y=labels, epsilon=4.0, on_device=tv.OnDevice(share_model=True))
print(f"on the device: {veil.size}; a report has {veil.size.report_bytes} byte(s)")

with tempfile.TemporaryDirectory() as folder:
    veil.save(f"{folder}/release")
    with Client.load(f"{folder}/release/client", ledger=Path(folder) / "ledger.sqlite") as client:
        report = client.report(people[0], round="2026")
    answer = veil.predict(veil.receive(report.to_bytes()))
print(f"one person: {answer.item():.0f} from a report, {forest.predict(people[:1]).item():.0f} from the record")

# The same forest, with simple ways instead of a design. Losses are expectations over all reports, none is drawn.
frontier = tv.sweep(
    volunteers, task, y=labels, test=(people, truth), epsilons=[4], seeds=1,
    methods=["binned_response", "prediction_laplace"],
)  # fmt: skip
print(f"no privacy          {frontier.clear:.0f}")
print(f"ours                {veil.loss(people, truth).mean:.0f}")
for point in frontier.points:
    print(f"{point.method:<20}{point.loss:.0f}")
print(f"constant answer     {frontier.constant:.0f}")
