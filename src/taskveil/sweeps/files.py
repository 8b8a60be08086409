"""The files of a sweep: finished points, from which an interrupted sweep continues, and releases of its designs."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import taskveil
from taskveil.arrays import Floats
from taskveil.client.reading import CLIENT, MANIFEST
from taskveil.designs.designing import DESIGNERS
from taskveil.designs.problem import Designer, Problem
from taskveil.errors import ReleaseError, ResumeError, TaskError
from taskveil.sweeps.frontier import Point, written
from taskveil.sweeps.segments import COMMON, FOLDERS, folder_names
from taskveil.sweeps.work import Made, Place, Segment
from taskveil.tasks import as_linear, take_labels
from taskveil.tasks.models.frozen import ROWS_AT_ONCE
from taskveil.veil import Veil


class FinishedPoints:
    """Points by their `Place`. With a path, the points of each finished task are written before the next ones arrive.

    A file of another problem is refused, and one of another designer or of other people under the same name.
    """

    def __init__(
        self, path: str | Path | None, problem: str, designers: Sequence[Designer], segments: Mapping[str, str]
    ) -> None:
        """The points in the file at `path`, if it is there, for the `problem` with this fingerprint. `designers` and
        `segments`, each with a digest of its people, are those asked for now."""
        self.path = None if path is None else Path(path)
        self.points: dict[Place, Point] = {}
        self.releases: dict[str, str] = {}
        """The ids of their releases, by folder."""
        made_by = {} if path is None else {designer.name: identity(designer) for designer in designers}
        self._same = {"": {"problem": problem}, "designers": made_by, "people": dict(segments)}
        """Digests by kind and name: a file with another one is of no use."""
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        wrong = {
            "": "a sweep of other data, another task or other options",
            "designers": "points of another designer named {!r}",
            "people": "points of other people under the name of a segment",
        }
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            same = {kind: dict(content["same"][kind]) for kind in wrong}
            points = {Place(*place): Point.read(point) for place, point in content["points"]}
            releases = dict(content["releases"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ResumeError(f"{path} keeps no sweep ({type(error).__name__}).") from error
        for kind, known in same.items():
            other = next((name for name in known if self._same[kind].get(name, known[name]) != known[name]), None)
            if other is not None:
                raise ResumeError(f"{path} keeps {wrong[kind].format(other)}.")
            self._same[kind] = {**known, **self._same[kind]}
        self.points, self.releases = points, releases

    def add(self, found: Iterable[tuple[Segment, Point]], releases: Mapping[str, str]) -> None:
        """Keep more points and the ids of their `releases`. The file is replaced as a whole, so that nobody reads half
        of it."""
        self.points |= {Place(segment, p.method, p.epsilon, p.seed): p for segment, p in found}
        self.releases |= releases
        if self.path is None:
            return
        points = [(place, point.content()) for place, point in self.points.items()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(self.path.name + ".part")
        draft.unlink(missing_ok=True)
        # For their owner only: losses of single records reveal something about them.
        with open(draft, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump({"same": self._same, "points": points, "releases": self.releases}, file, indent=1)
        os.replace(draft, self.path)


def fingerprint(problem: Problem, X_test: Floats, y_test: Any, block: int = 1) -> str:
    """A digest of everything that could change a point: version, data, labels, the task's answers and losses, the
    domain and the options."""
    task, some = problem.task, slice(0, None, -(-len(problem.X) // ROWS_AT_ONCE))
    tried, labels = problem.X[some], take_labels(task, problem.y, some)
    linear = as_linear(task)
    allowed, encoder = problem.on_device, problem.on_device.encoder
    parts: list[Any] = [taskveil.__version__, type(task).__name__, allowed.latent_dim, problem.torch_device, block]
    parts += [encoder if isinstance(encoder, str) else getattr(encoder, "__qualname__", repr(encoder))]
    parts += [problem.delta, problem.answering, allowed.share_model, allowed.volunteers_unseen, allowed.max_bytes]
    parts += [type(problem.domain).__name__, *(getattr(problem.domain, part.name) for part in fields(problem.domain))]
    parts += [problem.X, X_test, *_labels(task.labels(problem.y, len(problem.X)))]
    parts += [*_labels(task.labels(y_test, len(X_test))), None if linear is None else linear.K]
    parts += [_rounded(task.predict(tried)), _rounded(task.pairwise_losses(tried[:4], tried, labels))]
    return digest(parts)


def identity(designer: Designer) -> str:
    """A text that two designers of one name share only if they are the same: one of ours, or one class with one source
    and equal fields. Fields that cannot be compared are refused."""
    if DESIGNERS.get(designer.name) is designer:
        return "taskveil"
    kind = type(designer)
    try:
        source = inspect.getsource(kind)
    except (OSError, TypeError) as error:
        raise TaskError(
            f"a sweep with {designer.name!r} cannot be resumed, because its source is not in a file: {error}. "
            "Move the class into one, or leave out resume."
        ) from error
    return digest([kind.__module__, kind.__qualname__, source, *_values(designer)])


def _values(designer: Designer) -> Iterator[Any]:
    """Names and values of a designer's fields."""
    plain = str | int | float | None
    for name, value in sorted(vars(designer).items()):
        several = isinstance(value, tuple) and all(isinstance(entry, plain) for entry in value)
        if not (several or isinstance(value, plain | np.ndarray)):
            raise TaskError(
                f"a sweep with {designer.name!r} cannot be resumed: only numbers, text and arrays can be compared with "
                f"those of the file, and its {name} is none of them. Leave out resume."
            )
        yield from (name, value)


