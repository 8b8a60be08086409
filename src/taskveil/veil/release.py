"""A veil as files: `client/` holds what devices run and may be public, `server/` holds the decoder and the task.

A release is a mapping of names to bytes, as `taskveil.client.reading` describes it. `files_of` makes it from the parts
of a veil and `parts_of` checks it and gives the parts back. A folder, a database or a task on another machine carries
the mapping as it is.

Signatures are Ed25519. Keys are PEM files, as made by `openssl genpkey -algorithm ed25519 -out key.pem` and
`openssl pkey -in key.pem -pubout -out public.pem`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.arrays import Array
from taskveil.client.device import Device
from taskveil.client.families import FAMILY, refuse_family
from taskveil.client.mechanisms import Lattice, SeededCodewords
from taskveil.client.panels import Panel
from taskveil.client.promise import statement
from taskveil.client.reading import (
    BROKEN,
    CLIENT,
    DEVICE_KINDS,
    MANIFEST,
    MOST_WEIGHTS,
    SERVER,
    SIGNATURE,
    WEIGHTS,
    Files,
    Kinds,
    canonical,
    digest,
    folder_files,
    read_device,
    read_files,
    schema_of,
    unpack,
)
from taskveil.client.signatures import CONTEXT, cryptography
from taskveil.errors import ReleaseError, SignatureError, needs
from taskveil.records.schema import Schema
from taskveil.records.tables import ColumnType, library_named
from taskveil.tasks import LinearTask, MeanTask, SurveyTask
from taskveil.tasks.linear import MatrixTask
from taskveil.tasks.survey import Histogram, Pair, Weight
from taskveil.veil.channels import channel_of
from taskveil.veil.decoders import (
    AffineDecoder,
    BallDecoder,
    CodewordDecoder,
    LatticeDecoder,
    Layer,
    NetworkDecoder,
    SurveyDecoder,
)
from taskveil.veil.losses import Considered, ConsideredPanel, LossBounds
from taskveil.veil.statistics import checked_survey
from taskveil.veil.volunteers import FARTHEST, Classes, Groups, Outputs, Volunteers

DECODERS: Kinds = {
    "affine_decoder": AffineDecoder,
    "network_decoder": NetworkDecoder,
    "codeword_decoder": CodewordDecoder,
    "lattice_decoder": LatticeDecoder,
    "survey_decoder": SurveyDecoder,
    "ball_decoder": BallDecoder,
}
TASKS: Kinds = {"linear_task": LinearTask, "mean_task": MeanTask, "survey_task": SurveyTask}
"""Tasks that are numbers and names. Models are not stored."""

SERVER_KINDS: Kinds = {
    **DECODERS,
    "layer": Layer,
    "lattice": Lattice,
    "seeded_codewords": SeededCodewords,
    **TASKS,
    "pair": Pair,
    "weight": Weight,
    "histogram": Histogram,
    "loss_bounds": LossBounds,
    "considered": Considered,
    "considered_panel": ConsideredPanel,
    "column_type": ColumnType,
    "classes": Classes,
    "groups": Groups,
    "volunteers": Volunteers,
    "outputs": Outputs,
}
"""What may appear in `server/`."""


MOST_SERVER_WEIGHTS = 32 * MOST_WEIGHTS
"""Bytes of the weights in `server/`, 1 GiB: 4,096 codewords of 10,000 numbers take a third of it."""


def files_of(device: Device, parts: Mapping[str, Any]) -> dict[str, bytes]:
    """The files of the release of a veil, by name.

    Args:
        device: what runs on the user's device.
        parts: the fields of the `Veil` by name, as `parts_of` gives them.
    """
    manifest, weights = manifest_of(*pack_device(device))
    arrays: dict[str, Array] = {}

    def packed(name: str) -> Any:
        return None if parts[name] is None else pack(parts[name], name, arrays, SERVER_KINDS)

    server = {
        "release": manifest["digest"],
        "method": parts["method"],
        "decoder": packed("decoder"),
        "task": packed("task") if isinstance(parts["task"], LinearTask | MeanTask | SurveyTask) else None,
        "bounds": packed("bounds"),
        "considered": packed("considered"),
    }
    schema = parts["schema"]
    if schema.library != "array" or not schema.unbounded:  # an array of numbers needs no description
        types = pack(schema.published.types, "types", arrays, SERVER_KINDS)
        server["table"] = {"library": schema.library, "types": types}
    server |= {name: packed(name) for name in ("answering", "volunteers", "outputs") if parts[name] is not None}
    if parts["considered_panels"]:
        server["considered_panels"] = packed("considered_panels")
    return _half(CLIENT, manifest, weights) | _half(SERVER, *manifest_of(server, arrays))


def release_id(device: Device) -> str:
    """The digest of what devices run."""
    return str(manifest_of(*pack_device(device))[0]["digest"])


def client_bytes(device: Device) -> int:
    """The size of the files in `client/`, without a signature."""
    return sum(map(len, _half(CLIENT, *manifest_of(*pack_device(device))).values()))


def _half(half: str, manifest: dict[str, Any], weights: bytes) -> dict[str, bytes]:
    return {f"{half}/{MANIFEST}": canonical(manifest), f"{half}/{WEIGHTS}": weights}


def manifest_of(content: dict[str, Any], arrays: dict[str, Array]) -> tuple[dict[str, Any], bytes]:
    """The manifest of some content, with the digest that identifies it, and the bytes of its weights."""
    with needs("writing a release"):
        from safetensors.numpy import save

    weights: bytes = save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    body = {**content, "schema": schema_of(content), "weights_sha256": hashlib.sha256(weights).hexdigest()}
    return {**body, "digest": digest(body)}, weights


def release_files(folder: Path) -> dict[str, bytes]:
    """The files of both halves of the release in a folder, by name."""
    refuse_family(folder)
    client = folder_files(folder / CLIENT, CLIENT, most=MOST_WEIGHTS)
    return {**client, **folder_files(folder / SERVER, SERVER, most=MOST_SERVER_WEIGHTS)}


def save(files: Files, folder: Path, *, overwrite: bool = False, private: bool = True) -> None:
    """Write the release next to its place and move it there, so that no reader ever sees half of it.

    A release that is overwritten is moved aside first. Between the two moves there is none.

    Args:
        files: of the release, or of a family of releases, by name.
        folder: where it goes.
        overwrite: replace the release that is there.
        private: nobody but the owner may open `server/`, because it holds sums over the volunteers.
    """
    if folder.exists() and not overwrite:
        raise ReleaseError(f"{folder} exists already. Choose another folder, or pass overwrite=True.")
    if folder.exists() and not any((folder / name).exists() for name in (f"{CLIENT}/{MANIFEST}", FAMILY)):
        raise ReleaseError(f"{folder} is not a taskveil release and will not be overwritten.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        for name, content in files.items():
            place = draft / name
            place.parent.parent.mkdir(exist_ok=True)
            place.parent.mkdir(mode=0o700 if private and place.parent.name == SERVER else 0o777, exist_ok=True)
            place.write_bytes(content)
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


def sign(folder: Path, key: bytes) -> None:
    """Sign both halves of the release in a folder with a PEM private key (Ed25519)."""
    files = release_files(folder)
    parts_of(files, where=folder)  # a release that was altered or is broken gets no signature
    for half in (CLIENT, SERVER):
        write_signature(folder / half / SIGNATURE, files[f"{half}/{MANIFEST}"], key)  # of the bytes that were checked


def write_signature(path: Path, message: bytes, key: bytes) -> None:
    """Write the signature of a message, made with a PEM private key, whole or not at all."""
    signature, draft = _signature(message, key), path.with_name(f".{path.name}")
    draft.write_bytes(signature)
    draft.replace(path)


def _renamed(method: str) -> str:
    """A method's name of today: "constant" was called "nothing" before."""
    return "constant" if method == "nothing" else method


