"""Folders on a real cluster of two and three machines, all of them here: the same as on one, whoever did what."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import releases
from cli.running import one_line
from taskveil.client.mechanisms import Codebook
from taskveil.jobs import ray_cluster
from taskveil.jobs.commands import decode_tables, privatize_tables, tally_tables
from taskveil.jobs.plans import JobPart, JobPlan, opened
from taskveil.jobs.running import Engine

STORE = 80 * 10**6
FILES, ROWS = 6, 20_000
MARKER = 1234.56789
"""In every record, and nowhere else."""
RAY = Engine(name="ray")


@pytest.fixture(scope="module")
def machines() -> Iterator[Any]:
    """A cluster of two machines with a core each, for nobody else; we are connected to it."""
    import ray
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        patch.delenv("RAY_ADDRESS", raising=False)
        # For good: a process keeps the first token that it has read, and other tests have clusters in this one, too.
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
        ray._raylet.Config.initialize("")  # or whatever this process has imported Ray with would count
        head = {"num_cpus": 1, "object_store_memory": STORE, "include_dashboard": False}
        found = Cluster(initialize_head=True, head_node_args=head)
        try:
            found.add_node(num_cpus=1, object_store_memory=STORE)
            with ray_cluster.connected(found.address):
                yield found
                assert ray.is_initialized()  # whatever was done meanwhile
            assert not ray.is_initialized()
        finally:
            found.shutdown()


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with people, and a release that adds noise and one that draws codes."""
    folder = tmp_path_factory.mktemp("on cluster, ünïcode")
    codes = Codebook(region=releases.box(3), stages=(releases.stage(16, 2, 3.0),))
    noise = releases.devices()["laplace_box"]
    for name, veil in {
        "codes": releases.veil(releases.linear(), codes),
        "noise": releases.veil(noise.encoder, noise.mechanism),
    }.items():
        dataclasses.replace(veil, columns=tuple("abcde")).save(folder / name)
    people = folder / "people"
    for number in range(FILES):
        home = people / f"country={'FI' if number % 2 else 'FR'}"
        home.mkdir(parents=True, exist_ok=True)
        columns = np.random.default_rng(number).normal(size=(5, ROWS))
        columns[4] = MARKER
        pq.write_table(pa.table(dict(zip("abcde", columns, strict=True))), home / f"{number}.parquet")
    return folder


def parts(folder: Path) -> list[pa.Table]:
    return [pq.read_table(path) for path in sorted(folder.glob("part-*"))]


def held(*values: bytes) -> bool:
    """Whether any of these lies in the object store of any machine, in use or left over, or in what was spilled."""
    import ray

    session = Path(ray.nodes()[0]["ObjectStoreSocketName"]).parents[1]
    spilled = [path for path in session.rglob("*spill*/*") if path.is_file()]
    stores = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if str(session) in (process / "cmdline").read_text() and (process / "comm").read_text() == "raylet\n":
                stores += [link for link in (process / "fd").iterdir() if "/plasma" in os.readlink(link)]
    assert len(stores) >= 2  # or we look at nothing
    return any(value in content for content in map(Path.read_bytes, [*stores, *spilled]) for value in values)


def whereabouts() -> Any:
    """A work that says on which machine a part was worked on. Made here, because workers cannot import tests."""

    class Whereabouts:
        def __call__(self, part: JobPart) -> str:
            import time

            import ray

            time.sleep(0.3)
            return str(ray.get_runtime_context().get_node_id())

    return Whereabouts()


def of_people(work: Path) -> JobPlan:
    _, tables = opened(work / "people")
    return JobPlan.of(tables, {})


def machines_used(work: Path) -> int:
    plan = of_people(work)
    found = dict(RAY.run(whereabouts(), plan.parts, kept=""))
    assert sorted(part.number for part in found) == list(range(FILES))
    return len(set(found.values()))


