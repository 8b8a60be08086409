"""A veil as files: `client/` holds what devices run and may be public, `server/` holds decoder and task."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from taskveil.arrays import Array
from taskveil.client.device import Device
from taskveil.client.mechanisms import Codebook, Laplace, LevelResponse, SumCodebook
from taskveil.client.reading import BROKEN, CLIENT, MANIFEST, canonical, read_device, read_files, unpack
from taskveil.errors import ReleaseError
from taskveil.records.schema import Schema
from taskveil.records.tables import ColumnType, library_named
from taskveil.tasks import LinearTask, MeanTask, Task
from taskveil.tasks.linear import MatrixTask
from taskveil.veil.decoders import CodewordDecoder, Decoder
from taskveil.veil.guarantee import Guarantee
from taskveil.veil.losses import Considered, LossBounds
from taskveil.veil.manifest import manifest_of, write_files
from taskveil.veil.parts import DECODERS, SERVER_KINDS, TASKS, pack, pack_device
from taskveil.veil.signing import sign_files
from taskveil.veil.volunteers import FARTHEST, Outputs, Volunteers

SERVER = "server"

_UNSAID = {"standard_error": 0.0, "encoder": "", "bytes": 0, "operations": 0}
"""What releases of schema 1 (how sure the choice was) and up to 5 (what devices would run) do not say of a design."""


class Designed(Protocol):
    """What a release is made of. A `Veil` is one; this room does not need to know more of it."""

    @property
    def device(self) -> Device:
        """What runs at the user's end."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What every user is promised."""
        ...

    @property
    def decoder(self) -> Decoder:
        """From reports to estimates."""
        ...

    @property
    def task(self) -> Task | None:
        """What the estimates are for."""
        ...

    @property
    def method(self) -> str:
        """How it was designed."""
        ...

    @property
    def bounds(self) -> LossBounds | None:
        """What is proved about its loss."""
        ...

    @property
    def answering(self) -> Decoder | None:
        """From reports straight to answers."""
        ...

    @property
    def schema(self) -> Schema | None:
        """What records consist of, where they have natural values."""
        ...

    @property
    def volunteers(self) -> Volunteers | None:
        """Sums over the volunteers, which people are compared with."""
        ...

    @property
    def outputs(self) -> Outputs | None:
        """The names of the task's outputs."""
        ...

    @property
    def considered(self) -> tuple[Considered, ...]:
        """What else the design looked at."""
        ...


def release_id(veil: Designed) -> str:
    """The digest of what devices run."""
    manifest, _ = manifest_of(*pack_device(veil.device, veil.guarantee))
    return str(manifest["digest"])


def client_bytes(veil: Designed) -> int:
    """What the files in `client/` take, without a signature."""
    manifest, weights = manifest_of(*pack_device(veil.device, veil.guarantee))
    return len(canonical(manifest)) + len(weights)


def save(veil: Designed, folder: Path, *, overwrite: bool = False) -> None:
    """Write the release next to its place and move it there, so that nobody ever sees half of it.

    A release that is overwritten is moved aside first: between the two moves there is none.
    """
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


def _write(veil: Designed, folder: Path) -> None:
    (folder / CLIENT).mkdir()
    # Sums over the volunteers are for those who run the collection; the owner may open the folder to others (chmod).
    (folder / SERVER).mkdir(mode=0o777 if veil.volunteers is None else 0o700)
    release = write_files(folder / CLIENT, *pack_device(veil.device, veil.guarantee))
    arrays: dict[str, Array] = {}
    server = {
        "release": release,
        "method": veil.method,
        "decoder": pack(veil.decoder, "decoder", arrays, SERVER_KINDS),
        "task": pack(veil.task, "task", arrays, SERVER_KINDS) if isinstance(veil.task, LinearTask | MeanTask) else None,
        "bounds": None if veil.bounds is None else pack(veil.bounds, "bounds", arrays, SERVER_KINDS),
        "considered": pack(veil.considered, "considered", arrays, SERVER_KINDS),
    }
    if veil.schema is not None:
        types = pack(veil.schema.published.types, "types", arrays, SERVER_KINDS)
        server["table"] = {"library": veil.schema.library, "types": types}
    if veil.answering is not None:
        server["answering"] = pack(veil.answering, "answering", arrays, SERVER_KINDS)
    for name, part in (("volunteers", veil.volunteers), ("outputs", veil.outputs)):
        if part is not None:
            server[name] = pack(part, name, arrays, SERVER_KINDS)
    write_files(folder / SERVER, server, arrays)


