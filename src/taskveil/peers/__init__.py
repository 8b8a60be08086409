"""Methods to compare designs with, and the table of their names.

`baselines.py`, `learned.py`    the published ones for linear tasks and for models, with the same bounding and the same
                               exact noise
`responses.py`, `laplace.py`   what a user could write in five lines: the task's own model on the device
                               (`own_model.py`), and a textbook mechanism after it
`literature.py`                mechanisms for population means, as formulas
`frequencies.py`               mechanisms for shares of values, as formulas with samplers
`limits/`                      losses that no ε-LDP report can go below

All but the limits are methods with a name: `taskveil.sweep(..., methods=["auto", "label_response"])`.
"""

from __future__ import annotations

from taskveil.designs.auto import LaplaceDesigner
from taskveil.designs.problem import Designer
from taskveil.peers import baselines
from taskveil.peers.laplace import AttributeLaplace, LearnedBaseline, PredictionLaplace
from taskveil.peers.literature import LITERATURE
from taskveil.peers.responses import BinnedResponse, LabelResponse

_ALL: tuple[Designer, ...] = (
    LearnedBaseline(name="task_agnostic", linear=baselines.task_agnostic),
    LearnedBaseline(name="privacy_agnostic", linear=baselines.privacy_agnostic),
    LaplaceDesigner(name="matrix_factorization", linear=baselines.matrix_factorization, for_models=False),
    LabelResponse(name="label_response"),
    BinnedResponse(name="binned_response"),
    PredictionLaplace(name="prediction_laplace"),
    AttributeLaplace(name="attribute_laplace"),
    *LITERATURE,
)
PEERS: dict[str, Designer] = {peer.name: peer for peer in _ALL}
