"""A torch network as the task: train it, freeze it, and design private reports for it.

You learn which networks can be a task. Devices get neither torch nor the network. The server's `Veil.load` needs the
model again, because a release does not contain it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import taskveil as tv
from taskveil.client import Client

torch.manual_seed(0)
X, y = load_digits(return_X_y=True)  # 1,797 handwritten digits of 8 × 8 pixels
volunteers, people, labels, truth = train_test_split(X / 16.0, y, train_size=600, random_state=0, stratify=y)

# Any module that maps (N, attributes) to (N, classes) will do. It gives logits: no softmax at the end.
network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)).double()
optimiser = torch.optim.Adam(network.parameters(), lr=0.01)
records, classes = torch.from_numpy(volunteers), torch.from_numpy(labels)
for _ in range(200):
    loss = nn.functional.cross_entropy(network(records), classes)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
with torch.no_grad():
    clear = (network(torch.from_numpy(people)).argmax(1).numpy() == truth).mean()
print(f"the network alone: {clear:.0%} right")

task = tv.ModelTask(network.eval(), loss="cross_entropy")  # copied and frozen
veil = tv.design(volunteers, task, y=labels, epsilon=6.0, method="codebook")
print(veil)

with tempfile.TemporaryDirectory() as folder:
    release = Path(folder) / "release"
    veil.save(release)
    size = sum(file.stat().st_size for file in (release / "client").iterdir())
    print(f"what a device downloads: {size / 1024:.0f} KB, without the network")

    # Releases do not contain the task's model: to predict, pass the model.
    server = tv.Veil.load(release, task=task)
    with Client.load(release, ledger=Path(folder) / "ledger.sqlite") as client:
        report = client.report(people[0])
    answer = server.predict(server.receive(bytes(report))).argmax()
    print(f"one report of {len(report.payload)} byte(s): the server reads it as a {answer}")

answers = veil.predict(veil.privatize(people)).argmax(axis=1)
print(f"from private reports at ε = 6: {(answers == truth).mean():.0%} right, guessing: {1 / len(np.unique(y)):.0%}")
