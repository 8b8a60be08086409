"""Several releases in one folder, with one signature and one entry per round in the ledger of a device.

`taskveil.client.families` says what the files are and proves that a report costs the largest ε of the members.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

from taskveil.arrays import Integers
from taskveil.client.families import (
    CHOSEN,
    DRAWN,
    FAMILY,
    FAMILY_SIGNATURE,
    DeviceFamily,
    Member,
    check_choice,
    draw,
    family_manifest,
    family_statement,
    manifest_files,
    member_files,
    read_family,
    read_manifest,
)
from taskveil.client.latent_encoders import Function, NamedEncoder
from taskveil.client.promise import beside, rounded_up
from taskveil.client.reading import CLIENT, MANIFEST, Files, canonical
from taskveil.client.signatures import read_key
from taskveil.client.wire import Received, Report, arrived, pack_batch
from taskveil.errors import BudgetError, DataError, ReleaseError, WireError
from taskveil.notebooks import summary
from taskveil.tasks import Task
from taskveil.veil import release
from taskveil.veil.veil import Guarantee, Veil, as_epsilon


class Family:
    """Members that take the same record: veils by name, with the weights by which devices draw them.

    `tv.Family({"answers": (veil, 0.9), "survey": (survey, 0.1)})`: in every round the device draws one member before
    it looks at the record, and reports with it. `tv.Family.of_budgets({0.5: veil, 1.0: other})`: people choose their ε.

    Members of designs over time (`tv.OverTime`) have the same rounds and the same number of reports. All reports of a
    person together cost that number times the largest ε: `family.guarantee.lifetime`.

    Example:
        >>> import numpy as np, taskveil as tv
        >>> X = np.random.default_rng(0).normal(size=(200, 2))
        >>> survey = tv.design(X, tv.MeanTask(), epsilon=2.0)
        >>> veil = tv.design(X, tv.LinearTask([[1.0, 1.0]]), epsilon=2.0, method="task_aware")
        >>> tv.Family({"answers": (veil, 0.9), "survey": (survey, 0.1)}).epsilon
        2.0
    """

    def __init__(self, members: Mapping[str, tuple[Veil, Any]]) -> None:
        """Make a family whose members devices draw at random.

        Args:
            members: a veil and a weight for every name. Weights are numbers above zero, of any sum; decimals are taken
                as they are written, so 0.9 and 0.1 are 9 and 1.
        """
        if not isinstance(members, Mapping) or not all(
            isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], Veil) for one in members.values()
        ):
            raise DataError("a family is {name: (veil, weight), …}: each member is a Veil and a weight, such as 0.1.")
        weights = _whole([weight for _, weight in members.values()])
        veils = {name: veil for name, (veil, _) in members.items()}
        self._fill(DRAWN, veils, dict(zip(veils, weights, strict=True)))

    @classmethod
    def of_budgets(cls, members: Mapping[float, Veil]) -> Family:
        """A family from which people choose the ε of their reports: `Client.load(folder, epsilon=1.0)`.

        The choice is visible to the collector, and must not depend on the record.

        Args:
            members: for every ε that is offered, a veil that costs no more.

        Example:
            >>> import numpy as np, taskveil as tv
            >>> X = np.random.default_rng(0).normal(size=(200, 2))
            >>> weak, strong = (tv.design(X, tv.MeanTask(), epsilon=epsilon) for epsilon in (2.0, 0.5))
            >>> tv.Family.of_budgets({2.0: weak, 0.5: strong})
            <Family chosen: ε = 2, ε = 0.5>
        """
        if not isinstance(members, Mapping) or not all(isinstance(veil, Veil) for veil in members.values()):
            raise DataError("a family of budgets is {epsilon: veil, …}.")
        veils = {f"{as_epsilon(epsilon):.12g}": veil for epsilon, veil in members.items()}
        if len(veils) < len(members):
            raise DataError("every member of a family of budgets has an ε of its own.")
        for name, veil in veils.items():
            check_choice(name, veil.mechanism.epsilon)
        return cls._made(CHOSEN, veils, dict.fromkeys(veils, 1))

    @classmethod
    def _made(cls, kind: str, members: dict[str, Veil], weights: dict[str, int]) -> Family:
        family = object.__new__(cls)
        family._fill(kind, members, weights)
        return family

    def _fill(self, kind: str, members: dict[str, Veil], weights: dict[str, int]) -> None:
        self.kind = kind
        """"drawn" or "chosen"."""
        self.members = dict(members)
        """The veils by name, in the order of the files."""
        self.weights = dict(weights)
        """How often each is drawn, as whole numbers."""
        self.manifest = family_manifest(
            kind,
            [(name, weights[name], veil.release_id, veil.mechanism.epsilon) for name, veil in self.members.items()],
        )
        """The content of `family.json`."""
        _ = self.device  # checks that all take the same record

    def __repr__(self) -> str:
        total = sum(self.weights.values())
        shares = {
            name: f" (ε = {rounded_up(veil.mechanism.epsilon)}{beside(veil.mechanism.delta)})"
            for name, veil in self.members.items()
        }
        shares = {name: f"{name} {100 * self.weights[name] / total:.3g}%{words}" for name, words in shares.items()}
        listed = ", ".join(shares.values() if self.kind == DRAWN else (f"ε = {name}" for name in self.members))
        over_time = "" if self.device.panel is None else f"; {self.device.panel}"
        return f"<Family {self.kind}: {listed}{over_time}>"

    def _repr_html_(self) -> str:
        total, drawn = sum(self.weights.values()), self.kind == DRAWN
        rows = [
            [
                name,
                f"{100 * self.weights[name] / total:.3g}% of reports" if drawn else "those who choose it",
                rounded_up(veil.mechanism.epsilon),
                veil.method,
                f"{veil.release_id[:12]}…",
            ]
            for name, veil in self.members.items()
        ]
        title = "Family: devices draw the member" if drawn else "Family: people choose their ε"
        head = ("member", "makes", "ε of a report", "method", "release")
        words = [self.guarantee.in_a_sentence]
        if (panel := self.device.panel) is not None:
            words.append(f"Each person reports {panel}: ε = {rounded_up(self.guarantee.lifetime)} in total.")
        return summary(title, words, head=head, rows=rows)

    @property
    def device(self) -> DeviceFamily:
        """The part that runs on devices."""
        return DeviceFamily(
            release=bytes.fromhex(self.release_id),
            kind=self.kind,
            members=tuple(
                Member(name=name, weight=self.weights[name], device=veil.device, release=bytes.fromhex(veil.release_id))
                for name, veil in self.members.items()
            ),
        )

    @property
    def release_id(self) -> str:
        """64 hexadecimal digits that identify what devices run: the digest of the content of `family.json`."""
        return str(self.manifest["digest"])

    @property
    def epsilon(self) -> float:
        """The largest ε of a member."""
        return max(veil.mechanism.epsilon for veil in self.members.values())

    @property
    def guarantee(self) -> Guarantee:
        """The privacy guarantee of one report and of the member that made it, where devices draw. Where people choose,
        it is the guarantee of the largest choice."""
        kept = [veil.guarantee for veil in self.members.values()]
        return Guarantee.of(
            epsilon=self.epsilon,
            delta=max(one.delta for one in kept),
            enforced_by=" ".join(dict.fromkeys(one.enforced_by for one in kept)),
            panel=self.device.panel,
            assumptions=("The choice of ε is visible, and does not depend on the record.",) * (self.kind == CHOSEN),
        )

    @property
    def statement(self) -> str:
        """The promise in words, as `Client.statement` says it where devices draw."""
        device, panel = self.device, self.device.panel
        one = family_statement(device, device.members)
        return one if panel is None else f"{one} {panel.statement(self.epsilon, None, delta=self.guarantee.delta)}"

    def draw(self, count: int) -> Integers:
        """The places (count,) of members, drawn as devices do: from entropy and the weights alone."""
        if self.kind == CHOSEN:
            raise DataError(
                f"people choose the member of this family, nobody draws it: use one of family.members "
                f"({', '.join(self.members)})."
            )
        places: Integers = draw(list(self.weights.values()), count)
        return places

    def privatize(self, X: Any) -> dict[str, Integers]:
        """Reports by member of records (N, n): one report of a drawn member for each record, in the records' order."""
        veils = list(self.members.values())
        first = veils[0]
        records = [veil.schema.expand(X) for veil in veils]
        places = self.draw(len(first.schema.expand(X)))
        return {
            name: veil.device.privatize(records[place][places == place])
            for place, (name, veil) in enumerate(self.members.items())
        }

    def receive(self, bodies: bytes | Iterable[Any]) -> dict[str, Received]:
        """The reports by member in bodies of POST /v1/reports, or in single reports and their bytes, in any mixture.

        Reports of other releases raise WireError. A report that came twice counts once.
        """
        found: dict[bytes, list[Report]] = {bytes.fromhex(veil.release_id): [] for veil in self.members.values()}
        for body in [bodies] if isinstance(bodies, bytes) else bodies:
            one = arrived(bytes(body))
            if one.release not in found:
                raise WireError(
                    f"these are reports of release {one.release.hex()[:12]}…, which is not in the family: its members "
                    f"are {', '.join(f'{name} ({veil.release_id[:12]}…)' for name, veil in self.members.items())}."
                )
            found[one.release] += [
                Report(release=one.release, id=id.tobytes(), payload=payload.tobytes())
                for id, payload in zip(one.ids, one.payloads, strict=True)
            ]
        return {
            name: veil.receive(pack_batch(reports))
            for name, veil in self.members.items()
            if (reports := found[bytes.fromhex(veil.release_id)])
        }

    def files(self, *, volunteers: bool = True) -> dict[str, bytes]:
        """The family as a mapping of names ("family.json", "answers/client/manifest.json" …) to bytes.

        Args:
            volunteers: as in `Veil.save`.
        """
        files = {FAMILY: canonical(self.manifest)}
        for name, veil in self.members.items():
            own = veil.files(volunteers=volunteers)
            if json.loads(own[f"{CLIENT}/{MANIFEST}"])["digest"] != veil.release_id:  # written by another version
                raise ReleaseError(f"{name} would become another release if it were written again: design it again.")
            files |= {f"{name}/{path}": content for path, content in own.items()}
        return files

    def save(self, folder: str | Path, *, overwrite: bool = False, volunteers: bool = True) -> None:
        """Write `family.json`, and the release of every member in a folder of its name. All or nothing is written.

        Args:
            folder: where it goes; must not exist, unless it holds a family or a release and `overwrite` is set.
            overwrite: replace what is there.
            volunteers: as in `Veil.save`.
        """
        private = volunteers and any(veil.volunteers is not None for veil in self.members.values())
        release.save(self.files(volunteers=volunteers), Path(folder), overwrite=overwrite, private=private)

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *,
        tasks: Mapping[str, Task] | None = None,
        verify_key: str | Path | bytes | None = None,
        encoder: Function | None = None,
    ) -> Family:
        """Read a family, refusing anything altered, truncated, malformed or newer than this version.

        Args:
            folder: what `save` wrote.
            tasks: by member, the tasks that are models; releases hold no models.
            verify_key: a PEM file or its bytes (Ed25519); with it, the family and its members must be signed by it.
            encoder: the model of the members that name one and do not contain it.
        """
        return cls.from_files(
            all_files(Path(folder)), tasks=tasks, verify_key=verify_key, encoder=encoder, where=str(folder)
        )

    @classmethod
    def from_files(
        cls,
        files: Files,
        *,
        tasks: Mapping[str, Task] | None = None,
        verify_key: str | Path | bytes | None = None,
        encoder: Function | None = None,
        where: str = "the family",
    ) -> Family:
        """Read a family from a mapping of names to bytes, as `load` reads a folder.

        Args:
            files: what `files` gave.
            tasks: as in `load`.
            verify_key: as in `load`.
            encoder: as in `load`.
            where: what errors call the family.
        """
        key, given = read_key(verify_key), dict(tasks or {})
        device = read_family(files, key, where=where)
        if extra := sorted(given.keys() - {member.name for member in device.members}):
            raise DataError(f"tasks= names members that {where} does not have: {', '.join(extra)}.")
        members = {
            member.name: Veil.from_files(
                member_files(files, member.name),
                task=given.get(member.name),
                verify_key=key,
                encoder=encoder if isinstance(member.device.encoder, NamedEncoder) else None,
                where=f"{where}/{member.name}",
            )
            for member in device.members
        }
        family = cls._made(device.kind, members, {member.name: member.weight for member in device.members})
        if family.release_id != device.release.hex():
            raise ReleaseError(f"{where}: the members are not those that {FAMILY} names.")
        return family


