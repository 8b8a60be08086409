from __future__ import annotations

import inspect

import pytest

from taskveil.cli.wording import reworded
from taskveil.designs import bounds
from taskveil.records import inference


@pytest.mark.parametrize(
    ("python", "typed"),
    [
        ("row 0, column 'a' (5% of its variance)", "row 1, column 'a' (5% of its variance)"),
        ("the label of row 9 (60% of the labels' variance)", "the label of row 10 (60% of the labels' variance)"),
        ("Check their units; domain=... says where", "Check their units; --domain column=low:high says where"),
        ("give the bounds: schema.replace({'n': tv.Number(low, high)}).", "give the bounds: --domain n=low:high."),
        ('a classifier: use loss="cross_entropy"', "a classifier: use --loss cross_entropy"),
        ("raise client_bytes=600000", "raise --client-bytes 600000"),
        ("Group them, or list them with tv.Category.", "Group them, or list them in a --schema."),
        ("or of the person, leave the column out.", "or of the person, leave the column out: --drop."),
        ("say share_model=True.", "say --share-model."),
        ("column 'client_bytes' holds text, row 7 of the day", "column 'client_bytes' holds text, row 7 of the day"),
    ],
)  # fmt: skip
def test_arguments_become_options_and_rows_are_counted_from_one(python: str, typed: str) -> None:
    assert reworded(python) == typed


def test_the_packages_own_words_are_still_these() -> None:
    """What is replaced is what the package says today."""
    said = "".join(map(inspect.getsource, (bounds, inference)))
    for words in (
        *("domain=... says", "List its values with tv.Category, or drop it", "tv.Number(low, high)}})"),
        *("matter with tv.Category", "leave the column out."),
    ):
        assert words in said
