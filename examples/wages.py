"""The first example of the paper: a mean wage, from people whose records have an age and a wage.

You learn why a report that serves the task is more exact at the same ε. Ages span 10 years, and wages 10 thousand.
Laplace noise on both has to hide a change by 10 + 10, so its scale is b = 20 at ε = 1. Noise on the wage alone has the
scale b = 10. `tv.MeanTask` finds out by itself that the age does not matter, and its reports need no Laplace noise.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import taskveil as tv

EPSILON = 1.0
LOW, HIGH = {"age": 30.0, "wage": 45.0}, {"age": 40.0, "wage": 55.0}


def drawn(count: int, seed: int) -> pd.DataFrame:
    """Simulated people: wages rise with age."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(LOW["age"], HIGH["age"], count)
    wage = np.clip(47 + 0.5 * (age - LOW["age"]) + rng.normal(0, 1.5, count), LOW["wage"], HIGH["wage"])
    return pd.DataFrame({"age": age, "wage": wage})


def domain(*names: str) -> tv.Box:
    """What is possible, by attribute; a value outside counts as the nearest one inside."""
    return tv.Box([LOW[name] for name in names], [HIGH[name] for name in names])


def laplace(*names: str) -> tv.Veil:
    """Laplace noise of one scale on each of these attributes."""
    task = tv.LinearTask(np.eye(len(names)))
    return tv.design(volunteers[[*names]], task, epsilon=EPSILON, method="task_agnostic", domain=domain(*names))


volunteers, people = drawn(300, seed=1), drawn(10_000, seed=2)
people.loc[:1] = [[34.0, 47.0], [38.0, 53.0]]  # Alice and Bob are among them
both, wage = laplace("age", "wage"), laplace("wage")
task = tv.MeanTask([[0.0, 1.0]])  # y = 0 · age + 1 · wage
ours = tv.design(volunteers, task, epsilon=EPSILON, domain=domain("age", "wage"))

designs = {"task-agnostic, age and wage": both, "task-aware, wage alone": wage, "taskveil, MeanTask": ours}
print(f"the mean wage of {len(people):,} people in thousands, truly {people['wage'].mean():.2f}:")
for name, veil in designs.items():
    reports = veil.privatize(people[["wage"]] if veil is wage else people)
    found = tv.estimate(veil, reports).rows()[-1]  # one row for each reported number; the wage is the last
    # Laplace designs report differences from the volunteers' mean.
    mean = found.mean if veil is ours else found.mean + volunteers["wage"].mean()
    margin = (found.high - found.low) / 2
    scale = "no Laplace noise" if veil is ours else f"noise of scale {np.sqrt(veil.mechanism.noise_variance / 2):.1f}"
    alone = margin * np.sqrt(len(people) / 2)
    print(f"  {name}: {scale}, {mean:.2f} ± {margin:.2f}; for Alice and Bob alone about ± {alone:.0f}")
print("The error falls with the square root of the number of people. Of two people, nobody learns a mean at ε = 1.")
