"""Predictable generators, wherever they hide, and unpredictable ones under the same names."""

from __future__ import annotations

import functools
import importlib
import os
import random
import random as dice
import secrets
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pytest
from numpy import random as nr
from scipy import stats

import taskveil as tv
from auditing import exhibits, sound
from taskveil.auditing.sources import foreign_randomness

SAFE = False
SYSTEM = random.SystemRandom()
DRAW = SYSTEM.random
OWN = random.Random(1)


def written(source: str, **known: object) -> Callable[[np.ndarray], np.ndarray]:
    """`report` of a module with this source."""
    module = ModuleType("written_for_a_test")
    vars(module).update(known)
    exec(compile(source, "<written>", "exec", dont_inherit=True), vars(module))
    return vars(module)["report"]


def uses_random(X: np.ndarray) -> np.ndarray:
    return X + random.random()


def imports_random(X: np.ndarray) -> np.ndarray:
    from random import gauss

    return X + gauss()


def imports_the_module(X: np.ndarray) -> np.ndarray:
    import numpy.random as own

    return X + own.normal()


def one_of_two(X: np.ndarray) -> np.ndarray:
    """0.2 took `random.random` for the system's because `SystemRandom` stands beside it."""
    draw = random.SystemRandom().random if SAFE else random.random
    return X + draw()


def one_of_two_modules(X: np.ndarray) -> np.ndarray:
    return X + (secrets if SAFE else random).choice([1, 2])


def under_another_name(X: np.ndarray) -> np.ndarray:
    return X + dice.random()


def under_a_local_name(X: np.ndarray) -> np.ndarray:
    own = random
    return X + own.uniform(0, 1)


def in_a_nested_function(X: np.ndarray) -> np.ndarray:
    own = np.random

    def draw() -> float:
        return own.normal()

    return X + draw()


def by_a_string(X: np.ndarray) -> np.ndarray:
    return X + getattr(random, "gauss")(0, 1)  # noqa: B009


def by_an_import_of_a_string(X: np.ndarray) -> np.ndarray:
    return X + __import__("random").random()


def by_an_import_at_run_time(X: np.ndarray) -> np.ndarray:
    return X + importlib.import_module("numpy.random").normal()


def by_the_table_of_modules(X: np.ndarray) -> np.ndarray:
    return X + sys.modules["random"].gauss(0, 1)


def by_a_string_of_numpy(X: np.ndarray) -> np.ndarray:
    return X + getattr(np, "random").normal()  # noqa: B009


def next_of_a_stream(X: np.ndarray) -> np.ndarray:
    return X + next(STREAM)


STREAM = (random.random() for _ in iter(int, 1))


def partial_inside(X: np.ndarray) -> np.ndarray:
    return X + functools.partial(random.gauss, 0, 1)()


def nested_default(X: np.ndarray) -> np.ndarray:
    return X + (lambda draw=random.random: draw())()


def scipys(X: np.ndarray) -> np.ndarray:
    return X + stats.laplace.rvs(size=X.shape)


def makes_its_own(X: np.ndarray) -> np.ndarray:
    return X + random.Random(7).random()


def of_its_own_attribute(X: np.ndarray) -> np.ndarray:
    return X + of_its_own_attribute.draw()  # type: ignore[attr-defined]


of_its_own_attribute.draw = OWN.random  # type: ignore[attr-defined]


def closed_over(rng: random.Random) -> Callable[[np.ndarray], np.ndarray]:
    return lambda X: X + rng.random()


class Holds:
    def __init__(self, rng: object) -> None:
        self.source = {"rng": [rng]}

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X + self.source["rng"][0].random()

    report = __call__


class HoldsAModule:
    """As code that runs on several libraries of arrays does."""

    def __init__(self, xp: ModuleType) -> None:
        self.xp = xp

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X + self.xp.random.normal()


class HoldsInASlot:
    __slots__ = ("rng",)

    def __init__(self, rng: object) -> None:
        self.rng = rng

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X + self.rng.random()