def sign(folder: Path, key: bytes) -> None:
    """Sign both halves of a release with a PEM private key (Ed25519)."""
    load(folder)
    for name in (CLIENT, SERVER):
        sign_files(folder / name, key)


def _renamed(method: str) -> str:
    """A method's name of today: "constant" was called "nothing" before."""
    return "constant" if method == "nothing" else method


def load(folder: Path, verify_key: bytes | None = None) -> tuple[dict[str, Any], str]:
    """Read and check a release: the parts a `Veil` is built from, by name, and the release's id.

    Everything wrong with it is a ReleaseError raised here. A task that is a model is not stored and comes as None.
    """
    device, client = read_device(folder / CLIENT, verify_key)
    server, arrays = read_files(folder / SERVER, verify_key)
    try:
        if server["release"] != client["digest"]:
            raise ReleaseError(f"{folder}: client and server files are of different releases.")
        wild = [name for name, array in arrays.items() if array.dtype.kind == "f" and not _bounded(array)]
        if wild:
            raise ReleaseError(f"{folder}: {wild[0]} holds numbers that are not finite, or beyond ±{FARTHEST:g}.")
        decoder = unpack(server["decoder"], arrays, SERVER_KINDS, *DECODERS.values())
        if decoder.shape != (device.encoder.width, device.mechanism.report_width):
            raise ReleaseError(f"{folder}: the decoder does not fit the reports.")
        task, bounds, answering = server["task"], server["bounds"], server.get("answering")
        volunteers, outputs = server.get("volunteers"), server.get("outputs")
        if volunteers is not None and "mean" not in volunteers:  # earlier versions did not store it
            counts, measured = (arrays[volunteers["cells"][name]["tensor"]] for name in ("counts", "measured"))
            arrays["volunteers.mean"] = counts @ measured / counts.sum()
            volunteers = {**volunteers, "mean": {"tensor": "volunteers.mean"}}
        considered = [{**_UNSAID, **entry, "method": _renamed(entry["method"])} for entry in server["considered"]]
        parts = {
            "encoder": device.encoder,
            "mechanism": device.mechanism,
            "decoder": decoder,
            "task": None if task is None else unpack(task, arrays, SERVER_KINDS, *TASKS.values()),
            "method": _renamed(str(server["method"])),
            "columns": device.columns,
            "units": device.units,
            "schema": _schema(device, server.get("table"), arrays),
            "bounds": None if bounds is None else unpack(bounds, arrays, SERVER_KINDS, LossBounds),
            "answering": None if answering is None else unpack(answering, arrays, SERVER_KINDS, *DECODERS.values()),
            "volunteers": None if volunteers is None else unpack(volunteers, arrays, SERVER_KINDS, Volunteers),
            "outputs": None if outputs is None else unpack(outputs, arrays, SERVER_KINDS, Outputs),
            "considered": unpack(considered, arrays, SERVER_KINDS, tuple),
        }
        if answering is not None and parts["answering"].shape[1] != device.mechanism.report_width:
            raise ReleaseError(f"{folder}: the answers do not fit the reports.")
        if parts["task"] is not None:
            parts["task"].check_width(device.encoder.width)
        _check_estimates(folder, device, parts)
        return parts, str(client["digest"])
    except ReleaseError:
        raise
    except BROKEN as error:
        raise ReleaseError(f"{folder} holds no valid veil: {error}") from error


