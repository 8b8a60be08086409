"""A table with text, a flag, dates and missing values: a pipeline by column names, then three lines of taskveil.

You learn that `tv.design` accepts such a table, and that the model receives tables like the one it was fitted to. The
schema of a record is inferred and printed, and you can correct it. A device reports a dictionary of natural values.
Missing and unknown values are reported like any other. The server's estimates are a table again.
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

import taskveil as tv
from taskveil.client import Client


def cars(count: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Made-up cars, and whether their owners will keep them."""
    rng = np.random.default_rng(seed)
    power = rng.gamma(9.0, 13.0, count).round()
    origin = rng.choice(["Europe", "Japan", "USA"], count, p=[0.5, 0.2, 0.3])
    since = pd.Timestamp("2015-01-01") + pd.to_timedelta(rng.integers(0, 3000, count), unit="D")
    garage = rng.random(count) < 0.4
    likes = power / 60 + 2.0 * (origin == "Japan") + garage + (since.year - 2019) / 2 + rng.normal(size=count)
    missing = rng.random(count) < 0.1
    table = {"power": np.where(missing, np.nan, power), "origin": origin, "since": since, "garage": garage}
    return pd.DataFrame(table), np.where(likes > 2.8, "keeps it", "sells it")


def year(dates: pd.DataFrame) -> pd.DataFrame:
    """What the forest looks at in a date."""
    return dates.apply(lambda column: column.dt.year)


X, y = cars(600, seed=0)
X_test, y_test = cars(400, seed=1)
columns = make_column_transformer(
    (SimpleImputer(), ["power"]), (OneHotEncoder(), ["origin", "garage"]), (FunctionTransformer(year), ["since"])
)
forest = make_pipeline(columns, RandomForestClassifier(min_samples_leaf=10, random_state=0)).fit(X, y)

task = tv.ModelTask(forest, loss="cross_entropy")
linear = tv.OnDevice(encoder="linear")  # without it, several encoders are compared
veil = tv.design(X, task, y=y, epsilon=2.0, on_device=linear)
loss = veil.loss(X_test, y_test)

print(veil.schema)
print(f"{100 * forest.score(X_test, y_test):.0f}% right from the records")
print(f"{100 * loss.accuracy:.0f}% right from private reports at ε = 2")
print(f"{100 * max(np.mean(y_test == name) for name in set(y_test)):.0f}% right with one answer for everybody")

with tempfile.TemporaryDirectory() as folder:
    veil.save(Path(folder) / "release")
    with Client.load(Path(folder) / "release", ledger=Path(folder) / "ledger") as client:
        report = client.report({"power": None, "origin": "Atlantis", "since": "2021-03-04", "garage": True})
received = veil.receive(report.to_bytes())
print(f"a report of {veil.size.report_bytes} byte(s) of a record with a missing value; the server's estimate:")
print(veil.decode(received, probabilities=True).T.to_string(header=False))