def _signature(message: bytes, key: bytes) -> bytes:
    """64 bytes, made with the PEM private key."""
    serialization, ed25519 = cryptography()
    try:
        private = serialization.load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise SignatureError(f"this is no unencrypted PEM private key: {error}.") from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise SignatureError("the key is not an Ed25519 key. Make one: openssl genpkey -algorithm ed25519.")
    return bytes(private.sign(CONTEXT + message))


def parts_of(
    files: Files, verify_key: bytes | None = None, *, where: object = "the release"
) -> tuple[dict[str, Any], str]:
    """The fields of the `Veil` in a release, by name, after all checks; and the release's id.

    Any fault is a ReleaseError. A task that is a model is not stored: it is None.
    """
    device, client = read_device(files, verify_key, where=where)
    server, arrays = read_files(files, SERVER, verify_key, most=MOST_SERVER_WEIGHTS, where=where)

    def unpacked(name: str, *expected: type[Any]) -> Any:
        packed = server.get(name)
        return None if packed is None else unpack(packed, arrays, SERVER_KINDS, *expected)

    try:
        if server["release"] != client["digest"]:
            raise ReleaseError(f"{where}: client and server files are of different releases.")
        wild = [name for name, array in arrays.items() if array.dtype.kind == "f" and not _bounded(array)]
        if wild:
            raise ReleaseError(f"{where}: {wild[0]} holds numbers that are not finite, or beyond ±{FARTHEST:g}.")
        volunteers = server.get("volunteers")
        if volunteers is not None and "mean" not in volunteers:  # the first releases of this schema did not store it
            counts, measured = (arrays[volunteers["cells"][name]["tensor"]] for name in ("counts", "measured"))
            arrays["volunteers.mean"] = counts @ measured / counts.sum()
            server["volunteers"] = {**volunteers, "mean": {"tensor": "volunteers.mean"}}
        considered = [{**entry, "method": _renamed(entry["method"])} for entry in server["considered"]]
        parts = {
            "encoder": device.encoder,
            "mechanism": device.mechanism,
            "decoder": unpack(server["decoder"], arrays, SERVER_KINDS, *DECODERS.values()),
            "task": unpacked("task", *TASKS.values()),
            "method": _renamed(str(server["method"])),
            "columns": device.columns,
            "units": device.units,
            "panel": device.panel,
            "schema": _schema(device, server.get("table"), arrays),
            "bounds": unpacked("bounds", LossBounds),
            "answering": unpacked("answering", *DECODERS.values()),
            "volunteers": unpacked("volunteers", Volunteers),
            "outputs": unpacked("outputs", Outputs),
            "considered": unpack(considered, arrays, SERVER_KINDS, tuple),
            "considered_panels": unpack(server.get("considered_panels", []), arrays, SERVER_KINDS, tuple),
        }
        if not all(isinstance(one, ConsideredPanel) for one in parts["considered_panels"]):
            raise ReleaseError(f"{where}: considered_panels holds something else.")
        if isinstance(parts["task"], SurveyTask) or isinstance(parts["decoder"], SurveyDecoder):
            parts["task"] = checked_survey(parts)
        if parts["decoder"].shape != (device.encoder.width, device.mechanism.report_width):
            raise ReleaseError(f"{where}: the decoder does not fit the reports.")
        if parts["answering"] is not None and parts["answering"].shape[1] != device.mechanism.report_width:
            raise ReleaseError(f"{where}: the answers do not fit the reports.")
        if parts["task"] is not None:
            parts["task"].check_width(device.encoder.width)
        _check_estimates(where, device, parts)
        return parts, str(client["digest"])
    except ReleaseError:
        raise
    except BROKEN as error:
        raise ReleaseError(f"{where} holds no valid veil: {error}") from error