def all_files(folder: Path) -> dict[str, bytes]:
    """The files of the family in a folder, of devices and of servers. Names are checked before one becomes a path."""
    files = manifest_files(folder)
    for one in read_manifest(files[FAMILY], where=folder)["members"]:
        found = release.release_files(folder / one["name"])
        files |= {f"{one['name']}/{path}": content for path, content in found.items()}
    return files


def sign(folder: Path, key: bytes) -> None:
    """Sign `family.json`, which names the members' digests, and both halves of every member.

    Devices check the first signature alone. Servers check those of the members too, because a member's digest covers
    what devices run and not the decoder.
    """
    files = all_files(folder)
    family = Family.from_files(files, where=str(folder))  # what was altered or is broken gets no signature
    for name in family.members:
        release.sign(folder / name, key)
    release.write_signature(folder / FAMILY_SIGNATURE, files[FAMILY], key)


def _whole(weights: list[Any]) -> list[int]:
    """Weights as the smallest whole numbers in the same proportions."""
    exact = []
    for weight in weights:
        try:
            exact.append(Fraction(weight if isinstance(weight, int | Fraction) else repr(float(weight))))
        except (TypeError, ValueError, OverflowError):
            exact.append(Fraction(0))
        if exact[-1] <= 0 or isinstance(weight, bool):
            raise BudgetError(f"a member's weight is a finite number above zero, got {weight!r}.")
    common = math.lcm(*(one.denominator for one in exact))
    whole = [int(one * common) for one in exact]
    divisor = math.gcd(*whole)
    if sum(whole) // max(divisor, 1) >= 2**53:
        raise BudgetError("these weights have too many digits: give whole numbers, such as 2 and 1.")
    return [one // divisor for one in whole]
