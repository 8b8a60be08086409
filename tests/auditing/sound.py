"""Sound mechanisms, ours and others', which the audit must clear again and again."""

from __future__ import annotations

import numpy as np

import releases
import taskveil as tv
from auditing import balls, blocks, foreign, gaussians, leaks, mixed
from auditing.exhibits import WIDE, codebook_veil, laplace, laplace_veil, lattice_veil, stage, sum_veil
from auditing.levels import NearestLevel, level_veil
from auditing.museum import Exhibit
from taskveil.client.mechanisms import CentredBallResponse


def codebook_for(epsilon: float) -> tv.Veil:
    size, favoured = (16, 4) if epsilon < 4 else (64, 1)
    return codebook_veil(stage(size, favoured, epsilon, 1.0))


def designed(method: str) -> tv.Veil:
    rng = np.random.default_rng(7)
    volunteers = rng.standard_t(4, size=(300, 4)) @ np.diag([3.0, 2.0, 1.0, 0.5]) @ rng.normal(size=(4, 4))
    return tv.design(volunteers, tv.LinearTask(np.diag([2.0, 2.0, 1.0, 0.0])), epsilon=2.0, method=method)


def of_the_vectors(name: str) -> tv.Veil:
    device = releases.devices()[name]
    return releases.veil(device.encoder, device.mechanism)


FOREIGN = [
    Exhibit(name="OpenDP's Laplace", make=lambda: foreign.opendp_laplace, epsilon=1.0, most=20_000),
    Exhibit(name="OpenDP's geometric", make=lambda: foreign.opendp_geometric, epsilon=1.0, most=20_000),
    Exhibit(
        name="OpenDP's Gaussian", make=lambda: foreign.opendp_gaussian, epsilon=1.0, delta=foreign.DELTA, most=20_000
    ),
    Exhibit(
        name="OpenDP's randomised response",
        make=lambda: foreign.opendp_randomised_response,
        epsilon=1.0,
        most=20_000,
    ),
    Exhibit(
        name="randomised response on secrets",
        make=lambda: foreign.secrets_randomised_response,
        epsilon=1.0,
        most=20_000,
    ),
]

SOUND = [
    *(
        Exhibit(name=f"{kind}, ε = {epsilon:g}", make=lambda m=make, e=epsilon: m(e), epsilon=epsilon, long_only=again)
        for kind, make in {"Laplace": laplace_veil, "codebook": codebook_for}.items()
        for epsilon, again in {0.5: True, 1.0: False, 2.0: True, 4.0: False, 8.0: True}.items()
    ),
    Exhibit(name="Laplace in three latents", make=lambda: laplace_veil(2.0, 3), epsilon=2.0, dim=3),
    Exhibit(name="Gaussian, ε = 1", make=lambda: gaussians.gaussian_veil(1.0, 1e-2), epsilon=1.0, delta=1e-2),
    Exhibit(
        name="Gaussian in four latents",
        make=lambda: gaussians.gaussian_veil(2.0, 1e-6, 4),
        epsilon=2.0,
        delta=1e-6,
        dim=4,
    ),
    Exhibit(
        name="Gaussian, ε = 4", make=lambda: gaussians.gaussian_veil(4.0, 1e-4), epsilon=4.0, delta=1e-4, long_only=True
    ),
    Exhibit(name="lattice codebook", make=lambda: lattice_veil(3.0), epsilon=3.0, dim=2, trials=40_000),
    Exhibit(name="sum of codebooks", make=lambda: sum_veil(3.0), epsilon=3.0, dim=2, trials=40_000),
    Exhibit(name="levels and tables, ε = 2", make=lambda: level_veil(2.0), epsilon=2.0, dim=2),
    Exhibit(
        name="levels without a lot, ε = 2",
        make=lambda: level_veil(2.0, groups=NearestLevel),
        epsilon=2.0,
        dim=2,
        long_only=True,
    ),
    Exhibit(name="blocks, ε = 1", make=lambda: blocks.block_veil(1.0), epsilon=1.0, dim=2),
    Exhibit(name="blocks, ε = 4", make=lambda: blocks.block_veil(4.0), epsilon=4.0, dim=2, long_only=True),
    Exhibit(name="a plane, ε = 1", make=lambda: blocks.plane_veil(1.0), epsilon=1.0, dim=2),
    Exhibit(name="words, in planes too large to list", make=blocks.words_veil, epsilon=9.0, mixed=True),
    Exhibit(name="vectors in a ball, ε = 2", make=lambda: balls.ball_veil(2.0), epsilon=2.0, dim=2, trials=40_000),
    Exhibit(
        name="vectors in a ball with a centre, ε = 2",
        make=lambda: balls.ball_veil(2.0, CentredBallResponse),
        epsilon=2.0,
        dim=2,
        trials=40_000,
    ),
    Exhibit(
        name="vectors in a ball in their own direction, ε = 2",
        make=lambda: balls.ball_veil(2.0, balls.OwnDirection),
        epsilon=2.0,
        dim=2,
        long_only=True,
    ),
    Exhibit(name="a sound callable", make=lambda: laplace(WIDE), epsilon=1.0),
    *(
        Exhibit(name=f"designed, {method}", make=lambda m=method: designed(m), epsilon=2.0, dim=4, long_only=again)
        for again, methods in {
            False: ("codebook", "task_aware", "constant"),
            True: ("task_agnostic", "privacy_agnostic", "matrix_factorization"),
        }.items()
        for method in methods
    ),
    *(
        Exhibit(name=f"{name}, of the vectors", make=lambda name=name: of_the_vectors(name), epsilon=4.0, trials=40_000)
        for name in (
            *("laplace_tabled", "codebook_tabled", "laplace_trees", "codebook_trees", "codebook_mean"),
            "layers_side_by_side",
        )
    ),
    Exhibit(name="more noise in small batches", make=lambda: leaks.quieter_in_large_batches, epsilon=1.0),
    Exhibit(name="a coarse grid throughout", make=lambda: leaks.coarse_throughout, epsilon=1.0),
    Exhibit(name="a mixed veil", make=mixed.mixed_veil, epsilon=1.0, mixed=True),
    Exhibit(name="a client of mixed records", make=lambda: mixed.answers, epsilon=1.0, mixed=True),
    Exhibit(name="the same in bytes", make=lambda: mixed.as_bytes, epsilon=1.0, mixed=True),
    *FOREIGN,
]
