"""The mechanisms: one file each, which begins with its guarantee and the proof."""

from taskveil.client.mechanisms.ball_response import BallResponse, CentredBallResponse
from taskveil.client.mechanisms.base import Mechanism
from taskveil.client.mechanisms.codebook import Codebook, Stage
from taskveil.client.mechanisms.gaussian import Gaussian
from taskveil.client.mechanisms.laplace import Laplace
from taskveil.client.mechanisms.lattice import Lattice, LatticeCodebook
from taskveil.client.mechanisms.level_groups import BlockGroup, LevelGroup, PlaneGroup
from taskveil.client.mechanisms.level_response import LevelResponse
from taskveil.client.mechanisms.response import Response
from taskveil.client.mechanisms.seeded_codewords import SeededCodewords
from taskveil.client.mechanisms.sum_codebook import SumCodebook

__all__ = [
    "BallResponse",
    "BlockGroup",
    "CentredBallResponse",
    "Codebook",
    "Gaussian",
    "Laplace",
    "Lattice",
    "LatticeCodebook",
    "LevelGroup",
    "LevelResponse",
    "Mechanism",
    "PlaneGroup",
    "Response",
    "SeededCodewords",
    "Stage",
    "SumCodebook",
]
