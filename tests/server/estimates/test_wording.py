from __future__ import annotations

import numpy as np

import taskveil as tv


def test_means_that_reports_hardly_see_are_named_all_of_them() -> None:
    """A page marks them: people who differ there alone are taken for volunteers, whatever the interval says."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    veil = tv.design(X, tv.LinearTask(np.eye(1, 12)), epsilon=2.0)
    found = tv.estimate(veil, veil.privatize(rng.normal(size=(2000, 12)) + np.eye(1, 12)[0]))
    unseen = {one.name for one in found.attributes[1:]}
    assert unseen <= set(found.hardly_seen)
    assert found.attributes[0].name not in found.hardly_seen
    assert found.content()["hardly_seen"] == list(found.hardly_seen)