def _bounded(array: Array) -> bool:
    return bool(np.isfinite(array).all() and np.abs(array).max(initial=0.0) <= FARTHEST)


def _check_estimates(where: object, device: Device, parts: dict[str, Any]) -> None:
    """A ReleaseError unless the parts that estimates use fit the reports that devices make."""
    codes = [most + 1 for most in device.mechanism.layout.high]
    lattice, seeded = (getattr(device.mechanism, name, None) for name in ("lattice", "codewords"))
    for decoder in (parts["decoder"], parts["answering"]):
        listed = isinstance(decoder, CodewordDecoder) and decoder.sizes.tolist() != codes
        other = isinstance(decoder, BallDecoder) and not _same(decoder.codewords, seeded)
        if listed or other or (isinstance(decoder, LatticeDecoder) and not _same(decoder.lattice, lattice)):
            raise ReleaseError(f"{where}: the decoder has other codewords than reports name.")
    volunteers, task, outputs = parts["volunteers"], parts["task"], parts["outputs"]
    if outputs is not None and parts["answering"] is not None and parts["answering"].shape[0] != len(outputs.names):
        raise ReleaseError(f"{where}: the answers are not of the task's outputs.")
    if outputs is not None and task is not None and len(outputs.names) != task.outputs:
        raise ReleaseError(f"{where}: the outputs' names are not those of the task.")
    if isinstance(task, MatrixTask):
        n, sums = task.K.shape[1], [] if volunteers is None else [volunteers.cells]
        rows = [parts["decoder"].codewords] if isinstance(parts["decoder"], CodewordDecoder) else []
        rows += [part[:, :n] for one in sums for part in (one.means, np.sqrt(one.variances))]
        if not all(_bounded(np.abs(part) @ np.abs(task.K).T) for part in rows):
            raise ReleaseError(f"{where}: the task's answers would lie beyond ±{FARTHEST:g}.")
    if volunteers is None:
        return
    channel = channel_of(device.mechanism, parts["decoder"])
    if channel.unbiased and task is None:
        raise ReleaseError(f"{where}: reports for means need the task that says of what.")
    shape = channel.sums_shape(device.encoder.width)
    if shape is None:
        raise ReleaseError(f"{where}: there are sums over volunteers, and reports measure nothing.")
    answers = task.outputs if task is not None else 0 if outputs is None else len(outputs.names)
    answers = 0 if isinstance(task, MatrixTask) else answers  # they follow from the records' sums
    widths = volunteers.cells.measured.shape[1], volunteers.cells.means.shape[1]
    if widths != (shape.measured, device.encoder.width + answers) or len(volunteers.variance) not in shape.variances:
        raise ReleaseError(f"{where}: the sums over volunteers are not of what devices report.")
    every = [one.measured for one in (volunteers.cells, *volunteers.by_class)] + [volunteers.mean[None]]
    if shape.each is not None and any((one < -1e-9).any() or (one > 1 + 1e-9).any() for one in every):
        raise ReleaseError(f"{where}: the shares of volunteers with a code do not lie between 0 and 1.")
    if shape.each is not None and any(np.abs(one.sum(axis=1) - shape.each).max() > 1e-6 for one in every):
        raise ReleaseError(f"{where}: volunteers do not favour as many codes as devices do.")
    box = device.encoder.low, device.encoder.high
    inside = volunteers.cells.means[:, : device.encoder.width]
    slack = 1e-9 * (1.0 + np.abs(box))
    if ((inside < box[0] - slack[0]) | (inside > box[1] + slack[1])).any():
        raise ReleaseError(f"{where}: means over volunteers lie where no record can.")
    if len(volunteers.cells.counts) > max(shape.measured, 1):
        raise ReleaseError(f"{where}: there are more cells of volunteers than codes.")
    if any(len(classes.counts) != answers for classes in volunteers.by_class):
        raise ReleaseError(f"{where}: the sums over volunteers by class are not of the task's outputs.")