class OfTheClass:
    rng = np.random.default_rng(3)

    @classmethod
    def report(cls, X: np.ndarray) -> np.ndarray:
        return X + cls.rng.random()


class Lazy:
    @functools.cached_property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng()

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X + self.rng.random()


class SystemInName(random.SystemRandom):
    """Has the system's name and bits of its own."""

    def random(self) -> float:
        return OWN.random()


class SaysNumpy:
    """States the module of a library, as libraries do with classes that they take from elsewhere."""

    __module__ = "numpy"

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X + random.random()

    @property
    def noise(self) -> float:
        return random.gauss(0, 1)


class SaysScipy:
    """Is called as a distribution of scipy, by a name that draws nothing there."""

    __module__ = "scipy.stats.own"

    def ppf(self, _: float) -> float:
        return random.random()


DISTRIBUTION = SaysScipy()


class SaysNumpyAndHolds:
    __module__ = "numpy"
    rng = np.random.default_rng(3)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        return X + self.rng.random()


class CountsDraws(random.Random):
    """Replaces both ways to draw bits, and draws them as before."""

    drawn = 0

    def random(self) -> float:
        self.drawn += 1
        return super().random()

    def getrandbits(self, k: int, /) -> int:
        self.drawn += 1
        return super().getrandbits(k)


class CountsTheSystems(random.SystemRandom):
    """The same, above the system's generator."""

    drawn = 0

    def random(self) -> float:
        self.drawn += 1
        return super().random()


class AlsoFromTheSystem(random.Random):
    """Has another name and the system's bits."""

    def random(self) -> float:
        return int.from_bytes(os.urandom(7), "big") / 2**56

    def getrandbits(self, k: int, /) -> int:
        return secrets.randbits(k)


def through_a_helper(X: np.ndarray) -> np.ndarray:
    return exhibits.fixed_seed(X)


@functools.lru_cache
def _step() -> float:
    return np.random.uniform()


def through_a_cache(X: np.ndarray) -> np.ndarray:
    return X + _step()


def on_secrets(X: np.ndarray) -> np.ndarray:
    return X + secrets.randbelow(3)


def overridden() -> random.SystemRandom:
    """The system's generator, one method of which was replaced."""
    rng = random.SystemRandom()
    rng.random = random.random  # type: ignore[method-assign]
    return rng


