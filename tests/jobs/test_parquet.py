"""Tables in, tables out: columns by name, units checked, constant memory, all or nothing."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import releases
import taskveil as tv
from taskveil.cli.app import app
from taskveil.client.mechanisms import Codebook
from taskveil.errors import DataError
from taskveil.jobs.commands import privatize_tables
from taskveil.veil.decoders import CodewordDecoder

N = 3000


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return " ".join(result.output.split())


@pytest.fixture
def veil() -> tv.Veil:
    # A budget so large that reports hardly vary: what arrives can be compared with what was sent.
    return releases.veil(releases.linear(), Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 40.0),)))


@pytest.fixture
def release(veil: tv.Veil, tmp_path: Path) -> Path:
    veil.save(tmp_path / "release")
    return tmp_path / "release"


@pytest.fixture
def records() -> np.ndarray:
    return np.random.default_rng(0).normal(size=(N, 5))


def parquet(path: Path, columns: dict[str, object], units: dict[str, str] | None = None) -> Path:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    fields = [
        pa.field(n, a.type, metadata={b"unit": units[n].encode()} if units and n in units else None)
        for n, a in arrays.items()
    ]
    pq.write_table(pa.table(list(arrays.values()), schema=pa.schema(fields)), path)
    return path


def test_parquet_in_any_order_to_estimates_and_predictions(
    veil: tv.Veil, release: Path, records: np.ndarray, tmp_path: Path
) -> None:
    shuffled = {"secret": ["x"] * N} | {name: records[:, i] for i, name in reversed(list(enumerate("abcde")))}
    source = parquet(tmp_path / "in.parquet", shuffled)
    said = run("privatize", source, tmp_path / "reports.parquet", "--release", release)
    assert "3,000 reports" in said
    reports = pq.read_table(tmp_path / "reports.parquet")
    assert reports.column_names == ["report_0"]  # no other column leaves
    expected = veil.privatize(records)
    assert np.array_equal(reports["report_0"].to_numpy(), expected[:, 0])
    run("decode", tmp_path / "reports.parquet", tmp_path / "out.parquet", "--release", release, "--column", "a=alpha")
    decoded = pq.read_table(tmp_path / "out.parquet")
    assert decoded.column_names == ["alpha", "b", "c", "d", "e"]
    assert decoded.schema.field("b").metadata[b"unit"] == b"kW"
    assert np.array_equal(np.column_stack([c.to_numpy() for c in decoded.columns]), veil.decode(expected))
    run("decode", tmp_path / "reports.parquet", tmp_path / "y.parquet", "--release", release, "--predict")
    predicted = pq.read_table(tmp_path / "y.parquet")
    assert np.array_equal(np.column_stack([c.to_numpy() for c in predicted.columns]), veil.predict(expected))


@pytest.mark.parametrize("name", ["laplace_box", "lattice"])
def test_every_kind_of_report_survives(name: str, records: np.ndarray, tmp_path: Path) -> None:
    device = releases.devices()[name]
    veil = releases.veil(device.encoder, device.mechanism)
    veil.save(tmp_path / "r")
    source = parquet(tmp_path / "in.parquet", {n: records[:, i] for i, n in enumerate("abcde")})
    run("privatize", source, tmp_path / "reports.parquet", "--release", tmp_path / "r" / "client")
    run("decode", tmp_path / "reports.parquet", tmp_path / "out.parquet", "--release", tmp_path / "r")
    assert pq.read_table(tmp_path / "out.parquet").num_rows == N


def test_csv_with_units_and_other_names(veil: tv.Veil, release: Path, records: np.ndarray, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    np.savetxt(source, records, delimiter=",", header="a [kW],b,c,dd,e (kW)", comments="", fmt="%.17g")
    run("privatize", source, tmp_path / "o.parquet", "--release", release, "--column", "d=dd", "--unit", "b=kW")
    assert np.array_equal(pq.read_table(tmp_path / "o.parquet")["report_0"].to_numpy(), veil.privatize(records)[:, 0])


def good(records: np.ndarray) -> dict[str, object]:
    return {name: records[:, i] for i, name in enumerate("abcde")}


@pytest.mark.parametrize(
    ("change", "units", "options", "says"),
    [
        ({"a": None}, {}, (), "lacks the columns a"),
        ({"a": ["1.5"] * N}, {}, (), "'a' holds string, not numbers"),
        ({}, {"a": "W"}, (), "'a' is in W, but the release expects 'a' in kW"),
        ({"a [W]": np.zeros(N), "a": None}, {}, (), "'a [W]' is in W"),
        ({}, {}, ("--unit", "a=W"), "'a' is in W"),
        ({}, {}, ("--unit", "z=W"), "--unit takes name=unit"),
        ({}, {}, ("--column", "z=a"), "--column takes name=column"),
        ({}, {}, ("--column", "a=zz"), "lacks the columns zz"),
    ],
)
def test_mistakes_are_explained_and_nothing_is_written(
    change: dict[str, object],
    units: dict[str, str],
    options: tuple[str, ...],
    says: str,
    release: Path,
    records: np.ndarray,
    tmp_path: Path,
) -> None:
    columns = {name: values for name, values in (good(records) | change).items() if values is not None}
    source = parquet(tmp_path / "in.parquet", columns, units)
    before = set(tmp_path.iterdir())
    assert says in run("privatize", source, tmp_path / "o.parquet", "--release", release, *options, code=2)
    assert set(tmp_path.iterdir()) == before


def test_values_are_never_an_error(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    """Missing values too: refusing them would tell something about the people in the table."""
    records[:4] = [[np.nan] * 5, [np.inf] * 5, [-np.inf] * 5, [1e308] * 5]
    columns = good(records) | {
        "a": pa.array([None] * N, pa.float64()),
        "b": np.arange(N),
        "c": np.zeros(N, dtype=np.float32),
        "d": pa.nulls(N),
        "e": [None, True] * (N // 2),
    }
    source = parquet(tmp_path / "in.parquet", columns)
    run("privatize", source, tmp_path / "o.parquet", "--release", release)
    assert pq.read_table(tmp_path / "o.parquet").num_rows == N
    run("privatize", source, tmp_path / "p.parquet", "--release", release)


CELLS = ["", "nan", "NaN", "null", "N/A", "inf", "-inf", "1e400", "+5", " 5", "-0", "1e-400", '""', '"7"']


def test_one_rule_for_csv_and_parquet(veil: tv.Veil, release: Path, tmp_path: Path) -> None:
    """A cell is a number, or nothing, however it is written; the same numbers in Parquet give the same reports."""
    values = [np.nan] * 5 + [np.inf, -np.inf, np.inf, 5.0, 5.0, -0.0, 0.0, np.nan, 7.0]
    rows = [f"1,2,{cell},4,5" for cell in CELLS]
    (tmp_path / "t.csv").write_text("a,b,c,d,e\n" + "\n".join(rows) + "\n")
    run("privatize", tmp_path / "t.csv", tmp_path / "csv.parquet", "--release", release)
    n = len(values)
    same = {"a": [1.0] * n, "b": [2.0] * n, "c": values, "d": [4.0] * n, "e": [5.0] * n}
    run("privatize", parquet(tmp_path / "t.parquet", same), tmp_path / "o.parquet", "--release", release)
    expected = veil.privatize(np.array(list(same.values())).T)[:, 0]
    for name in ("csv.parquet", "o.parquet"):
        assert np.array_equal(pq.read_table(tmp_path / name)["report_0"].to_numpy(), expected)


TRICKS = [
    "secret",
    "No such file secret",
    "column #1 Row #7 secret",
    "Expected 5 columns, got 999999",
    "1_000",
    "0x",
]


@pytest.mark.parametrize("cell", TRICKS)
def test_refusals_do_not_quote_cells(cell: str, release: Path, tmp_path: Path) -> None:
    """In 0.1 a cell that looked like Arrow's own words was repeated."""
    (tmp_path / "t.csv").write_text(f"a,b,c,d,e\n1,2,3,4,5\n1,2,3,{cell.replace(',', ' ')},5\n")
    output = run("privatize", tmp_path / "t.csv", tmp_path / "out.parquet", "--release", release, code=2)
    assert "column 'd' of record 2 holds something that is not a number" in output
    for word in ("secret", "No such file", "Row", "#", "999999", "1_000", "0x"):
        assert word not in output


