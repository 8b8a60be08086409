"""Machines of a cluster lost, locked, too small and interrupted, all of them on this one: about three minutes.

    python tests/lost_machines/run.py

Every case is a command in a process of its own against a cluster of real Ray machines. Exit code 1 if anything was
wrong. Small versions are tests (tests/jobs/test_on_cluster.py, tests/jobs/).
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # whatever token lies on this machine; one case has one of its own
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import releases
from taskveil.client.mechanisms import Codebook

FILES, ROWS = 60, 250_000
STORE = 80 * 10**6
SOON = 60
"""Seconds in which a lost head is noticed, and a place that is no cluster."""
KEPT = "Parts that are there stay, and nobody's report is drawn twice: run it again to go on."


@contextlib.contextmanager
def machines(*cores: int) -> Iterator[Any]:
    """A cluster of machines with so many cores each, the head first."""
    from ray.cluster_utils import Cluster

    head = {"num_cpus": cores[0], "object_store_memory": STORE, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for count in cores[1:]:
            cluster.add_node(num_cpus=count, object_store_memory=STORE)
        yield cluster
    finally:
        cluster.shutdown()


class Job:
    """A command that privatizes all people of `home` into a folder of its own."""

    def __init__(self, home: Path, name: str, *options: str, environment: dict[str, str] | None = None) -> None:
        self.target = home / name
        places = [str(home / "people"), str(self.target), "--release", str(home / "release")]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "taskveil", "privatize", *places, "--engine", "ray", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # Ctrl-C reaches all of a terminal's processes, and none of ours
        )

    def parts(self) -> set[str]:
        return {path.name for path in self.target.glob("part-*")}

    def wait_for_parts(self, count: int = 3) -> None:
        while self.process.poll() is None and len(self.parts()) < count:
            time.sleep(0.1)

    def end(self, timeout: float = 300) -> tuple[int, str]:
        """Exit code and what was printed."""
        said, _ = self.process.communicate(timeout=timeout)
        return self.process.returncode, said


def expect(found: object, wanted: object) -> None:
    if found != wanted:
        raise AssertionError(f"expected {wanted!r}, found {found!r}")


def finished(job: Job) -> None:
    """The job's command has ended well, with all parts."""
    code, said = job.end()
    expect((code, len(job.parts())), (0, FILES))
    line = said.rstrip().splitlines()[-1]
    if not line.startswith(f"{FILES * ROWS:,} reports in {FILES} parts"):
        raise AssertionError(said)


def lost_machine(home: Path) -> str:
    """One of three is lost: the others do its work."""
    with machines(1, 1, 1) as cluster:
        job = Job(home, "lost-machine", "--address", cluster.address)
        job.wait_for_parts()
        cluster.remove_node(list(cluster.worker_nodes)[-1], allow_graceful=False)
        finished(job)
    return "finished by the others"


def lost_head(home: Path) -> str:
    """One line, finished parts stay as they are, and the job goes on elsewhere."""
    with machines(1, 1) as cluster:
        job = Job(home, "lost-head", "--address", cluster.address)
        job.wait_for_parts()
        before = time.monotonic()
        cluster.head_node.kill_all_processes(check_alive=False, allow_graceful=False)
        code, said = job.end()
        took = time.monotonic() - before
    expect(code, 2)
    expect(said.splitlines()[-1], f"error: the connection to the cluster was lost. {KEPT}")
    if took > SOON:
        raise AssertionError(f"it took {took:.0f} s")
    made = {name: (job.target / name).read_bytes() for name in job.parts()}
    finished(Job(home, "lost-head", "--workers", "2"))
    for name, content in made.items():
        expect((job.target / name).read_bytes() == content, True)
    return f"said after {took:.0f} s; {len(made)} parts stayed, the rest was made by another cluster"


def lost_last_worker(home: Path) -> str:
    """The head has no core of its own: when its only worker is lost, nobody is waited for without end."""
    with machines(0, 1) as cluster:
        job = Job(home, "lost-worker", "--address", cluster.address)
        job.wait_for_parts()
        cluster.remove_node(cluster.worker_nodes.copy().pop(), allow_graceful=False)
        before = time.monotonic()
        code, said = job.end()
    expect(code, 2)
    line = f"error: a machine of the cluster was lost, and no other could take over. {KEPT}"
    expect(said.splitlines()[-1], line)
    return f"said after {time.monotonic() - before:.0f} s"


def interrupted(home: Path) -> str:
    """Ctrl-C: one line, exit code 130, nobody left, parts stay, and it goes on."""
    job = Job(home, "interrupted", "--workers", "2")
    job.wait_for_parts()
    group = os.getpgid(job.process.pid)
    family = descendants(job.process.pid)
    before = time.monotonic()
    os.killpg(group, signal.SIGINT)
    code, said = job.end()
    took = time.monotonic() - before
    note = "note: interrupted. Parts that are there stay: run the same command again to go on."
    expect((code, said.strip()), (130, note))
    time.sleep(1)
    expect([one for one in family if Path(f"/proc/{one}").exists()], [])
    made = len(job.parts())
    again = Job(home, "interrupted", "--workers", "2")
    finished(again)
    return f"quiet after {took:.1f} s, none of {len(family)} processes left, {made} parts stayed"


