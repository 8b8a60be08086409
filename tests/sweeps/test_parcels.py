"""What workers are sent: whatever the caller's own files define, and one line about what cannot be."""

from __future__ import annotations

import importlib
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import taskveil as tv
from designers import Plain
from taskveil.errors import TaskError
from taskveil.sweeps.work import from_parcel, to_parcel


def test_a_designer_in_a_file_of_ones_own_is_sent_itself(tmp_path: Path) -> None:
    """Another process, which has no such file, can use it; taskveil and what is installed go by name."""
    parcel = to_parcel([Plain(share=0.5), np.arange(3.0), tv.LinearTask(np.eye(3))])
    (tmp_path / "content").write_bytes(parcel.content)
    for number, array in enumerate(parcel.arrays):
        array.tofile(tmp_path / f"array{number}")
    script = (
        "import sys, numpy as np; from pathlib import Path\n"
        "from taskveil.sweeps.work import Parcel, from_parcel\n"
        f"arrays = [np.fromfile(f'array{{n}}', np.uint8) for n in range({len(parcel.arrays)})]\n"
        "designer, numbers, task = from_parcel(Parcel(Path('content').read_bytes(), arrays))\n"
        "numbers[0] = 7.0\n"
        "assert 'designers' not in sys.modules and designer.why_not(task) is None\n"
        "print(designer.name, designer.share, numbers.sum(), type(task).__module__)\n"
    )
    environment = {"PYTHONPATH": str(Path(tv.__file__).parents[1]), "PATH": ""}
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.stderr == ""
    assert done.stdout.split() == ["plain", "0.5", "10.0", "taskveil.tasks.linear"]


def test_what_cannot_be_sent_is_said_in_one_line() -> None:
    with pytest.raises(TaskError, match=r"cannot be sent to workers \(.*lock.*engine=None") as said:
        to_parcel([Plain(), threading.Lock()])
    assert "\n" not in str(said.value)


def test_a_package_that_only_the_caller_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "installed_here.py").write_text("class Model: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"purelib": str(tmp_path)})
    module = importlib.import_module("installed_here")
    parcel = to_parcel(module.Model())
    monkeypatch.delitem(sys.modules, "installed_here")
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(tmp_path)])
    with pytest.raises(TaskError, match=r"lacks .*No module named 'installed_here'.*install the same"):
        from_parcel(parcel)