PREDICTABLE = {
    **{
        what.__name__: what
        for what in (
            uses_random, imports_random, imports_the_module, one_of_two, one_of_two_modules, under_another_name,
            under_a_local_name, in_a_nested_function, by_a_string, by_an_import_of_a_string,
            by_an_import_at_run_time, by_the_table_of_modules, by_a_string_of_numpy, next_of_a_stream, partial_inside,
            nested_default, scipys, makes_its_own, of_its_own_attribute, through_a_helper, through_a_cache,
        )
    },
    "numpy's, in a container of an instance": Holds(np.random.default_rng(0)),
    "a method of that instance": Holds(np.random.default_rng(0)).report,
    "in a slot": HoldsInASlot(OWN),
    "of a module that an instance holds": HoldsAModule(np),
    "of a module that is a default": lambda X, xp=np: X + xp.random.normal(),
    "of a module that is an argument": functools.partial(lambda xp, X: X + xp.random.normal(), np),
    "of the class": OfTheClass.report,
    "a cached property": Lazy(),
    "a closure": closed_over(OWN),
    "a partial function": functools.partial(lambda draw, X: X + draw(), random.gauss),
    "a map": functools.partial(lambda stream, X: X + next(stream), map(random.gauss, [0], [1])),
    "a default": lambda X, draw=random.random: X + draw(),
    "a keyword default": lambda X, *, rng=OWN: X + rng.random(),
    "a system generator in name only": closed_over(SystemInName()),
    "a system generator with another method": closed_over(overridden()),
    "a generator whose draws are counted": closed_over(CountsDraws(7)),
    "a class that states a library's module": SaysNumpy(),
    "a property of such a class": lambda X: X + SaysNumpy().noise,
    "what such a class holds": SaysNumpyAndHolds(),
    "what states to be a distribution": lambda X: X + DISTRIBUTION.ppf(0.5),
    "from random import *": written("from random import *\ndef report(X): return X + gauss(0, 1)"),
    "from random import * under its name": written("from random import *\ndef report(X): return X + random()"),
    "in a module that takes a library's name": written(
        "import random\ndef report(X): return X + random.random()", __name__="numpy"
    ),
    "a function of one argument's type": written(
        "import functools, random\n@functools.singledispatch\ndef report(x): return random.random()"
    ),
    "a context": written(
        "import contextlib, random\n@contextlib.contextmanager\ndef noise(): yield random.random()\n"
        "def report(X):\n    with noise() as z: return X + z"
    ),
    **{
        source: written(f"import importlib, random, sys, time, _random, statistics, numpy as np\n{source}")
        for source in (
            "from scipy import stats\ndef report(X): return X + stats.laplace(0, 2).rvs()",
            "from scipy import stats\ndef report(X): return X + (lambda d: d.rvs())(stats.laplace).ppf(0.5)",
            "from scipy import stats\ndef report(X): return X + max([stats.laplace], key=id)(0, 2).ppf(0.5)",
            "from scipy import stats\ndef report(X): return X + (stats.norm if X else stats.laplace)(0, 2).rvs()",
            "def report(X): return X + globals()['random'].random()",
            "def report(X): return X + globals()['np'].random.normal()",
            "def report(X): return X + eval('random.random()')",
            "def report(X): exec('import random as r; z = r.random()', own := {}); return X + own['z']",
            "TEXT = 'random.random()'\ndef report(X): return X + eval(TEXT)",
            "def report(X): return X + importlib.__import__('random').random()",
            "def report(X): return X + _random.Random(time.time_ns()).random()",
            "def report(X): return X + getattr(_random, 'Random')(1).random()",
            "def report(X): return X + statistics.NormalDist().samples(1)[0]",
            "NORMAL = statistics.NormalDist()\ndef report(X): return X + NORMAL.samples(1)[0]",
            "class M(type):\n    def go(cls): return random.random()\nclass A(metaclass=M): pass\n"
            "def report(X): return X + A.go()",
            "def draw(xp): return xp.random.normal()\ndef report(X): return X + draw(np)",
            "def report(X):\n    xp, other = np, sys\n    return X + xp.random.normal()",
            "MODULES = {'xp': np}\ndef report(X): return X + MODULES['xp'].random.normal()",
            "def report(X, name='random'): return X + importlib.import_module(name).random()",
        )
    },
    "of numpy's module": nr.normal,
    "of a generator": np.random.default_rng(0).normal,
    "of random": random.gauss,
}  # fmt: skip


@pytest.mark.parametrize("what", PREDICTABLE.values(), ids=PREDICTABLE)
def test_predictable_randomness_within_reach(what: object) -> None:
    assert foreign_randomness(what)


def test_what_is_found_is_named_with_its_place() -> None:
    assert foreign_randomness(one_of_two) == ["Random.random in one_of_two"]
    assert "the module random in by_a_string" in foreign_randomness(by_a_string)


