"""The releases of a sweep: a folder for every design of the first seed, for every segment and for everybody."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from taskveil.client.reading import CLIENT, MANIFEST
from taskveil.errors import ReleaseError
from taskveil.sweeps.frontier import written
from taskveil.sweeps.segments import COMMON, FOLDERS, folder_names
from taskveil.sweeps.work import Made, Place
from taskveil.veil import Veil


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
        """Those of the places whose release is not there yet; a ReleaseError if something else is in its place.

        Args:
            places: all that are asked for.
            known: ids of the releases that this very sweep has made before, by their folders.
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
        """The ids of the releases among the designs that are not there yet, by their folders."""
        return {name: _digest(files[f"{CLIENT}/{MANIFEST}"]) for name, _, files in self._new(designs)}

    def save(self, designs: Sequence[Made]) -> None:
        """Write the releases among the designs that are not there yet, each checked, and all of it or nothing."""
        for _, target, files in self._new(designs):
            Veil.from_files(files).save(target)
        if self.folder is not None and self._segments:
            written(self.folder / FOLDERS, (json.dumps(self._segments, indent=1, ensure_ascii=False) + "\n").encode())

    def _new(self, designs: Sequence[Made]) -> list[tuple[str, Path, dict[str, bytes]]]:
        """Name, place and files of every release that is not there yet."""
        found = [(self.name(made.place), made.release) for made in designs]
        return [
            (name, self.folder / name, files)
            for name, files in found
            if self.folder is not None and name is not None and files is not None and not (self.folder / name).exists()
        ]


def _id_in(folder: Path) -> str | None:
    """The id of the release in a folder; None where there is none."""
    try:
        return _digest((folder / CLIENT / MANIFEST).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _digest(manifest: bytes) -> str:
    content: dict[str, Any] = json.loads(manifest)
    return str(content["digest"])
