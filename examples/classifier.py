"""A scikit-learn classifier as the task: how good are its answers from private reports?

You learn how to use a fitted pipeline or a forest (`ModelTask`), how a sweep shows what each budget costs, and how to
find the smallest budget that keeps enough of the signal.
"""

from __future__ import annotations

from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskveil as tv

X, y = load_breast_cancer(return_X_y=True)
volunteers, people, labels, truth = train_test_split(X, y, test_size=0.3, random_state=0, stratify=y)

# A pipeline of scaler and logistic regression is taken exactly, as layers of numbers that give the same answers.
pipeline = make_pipeline(StandardScaler(), LogisticRegression(C=0.1)).fit(volunteers, labels)
task = tv.ModelTask(pipeline, loss="cross_entropy")
# Sizes are never negative, and nobody's is expected above the largest seen: who says so need not leave it to a guess
# which of the largest are slips.
sizes = tv.Box(0, volunteers.max(axis=0))
# The model is linear, so a linear encoder on the device is enough: "auto" would fit others to the labels too.
frontier = tv.sweep(
    volunteers, task, y=labels, test=(people, truth), domain=sizes, epsilons=[1, 2, 4], methods=["codebook"],
    on_device=tv.OnDevice(encoder="linear"), seeds=1,
)  # fmt: skip
print(frontier.table())
enough = frontier.epsilon_for(kept=0.5)
print(enough.statement)

# The veil for that budget. A report is one of a few codewords, each of which stands for a calibrated answer.
veil = tv.design(
    volunteers, task, y=labels, epsilon=enough, domain=sizes, method="codebook", on_device=tv.OnDevice(encoder="linear")
)
answers = veil.predict(veil.privatize(people)).argmax(axis=1)
print(f"logistic regression: {(answers == truth).mean():.0%} right from private reports, ε = {enough:g}")
print(f"                     {(pipeline.predict(people) == truth).mean():.0%} right from the records themselves")

# A forest has no gradients. Codebooks need none: the forest is asked, never opened.
forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=0).fit(volunteers, labels)
veil = tv.design(volunteers, tv.ModelTask(forest, loss="cross_entropy"), y=labels, epsilon=4.0, domain=sizes)
answers = veil.predict(veil.privatize(people)).argmax(axis=1)
print(f"random forest:       {(answers == truth).mean():.0%} right from private reports, ε = 4")
