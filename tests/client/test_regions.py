from __future__ import annotations

import math
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import pdist

import releases
from hostile import hostile_records
from taskveil.client import Client
from taskveil.client.device import Device
from taskveil.client.latent_encoders import LinearEncoder
from taskveil.client.mechanisms import Gaussian, Mechanism
from taskveil.client.regions import BallRegion, BoxRegion, CenteredRegion, DiamondRegion, Region, SignRegion
from taskveil.designs.domain import box_region, cloud_region
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
BALLS = [
    BallRegion(step=0.25, center=np.array([3, -1, 100]), squared_radius=17**2),
    BallRegion(step=2.0, center=np.array([0, 0, 0]), squared_radius=0),
    BallRegion(step=2.0**-20, center=np.array([2**40, -(2**40), 5]), squared_radius=2**52),
    BallRegion(step=1.0, center=np.array([0, 7, 0]), squared_radius=2),
]
ANY_FLOAT = st.floats(allow_nan=True, allow_infinity=True, width=64)


@pytest.mark.parametrize("region", [*REGIONS, *BALLS])
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


@pytest.mark.parametrize("step", [2.0**-160, 2.0**-14, 2.0**30])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.longdouble, np.int8, object])
def test_an_encoder_may_compute_in_any_type(kind: type, step: float) -> None:
    """Half precision overflows where latents are held, and 0 divided by a step that single precision lacks is 0/0."""
    values = [[0, 1, -1], [100, -100, 7]] if kind is np.int8 else [[0, np.inf, -np.inf], [6e4, np.nan, -6e4]]
    latents = np.array(values, dtype=kind)
    center = np.array([3, -1, 100])
    signs = sign_vectors(3)
    middle = signs.astype(np.int64) @ center
    for region in (
        BoxRegion(step=step, low=center - 9, high=center + 9),
        DiamondRegion(step=step, center=center, radius=17),
        SignRegion(step=step, signs=signs, lower=middle - 5, upper=middle + 5, center=center),
        BallRegion(step=step, center=center, squared_radius=17**2),
    ):
        k = region.enforce(latents)
        assert k.dtype == np.int64
        assert region.contains(k).all()
        assert np.abs(k - center).max() <= 17
        assert np.array_equal(k, region.enforce(latents.astype(np.float64)))


@pytest.mark.parametrize("region", [*REGIONS, *BALLS])
def test_masked_latents_are_missing_ones(region: Region) -> None:
    """Noise added to a masked array would pass over what is masked, and report it as it is."""
    latents = np.ma.masked_array(np.full((2, 3), 1.0), mask=[[True, False, True], [False, False, False]])
    k = region.enforce(latents)
    assert type(k) is np.ndarray
    assert np.array_equal(k, region.enforce(np.array([[np.nan, 1.0, np.nan], [1.0, 1.0, 1.0]])))


@pytest.mark.parametrize("region", BALLS)
def test_no_two_inputs_are_farther_apart_than_a_ball_is_wide(region: BallRegion) -> None:
    """In Python's own integers, and nearly as far: the ball is not smaller than it could be."""
    rng = np.random.default_rng(1)
    spread = rng.normal(size=(400, 3)) * 10.0 ** rng.uniform(-3, 4, size=(400, 1)) * region.step
    ends = region.center * region.step + np.array([[1e9], [-1e9]]) * np.eye(3)[:, None, :].reshape(3, 1, 3)
    k = region.enforce(np.vstack([hostile_records(3), spread, ends.reshape(-1, 3)])).tolist()
    center = region.center.tolist()
    lengths = [sum((a - b) ** 2 for a, b in zip(row, center, strict=True)) for row in k]
    assert max(lengths) <= region.squared_radius
    assert max(lengths) >= math.isqrt(region.squared_radius) ** 2
    few = k[:: len(k) // 100]
    apart = max(sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) for one in few for other in few)
    assert apart <= 4 * region.squared_radius


