"""The finished points of a sweep in a file, so that an interruption costs little and nothing is confused."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

import taskveil
from taskveil.arrays import Floats
from taskveil.designs.frontier import Point
from taskveil.designs.methods import DESIGNERS
from taskveil.designs.problem import Designer, Problem
from taskveil.errors import ResumeError, TaskError
from taskveil.tasks import as_linear, take_labels

_TRIED = 64  # records on which two tasks must agree to be taken for the same


class FinishedPoints:
    """Points by (method, ε, seed). With a path, each is written before the next is designed.

    A file of another problem, or of another designer of the same name, is refused.
    """

    def __init__(self, path: str | Path | None, problem: str, designers: Sequence[Designer]) -> None:
        self.path = None if path is None else Path(path)
        self.problem = problem
        self.points: dict[tuple[str, float, int], Point] = {}
        self.designers = {} if path is None else {designer.name: identity(designer) for designer in designers}
        if self.path is not None and self.path.exists():
            self._read(self.path)

    def _read(self, path: Path) -> None:
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            same = content["fingerprint"] == self.problem
            designers = dict(content["designers"])
            points = [Point.read(point) for point in content["points"]]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ResumeError(f"{path} keeps no sweep ({type(error).__name__}).") from error
        if not same:
            raise ResumeError(f"{path} keeps a sweep of other data, another task or other options.")
        for name, known in designers.items():
            if self.designers.get(name, known) != known:
                raise ResumeError(f"{path} keeps points of another designer named {name!r}.")
        self.designers = {**designers, **self.designers}
        self.points = {(point.method, point.epsilon, point.seed): point for point in points}

    def add(self, point: Point) -> None:
        """Keep one more point; a reader finds the old file or the new one, never half of it."""
        self.points[point.method, point.epsilon, point.seed] = point
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            content = {
                "fingerprint": self.problem,
                "designers": self.designers,
                "points": [point.content() for point in self.points.values()],
            }
            draft = self.path.with_name(self.path.name + ".part")
            draft.unlink(missing_ok=True)
            # For their owner only: losses of single records tell about them.
            with open(draft, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
                json.dump(content, file, indent=1)
            os.replace(draft, self.path)


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