@pytest.mark.parametrize(
    ("module", "name", "instead"),
    [
        (secrets, "randbelow", lambda most: random.randrange(most)),
        (secrets, "randbelow", random.randrange),
        (random, "SystemRandom", random.Random),
        (os, "urandom", random.randbytes),
    ],
)
def test_what_a_module_holds_now_counts(
    module: ModuleType, name: str, instead: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def report(X: np.ndarray) -> np.ndarray:
        return X + secrets.randbelow(3) + random.SystemRandom().random() + os.urandom(1)[0]

    assert foreign_randomness(report) == []
    monkeypatch.setattr(module, name, instead)
    assert foreign_randomness(report)


def from_the_system(X: np.ndarray) -> np.ndarray:
    return X + random.SystemRandom().random()


def of_the_module(X: np.ndarray) -> np.ndarray:
    """0.2 took `rng.random` for the module `random`, and together with `np` for `np.random`."""
    return np.asarray(X + SYSTEM.random())


def of_secrets(X: np.ndarray) -> np.ndarray:
    rng = secrets.SystemRandom()
    return np.asarray(X + rng.random())


def of_a_renamed_module(X: np.ndarray) -> np.ndarray:
    own = dice
    return X + own.SystemRandom().gauss(0, 1)


def imported_inside(X: np.ndarray) -> np.ndarray:
    import random as own
    from random import SystemRandom

    return X + SystemRandom().random() + own.SystemRandom().random()


def a_drawn_method(X: np.ndarray) -> np.ndarray:
    return X + DRAW()


def other_modules_by_a_string(X: np.ndarray) -> np.ndarray:
    return X + len(sys.modules) + importlib.import_module("math").pi


def a_column_of_that_name(X: np.ndarray) -> np.ndarray:
    random = {"random": 1}
    return np.asarray(X + random["random"])


UNPREDICTABLE = {
    **{
        what.__name__: what
        for what in (
            from_the_system, of_the_module, of_secrets, of_a_renamed_module, imported_inside, a_drawn_method,
            other_modules_by_a_string, a_column_of_that_name, on_secrets,
        )
    },
    "in a container of an instance": Holds(SYSTEM),
    "in a slot": HoldsInASlot(SYSTEM),
    "beside a module that is an argument": functools.partial(lambda xp, rng, X: xp.sort(X + rng.random()), np, SYSTEM),
    "a closure": closed_over(SYSTEM),
    "with the system's bits under another name": closed_over(AlsoFromTheSystem()),
    "the system's, whose draws are counted": closed_over(CountsTheSystems()),
    "a partial function": functools.partial(lambda draw, X: X + draw(), SYSTEM.gauss),
    "a default": lambda X, draw=SYSTEM.random: X + draw(),
    "from random import *": written("from random import *\ndef report(X): return X + SystemRandom().random()"),
    "of another library": sound.foreign.opendp_laplace,
    "annotated with the class Random": written(
        "import dataclasses, random\n@dataclasses.dataclass\nclass N:\n"
        "    rng: random.Random = dataclasses.field(default_factory=random.SystemRandom)\n"
        "def report(X): return X + N().rng.random()"
    ),
    **{
        source: written(f"import random, secrets, sys, statistics\nfrom scipy import stats\n{source}")
        for source in (
            "def report(X): return X + stats.laplace.ppf(random.SystemRandom().random())",
            "def report(X): return X + stats.laplace(0, 2).ppf(random.SystemRandom().random())",
            "def report(X): return X + stats.laplace(0, scale=stats.norm(0, 1).cdf(2)).ppf(secrets.randbelow(9) / 10)",
            "from scipy.stats import norm\ndef report(X): return X + norm().ppf(random.SystemRandom().random())",
            "LAPLACE = stats.laplace(0, 2)\ndef report(X): return X + LAPLACE.ppf(random.SystemRandom().random())",
            "def report(X): return X + statistics.NormalDist().inv_cdf(random.SystemRandom().random())",
            "def report(X): return X + eval('random.SystemRandom().random()')",
            "def report(X): return X + len(globals()) + random.SystemRandom().random()",
            "from scipy.stats.sampling import DiscreteAliasUrn\ndef report(X): return X + (DiscreteAliasUrn is X)",
            "import collections\ndef report(X): return len(collections.UserString('ab').replace('a', 'b'))",
        )
    },
}  # fmt: skip


@pytest.mark.parametrize("what", UNPREDICTABLE.values(), ids=UNPREDICTABLE)
def test_the_systems_randomness_under_any_name(what: object) -> None:
    assert foreign_randomness(what) == []


def through_its_own_module(X: np.ndarray) -> np.ndarray:
    return X + sys.modules[__name__].random.random()


def test_through_the_functions_own_module() -> None:
    assert "Random.random in through_its_own_module" in foreign_randomness(through_its_own_module)


def test_a_field_whose_default_is_predictable() -> None:
    assert foreign_randomness(
        written(
            "import dataclasses, random\n@dataclasses.dataclass\nclass N:\n"
            "    rng: object = dataclasses.field(default_factory=random.Random)\n"
            "def report(X): return X + N().rng.random()"
        )
    )


@pytest.mark.parametrize(
    ("draw", "sound"),
    [
        ("torch.rand(1)", False),
        ("torch.empty(1).exponential_()", False),
        ("torch.Generator()", False),
        ("torch.distributions.Laplace(0.0, 1.0).sample()", False),
        ("torch.distributions.Laplace(0.0, 1.0).icdf(torch.tensor(SystemRandom().random()))", True),
        ("torch.zeros(1)", True),
    ],
)
def test_generators_of_torch(draw: str, sound: bool) -> None:
    torch = pytest.importorskip("torch")
    report = written(f"from random import SystemRandom\ndef report(X): return X + {draw}", torch=torch)
    assert (foreign_randomness(report) == []) == sound


def test_the_verdict_follows_the_objects() -> None:
    """The two that 0.2 judged by their names: one it cleared, one it called broken."""

    def mechanism(rng: random.Random) -> Callable[[np.ndarray], np.ndarray]:
        def respond(X: np.ndarray) -> np.ndarray:
            lies = np.array([rng.random() >= 0.7 for _ in X])
            return ((np.nan_to_num(X[:, 0]) > 0) ^ lies)[:, None]

        return respond

    for rng, word in ((random, "BROKEN"), (SYSTEM, "HOLDS")):
        found = tv.audit(mechanism(rng), epsilon=1.0, records=np.linspace(-1, 1, 9)[:, None], trials=2000, finalists=1)
        assert found.verdict.startswith(word), found.verdict


def test_mechanisms_reach_the_operating_system_only() -> None:
    veils = [exhibits.laplace_veil(1.0), sound.codebook_for(1.0), exhibits.lattice_veil(3.0)]
    assert foreign_randomness(*(part for veil in veils for part in (veil.mechanism, veil.encoder))) == []


def test_browser_code_never_asks_math_random() -> None:
    sources = [
        path
        for path in (Path(__file__).parents[2] / "js").glob("**/*.[jt]s")
        if "node_modules" not in path.parts and "test" not in path.parts
    ]
    assert [path.name for path in sources if "Math.random" in path.read_text(encoding="utf-8")] == []


def test_a_module_that_refuses_a_name_with_an_error_of_its_own_is_read_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """pydantic raises its own error for names of its first version; the audit ended with it."""
    module = ModuleType("refusing")

    def refuse(name: str) -> object:
        raise RuntimeError(name)

    module.__getattr__ = refuse  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "refusing", module)

    def asks(X: np.ndarray) -> np.ndarray:
        from refusing import removed

        return removed(X)

    assert not list(foreign_randomness(asks))


class Drawn(pa.ExtensionType):
    """A type that another package may give to pyarrow, as Ray does."""

    def __init__(self) -> None:
        super().__init__(pa.int64(), "taskveil.drawn")

    def __arrow_ext_serialize__(self) -> bytes:
        return random.randbytes(1)

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> Drawn:
        return cls()


def test_what_other_packages_register_in_a_library_is_not_reached_through_it() -> None:
    """Each function that Cython compiled refers to its whole module. With `ray.data` loaded, the audit called devices
    broken that make tables."""
    pa.register_extension_type(Drawn())
    try:
        assert foreign_randomness(lambda X: pa.array(X.tolist())) == []
        assert foreign_randomness(lambda X: pa.array(X.tolist()).cast(Drawn())) != []
    finally:
        pa.unregister_extension_type("taskveil.drawn")
