"""Where a cluster of our own lives, who may look there, and what is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from taskveil.client.locking import alone, own_folder

OWN = """
import os, sys, signal
from taskveil.jobs.ray_cluster import connected
if sys.argv[1] == "ended":
    import ray  # by the caller; the token is needed all the same, and lies in no file

with connected(workers=1):
    import ray
    print(ray._private.worker._global_node.get_session_dir_path(), flush=True)
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_cluster_of_our_own_is_closed_to_others_and_leaves_nothing(tmp_path: Path) -> None:
    """Spilled objects may be volunteers' records, and a person who can replace a socket runs code as its user."""
    homes = {}
    for end in ("killed", "ended"):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        own = {**plain, "HOME": str(tmp_path)}
        ran = subprocess.run([sys.executable, "-c", OWN, end], capture_output=True, text=True, check=False, env=own)
        session = Path(ran.stdout.strip())
        (homes[end],) = (folder for folder in session.parents if folder.name.startswith("tv-ray-"))
    assert not homes["ended"].exists()
    assert list(tmp_path.iterdir()) == []  # no token, which Ray would write for all to read
    assert homes["killed"].stat().st_mode & 0o777 == 0o700
    within = str(homes["killed"].parent)
    with own_folder("tv-ray-", within=within, quiet=3600.0):  # it may still be ending
        assert homes["killed"].exists()
    with alone(homes["killed"] / "lock"), own_folder("tv-ray-", within=within):  # its owner lives
        assert homes["killed"].exists()
    with own_folder("tv-ray-", within=within):
        assert not homes["killed"].exists()
