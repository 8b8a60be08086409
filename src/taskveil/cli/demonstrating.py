"""`taskveil demo --serve`: a collector, a few thousand simulated people, and a page that shows their estimates.

A file of its own, so that other commands start without its imports.
"""

from __future__ import annotations

import json
import math
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

PEOPLE_SEED = 1
"""The simulated people must differ from the volunteers, who have another seed."""


def serve_demo(*, port: int, devices: int, seconds: float) -> None:
    """Run a collector on this machine until Ctrl-C, and let so many devices report to it in two weeks.

    There are two releases. Each device reports in both weeks with that for means and shares. The weeks of the one for
    single answers are planned: each device reports in some of them. All files lie in a temporary folder, which is
    deleted at the end.
    """
    with needs("this command", extra="server"):
        from taskveil.collector.releases import register
        from taskveil.collector.serving import serve
        from taskveil.collector.settings import Settings
        from taskveil.collector.store import open_store
        from taskveil.experiments.demo_devices import Crowd
        from taskveil.experiments.demo_people import PANEL, shown, write_means, write_release

    with tempfile.TemporaryDirectory(prefix="taskveil-demo-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        folders = (home / "means and shares", home / "single answers")
        with busy("designing the releases and measuring one at five budgets") as bar:
            means = write_means(folders[0])
            veil = write_release(folders[1], progress=bar)
        settings = Settings(port=port, db=f"sqlite:///{home / 'collector.db'}", rate=math.inf)
        store = open_store(settings.db)
        weeks = PANEL.rounds[:2]
        releases = [register(store, place, round=weeks[0]) for place in folders]
        for name in (
            *PANEL.rounds[1:],
            weeks[0],
        ):  # a visitor's page goes through all weeks; the current one is the first
            store.open_round(releases[1], name)
        tokens = first_tokens(store, admin=True)
        store.close()
        page = {**shown(veil), "client": f"/v1/releases/{releases[1]}/client/", "token": tokens["upload"]}
        _write_pages(home / "page", page)
        crowd = Crowd(
            releases=folders,
            url="",
            ledgers=home / "ledgers",
            token=tokens["upload"],
            rounds=len(weeks),
        )
        turns = PANEL.block(len(weeks) - 1) + 1  # reports with single answers in these weeks
        costs = [len(weeks) * means.guarantee.epsilon, turns * veil.guarantee.epsilon]
        crowds: list[multiprocessing.process.BaseProcess] = []

        def bound(address: str) -> None:
            typer.echo(f"The page: {address}/#token={tokens['read']}")
            typer.echo(f"Your own report, made in your browser: {address}/demo/")
            typer.echo(
                f"{devices:,} simulated people report for {seconds:g} seconds, in two weeks. Nothing leaves this "
                "machine; Ctrl-C ends it and deletes everything."
            )
            typer.echo(
                f"Each device sends means and shares in both weeks, and single answers in {PANEL.reports} of "
                f"{len(PANEL.rounds)} planned weeks, which it draws: in these two at most ε = {costs[0]:.3g} + "
                f"{costs[1]:.3g} = {sum(costs):.3g}."
            )
            next_rounds = [
                urllib.request.Request(  # noqa: S310 - the address of this collector
                    f"{address}/v1/releases/{release}/rounds/{weeks[1]}",
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
    """Write the page on which a browser makes a report, with the data about this release that it shows."""
    (folder / "release").mkdir(parents=True)
    for file in files("taskveil.collector").joinpath("pages", "demo").iterdir():
        copyfile(str(file), folder / file.name)
    (folder / "release" / "shown.json").write_text(json.dumps(shown), encoding="utf-8")


def _started(work: partial[None]) -> multiprocessing.process.BaseProcess:
    """A new process that does the work. It shares no lock with the collector's process.

    A terminal sends Ctrl-C to both processes. The new one ignores it from its start, because otherwise Ctrl-C during
    its imports would print a traceback. This process ends it.
    """
    process = multiprocessing.get_context("spawn").Process(target=work, daemon=True)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        process.start()
    finally:
        signal.signal(signal.SIGINT, previous)
    return process


def _report(crowd: Crowd, next_rounds: list[urllib.request.Request], devices: int, seconds: float) -> None:
    """Let the simulated people report in both weeks. The second becomes the current one at the end of the first."""
    from taskveil.experiments.demo_people import PANEL, later, people

    def reported(records: Any, round: str) -> Outcome:
        late = threading.Event()  # after twice the time of a round. On a slow machine some have not reported then
        clock = threading.Timer(seconds, late.set)
        clock.start()
        outcome = crowd.report(records, round=round, seconds=seconds / 2, stop=late)
        clock.cancel()
        return outcome

    first = reported(people(devices, seed=PEOPLE_SEED), PANEL.rounds[0])
    for opened in next_rounds:
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(opened, timeout=30).close()
    outcome = first + reported(later(devices, seed=PEOPLE_SEED), PANEL.rounds[1])
    typer.echo(
        f"{'All have reported' if outcome.devices + outcome.failed >= 2 * devices else 'The time is over'}: "
        f"in two weeks, {outcome.devices:,} of {2 * devices:,} devices sent their reports. Of these, "
        f"{outcome.repeated:,} were sent twice, {outcome.unheard:,} again after the connection was lost, and "
        f"{outcome.late:,} later; {outcome.failed:,} failed. The collector keeps running."
    )
