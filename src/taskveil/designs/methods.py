"""The table from a method's name to its designer: the five that we recommend, and the peers to compare them with.

You can pass a designer of your own instead of a name: see `taskveil.designs.problem`.
"""

from __future__ import annotations

from taskveil.designs.auto import Best, CodebookDesigner, ConstantDesigner, LaplaceDesigner
from taskveil.designs.laplace import closed_form
from taskveil.designs.means.design import MeanDesigner
from taskveil.designs.problem import Designer
from taskveil.errors import RENAMED, TaskError
from taskveil.peers import PEERS

Method = str | Designer
"""What `method` may be: one of `OURS`, the name of a peer (`taskveil.peers`), or a designer of your own."""


_CODEBOOK = CodebookDesigner(name="codebook")
_TASK_AWARE = LaplaceDesigner(name="task_aware", linear=closed_form.task_aware)
_MEANS = MeanDesigner(name="means")
_CONSTANT = ConstantDesigner(name="constant")

OURS: dict[str, Designer] = {
    "auto": Best(name="auto", designers=(_CODEBOOK, _TASK_AWARE, _MEANS), otherwise=_CONSTANT),
    "codebook": _CODEBOOK,
    "task_aware": _TASK_AWARE,
    "means": _MEANS,
    "constant": _CONSTANT,
}
DESIGNERS: dict[str, Designer] = {**OURS, **PEERS}


def designer_of(method: Method) -> Designer:
    """The designer of that name, or the caller's own."""
    own = f"{', '.join(DESIGNERS)}, or a designer of your own (taskveil.designs.problem.Designer)"
    if isinstance(method, str):
        if method not in DESIGNERS:
            known = RENAMED.get(f'method="{method}"')
            raise TaskError(f'method="{method}" {known}' if known else f"method must be one of {own}; got {method!r}.")
        return DESIGNERS[method]
    if isinstance(method, type) or not isinstance(method, Designer) or not isinstance(method.name, str):
        raise TaskError(
            f"method must be one of {own}: an object with name, why_not, seeded and designs; "
            f"got {type(method).__name__}."
        )
    if DESIGNERS.get(method.name, method) is not method:
        raise TaskError(f"{method.name!r} is the name of a method that exists: give your designer another.")
    return method