def _same(one: Lattice | SeededCodewords, other: Any) -> bool:
    """Whether `other` is of the same type, with the same numbers."""
    return type(one) is type(other) and all(
        np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one)
    )


def _schema(device: Device, table: Any, arrays: dict[str, Array]) -> Schema:
    """The schema of a device's fields, with the types of the volunteers' table; without fields, records are numbers."""
    numbers = Schema.numbers(device.columns or device.encoder.width, units=device.units)
    if table is None and device.fields is None:
        return numbers
    if table is None or device.columns is None:
        raise ReleaseError("client and server files differ about what a record consists of.")
    types = tuple(unpack(packed, arrays, SERVER_KINDS, ColumnType) for packed in table["types"])
    schema = Schema(device.fields or numbers.fields, library=library_named(table["library"]), types=types)
    try:
        schema.try_types()  # because only the package of the table knows its types
    except ImportError:  # another machine may have that package
        pass
    except Exception as error:
        raise ReleaseError(f"the types of the table's columns do not fit its fields: {error!r}") from error
    return schema


def pack(value: Any, name: str, arrays: dict[str, Array], kinds: Kinds) -> Any:
    """A part as JSON, its arrays added to `arrays` under names that start with `name`."""
    if isinstance(value, np.ndarray):
        arrays[name] = value
        return {"tensor": name}
    if isinstance(value, tuple):
        return [pack(item, f"{name}.{place}", arrays, kinds) for place, item in enumerate(value)]
    if is_dataclass(value) and not isinstance(value, type):
        names = {part: kind for kind, part in kinds.items()}
        if type(value) not in names:
            raise ReleaseError(f"a release has no name for a {type(value).__name__}: add it to the table of kinds.")
        return {"kind": names[type(value)]} | {
            field.name: pack(getattr(value, field.name), f"{name}.{field.name}", arrays, kinds)
            for field in fields(value)
            if field.init
        }
    if isinstance(value, int) and abs(value) >= 2**53:
        return {"integer": str(value)}  # JSON readers outside Python hold numbers in doubles
    return value


def pack_device(device: Device) -> tuple[dict[str, Any], dict[str, Array]]:
    """Manifest content and arrays of `client/`."""
    arrays: dict[str, Array] = {}
    kept = device.mechanism
    words = statement(kept.epsilon, kept.delta, kept.enforced_by)
    content = {
        "encoder": pack(device.encoder, "encoder", arrays, DEVICE_KINDS),
        "mechanism": pack(device.mechanism, "mechanism", arrays, DEVICE_KINDS),
        "guarantee": {"epsilon": kept.epsilon, "delta": kept.delta, "statement": words},
        "columns": None if device.columns is None else list(device.columns),
        "units": None if device.units is None else list(device.units),
    }
    if device.fields is not None:
        content["fields"] = pack(device.fields, "fields", arrays, DEVICE_KINDS)
    if device.panel is not None:
        content["panel"] = pack(device.panel, "panel", arrays, {"panel": Panel})
    return content, arrays
