"""Weighted means of a table: what does a private report cost if some attributes matter more than others?

You learn how to state the purpose of the data (`LinearTask`), how to design a veil, what it promises and what it costs.
You also see how close the mean of many private reports is to the mean of the records.
"""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_diabetes

import taskveil as tv

EPSILON = 4.0

# 442 people, 10 measurements each. Two thirds volunteer; the others only ever send reports.
table = load_diabetes(as_frame=True, scaled=False).data
volunteers, people = table.iloc[:300], table.iloc[300:]

# Blood pressure and body mass index are what we are after; each attribute is measured in its own spread.
weights = 1.0 / volunteers.std()
weights[["bp", "bmi"]] *= 5.0
task = tv.LinearTask(np.diag(weights))

veil = tv.design(volunteers, task, epsilon=EPSILON)
print(veil)
print(veil.guarantee.statement)

# The loss is an expectation over the randomisation. The same budget spread over all attributes alike buys far less.
aware = veil.loss(people).mean
agnostic = tv.design(volunteers, task, epsilon=EPSILON, method="task_agnostic").loss(people).mean
constant = task.losses(np.tile(volunteers.mean(), (len(people), 1)), people.to_numpy()).mean()
print(f"expected loss: {aware:.1f} task-aware, {agnostic:.1f} task-agnostic, {constant:.1f} without any report")

# On the devices: what leaves them. Columns are matched by name, so their order does not matter.
reports = veil.privatize(people[people.columns[::-1]])
print(f"{len(reports)} reports of {reports.shape[1]} whole number(s) each, such as {reports[0].tolist()}")

# On the server: estimates of single records are rough, their mean less so. It leans towards the volunteers:
# tv.MeanTask and tv.estimate are for means of any population.
estimates = veil.decode(reports)
for name in ("bp", "bmi"):
    print(f"mean {name}: {estimates[name].mean():.1f} from reports, {people[name].mean():.1f} from the records")
