"""A questionnaire whose answers stay private: means, shares, by group, a cross-table and a histogram.

You learn that a `SurveyTask` needs the names of fields and nothing else, that every statistic comes with an interval,
and that it holds for people who are unlike the volunteers. A report says next to nothing about one person, so that
`decode` refuses it. The patients are those of scikit-learn's diabetes study; each answers many times here, so that
there are enough reports.
"""

import numpy as np
import pandas as pd
from sklearn.datasets import load_diabetes

import taskveil as tv

rng = np.random.default_rng(0)
data = load_diabetes(as_frame=True, scaled=False).data
patients = pd.DataFrame({
    "age": data["age"],
    "bmi": data["bmi"].where(rng.random(len(data)) > 0.1),  # one in ten did not say
    "sex": np.where(data["sex"] == 1, "first", "second"),
    "smokes": rng.random(len(data)) < 0.25,
})  # fmt: skip
schema = tv.Schema({
    "age": tv.Count(18, 90, unit="years"),
    "bmi": tv.Number(15.0, 45.0, missing=True),
    "sex": tv.Category(["first", "second"]),
    "smokes": tv.Flag(),
})  # fmt: skip

task = tv.SurveyTask(by="sex", pairs=[("sex", "smokes")], histograms={"age": [18, 35, 50, 65, 90]})
veil = tv.design(patients[:150], task, epsilon=2.0, schema=schema)
older = patients[150:].sample(60_000, replace=True, weights=data["age"][150:], random_state=0)
estimate = tv.estimate(veil, veil.privatize(older))
print(estimate.table())


def compare(name: str, found: tv.estimates.Interval, truth: float) -> None:
    """Print an estimate with its interval beside what is true."""
    print(f"{name}: {found.mean:.3g} [{found.low:.3g}, {found.high:.3g}], truly {truth:.3g}")


first = older["sex"] == "first"
compare("mean age", estimate.means["age"], older["age"].mean())
compare("share who smoke", estimate.shares["smokes"][True], older["smokes"].mean())
compare("share without a bmi", estimate.missing["bmi"], older["bmi"].isna().mean())
compare("mean bmi of the first sex", estimate.by["sex"]["first"]["bmi"], older["bmi"][first].mean())
compare("first sex and smokes", estimate.pairs["sex", "smokes"]["first", True], (first & older["smokes"]).mean())
compare("median age", estimate.histograms["age"].quantile(0.5), older["age"].median())
print(f"shares of sex add up to {sum(one.mean for one in estimate.consistent().shares['sex'].values()):.6f}")
try:
    veil.decode(veil.privatize(older[:1]))
except tv.TaskveilError as error:
    print(f"refused: {error}")
