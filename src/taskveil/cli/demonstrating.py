"""`taskveil demo --serve`: a collector, a few thousand simulated people, and a page that shows what they report."""

from __future__ import annotations

import json
import multiprocessing
import signal
import tempfile
import threading
import urllib.request
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any

import typer

from taskveil.cli.console import busy
from taskveil.cli.serving import first_tokens
from taskveil.errors import needs

if TYPE_CHECKING:
    from taskveil.experiments.demo_devices import Crowd, Outcome

ROUNDS = ("first", "second")
SEED = 1
"""Of the simulated people, who are no volunteers."""
LATE = 1.4
"""Of the time of a round: when people who could not report yet stay away, on a machine too slow for so many."""


def serve_demo(*, port: int, devices: int, seconds: float) -> None:
    """Design two releases, one for means and shares and one for single answers, start a collector for them on this
    machine and let so many devices report with both, in two rounds; until Ctrl-C. Everything lies in a temporary folder
    that is gone afterwards."""
    with needs("this command", extra="server"):
        from taskveil.collector.releases import register
        from taskveil.collector.serving import serve
        from taskveil.collector.settings import Settings
        from taskveil.collector.store import open_store
        from taskveil.experiments.demo_devices import Crowd
        from taskveil.experiments.demo_people import shown, write_means, write_release

    with tempfile.TemporaryDirectory(prefix="taskveil-demo-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        folders = (home / "means and shares", home / "single answers")
        with busy("designing the releases and measuring one at five budgets") as bar:
            means = write_means(folders[0])
            veil = write_release(folders[1], progress=bar)
        settings = Settings(port=port, db=f"sqlite:///{home / 'collector.db'}")
        store = open_store(settings.db)
        releases = [register(store, place, round=ROUNDS[0]) for place in folders]
        tokens = first_tokens(store, admin=True)
        store.close()
        page = {**shown(veil), "client": f"/v1/releases/{releases[1]}/client/", "token": tokens["upload"]}
        _write_pages(home / "page", page)
        crowd = Crowd(
            releases=folders,
            url="",
            ledgers=home / "ledgers",
            token=tokens["upload"],
            rounds=len(ROUNDS),
        )
        costs = [means.guarantee.epsilon, veil.guarantee.epsilon]
        crowds: list[multiprocessing.process.BaseProcess] = []

        def bound(address: str) -> None:
            typer.echo(f"The page: {address}/#token={tokens['read']}")
            typer.echo(f"Your own report, made in your browser: {address}/demo/")
            typer.echo(
                f"{devices:,} simulated people report for {seconds:g} seconds, in two rounds. Nothing leaves this "
                "machine; Ctrl-C ends it and deletes everything."
            )
            typer.echo(
                f"Each device sends two reports a round, one of each release: ε = {costs[0]:.3g} + {costs[1]:.3g} = "
                f"{sum(costs):.3g} a round, {len(ROUNDS) * sum(costs):.3g} in both rounds."
            )
            next_rounds = [
                urllib.request.Request(  # noqa: S310 - it is ours
                    f"{address}/v1/releases/{release}/rounds/{ROUNDS[1]}",
                    headers={"Authorization": f"Bearer {tokens['admin']}"},
                    method="PUT",
                )
                for release in releases
            ]
            there = replace(crowd, url=f"{address}/v1/reports")
            crowds.append(_started(partial(_report, there, next_rounds, devices, seconds)))

        try:
            code = serve(settings, demo=home / "page", bound=bound)
        finally:
            for process in crowds:
                process.terminate()
                process.join()
    if code:
        raise typer.Exit(code)


def _write_pages(folder: Path, shown: dict[str, Any]) -> None:
    """The browser's page as the package has it, with what it shows of this release."""
    (folder / "release").mkdir(parents=True)
    for file in files("taskveil.collector").joinpath("pages", "demo").iterdir():
        copyfile(str(file), folder / file.name)
    (folder / "release" / "shown.json").write_text(json.dumps(shown), encoding="utf-8")


def _started(work: partial[None]) -> multiprocessing.process.BaseProcess:
    """A process of its own, which shares no lock with the collector's.

    A terminal sends Ctrl-C to both, and this one ends the other: the other is born deaf to it, or it would be
    interrupted in the midst of its imports and say so at length.
    """
    process = multiprocessing.get_context("spawn").Process(target=work, daemon=True)
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, heard)
    return process


def _report(crowd: Crowd, next_rounds: list[urllib.request.Request], devices: int, seconds: float) -> None:
    """What the process of the simulated people does: the second round is opened when the first is over."""
    from taskveil.experiments.demo_people import later, people

    def reported(records: Any, round: str) -> Outcome:
        late = threading.Event()
        clock = threading.Timer(LATE * seconds / 2, late.set)
        clock.start()
        outcome = crowd.report(records, round=round, seconds=seconds / 2, stop=late)
        clock.cancel()
        return outcome

    first = reported(people(devices, seed=SEED), ROUNDS[0])
    for opened in next_rounds:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(opened, timeout=30).close()
    outcome = first + reported(later(devices, seed=SEED), ROUNDS[1])
    typer.echo(
        f"{'All have reported' if outcome.devices + outcome.failed >= 2 * devices else 'The time is over'}: "
        f"in two rounds, {outcome.devices:,} of {2 * devices:,} devices sent two reports each. Of these, "
        f"{outcome.repeated:,} were sent twice, {outcome.unheard:,} again after the connection was lost, and "
        f"{outcome.late:,} later; {outcome.failed:,} failed. The collector keeps running."
    )
