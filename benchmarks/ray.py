"""Many rows and many designs on Ray's workers against the same on one core, and what a worker's memory comes to.

    python benchmarks/ray.py                            # 3 × 10⁷ rows, 5.3 GB of Parquet: about twenty minutes
    python benchmarks/ray.py --folder data --keep       # tables and releases stay there for the next time
    python benchmarks/ray.py --only privatize sweep     # parts: see --help
    python benchmarks/ray.py --rows 4000000 --repeat 1  # a short one
    python benchmarks/ray.py --json benchmarks/scaling/measured.json    # keeps what parts of it were found to be
    python benchmarks/ray.py --paper docs/guides/scale.md  # measures nothing: writes the page's tables from that file

The cluster is up before anything is timed, and what that took is said. Plain, one worker and two take turns, `--repeat`
times; a rate or a ratio is the median over the turns, because a machine's mood changes from minute to minute. Behind
each rate stand rows for every second of processor time, which change less; below, how many cores others used meanwhile,
and how much was read from disks and not from the system's memory. Exit code 1 if a bar is missed.
"""

import os
import sys

if __name__ != "__main__":  # another script of this folder, or what it uses, looks for Ray and finds its namesake
    raise ImportError("this is a benchmark, not Ray.")

# Python looks into a script's own folder first, where `import ray` would find this very file, and Ray would have its
# workers look there too. So everything comes from the folder above, and that is where we and the workers are.
benchmarks = os.path.dirname(os.path.realpath(__file__))
root = os.path.dirname(benchmarks)
sys.path[:] = [root, os.path.join(root, "tests"), *(at for at in sys.path if os.path.realpath(at) != benchmarks)]
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is imported: a worker of Ray's has one thread as well

from benchmarks.scaling.measuring import main  # noqa: E402

sys.exit(main(__doc__))
