# Two commands for a newcomer: `make demo` and `make test`. The first installs what designs need into .venv, without
# torch; the second all the rest.
# Another Python: `make test PYTHON=python3.13 VENV=.venv-3.13`.
PYTHON ?= python3
VENV ?= .venv
JOBS ?= 2
DEVICE ?= cpu
BIN := $(VENV)/bin
VERSION := $(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
READY := $(VENV)/.ready-$(VERSION)
DEMO := $(VENV)/.demo-$(VERSION)
# One thread each: products are small, and two workers with two threads each are slower than one.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -q

# The size of the vectors that the browser client is compared with: empty (small) or --full.
VECTORS ?=

.PHONY: demo announced test test-all docs faults ray install-test test-js js-all lint types bench reproduce clean

demo: announced $(DEMO)
	$(BIN)/taskveil demo

# The sizes are those of the wheels in constraints.txt on Linux.
announced:
	@if [ -e $(DEMO) ]; then echo "$(VENV) is ready. The demo takes a minute or two and downloads nothing."; \
	else echo "Downloads packages from your package index into $(VENV), without torch: 150 MB, 640 MB on disk."; \
	echo "This takes one to three minutes, mostly for pip, and the demo a minute or two. It downloads no data."; fi

test: $(READY)
	@$(MAKE) --no-print-directory -j 2 lint types test-js
	$(PYTEST) --durations=10

# Everything, at full size: also tests marked `slow` and large vectors. Run it before a release; a scheduled workflow
# runs it every week.
test-all: $(READY)
	@$(MAKE) --no-print-directory -j 2 lint types docs test-js VECTORS=--full
	$(PYTEST) --durations=30 -m "not install"

# The documentation site, in docs/_build/html. Warnings are errors, also links that lead nowhere. Notebooks run if they
# have changed, or if docs/_build is new.
docs: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -b html -W --keep-going -n -q docs docs/_build/html

# The collector killed, starved, flooded and lied to at full size: about an hour and a half. Small versions are tests.
faults: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/faults/run.py --page docs/operate/reliability.md

# Folders on Ray at full size: 10⁷ rows while workers are killed. Minutes. Small versions are tests.
ray: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python tests/lost_workers/run.py --rows 10000000 --kills 60
	OMP_NUM_THREADS=1 $(BIN)/python tests/lost_machines/run.py

# The wheel with its extras in fresh environments. Minutes, most of them pip's, so not part of `make test`.
install-test: $(READY)
	$(BIN)/pytest -q -m install tests/test_install.py --durations=0

# The browser client: built, held against vectors that the Python client writes, and run in real Chromium.
# Without Node this part is skipped with a message, but never in CI.
test-js: $(READY)
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory js-all; \
	elif [ "$$CI" = true ]; then echo "no npm: the browser client cannot be tested"; exit 1; \
	else echo "SKIPPED: the browser client needs Node 20 or newer"; fi

js-all:
	OMP_NUM_THREADS=1 PYTHONPATH=src:tests $(BIN)/python tests/vectors.py js/test/vectors $(VECTORS)
	cd js && export TASKVEIL_PYTHON=$(abspath $(BIN)/python) && npm ci --loglevel=error && npm run --silent build && npm run --silent types && npm test --silent && npm run --silent browser

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
	$(BIN)/python benchmarks/records.py
	$(BIN)/python benchmarks/audit.py
	$(BIN)/python benchmarks/gradient.py
	$(BIN)/python benchmarks/design.py
	$(BIN)/python benchmarks/models.py
	$(BIN)/python benchmarks/sums.py
	$(BIN)/python benchmarks/surveys.py
	$(BIN)/python benchmarks/balls.py
	$(BIN)/python benchmarks/central.py
	$(BIN)/python benchmarks/gaussian.py
	$(BIN)/python benchmarks/over_time.py
	$(BIN)/python benchmarks/over_time_bands.py
	$(BIN)/python benchmarks/trees.py
	$(BIN)/python benchmarks/networks.py
	$(BIN)/python benchmarks/collector.py
	$(BIN)/python benchmarks/ray.py

# All measured pages. Minutes on 16 cores and a graphics card: `make reproduce JOBS=16 DEVICE=cuda`.
reproduce: $(READY)
	$(BIN)/taskveil reproduce all --seeds 5 --splits 10 --jobs $(JOBS) --device $(DEVICE) --json results/results.json --plot results --summary docs/results/results.md --resume results/finished
	$(BIN)/taskveil reproduce field --held-back --jobs $(JOBS) --json results/field.json --plot docs/results --summary docs/results/field.md --resume results/field

# $(1): the extra of taskveil that is installed, from these sources.
define install
	@test -n "$(VERSION)" || { echo "there is no $(PYTHON): name one with PYTHON="; exit 2; }
	@if ls -d $(VENV)/lib/python3.* 2>/dev/null | grep -qv '/python$(VERSION)$$'; then \
		echo "$(VENV) holds another Python than $(VERSION): take another folder with VENV=.venv-$(VERSION), or make clean"; exit 2; fi
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[$(1)]"
	touch $@
endef

$(DEMO): pyproject.toml constraints.txt
	$(call install,design)

$(READY): pyproject.toml constraints.txt
	$(call install,dev)
	touch $(DEMO)

clean:
	rm -rf $(VENV) build docs/_build src/*.egg-info js/node_modules js/dist js/test/vectors results .pytest_cache .mypy_cache .ruff_cache .hypothesis
