"""How encoder, mechanism and decoder are found together. `design` is the front door."""

from __future__ import annotations

from typing import Any

from taskveil.designs.domain import Domain
from taskveil.designs.finishing import finished
from taskveil.designs.methods import Method, design_many, designer_of
from taskveil.designs.on_device import CLIENT_BYTES, Answers, OnDevice
from taskveil.designs.problem import Designer, Population, Problem
from taskveil.errors import BudgetError, TaskError
from taskveil.guarantee import as_epsilon
from taskveil.progress import Progress
from taskveil.records import column_names
from taskveil.schema import Schema
from taskveil.tasks import Task
from taskveil.veil import Veil

__all__ = ["Designer", "Method", "Problem", "design"]


def design(
    X: Any,
    task: Task,
    *,
    epsilon: float,
    y: Any = None,
    delta: float = 0.0,
    method: Method = "auto",
    encoder: Any = "auto",
    answers: Answers = "direct",
    share_model: bool = False,
    volunteers_unseen: bool = False,
    client_bytes: int = CLIENT_BYTES,
    latent_dim: int | None = None,
    domain: Domain | Schema | None = None,
    like: Population | None = None,
    seed: int = 0,
    progress: bool | Progress | None = None,
    device: str = "cpu",
) -> Veil:
    """Design a veil: encoder and randomiser for the device, decoder for the server.

    Args:
        X: volunteers' records: an array (N, n) of finite numbers, or a pandas, polars or Arrow table, whose columns may
            be numbers, text, flags and dates, and may have holes.
        task: what the data is for.
        epsilon: the budget of one report. Smaller is more private.
        y: the volunteers' labels for a task that is a model; without them the model's own answers are the truth.
        delta: must be 0 here; every design so far is purely ε-LDP.
        method: "auto" judges "codebook" and "task_aware" on held-out volunteers and keeps the better, or "nothing",
            with a NothingToReportWarning, where neither beats one answer for everybody; the others are what they are
            compared with. A MeanTask has a design of its own, "means". Or a `Designer` of your own.
        encoder: of designs for a model, what the device computes: "linear", "light" (one hidden layer), "trees"
            (boosted trees), "own" (the task's own model), or "auto", the best of all that is allowed by cross-validated
            loss. Or a torch module, whose architecture is trained anew, or a callable for Python clients. See
            docs/models.md.
        answers: "direct", the best answer given the report; "record", what the model says of the estimated record, for
            whoever must feed a record into it.
        share_model: the task's own model may run on the devices. Whoever has a device then has the model.
        volunteers_unseen: the model never saw the volunteers, so that what it says of them is honest.
        client_bytes: the most that the client folder of the release may take.
        latent_dim: at most this many numbers in a report; by default as many as pay off.
        domain: where records may lie. Whatever lies outside is brought inside, volunteers and users alike. By default
            the volunteers' cloud; single cells that are out of line with all others are brought back, with a warning.
            A `Schema` says what a table's records consist of; by default it is inferred from the table.
        like: what `taskveil.estimate` said of the people who answered a first round: the volunteers are reweighted to
            be like them, so that a second round fits them.
        seed: of the search for a design (the same seed on the same machine gives the same); reports are never seeded.
        progress: by default a bar on stderr after two seconds of work, on a terminal or in a notebook, with what is
            being tried and an estimate of the time left. True and False force it. Or a `Progress` that is open.
        device: "cpu" or "cuda", where learning happens. Devices and servers need neither.

    Returns:
        A veil whose `guarantee` holds for every user and every input.
    """
    budget, designer = as_epsilon(epsilon), designer_of(method)
    if delta != 0.0:
        raise BudgetError(f"these designs are purely ε-LDP and need delta=0, got {delta}.")
    with Progress.of(progress) as bar:
        bar.begin(f"designing ({designer.name})", 0.0)  # how much there is to do is for the designer to say
        problem = Problem.of(
            X,
            task,
            y=y,
            domain=domain,
            latent_dim=latent_dim,
            device=device,
            progress=bar,
            on_device=OnDevice(
                encoder=encoder, share_model=share_model, volunteers_unseen=volunteers_unseen, client_bytes=client_bytes
            ),
            answers=answers,
        )
        volunteers = problem
        if like is not None:
            if not callable(getattr(like, "weights", None)):
                raise TaskError(f"like is what taskveil.estimate returned, got {type(like).__name__}.")
            problem = problem.like(like, seed)
        ((_, _, veil),) = design_many(designer, problem, epsilons=[budget], seeds=[seed])
        # As they came, whoever the design was made for: people are compared with the same volunteers in every round.
        return finished(veil, volunteers, column_names(X))