def descendants(process: int) -> list[int]:
    """All processes that it started, and those that these did."""
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [one for child in map(int, children) for one in (child, *descendants(child))]


def locked(home: Path) -> str:
    """A cluster that asks for a token tells so, and takes who has it."""
    with_token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "5f" * 32}
    script = (
        "import sys, ray; print(ray.init(num_cpus=1, include_dashboard=False).address_info['address'], flush=True);"
        "sys.stdin.read()"
    )
    head = subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **with_token},
    )
    assert head.stdout is not None
    address = head.stdout.readline().strip()
    try:
        before = time.monotonic()
        code, said = Job(home, "locked", "--address", address).end()
        took = time.monotonic() - before
        reason = "it asks for a token: RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN"
        expect((code, said.startswith(f"error: no Ray cluster answers at {address} ({reason}). ")), (2, True))
        job = Job(home, "locked", "--address", address, environment=with_token)
        job.wait_for_parts()
        job.process.send_signal(signal.SIGINT)
        expect(job.end()[0], 130)
    finally:
        head.communicate("")
    return f"said after {took:.0f} s"


def more_than_the_store(home: Path) -> str:
    """What sweeps share may be larger than a machine's object store: Ray puts it on the disk."""
    from taskveil.jobs.ray_cluster import connected
    from taskveil.jobs.running import in_any_order

    def added(shared: Any, task: int) -> float:
        return float(shared[task])

    with machines(1, 1) as cluster, connected(cluster.address):
        data = np.arange(3 * STORE // 8, dtype=np.float64)
        expect(sorted(in_any_order(added, [1, 2, 3], shared=data)), [1.0, 2.0, 3.0])
    return f"{data.nbytes / 1e6:.0f} MB shared by machines with {STORE / 1e6:.0f} MB"


def models(home: Path) -> str:
    """Answers of scikit-learn's, torch's and ONNX's models from two machines are those of one."""
    import torch
    from sklearn.linear_model import LinearRegression

    import taskveil as tv
    from taskveil.jobs.commands import decode_tables, privatize_tables
    from taskveil.jobs.ray_cluster import connected
    from taskveil.jobs.running import Engine

    X = np.random.default_rng(0).normal(size=(300, 5))
    network = torch.nn.Sequential(torch.nn.Linear(5, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    onnx = home / "network.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch would rather write it another way
        names: dict[str, Any] = {"input_names": ["x"], "dynamic_axes": {"x": {0: "N"}}}
        torch.onnx.export(network, (torch.zeros(4, 5),), onnx, dynamo=False, **names)
    kinds = {"scikit-learn": LinearRegression().fit(X, X[:, 0] - X[:, 1]), "torch": network, "ONNX": onnx}
    pq.write_table(pa.table(dict(zip("abcde", X.T, strict=True))), home / "few.parquet", row_group_size=99)
    with machines(1, 1) as cluster, connected(cluster.address):
        for name, model in kinds.items():
            task, place = tv.ModelTask(model, answering="record"), home / name
            veil = tv.design(X, task, epsilon=2.0, method="task_agnostic")
            dataclasses.replace(veil, columns=tuple("abcde")).save(place / "release")
            privatize_tables(place / "release", home / "few.parquet", place / "reports", engine=Engine(name="ray"))
            made = []
            for engine in (Engine(), Engine(name="ray")):
                out = place / engine.name
                decode_tables(place / "release", place / "reports", out, engine=engine, task=task, predict=True)
                made.append(pq.read_table(out))
            expect(made[0].equals(made[1]), True)
    return ", ".join(kinds)


CASES: tuple[Callable[[Path], str], ...] = (
    lost_machine,
    lost_head,
    lost_last_worker,
    interrupted,
    locked,
    more_than_the_store,
    models,
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", help="only this one")
    asked = parser.parse_args().case
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        codes = Codebook(region=releases.box(3), stages=(releases.stage(16, 2, 3.0),))
        veil = releases.veil(releases.linear(), codes)
        dataclasses.replace(veil, columns=tuple("abcde")).save(home / "release")
        (home / "people").mkdir()
        table = pa.table({name: np.random.default_rng(0).normal(size=ROWS) for name in "abcde"})
        pq.write_table(table, home / "people" / "00.parquet")
        for number in range(1, FILES):
            shutil.copyfile(home / "people" / "00.parquet", home / "people" / f"{number:02d}.parquet")
        for case in CASES:
            if asked in (None, case.__name__):
                before = time.monotonic()
                try:
                    line = case(home)
                except Exception as error:
                    wrong, line = wrong + 1, f"WRONG: {type(error).__name__}: {error}"
                print(f"{case.__name__:20} {time.monotonic() - before:5.0f} s  {line}", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
