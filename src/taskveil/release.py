"""A veil as files: `client/` holds what devices run and may be public, `server/` holds decoder and task.

What devices read is in `taskveil.device`; here are the server's side and the folder as a whole.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from taskveil.decoders import AffineDecoder, CodewordDecoder, LatticeDecoder, Layer, NetworkDecoder
from taskveil.device import CLIENT, pack_device, read_device
from taskveil.errors import ReleaseError, TaskveilError
from taskveil.files import MANIFEST, read_files, sign_files, write_files
from taskveil.lattice import Lattice
from taskveil.parts import Kinds, pack, unpack
from taskveil.task import LinearTask, Task
from taskveil.veil import Considered, LossBounds, Veil

SERVER = "server"

SERVER_KINDS: Kinds = {
    "affine_decoder": AffineDecoder,
    "network_decoder": NetworkDecoder,
    "layer": Layer,
    "codeword_decoder": CodewordDecoder,
    "lattice_decoder": LatticeDecoder,
    "lattice": Lattice,
    "linear_task": LinearTask,
    "loss_bounds": LossBounds,
    "considered": Considered,
}
"""What may appear in `server/`."""


def save(veil: Veil, folder: Path, *, overwrite: bool = False) -> None:
    """Write the release next to its place and move it there in one step, so that nobody ever sees half of it."""
    if folder.exists() and not overwrite:
        raise ReleaseError(f"{folder} exists already. Choose another folder, or pass overwrite=True.")
    if folder.exists() and not (folder / CLIENT / MANIFEST).exists():
        raise ReleaseError(f"{folder} is not a taskveil release and will not be overwritten.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        _write(veil, draft)
        draft.chmod(0o755)
        if folder.exists():
            previous = draft.with_name(draft.name + ".previous")
            os.replace(folder, previous)
            os.replace(draft, folder)
            shutil.rmtree(previous)
        else:
            os.replace(draft, folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(draft)


def _write(veil: Veil, folder: Path) -> None:
    for name in (CLIENT, SERVER):
        (folder / name).mkdir()
    promise = veil.guarantee
    content, arrays = pack_device(veil.device, promise.epsilon, promise.delta, promise.statement)
    release = write_files(folder / CLIENT, content, arrays)
    arrays = {}
    server = {
        "release": release,
        "method": veil.method,
        "decoder": pack(veil.decoder, "decoder", arrays, SERVER_KINDS),
        "task": pack(veil.task, "task", arrays, SERVER_KINDS) if isinstance(veil.task, LinearTask) else None,
        "bounds": None if veil.bounds is None else pack(veil.bounds, "bounds", arrays, SERVER_KINDS),
        "considered": pack(veil.considered, "considered", arrays, SERVER_KINDS),
    }
    write_files(folder / SERVER, server, arrays)


def sign(folder: Path, key: bytes) -> None:
    """Sign both halves of a release with a PEM private key (Ed25519)."""
    load(folder)
    for name in (CLIENT, SERVER):
        sign_files(folder / name, key)


def load(folder: Path, task: Task | None = None, verify_key: bytes | None = None) -> Veil:
    """Read and check a release; everything wrong with it is a ReleaseError raised here."""
    device, client = read_device(folder / CLIENT, verify_key)
    server, arrays = read_files(folder / SERVER, verify_key)
    try:
        if server["release"] != client["digest"]:
            raise ReleaseError(f"{folder}: client and server files are of different releases.")
        decoders = (AffineDecoder, NetworkDecoder, CodewordDecoder, LatticeDecoder)
        stored, bounds = server["task"], server["bounds"]
        return Veil(
            encoder=device.encoder,
            mechanism=device.mechanism,
            decoder=unpack(server["decoder"], arrays, SERVER_KINDS, *decoders),
            task=task if stored is None else unpack(stored, arrays, SERVER_KINDS, LinearTask),
            method=server["method"],
            columns=device.columns,
            units=device.units,
            bounds=None if bounds is None else unpack(bounds, arrays, SERVER_KINDS, LossBounds),
            considered=unpack(server["considered"], arrays, SERVER_KINDS, tuple),
        )
    except ReleaseError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, TaskveilError) as error:
        raise ReleaseError(f"{folder} holds no valid veil: {error}") from error
