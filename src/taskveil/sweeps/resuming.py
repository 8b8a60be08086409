"""The finished points of a sweep in a file, so that an interruption costs little and nothing is confused."""

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
from taskveil.arrays import Floats, Integers
from taskveil.designs.methods import DESIGNERS
from taskveil.designs.problem import Designer, Problem
from taskveil.errors import ResumeError, TaskError
from taskveil.sweeps.frontier import Point
from taskveil.sweeps.work import Place, Segment
from taskveil.tasks import as_linear, take_labels

_TRIED = 64  # records on which two tasks must agree to be taken for the same


class FinishedPoints:
    """Points by their `Place`. With a path, all that a task finished are written before the next ones arrive.

    A file of another problem is refused, and one of another designer or of other people under the same name.
    """

    def __init__(
        self,
        path: str | Path | None,
        problem: str,
        designers: Sequence[Designer],
        segments: Mapping[str, str] | None = None,
    ) -> None:
        """What the file at `path` keeps, if it is there, of the `problem` with this fingerprint; `designers` and
        `segments`, with what tells their people from others, are those asked for now."""
        self.path = None if path is None else Path(path)
        self.problem = problem
        self.points: dict[Place, Point] = {}
        self.releases: dict[str, str] = {}
        """The ids of the releases that were made of them, by their folders."""
        self.designers = {} if path is None else {designer.name: identity(designer) for designer in designers}
        self.segments = dict(segments or {})
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            same = content["fingerprint"] == self.problem
            designers, segments = dict(content["designers"]), dict(content.get("segments", {}))
            found = {None: content["points"], **{name: dict(part)["points"] for name, part in segments.items()}}
            points = [(name, Point.read(point)) for name, points in found.items() for point in points]
            people = {name: str(part["people"]) for name, part in segments.items()}
            releases = dict(content.get("releases", {}))
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ResumeError(f"{path} keeps no sweep ({type(error).__name__}).") from error
        if not same:
            raise ResumeError(f"{path} keeps a sweep of other data, another task or other options.")
        for name, known in designers.items():
            if self.designers.get(name, known) != known:
                raise ResumeError(f"{path} keeps points of another designer named {name!r}.")
        for name, known in people.items():
            if self.segments.get(name, known) != known:
                raise ResumeError(f"{path} keeps points of other people under the name of a segment.")
        self.designers = {**designers, **self.designers}
        self.segments = {**people, **self.segments}
        self.points = {Place(name, p.method, p.epsilon, p.seed): p for name, p in points}
        self.releases = releases

    def add(self, found: Iterable[tuple[Segment, Point]], releases: Mapping[str, str] | None = None) -> None:
        """Keep some more points and the ids of their `releases`; a reader finds the old file or the new one, never
        half of it."""
        self.points |= {Place(segment, p.method, p.epsilon, p.seed): p for segment, p in found}
        self.releases |= releases or {}
        if self.path is None:
            return
        kept: dict[Segment, list[dict[str, Any]]] = {None: [], **{name: [] for name in self.segments}}
        for place, point in self.points.items():
            kept[place.segment].append(point.content())
        content: dict[str, Any] = {
            "fingerprint": self.problem,
            "designers": self.designers,
            "points": kept[None],
            "segments": {name: {"people": self.segments[name], "points": kept[name]} for name in self.segments},
            "releases": self.releases,
        }
        self.path.parent.mkdir(parents=True, exist_ok=True)
        draft = self.path.with_name(self.path.name + ".part")
        draft.unlink(missing_ok=True)
        # For their owner only: losses of single records tell about them.
        with open(draft, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump(content, file, indent=1)
        os.replace(draft, self.path)


def same_people(trained: Integers, tested: Integers) -> str:
    """Changes with whoever is `trained` on (N,) or `tested` (M,), by their rows."""
    return _digest([trained, tested])


def fingerprint(problem: Problem, X_test: Floats, y_test: Any, block: int = 1) -> str:
    """Changes with whatever could change a point: version, data, labels, the task's answers and losses, the domain and
    the options."""
    task, some = problem.task, np.linspace(0, len(problem.X) - 1, _TRIED).astype(int)
    tried, labels = problem.X[some], take_labels(task, problem.y, some)
    linear = as_linear(task)
    parts: list[Any] = [taskveil.__version__, type(task).__name__, problem.latent_dim, problem.device, block]
    allowed, encoder = problem.on_device, problem.on_device.encoder
    parts += [encoder if isinstance(encoder, str) else getattr(encoder, "__qualname__", repr(encoder)), problem.answers]
    parts += [allowed.share_model, allowed.volunteers_unseen, allowed.client_bytes]
    parts += [type(problem.domain).__name__, *(getattr(problem.domain, part.name) for part in fields(problem.domain))]
    parts += [problem.X, X_test, *_labels(task.labels(problem.y, len(problem.X)))]
    parts += [*_labels(task.labels(y_test, len(X_test))), None if linear is None else linear.K]
    parts += [_rounded(task.predict(tried)), _rounded(task.pairwise_losses(tried[:4], tried, labels))]
    return _digest(parts)


def identity(designer: Designer) -> str:
    """The same for two designers of one name only if they are the same: one of ours, or one class with one source and
    equal fields. Fields that cannot be told apart are refused."""
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
    return _digest([kind.__module__, kind.__qualname__, source, *_values(designer)])


def _values(designer: Designer) -> Iterator[Any]:
    """Names and values of a designer's fields."""
    plain = str | int | float | None
    for name, value in sorted(vars(designer).items()):
        several = isinstance(value, tuple) and all(isinstance(entry, plain) for entry in value)
        if not (several or isinstance(value, plain | np.ndarray)):
            raise TaskError(
                f"a sweep with {designer.name!r} cannot be resumed: whether its {name} is the same as before cannot be "
                "told of anything but numbers, text and arrays. Leave out resume."
            )
        yield from (name, value)


def _labels(checked: Any) -> tuple[Any, ...]:
    return checked if isinstance(checked, tuple) else (checked,)


def _rounded(values: Floats) -> Floats:
    """To nine digits of the largest: models may answer a little differently on the next run."""
    power = np.floor(np.log10(np.abs(values).max(initial=0.0) or 1.0))
    return np.append(np.round(values / 10.0**power, 9), power)


def _digest(parts: Sequence[Any]) -> str:
    """SHA-256 of numbers, text, None and arrays, with their kinds and shapes, so that none runs into the next."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray) and part.dtype.kind != "O":
            digest.update(f"{part.dtype.str} {part.shape} ".encode())
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            text = repr(part.tolist() if isinstance(part, np.ndarray) else part).encode()
            digest.update(f"{type(part).__name__} {len(text)} ".encode() + text)
    return digest.hexdigest()