def _labels(checked: Any) -> tuple[Any, ...]:
    return checked if isinstance(checked, tuple) else (checked,)


def _rounded(values: Floats) -> Floats:
    """Values rounded to nine digits of the largest: a model's answers may differ in the last digits on the next run."""
    power = np.floor(np.log10(np.abs(values).max(initial=0.0) or 1.0))
    return np.append(np.round(values / 10.0**power, 9), power)


def digest(parts: Sequence[Any]) -> str:
    """SHA-256 of numbers, text, None and arrays, with their kinds and shapes, so that none runs into the next."""
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind != "O":
            found.update(f"{part.dtype.str} {part.shape} ".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            text = repr(part.tolist() if isinstance(part, np.ndarray) else part).encode()
            found.update(f"{type(part).__name__} {len(text)} ".encode() + text)
    return found.hexdigest()


class ReleaseFolders:
    """folder/<segment>/<method>-<ε>, or folder/common/<method>-<ε> for everybody; without a folder, none at all."""

    def __init__(
        self, folder: str | Path | None, *, seed: int, segments: Iterable[str], methods: Sequence[str]
    ) -> None:
        """For designs of the `seed` alone, for these `segments` by these `methods`, which make veils."""
        self.folder = None if folder is None else Path(folder)
        self.seed = seed
        self._segments = folder_names(segments)
        self._methods = folder_names(methods)

    def name(self, place: Place) -> str | None:
        """The folder of a design below ours; None if it gets none."""
        if self.folder is None or place.seed != self.seed or place.method not in self._methods:
            return None
        budget = repr(place.epsilon).removesuffix(".0")
        home = COMMON if place.segment is None else self._segments[place.segment]
        return f"{home}/{self._methods[place.method]}-{budget}"

    def missing(self, places: Iterable[Place], known: Mapping[str, str]) -> set[Place]:
        """The places without a release in the folder; a ReleaseError if something else has the release's name.

        Args:
            places: all designs that are asked for.
            known: ids of the releases that this sweep has made before, by folder.
        """
        found = set()
        for place in places:
            name = self.name(place)
            if name is None or self.folder is None:
                continue
            target = self.folder / name
            if not target.exists():
                found.add(place)
            elif _id_in(target) != known.get(name, ""):
                raise ReleaseError(f"{target} exists already. Choose another folder for the releases, or remove it.")
        return found

    def ids(self, designs: Sequence[Made]) -> dict[str, str]:
        """The ids of the missing releases among the designs, by folder."""
        return {name: _release_id(files[f"{CLIENT}/{MANIFEST}"]) for name, _, files in self._new(designs)}

    def save(self, designs: Sequence[Made]) -> None:
        """Write the missing releases among the designs, each checked and written as a whole."""
        for _, target, files in self._new(designs):
            Veil.from_files(files).save(target)
        if self.folder is not None and self._segments:
            written(self.folder / FOLDERS, (json.dumps(self._segments, indent=1, ensure_ascii=False) + "\n").encode())

    def _new(self, designs: Sequence[Made]) -> list[tuple[str, Path, dict[str, bytes]]]:
        """Name, path and files of every release that is missing in the folder."""
        found = [(self.name(made.place), made.release) for made in designs]
        return [
            (name, self.folder / name, files)
            for name, files in found
            if self.folder is not None and name is not None and files is not None and not (self.folder / name).exists()
        ]


def _id_in(folder: Path) -> str | None:
    """The id of the release in a folder; None where there is none."""
    try:
        return _release_id((folder / CLIENT / MANIFEST).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _release_id(manifest: bytes) -> str:
    content: dict[str, Any] = json.loads(manifest)
    return str(content["digest"])
