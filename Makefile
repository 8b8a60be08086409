# Two commands for a newcomer: `make demo` and `make test`. Everything is installed into .venv by the first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types bench reproduce clean

demo: $(READY)
	$(BIN)/taskveil demo

test: $(READY) lint types
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -q

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/sensitivity.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/gradient.py

reproduce: $(READY)
	$(BIN)/taskveil reproduce all --json results/results.json --plot results --summary docs/results.md --resume results/finished

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) results .pytest_cache .mypy_cache .ruff_cache .hypothesis