@given(st.integers(0, 2**52), st.integers(0, 10**6))
def test_a_ball_holds_exactly_the_points_in_it(squared_radius: int, seed: int) -> None:
    """Points just inside and just outside, in Python's own integers."""
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 6))
    center = rng.integers(-(2**40), 2**40, size=dim)
    direction = rng.normal(size=dim)
    offset = np.rint(direction / np.linalg.norm(direction) * math.sqrt(squared_radius)).astype(np.int64)
    near = center + offset + rng.integers(-1, 2, size=(20, dim))
    region = BallRegion(step=1.0, center=center, squared_radius=squared_radius)
    exact = [sum((a - b) ** 2 for a, b in zip(row, center.tolist(), strict=True)) for row in near.tolist()]
    assert region.contains(near).tolist() == [length <= squared_radius for length in exact]
    edge = BallRegion(step=1.0, center=center, squared_radius=min(min(exact), 2**52))
    assert edge.contains(near).tolist() == [length <= edge.squared_radius for length in exact]


def test_sums_of_squares_beyond_doubles_stay_outside_of_a_ball() -> None:
    wide = BallRegion(step=1.0, center=np.zeros(2**16, dtype=np.int64), squared_radius=2**52)
    inside, outside = np.full((1, 2**16), 2**18), np.full((1, 2**16), 2**18)
    outside[0, -1] += 1
    assert wide.contains(inside).all()  # 2^16 · 2^36
    assert not wide.contains(outside).any()
    assert not wide.contains(np.full((1, 2**16), 2**40)).any()
    assert wide.contains(wide.enforce(np.full((1, 2**16), 1e300))).all()


def ball_by_the_rule(region: BallRegion, latent: list[float]) -> list[int]:
    """What `enforce` promises for a ball, one row and one pass at a time, in Python's own integers and doubles."""
    center = region.center.tolist()
    k = [math.floor(max(min(v / region.step, 2**40), -(2**40)) + 0.5) for v in latent]
    offset = [a - b for a, b in zip(k, center, strict=True)]
    squares = 0.0
    for v in offset:
        squares += float(v) * float(v)
    share = math.sqrt(region.squared_radius / max(squares, 1.0))
    if share < 1:
        offset = [math.floor(v * share + 0.5) for v in offset]
    for number in range(1, 47):
        if sum(v * v for v in offset) > region.squared_radius:
            sizes = [abs(v) - max(abs(v) >> 12, min(abs(v), 1)) if number <= 4 else abs(v) >> 1 for v in offset]
            offset = [size if v > 0 else -size for v, size in zip(offset, sizes, strict=True)]
    return [a + b for a, b in zip(center, offset, strict=True)]


@given(st.integers(0, 10**6))
def test_what_is_outside_of_a_ball_is_pulled_in_by_one_rule(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 40))
    region = BallRegion(
        step=0.5, center=rng.integers(-50, 50, size=dim), squared_radius=int(rng.integers(0, 2 ** rng.integers(1, 53)))
    )
    latents = rng.normal(size=(6, dim)) * 2.0 ** rng.integers(0, 50, size=(6, 1))
    expected = [ball_by_the_rule(region, row) for row in latents.tolist()]
    assert region.enforce(latents).tolist() == expected
    assert [region.enforce(row[None, :])[0].tolist() for row in latents] == expected  # all passes at once


@pytest.mark.parametrize("region", [*REGIONS, *BALLS])
def test_no_member_is_beyond_the_reach(region: Region) -> None:
    k = region.enforce(np.vstack([hostile_records(3), 1e300 * np.eye(3), -1e300 * np.eye(3)]))
    low, high = region.reach
    assert ((k >= low) & (k <= high)).all()
    if isinstance(region, CenteredRegion):
        assert (high - region.center == region.farthest).all()


@pytest.mark.parametrize("region", [*REGIONS, *BALLS])
def test_no_integer_passes_for_a_member_by_overflow(region: Region) -> None:
    """The absolute value of −2^63 is −2^63, and eight times 2^61 is 0."""
    for far in (-(2**63), 2**63 - 1, 2**61, -(2**62)):
        assert not region.contains(np.full((1, 3), far)).any()
    wide = DiamondRegion(step=1.0, center=np.full(3, 2**40), radius=2**40)
    assert wide.contains(np.array([[2**41, 2**40, 2**40]])).all()
    assert not wide.contains(np.array([[2**42, 2**40, 2**40]])).any()