def check_same_as_here(work: Path, name: str, out: Path) -> None:
    """Reports, estimates and sums of a release from the cluster, against one machine's."""
    steps: list[tuple[int, int]] = []
    done = privatize_tables(
        work / name, work / "people", out / "r", engine=RAY, progress=lambda *step: steps.append(step)
    )
    assert (done.rows, done.found, len(done.parts)) == (FILES * ROWS, 0, FILES)
    assert steps == [(0, FILES * ROWS), *[(ROWS, FILES * ROWS)] * FILES]
    privatize_tables(work / name, work / "people", out / "here")
    for made, here in zip(parts(out / "r"), parts(out / "here"), strict=True):
        assert (made.schema.names, made.num_rows) == (here.schema.names, here.num_rows)
    for options in ({}, {"predict": True}):
        sets = [out / f"{place}{len(options)}" for place in ("ray", "plain")]
        for target, engine in zip(sets, (RAY, Engine()), strict=True):
            decode_tables(work / name, out / "r", target, engine=engine, **options)
        for made, here in zip(*map(parts, sets), strict=True):
            assert made.equals(here)
    (_,), (there,) = tally_tables([work / name], [out / "r"], engine=RAY)
    (_,), (here,) = tally_tables([work / name], [out / "r"])
    assert there.count == here.count == FILES * ROWS
    for field in ("codes", "total", "square"):
        one, other = getattr(there, field), getattr(here, field)
        assert (one is None) == (other is None)
        assert one is None or one.tobytes() == other.tobytes(), field


def test_two_machines_share_the_work_and_make_what_one_does(machines: Any, work: Path, tmp_path: Path) -> None:
    assert machines_used(work) == 2
    check_same_as_here(work, "codes", tmp_path)


def test_nothing_of_records_and_reports_lies_in_the_object_store(machines: Any, work: Path, tmp_path: Path) -> None:
    import ray.data

    marker = np.array([MARKER]).tobytes()
    privatize_tables(work / "noise", work / "people", tmp_path / "r", engine=RAY)
    decode_tables(work / "noise", tmp_path / "r", tmp_path / "d", engine=RAY)
    tally_tables([work / "noise"], [tmp_path / "r"], engine=RAY)
    tables = [*parts(tmp_path / "r"), *parts(tmp_path / "d")]
    assert not held(marker, *(table.column(0).to_numpy()[1000:1004].tobytes() for table in tables))
    # An engine that hands rows around, as Ray Data does when it reads itself, is found out.
    ray.data.read_parquet(str(work / "people")).materialize()
    assert held(marker)


def test_what_a_worker_refuses_is_one_line_of_ours(
    machines: Any, work: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Found out only by the worker: a page in the middle of a file is damaged. What others made stays."""
    people = tmp_path / "people"
    people.mkdir()
    for number in range(3):
        table = pa.table({name: np.random.default_rng(number).normal(size=5000) for name in "abcde"})
        pq.write_table(table, people / f"{number}.parquet", compression="snappy", use_dictionary=False)
    damaged = bytearray((people / "1.parquet").read_bytes())
    damaged[4:2000] = b"\xff" * 1996
    (people / "1.parquet").write_bytes(damaged)
    line = one_line("privatize", people, tmp_path / "r", "--release", work / "codes", "--engine", "ray")
    assert line == f"error: cannot read '{people / '1.parquet'}' as a table: OSError.\n"
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "r" / "part-00001.parquet").exists()
    assert not list((tmp_path / "r").glob(".*"))


def test_a_job_that_nobody_waits_for_ends(machines: Any, work: Path, tmp_path: Path) -> None:
    target = tmp_path / "seen"
    target.mkdir()

    class Marking(type(whereabouts())):  # type: ignore[misc]
        def __call__(self, part: JobPart) -> str:
            (target / str(part.number)).touch()
            return str(super().__call__(part))

    plan = of_people(work)
    many = [dataclasses.replace(plan.parts[0], number=number) for number in range(40)]
    some: Any = RAY.run(Marking(), many, kept="")
    next(some)
    some.close()
    seen = -1
    while seen != (seen := len(list(target.iterdir()))):
        time.sleep(1.0)  # in which each machine would do three
    assert seen < 40


@pytest.mark.slow
def test_a_third_machine_joins(machines: Any, work: Path, tmp_path: Path) -> None:
    """And is lost in tests/lost_machines: Ray takes its time to notice."""
    machines.add_node(num_cpus=1, object_store_memory=STORE)
    assert machines_used(work) == 3
    check_same_as_here(work, "noise", tmp_path)


def test_more_workers_than_parts_are_no_cause_for_warnings(machines: Any, work: Path) -> None:
    plan = of_people(work)
    assert len(list(Engine(name="ray", workers=50).run(whereabouts(), plan.parts, kept=""))) == FILES
