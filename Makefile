# Two commands for a newcomer: `make demo` and `make test`. Everything is installed into .venv by the first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-js js-all lint types bench reproduce clean

demo: $(READY)
	$(BIN)/taskveil demo

test: $(READY) lint types test-js
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -q

# The browser client: built, held against vectors that the Python client writes, and run in real Chromium.
# Without Node this part is skipped with a message, but never in CI.
test-js: $(READY)
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory js-all; \
	elif [ "$$CI" = true ]; then echo "no npm: the browser client cannot be tested"; exit 1; \
	else echo "SKIPPED: the browser client needs Node 20 or newer"; fi

js-all:
	OMP_NUM_THREADS=1 PYTHONPATH=src:tests $(BIN)/python tests/vectors.py js/test/vectors
	cd js && npm ci --loglevel=error && npm run --silent build && npm run --silent types && npm test --silent && npm run --silent browser

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/sensitivity.py
	$(BIN)/python benchmarks/noise.py
	$(BIN)/python benchmarks/codebook.py
	$(BIN)/python benchmarks/client.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/gradient.py
	$(BIN)/python benchmarks/design.py

reproduce: $(READY)
	$(BIN)/taskveil reproduce all --json results/results.json --plot results --summary docs/results.md --resume results/finished

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) js/node_modules js/dist js/test/vectors results .pytest_cache .mypy_cache .ruff_cache .hypothesis