def _bounded(array: Array) -> bool:
    return bool(np.isfinite(array).all() and np.abs(array).max(initial=0.0) <= FARTHEST)


def _check_estimates(folder: Path, device: Device, parts: dict[str, Any]) -> None:
    """What many reports are read by, against what devices make: nobody may find out later that they do not fit."""
    for decoder in (parts["decoder"], parts["answering"]):
        codes = [most + 1 for most in device.mechanism.layout.high]
        if isinstance(decoder, CodewordDecoder) and decoder.sizes.tolist() != codes:
            raise ReleaseError(f"{folder}: the decoder has other codewords than reports name.")
    volunteers, task, outputs = parts["volunteers"], parts["task"], parts["outputs"]
    if outputs is not None and parts["answering"] is not None and parts["answering"].shape[0] != len(outputs.names):
        raise ReleaseError(f"{folder}: the answers are not of the task's outputs.")
    if outputs is not None and task is not None and len(outputs.names) != task.outputs:
        raise ReleaseError(f"{folder}: the outputs' names are not those of the task.")
    if volunteers is None:
        return
    if isinstance(device.mechanism, LevelResponse) and task is None:
        raise ReleaseError(f"{folder}: reports for means need the task that says of what.")
    measured = {
        Codebook: sum(most + 1 for most in device.mechanism.layout.high),
        SumCodebook: sum(most + 1 for most in device.mechanism.layout.high),
        Laplace: device.encoder.latent_dim,
    }.get(type(device.mechanism), device.encoder.width)
    answers = task.outputs if task is not None else 0 if outputs is None else len(outputs.names)
    answers = 0 if isinstance(task, MatrixTask) else answers  # they follow from the records' sums
    widths = volunteers.cells.measured.shape[1], volunteers.cells.means.shape[1]
    varying = {Codebook: {1, measured}, SumCodebook: {device.encoder.width}}.get(type(device.mechanism), {measured})
    if widths != (measured, device.encoder.width + answers) or len(volunteers.variance) not in varying:
        raise ReleaseError(f"{folder}: the sums over volunteers are not of what devices report.")
    every = [one.measured for one in (volunteers.cells, *volunteers.by_class)] + [volunteers.mean[None]]
    coded = isinstance(device.mechanism, Codebook | SumCodebook)
    if coded and any((one < -1e-9).any() or (one > 1 + 1e-9).any() for one in every):
        raise ReleaseError(f"{folder}: the shares of volunteers with a code do not lie between 0 and 1.")
    if isinstance(device.mechanism, Codebook) and len(device.mechanism.stages) == 1:
        favoured = device.mechanism.stages[0].response.favoured
        if any(np.abs(one.sum(axis=1) - favoured).max() > 1e-6 for one in every):
            raise ReleaseError(f"{folder}: volunteers do not favour as many codes as devices do.")
    box = device.encoder.low, device.encoder.high
    inside = volunteers.cells.means[:, : device.encoder.width]
    slack = 1e-9 * (1.0 + np.abs(box))
    if ((inside < box[0] - slack[0]) | (inside > box[1] + slack[1])).any():
        raise ReleaseError(f"{folder}: means over volunteers lie where no record can.")
    if len(volunteers.cells.counts) > max(measured, 1):
        raise ReleaseError(f"{folder}: there are more cells of volunteers than codes.")
    if any(len(classes.counts) != answers for classes in volunteers.by_class):
        raise ReleaseError(f"{folder}: the sums over volunteers by class are not of the task's outputs.")


def _schema(device: Device, table: Any, arrays: dict[str, Array]) -> Schema | None:
    """The schema of a device's fields, with the types of the volunteers' table."""
    if (device.fields is None) != (table is None):
        raise ReleaseError("client and server files differ about what a record consists of.")
    if device.fields is None:
        return None
    types = tuple(unpack(packed, arrays, SERVER_KINDS, ColumnType) for packed in table["types"])
    return Schema(device.fields, library=library_named(table["library"]), types=types)