def test_reports_that_are_there_are_not_drawn_again(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    """In 0.1 a second run randomised the same people again, and replaced what had been sent."""
    source, target = parquet(tmp_path / "in.parquet", good(records)), tmp_path / "o.parquet"
    run("privatize", source, target, "--release", release)
    first = target.read_bytes()
    said = run("privatize", source, target, "--release", release, code=2)
    assert "costs each of them ε = 40 once more" in said
    assert "e^80 instead of e^40" in said
    assert target.read_bytes() == first
    run("privatize", source, target, "--release", release, "--overwrite")
    dangling = tmp_path / "link.parquet"
    dangling.symlink_to(tmp_path / "nowhere")
    run("privatize", source, dangling, "--release", release, code=2)


def test_reports_that_appear_meanwhile_stay(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    """Two runs at once: the one that ends last must not replace what the other has published."""
    source, target = parquet(tmp_path / "in.parquet", good(records)), tmp_path / "out.parquet"
    with pytest.raises(DataError, match="once more"):
        privatize_tables(release, source, target, progress=lambda *_: target.write_bytes(b"the other's") and None)
    assert target.read_bytes() == b"the other's"
    assert sorted(path.name for path in tmp_path.iterdir() if "release" not in path.name) == [
        "in.parquet",
        "out.parquet",
    ]


@pytest.mark.parametrize("path", ["\ud800.parquet", "a\0b.parquet", "loop.parquet", "\ud800.csv", "a\0b.csv"])
def test_odd_paths_are_data_errors(path: str, release: Path, records: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "loop.parquet").symlink_to("loop.parquet")
    source = parquet(tmp_path / "in.parquet", good(records))
    with pytest.raises(DataError, match="cannot read"):
        privatize_tables(release, tmp_path / path, tmp_path / "o.parquet")
    if not path.startswith("loop"):
        with pytest.raises(DataError, match="cannot write"):
            privatize_tables(release, source, tmp_path / path)


@pytest.mark.parametrize(
    "text", ["", "a,b,c,d,e\n1,2,3,4,x\n", "a,b,c,d,e\n1,2\n", "a,b\n1,2\n", "a,a,b,c,d,e\n1,1,1,1,1,1\n"]
)
def test_unreadable_csv(text: str, release: Path, tmp_path: Path) -> None:
    source = tmp_path / "in.csv"
    source.write_text(text)
    assert "in.csv" in run("privatize", source, tmp_path / "o.parquet", "--release", release, code=2).replace(" ", "")
    assert not (tmp_path / "o.parquet").exists()


def test_unreadable_and_unwritable_places(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    source = parquet(tmp_path / "in.parquet", good(records))
    for bad in ("bad.parquet", "nowhere.parquet", "nowhere.csv"):
        assert "cannot read" in run("privatize", tmp_path / bad, tmp_path / "o.parquet", "--release", release, code=2)
    assert "cannot write" in run("privatize", source, tmp_path / "no" / "o.parquet", "--release", release, code=2)


def test_releases_without_names_take_columns_in_order(
    volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path
) -> None:
    tv.design(volunteers, task, epsilon=1.0).save(tmp_path / "r")
    source = parquet(tmp_path / "in.parquet", {f"c{i}": volunteers[:, i] for i in range(6)})
    run("privatize", source, tmp_path / "o.parquet", "--release", tmp_path / "r")
    run("decode", tmp_path / "o.parquet", tmp_path / "x.parquet", "--release", tmp_path / "r")
    assert pq.read_table(tmp_path / "x.parquet").column_names == [f"x{i}" for i in range(6)]
    narrow = parquet(tmp_path / "narrow.parquet", {f"c{i}": volunteers[:, i] for i in range(5)})
    assert "names no columns" in run("privatize", narrow, tmp_path / "p.parquet", "--release", tmp_path / "r", code=2)


def test_reports_are_decoded_with_their_own_release(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    source = parquet(tmp_path / "in.parquet", good(records))
    run("privatize", source, tmp_path / "o.parquet", "--release", release)
    other = releases.veil(releases.linear(), Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 39.0),)))
    other.save(tmp_path / "other")
    said = run("decode", tmp_path / "o.parquet", tmp_path / "y.parquet", "--release", tmp_path / "other", code=2)
    assert "the release they were made with" in said
    assert "no known release" in run("decode", source, tmp_path / "x.parquet", "--release", release, code=2)


def test_signed_releases_only(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    source = parquet(tmp_path / "in.parquet", good(records))
    (tmp_path / "key").write_bytes(bytes(32))
    options = ("--release", release, "--verify-key", tmp_path / "key")
    assert "not signed" in run("privatize", source, tmp_path / "o.parquet", *options, code=2)


MEASURE = """
import re, sys
from pathlib import Path
from taskveil.jobs.commands import privatize_tables
done = privatize_tables(Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])).rows
# Not getrusage: a child's ru_maxrss starts at its parent's.
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(done, int(peak) // 1024)
"""


def test_memory_does_not_grow_with_the_table(release: Path, tmp_path: Path) -> None:
    """Ten times the rows in one row group: the peak may grow by a few MB, not by the 64 MB that the rows take."""
    peaks = []
    for rows in (200_000, 2_000_000):
        values = np.random.default_rng(0).normal(size=rows).astype(np.float32)
        table = pa.table(dict.fromkeys("abcde", values))
        source = tmp_path / f"{rows}.parquet"
        pq.write_table(table, source, row_group_size=rows)
        arguments = [sys.executable, "-c", MEASURE, str(release), str(source), str(tmp_path / f"{rows}.reports")]
        out = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
        assert int(out[0]) == rows
        peaks.append(int(out[1]))
    assert peaks[1] - peaks[0] < 25, peaks


def test_without_arrow_the_way_out_is_named(release: Path) -> None:
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from taskveil.cli.app import app\n"
        f"app(['privatize', 'in.csv', 'out.parquet', '--release', {str(release)!r}])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert out.returncode == 2
    assert "taskveil[design]" in out.stderr.replace("\n", "")


def test_refusals_do_not_quote_rows(release: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c,d,e\n1,2,3,4,5\n1,2,3,secret,5,Expected 5 columns got 77\n")
    output = run("privatize", tmp_path / "t.csv", tmp_path / "out.parquet", "--release", release, code=2)
    assert "has 6 cells instead of 5" in output
    assert "secret" not in output
    assert "got 77" not in output


def test_a_name_and_the_same_name_with_a_unit_are_two_columns(release: Path, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,c,d,e,a (kW)\n1,2,3,4,5,6\n")
    assert "two columns" in run("privatize", tmp_path / "t.csv", tmp_path / "o.parquet", "--release", release, code=2)


def test_tables_say_their_release_under_the_name_they_always_had(
    release: Path, records: np.ndarray, tmp_path: Path
) -> None:
    run("privatize", parquet(tmp_path / "in.parquet", good(records)), tmp_path / "o.parquet", "--release", release)
    stated = pq.read_schema(tmp_path / "o.parquet").metadata[b"taskveil.release"].decode()
    assert stated == tv.Veil.load(release).release_id


def test_fractions_are_no_reports(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    """0.1 wrote Laplace reports in the latents' units: whole ones among them would decode wrongly, without a word."""
    run("privatize", parquet(tmp_path / "in.parquet", good(records)), tmp_path / "o.parquet", "--release", release)
    table = pq.read_table(tmp_path / "o.parquet")
    old = pa.table([column.cast(pa.float64()) for column in table.columns], names=table.column_names)
    pq.write_table(old.replace_schema_metadata(table.schema.metadata), tmp_path / "old.parquet")
    said = run("decode", tmp_path / "old.parquet", tmp_path / "x.parquet", "--release", release, code=2)
    assert "holds fractions" in said


def test_a_first_record_is_no_header(volunteers: np.ndarray, task: tv.LinearTask, tmp_path: Path) -> None:
    """A release without names takes columns by their place: the first person must not become the header."""
    tv.design(volunteers, task, epsilon=1.0, method="task_aware").save(tmp_path / "r")
    np.savetxt(tmp_path / "bare.csv", volunteers, delimiter=",")
    said = run("privatize", tmp_path / "bare.csv", tmp_path / "o.parquet", "--release", tmp_path / "r", code=2)
    assert "no header" in said


def test_a_blank_line_is_a_person_whose_only_value_is_missing(tmp_path: Path) -> None:
    """Arrow skips blank lines: whether such a person reported would have told that the value is missing."""
    mechanism = Codebook(region=releases.box(3), stages=(releases.stage(16, 1, 40.0),))
    plain = releases.veil(releases.linear(), mechanism)
    encoder, one = releases.linear(1, 3), np.zeros((16, 1))
    decoder = CodewordDecoder(codewords=one, sizes=np.array([16]))
    made = dataclasses.replace(plain, encoder=encoder, decoder=decoder, task=None, columns=("a",), units=None)
    made.save(tmp_path / "release")
    (tmp_path / "t.csv").write_text("a\n1\n\n3\n\n\n6\n")
    assert privatize_tables(tmp_path / "release", tmp_path / "t.csv", tmp_path / "out.parquet").rows == 6
    expected = made.device.privatize(np.array([[1.0], [np.nan], [3.0], [np.nan], [np.nan], [6.0]]))
    assert np.array_equal(pq.read_table(tmp_path / "out.parquet")["report_0"].to_numpy(), expected[:, 0])


def test_a_unit_that_is_no_text_is_another_unit(release: Path, records: np.ndarray, tmp_path: Path) -> None:
    columns = {name: pa.array(values) for name, values in good(records).items()}
    fields = [pa.field(name, column.type) for name, column in columns.items()]
    fields[0] = fields[0].with_metadata({b"unit": b"\xff\xfe"})
    pq.write_table(pa.table(list(columns.values()), schema=pa.schema(fields)), tmp_path / "in.parquet")
    with pytest.raises(DataError, match="column 'a' is in \ufffd\ufffd, but the release expects"):
        privatize_tables(release, tmp_path / "in.parquet", tmp_path / "o.parquet")
    assert not (tmp_path / "o.parquet").exists()
