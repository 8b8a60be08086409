from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist

from hostile import hostile_records
from taskveil.client.regions import BoxRegion, DiamondRegion, Region, SignRegion
from taskveil.designs.laplace.build import box_region, cloud_region
from taskveil.designs.sensitivity import sign_vectors
from taskveil.errors import MechanismError

CLOUD = np.random.default_rng(5).standard_t(3, size=(200, 3)) * [5.0, 1.0, 0.1]
REGIONS: list[Region] = [
    box_region(np.array([-1.0, 0.5, -3.0]), np.array([2.0, 0.5, 3.0])),
    cloud_region(CLOUD),
    DiamondRegion(step=0.25, center=np.array([3, -1, 100]), radius=17),
    DiamondRegion(step=2.0, center=np.array([0, 0, 0]), radius=0),
    SignRegion(
        step=1.0,
        signs=sign_vectors(3),
        lower=np.array([-5, -3, -4, -2]),
        upper=np.array([4, 6, 3, 5]),
        center=np.array([0, 0, 0]),
    ),
]
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)


@pytest.mark.parametrize("region", REGIONS)
@given(latents=arrays(np.float64, (5, 3), elements=ANY_FLOAT))
def test_everything_ends_inside(region: Region, latents: np.ndarray) -> None:
    assert region.contains(region.enforce(latents)).all()


@pytest.mark.parametrize("region", REGIONS)
def test_no_two_inputs_are_farther_apart_than_the_diameter(region: Region) -> None:
    rng = np.random.default_rng(1)
    spread = rng.normal(size=(400, 3)) * 10.0 ** rng.uniform(-3, 4, size=(400, 1)) * region.step
    inputs = np.vstack([hostile_records(3), spread])
    k = region.enforce(inputs)
    assert pdist(k.astype(float), "cityblock").max() <= region.l1_diameter


def test_volunteers_stay_and_set_the_diameter() -> None:
    """The region around a cloud changes no volunteer and is charged exactly the cloud's own diameter."""
    region = cloud_region(CLOUD)
    k = np.floor(CLOUD / region.step + 0.5)
    assert np.array_equal(region.enforce(CLOUD), k)
    assert region.l1_diameter == pdist(k, "cityblock").max()


def test_many_latents_fall_back_to_a_diamond_or_a_box() -> None:
    wide = np.random.default_rng(0).normal(size=(100, 24))
    region = cloud_region(wide)
    assert isinstance(region, DiamondRegion)
    assert np.array_equal(region.enforce(wide), np.floor(wide / region.step + 0.5))


@pytest.mark.parametrize(
    "make",
    [
        lambda: BoxRegion(step=0.3, low=np.array([0]), high=np.array([1])),
        lambda: BoxRegion(step=0.5, low=np.array([2]), high=np.array([1])),
        lambda: BoxRegion(step=0.5, low=np.array([0.0]), high=np.array([1.0])),  # type: ignore[arg-type]
        lambda: BoxRegion(step=0.5, low=np.array([0]), high=np.array([2**60])),
        lambda: DiamondRegion(step=0.5, center=np.array([0]), radius=-1),
        lambda: SignRegion(step=1.0, signs=sign_vectors(3)[:3], lower=-np.ones(3, int), upper=np.ones(3, int),
                           center=np.zeros(3, int)),
        lambda: SignRegion(step=1.0, signs=sign_vectors(2), lower=np.array([1, 1]), upper=np.array([2, 2]),
                           center=np.zeros(2, int)),
    ],
)  # fmt: skip
def test_regions_that_could_not_keep_their_diameter_are_refused(make: object) -> None:
    with pytest.raises(MechanismError):
        make()  # type: ignore[operator]


LEAST = np.iinfo(np.int64).min


@pytest.mark.parametrize(
    "make",
    [
        lambda: BoxRegion(step=1.0, low=np.array([LEAST, LEAST]), high=np.array([1, 1])),
        lambda: BoxRegion(step=1.0, low=np.array([LEAST, LEAST]), high=np.array([2**39, -(2**39) - 1])),
        lambda: BoxRegion(step=1.0, low=np.array([0]), high=np.array([1, 1])),
        lambda: DiamondRegion(step=1.0, center=np.array([LEAST]), radius=1),
        lambda: DiamondRegion(step=1.0, center=np.full(2**17, 0), radius=1),
        lambda: BoxRegion(step=1.0, low=np.full(2**17, -(2**40)), high=np.full(2**17, 2**40)),
        lambda: SignRegion(
            step=1.0, signs=np.array([[1, 1], [1, -1]], dtype=np.int8), lower=np.array([LEAST, -1]),
            upper=np.array([1, 1]), center=np.array([0, 0]),
        ),
        lambda: SignRegion(
            step=1.0, signs=np.array([[1, 1], [1, -1]], dtype=np.int8), lower=np.array([-1, -1]),
            upper=np.array([1, 1]), center=np.array([LEAST, LEAST]),
        ),
    ],
)  # fmt: skip
def test_bounds_that_would_overflow_are_refused(make: Callable[[], object]) -> None:
    """|−2^63| is −2^63 in 64 bits: such a bound passed for small, and the diameter wrapped around to nothing."""
    with pytest.raises(MechanismError):
        make()
