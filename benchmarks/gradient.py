"""How long learned designs take: all published budgets at once against a straightforward loop, one model at a time.

    python benchmarks/gradient.py                # real estate and breast cancer, one thread
    python benchmarks/gradient.py --mnist --device cuda

The loop is the published algorithm as one would write it down: one budget, 2,000 epochs of 30 gradient steps (15 on
the encoder, 15 on the decoder). It is timed on fewer epochs in this very run and extrapolated.
`TASKVEIL_DATA` names the data folder.
"""

from __future__ import annotations

import argparse
import math
import time

import numpy as np
import torch
from torch import nn

from taskveil.designs.laplace.learned import design_models
from taskveil.designs.problem import Problem
from taskveil.experiments import breast_cancer, mnist, real_estate
from taskveil.experiments.models import Experiment
from taskveil.experiments.report import published_points

LOOP_EPOCHS, MEASURED_EPOCHS, STEPS = 2000, 20, 15


def loop_seconds(experiment: Experiment, hidden: int | None, penalty: float) -> float:
    """Seconds that the straightforward loop needs for one budget."""
    torch.manual_seed(0)
    X = torch.tensor(experiment.X).float()
    mse = experiment.task.loss == "mse"
    y = torch.tensor(experiment.y).float() if mse else torch.tensor(experiment.y)
    cost = nn.MSELoss() if mse else nn.CrossEntropyLoss()
    n, z, model = X.shape[1], 3, experiment.task.torch_module

    def network(inputs: int, outputs: int) -> nn.Module:
        if hidden is None:
            return nn.Linear(inputs, outputs)
        return nn.Sequential(nn.Linear(inputs, hidden), nn.Sigmoid(), nn.Linear(hidden, outputs))

    encoder, decoder = network(n, z), network(z, n)
    optimisers = [torch.optim.Adam(part.parameters(), 1e-3, amsgrad=True) for part in (encoder, decoder)]
    start = time.perf_counter()
    for _ in range(MEASURED_EPOCHS):
        with torch.no_grad():
            latents = encoder(X)
            scale = torch.cdist(latents, latents, p=1).max() / (math.sqrt(2) * 5.0)
            noise = torch.distributions.Laplace(0.0, float(scale)).sample(latents.shape)
        for optimiser in optimisers:
            for _ in range(STEPS):
                loss = cost(model(decoder(encoder(X) + noise)), y)
                loss = loss + penalty * sum(p.square().sum() for p in encoder.parameters())
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
    return (time.perf_counter() - start) / MEASURED_EPOCHS * LOOP_EPOCHS


def sweep_seconds(experiment: Experiment, device: str, seeds: int) -> tuple[float, dict[float, float]]:
    """Seconds for all budgets at once, and the mean test losses they lead to."""
    start = time.perf_counter()
    problem = Problem.of(experiment.X, experiment.task, y=experiment.y, torch_device=device)
    veils = design_models(problem, epsilons=experiment.epsilons, seeds=range(seeds))
    seconds = time.perf_counter() - start
    losses = {
        e: float(np.mean([veils[e, s].loss(experiment.X_test, experiment.y_test).mean for s in range(seeds)]))
        for e in experiment.epsilons
    }
    return seconds, losses


def show(experiment: Experiment, seconds: float, losses: dict[float, float], seeds: int) -> None:
    known = published_points(experiment.key, "task_aware_Z3")
    print(f"{experiment.name}: all {len(losses)} budgets, {seeds} seed(s) in {seconds:.1f} s")
    for epsilon, loss in losses.items():
        print(f"  ε = {epsilon:5g}  ours {loss:.4f}  published {known[epsilon][0]:.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", action="store_true", help="MNIST with all budgets instead")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    if options.mnist:
        experiment = mnist.problem()
        print(f"device {options.device}", torch.cuda.get_device_name() if torch.cuda.is_available() else "")
        if options.device.startswith("cuda"):  # the first call pays for loading CUDA's libraries
            torch.ones(8, 8, device=options.device) @ torch.ones(8, 8, device=options.device)
        seconds, losses = sweep_seconds(experiment, options.device, options.seeds)
        show(experiment, seconds, losses, options.seeds)
        print(f"  bar: 60 s for all budgets on one H200: {'met' if seconds < 60 else 'MISSED'}")
        return
    torch.set_num_threads(1)
    for module, hidden, penalty, bar in ((real_estate, None, 0.2, 45.0), (breast_cancer, 30, 0.001, 81.0)):
        experiment = module.problem()
        loop = loop_seconds(experiment, hidden, penalty)
        seconds, losses = sweep_seconds(experiment, "cpu", options.seeds)
        each = seconds / len(losses) / options.seeds
        show(experiment, seconds, losses, options.seeds)
        print(
            f"  per ε {each:.2f} s; the loop {loop:.0f} s per ε here (measured on {MEASURED_EPOCHS} of {LOOP_EPOCHS} "
            f"epochs): {loop / each:.0f} times faster; against {bar:.0f} s: {bar / each:.0f} times (bar: 20)"
        )


if __name__ == "__main__":
    main()
