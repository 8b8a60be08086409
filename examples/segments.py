"""Designs for groups of people: what does each group gain over one design for everybody?

    python examples/segments.py          # on this machine, one design after the other
    python examples/segments.py ray      # on all its cores, or on a cluster (pip install "taskveil[ray]")

The data ships with scikit-learn: ten measurements of 442 diabetes patients. Suppose that they visit two practices, one
for patients under fifty. The release of a report reveals the practice. Nothing here hides that: a segment must be
something that the server knows anyway, or that needs no protection.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes

import taskveil as tv


def main(engine: tv.Ray | None = None) -> None:
    patients = load_diabetes(as_frame=True, scaled=False).data
    practice = np.where(patients["age"] < 50, "under-50", "50-plus")
    task = tv.LinearTask(np.diag(1 / patients.std()))  # every measurement counts alike

    with tempfile.TemporaryDirectory() as folder:
        found = tv.sweep_segments(
            patients,
            task,
            epsilons=[2, 6],
            methods=["codebook"],
            segment=practice,  # or the name of a column
            releases=folder,
            engine=engine,
        )
        print(found.table())
        for release in sorted(Path(folder).glob("*/*")):
            veil = tv.Veil.load(release)
            print(f"{release.relative_to(folder)}: ε = {veil.guarantee.epsilon:.3g}, release {veil.release_id[:12]}…")

    sure = [row for row in found.rows() if row["sure"]]
    print(
        f"{len(sure)} of {len(found.rows())} gains are sure. Choosing the best of them by this table flatters it: the"
    )
    print("people who judged would then also have chosen. Measure what you chose on others.")


if __name__ == "__main__":
    main(tv.Ray() if sys.argv[1:] == ["ray"] else None)
