"""Where a cluster of our own lives, who may look there, and what is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from taskveil.jobs import ray_folder

OWN = """
import os, sys, signal
from taskveil.jobs.ray_joining import connected
if sys.argv[1] == "ended":
    import ray  # by whoever calls us; the token is asked for all the same, and lies in no file

with connected(workers=1):
    import ray
    print(ray.get(ray.remote(lambda: os.environ["TMPDIR"]).remote()))
    print(ray._private.worker._global_node.get_session_dir_path(), flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_cluster_of_our_own_is_closed_to_others_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spilled objects may be volunteers' records, and whoever may exchange a socket runs code as its user."""
    homes = {}
    for end in ("killed", "ended"):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        own = {**plain, "HOME": str(tmp_path)}
        ran = subprocess.run([sys.executable, "-c", OWN, end], capture_output=True, text=True, check=False, env=own)
        homes[end], session = map(Path, ran.stdout.split())  # workers' temporary files, and Ray's own
        assert homes[end].name.startswith(ray_folder._PREFIX)
        assert session.is_relative_to(homes[end])
    assert not homes["ended"].exists()
    assert list(tmp_path.iterdir()) == []  # no token, which Ray would write for all to read
    assert homes["killed"].stat().st_mode & 0o777 == 0o700
    ray_folder._forget_clusters(homes["killed"].parent)  # it may just have begun
    assert homes["killed"].exists()
    monkeypatch.setattr(ray_folder, "_YOUNG", -1.0)
    with ray_folder.alone(homes["killed"] / ray_folder._LOCK):  # somebody works there
        ray_folder._forget_clusters(homes["killed"].parent)
        assert homes["killed"].exists()
    ray_folder._forget_clusters(homes["killed"].parent)
    assert not homes["killed"].exists()
