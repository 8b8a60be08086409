"""What the package says to people who write Python, as people who type commands read it."""

from __future__ import annotations

import re

_OPTIONS = (
    (r"schema\.replace\(\{'(.*?)': tv\.Number\(low, high\)\}\)", r"--domain \1=low:high"),
    (r"\bdomain=\.\.\. says", "--domain column=low:high says"),
    (r"List its values with tv\.Category, or drop it", "List its values in a --schema, or leave it out: --drop"),
    (r"\bwith tv\.Category\b", "in a --schema"),
    (r"\bleave the column out\.", "leave the column out: --drop."),
    (r"\bshare_model=True\b", "--share-model"),
    (r"(?<!['-])\bmax_bytes=", "--client-bytes "),
    (r"(?<!['-])\bmax_bytes\b(?!')", "--client-bytes"),
    (r"\bengine=tv\.Ray\(gpus=(\d+)\)", r"--engine ray --gpus \1"),
    (r"\btorch_device='(\w+)'", r"--device \1"),
    (r"\bfor tv\.MeanTask\(K\)", "of taskveil design --means"),
    (r"\bsave it with volunteers=True\b", "design it without --no-volunteers"),
    (r"(?<!['-])\b(encoder|answers|loss|method|engine|assume)=[\"'](\w+)[\"']", r"--\1 \2"),
    (r"\bassume=(?!\w)", "--assume"),
    (r"\bleave out anytime\b", "leave out --anytime"),
)


def reworded(message: str) -> str:
    """The same with options for arguments, and rows as people count them: Python's first is number 0."""
    for argument, option in _OPTIONS:
        message = re.sub(argument, option, message)
    return re.sub(r"(?<=\brow )\d+(?=, column |\W+\d+% of the labels)", lambda row: str(int(row[0]) + 1), message)