def test_volunteers_stay_and_set_the_diameter() -> None:
    """The region around a cloud changes no volunteer and is charged exactly the cloud's own diameter."""
    region = cloud_region(CLOUD)
    k = np.floor(CLOUD / region.step + 0.5)
    assert np.array_equal(region.enforce(CLOUD), k)
    assert region.l1_diameter == pdist(k, "cityblock").max()


def by_the_rule(region: Region, latent: list[float]) -> list[int]:
    """What `enforce` promises for a sign region, one row and one pass at a time, in Python's own integers."""
    assert isinstance(region, SignRegion)
    center, signs = region.center.tolist(), region.signs.tolist()
    k = [math.floor(max(min(v / region.step, 2**40), -(2**40)) + 0.5) for v in latent]
    offset = [a - b for a, b in zip(k, center, strict=True)]

    def products(v: list[int]) -> list[int]:
        return [sum(a * b for a, b in zip(s, v, strict=True)) for s in signs]

    def inside(v: list[int]) -> bool:
        moved = products([a + b for a, b in zip(center, v, strict=True)])
        bounds = zip(region.lower.tolist(), moved, region.upper.tolist(), strict=True)
        return all(low <= p <= high for low, p, high in bounds)

    share, start = 1.0, products(center)
    for p, c, low, high in zip(products(offset), start, region.lower.tolist(), region.upper.tolist(), strict=True):
        if p:
            share = min(share, ((high if p > 0 else low) - c) / p)
    if share < 1:
        offset = [math.floor(v * share + 0.5) for v in offset]
    for number in range(1, 47):
        if not inside(offset):
            sizes = [abs(v) - max(abs(v) >> 12, min(abs(v), 1)) if number <= 4 else abs(v) >> 1 for v in offset]
            offset = [size if v > 0 else -size for v, size in zip(offset, sizes, strict=True)]
    if not inside(offset):
        offset = [0] * len(offset)
    return [a + b for a, b in zip(center, offset, strict=True)]


@given(st.integers(0, 10**6))
def test_what_is_outside_is_pulled_in_by_one_rule(seed: int) -> None:
    """Other clients follow it to the letter, and thin regions show every pass of it."""
    rng = np.random.default_rng(seed)
    signs = sign_vectors(3)
    center = rng.integers(-50, 50, size=3)
    width = rng.integers(0, 2 ** rng.integers(1, 40, size=(2, 4)))
    width[:, rng.integers(4)] = 0
    middle = center @ signs.T.astype(np.int64)
    region = SignRegion(step=0.5, signs=signs, lower=middle - width[0], upper=middle + width[1], center=center)
    latents = rng.normal(size=(6, 3)) * 2.0 ** rng.integers(0, 50, size=(6, 1))
    expected = [by_the_rule(region, row) for row in latents.tolist()]
    assert region.enforce(latents).tolist() == expected
    assert [region.enforce(row[None, :])[0].tolist() for row in latents] == expected  # all passes at once


def cpu_times(call: Callable[[np.ndarray], object], records: np.ndarray) -> list[float]:
    """The least of many runs for every record, in turns: what else the machine does is not the report's doing."""
    least = [math.inf] * len(records)
    for _ in range(60):
        for place, record in enumerate(records):
            start = time.thread_time()
            call(record)
            least[place] = min(least[place], time.thread_time() - start)
    return least


def on_the_plane(latents: int, count: int) -> np.ndarray:
    """Latents that the thin region lets through but for their size: scaled down and rounded, they leave the plane."""
    k = np.random.default_rng(0).integers(-(2**30), 2**30, size=(count, latents))
    k[:, -1] = -k[:, :-1].sum(axis=1)
    return k * releases.thin_region(latents).step


