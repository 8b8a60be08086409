"""The frontier's picture where there are no shares of a signal."""

from __future__ import annotations

from taskveil.sweeps.frontier_page import off_chart, picture


def test_errors_of_means_are_never_worse_than_one_answer_for_everybody() -> None:
    """They have no bound above: the picture reaches all of them, and says of none that it is off the chart."""
    row = {"low": None, "high": None, "kept": None, "kept_low": None, "kept_high": None}
    rows = [
        {"method": method, "epsilon": epsilon, "loss": loss, "least": loss, "greatest": loss, **row}
        for method, scale in (("means", 1.0), ("laplace_split", 300.0))
        for epsilon, loss in ((0.5, 4000.0 * scale), (8.0, 20.0 * scale))
    ]
    assert off_chart(rows, clear=0.0, constant=0.0) == ""
    assert picture(rows, clear=0.0, constant=0.0).startswith(b"\x89PNG")
