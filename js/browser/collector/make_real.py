"""A small release with a curve, and reports of it, for the pages' test with a real collector: `make_real.py FOLDER`.

Writes FOLDER/release, and reports as devices send them: FOLDER/few (9 of them) and FOLDER/many (3,041).
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil.client.wire import Report, pack_batch


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    names = ["height", "weight", "age"]
    people = pd.DataFrame(rng.normal(size=(3450, 3)) @ rng.normal(size=(3, 3)), columns=names)
    volunteers, task = people.iloc[:400], tv.LinearTask(np.eye(3))
    veil = tv.design(volunteers, task, epsilon=4.0, method="task_aware")
    veil.save(folder / "release")
    frontier = tv.sweep(volunteers, task, epsilons=[1.0, 4.0], methods=["task_aware", "task_agnostic"], seeds=1)
    frontier.to_json(folder / "release" / "frontier.json", losses=False)
    layout, release = veil.mechanism.layout, bytes.fromhex(veil.release_id)
    reports = [
        Report(release=release, id=os.urandom(16), payload=layout.pack(numbers))
        for numbers in veil.privatize(people.iloc[400:]).tolist()
    ]
    (folder / "few").write_bytes(pack_batch(reports[:9]))
    (folder / "many").write_bytes(pack_batch(reports[9:]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