@pytest.mark.parametrize("latents", [1, 3, 10])
@pytest.mark.parametrize("kind", ["box", "sign", "diamond", "thin", "ball"])
def test_the_time_of_a_report_does_not_tell_the_record(kind: str, latents: int) -> None:
    """Record to bytes. In 0.1 a forged thin region took 79,000 steps for records past a threshold: 2 s and more."""
    cloud = np.random.default_rng(1).normal(size=(200, latents))
    regions: dict[str, Region] = {
        "box": releases.box(latents),
        "sign": cloud_region(cloud),
        "diamond": releases.diamond(latents),
        "thin": releases.thin_region(latents),
        "ball": BallRegion(step=2.0**-12, center=np.zeros(latents, dtype=np.int64), squared_radius=2**30),
    }
    reach = np.full(latents, 2.0**16)
    encoder = LinearEncoder.of(low=-reach, high=reach, weights=np.eye(latents), offset=np.zeros(latents))
    region = regions[kind]
    mechanism: Mechanism
    if isinstance(region, BallRegion):
        mechanism = Gaussian.calibrated(region=region, epsilon=1.0, delta=1e-6)
    else:
        mechanism = releases.laplace(region, 1.0)
    device = Device(encoder=encoder, mechanism=mechanism)
    client = Client(device=device, release=bytes(32), ledger=None, cap=1.0)  # type: ignore[arg-type]
    records = np.concatenate([hostile_records(latents)[:300:20], on_the_plane(latents, 40), np.zeros((1, latents))])
    spent = cpu_times(lambda record: client._make(client.device.record(record)), records)
    assert max(spent) < 3 * min(spent), (min(spent), max(spent))


@pytest.mark.parametrize("name", ["lower", "upper"])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_sign_region_has_two_bounds_for_every_sign_vector(name: str, count: int) -> None:
    """One upper bound was taken for all sign vectors, which browsers refuse."""
    signs, ones = sign_vectors(3), np.full(4, 7)
    bounds = {"lower": -ones, "upper": ones}
    SignRegion(step=1.0, signs=signs, center=np.zeros(3, dtype=np.int64), **bounds)
    with pytest.raises(MechanismError, match="a lower and an upper bound"):
        SignRegion(
            step=1.0,
            signs=signs,
            center=np.zeros(3, dtype=np.int64),
            **(bounds | {name: np.full(count, bounds[name][0])}),
        )


def test_sign_regions_of_many_latents_are_refused() -> None:
    with pytest.raises(MechanismError, match="at most 10 latents"):
        releases.thin_region(11)


@pytest.mark.parametrize("step", [2.0**901, 2.0**1023, 2.0**-1001, 5e-324, 0.0, -1.0, 0.75, math.inf, math.nan])
def test_steps_at_which_latents_vanish_or_overflow_are_refused(step: float) -> None:
    with pytest.raises(MechanismError, match="power of two between"):
        releases.box(2, step)
    releases.box(2, 2.0**900)
    releases.box(2, 2.0**-1000)


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
        lambda: BallRegion(step=0.5, center=np.array([0]), squared_radius=-1),
        lambda: BallRegion(step=0.5, center=np.array([0]), squared_radius=2**52 + 1),
        lambda: BallRegion(step=0.3, center=np.array([0]), squared_radius=1),
        lambda: BallRegion(step=0.5, center=np.array([0.0]), squared_radius=1),
        lambda: BallRegion(step=0.5, center=np.full(2**17, 0), squared_radius=1),
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
        lambda: BallRegion(step=1.0, center=np.array([LEAST]), squared_radius=1),
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


@pytest.mark.parametrize("name", ["box", "sign", "diamond", "ball"])
def test_nan_is_brought_to_the_middle_and_nowhere_else(name: str) -> None:
    """Each coordinate by itself: cast to a whole number, NaN would be −2^63 and end at an edge."""
    ball = BallRegion(step=0.5, center=np.array([30, -7, 4]), squared_radius=50)
    kinds = {"box": releases.box(3), "sign": releases.sign_region(), "diamond": releases.diamond(), "ball": ball}
    region = kinds[name]
    low, high = region.reach
    middle = low + (high - low) // 2 if name == "box" else region.center
    assert np.array_equal(region.enforce(np.full((1, 3), np.nan)), middle[None, :])
    mixed = middle * region.step
    mixed[1] = np.nan
    assert np.array_equal(region.enforce(mixed[None, :]), middle[None, :])
