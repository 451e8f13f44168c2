# The front door: `make help` lists what there is. Needs GNU make and Python 3.11 or newer, nothing else.

PYTHON ?= python3
VENV ?= .venv
EXAMPLE ?= examples/codesign-two-models.yaml
REPORT ?= build/report.html

BIN := $(VENV)/bin
PUBLISHED := benchmarks/results/published.json benchmarks/results/published-gemm.json
PIP := $(BIN)/python -m pip install --quiet
QUICK_FOLDERS := $(wildcard $(addprefix tests/,unit property conformance golden))
BLESSED_FOLDERS := $(wildcard tests/golden tests/e2e tests/capture tests/test_phaze_records.py tests/test_figures.py)

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_ROOT_USER_ACTION := ignore

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
.PHONY: help run test check lint style types suite format accuracy bars speeds fuzz replay bless docs pictures screenshots notebooks clean chromium

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

run: $(VENV)/.stamp-run ## find the best chip and plans for the example, with a page to look at
	@mkdir -p $(dir $(REPORT))
	@$(BIN)/dovetail codesign $(EXAMPLE) --html $(REPORT)

test: $(VENV)/.stamp-test style chromium ## everything CI runs: lint, types and every test folder
	@$(MAKE) --no-print-directory --jobs 2 types suite

# Types beside the tests: mypy is one process, and would keep the other cores waiting for a minute in a fresh clone.
suite: $(VENV)/.stamp-test
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal

check: $(VENV)/.stamp-test lint ## the quick loop: lint, types, and the fast test folders
	$(BIN)/python -m pytest -n auto --maxprocesses 8 --dist worksteal -m "not slow" $(wildcard tests/test_*.py) $(QUICK_FOLDERS)

lint: style types ## ruff, format and types, without running tests

style: $(VENV)/.stamp-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.stamp-test
	$(BIN)/mypy

format: $(VENV)/.stamp-test ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

accuracy: $(VENV)/.stamp-test ## write benchmarks/results/accuracy.md anew; a missed bar is no error here
	DOVETAIL_REFERENCE_DATA= $(BIN)/dovetail validate h200 array-sims dies astra-sim published $(PUBLISHED) --markdown \
	  > benchmarks/results/accuracy.md || test $$? -eq 1

bars: $(VENV)/.stamp-test ## measure every bar and print which hold
	@$(BIN)/python -m benchmarks.bars

speeds: $(VENV)/.stamp-test ## time the commonest commands and calls, beside the last time here, and keep it
	@$(BIN)/python -m benchmarks.speeds

fuzz: $(VENV)/.stamp-test ## break every input for ten minutes each, and record what was found; takes two hours
	@$(BIN)/python -m benchmarks.fuzz --seconds 600 --record

replay: $(VENV)/.stamp-test ## answer every command by the base commit and by today's package, and compare
	@$(BIN)/python -m benchmarks.replay

bless: $(VENV)/.stamp-test ## rewrite golden files and recorded outputs; review the diff like code
	$(BIN)/python -m pytest --bless $(BLESSED_FOLDERS)

docs: $(VENV)/.stamp-docs pictures ## make the pictures, then build the documentation into site/
	$(BIN)/zensical build --clean --strict

pictures: $(VENV)/.stamp-docs ## make the pictures of the documentation anew, some minutes
	$(BIN)/python docs/images/pictures.py
	$(BIN)/python docs/images/simulate_svg.py > docs/images/simulate.svg
	PYTHONPATH=. $(BIN)/python docs/images/convergence_svg.py > docs/images/convergence.svg

screenshots: $(VENV)/.stamp-test chromium ## take the screenshots of the explorer anew
	$(BIN)/python docs/images/screenshots.py

notebooks: $(VENV)/.stamp-test ## run the notebooks and keep their outputs in them
	$(BIN)/python examples/notebooks/outputs.py

clean: ## remove everything make has built, the virtual environment too
	rm -rf $(VENV) site dist build .cache .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# The browser tests drive the system's own Chromium. Where it is missing it is installed if that is allowed; else those
# tests are skipped, and say so.
chromium:
	@command -v chromium >/dev/null 2>&1 || command -v chromium-browser >/dev/null 2>&1 \
	  || command -v google-chrome >/dev/null 2>&1 || [ -n "$$DOVETAIL_CHROMIUM" ] || { \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then \
	    echo "installing Chromium for the browser tests"; \
	    { apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-install-recommends chromium; } >/dev/null \
	      || echo "Chromium could not be installed, so the browser tests are skipped" >&2; \
	  else \
	    echo "there is no Chromium, so the browser tests are skipped; to have them run: apt-get install chromium" >&2; \
	  fi; }

# Stamps live inside the virtual environment, so a second run does no pip work and deleting it forgets them all.

$(VENV)/.stamp-venv:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "dovetail needs Python 3.11 or newer, and '$(PYTHON)' was not found; say which to use: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "dovetail needs Python 3.11 or newer, and '$(PYTHON)' is $$($(PYTHON) --version 2>&1); say which to use: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo "'$(PYTHON)' cannot make virtual environments; install its venv module (on Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "creating $(VENV) with $$($(PYTHON) --version 2>&1)"
	@$(PYTHON) -m venv --clear $(VENV)
	@touch $@

$(VENV)/.stamp-run: pyproject.toml | $(VENV)/.stamp-venv
	@echo "installing dovetail into $(VENV), which takes a minute or so"
	@$(PIP) --editable .
	@touch $@

# The lock holds the build backend too, so the package itself is installed without resolving anything again. Python
# compiles what tests import: pip would compile all 20,000 modules first, on one core, and most are never imported.
$(VENV)/.stamp-test: pyproject.toml requirements/test.lock | $(VENV)/.stamp-venv
	@echo "installing the test tools into $(VENV)"
	@$(PIP) --no-compile --requirement requirements/test.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@ $(VENV)/.stamp-run

$(VENV)/.stamp-docs: pyproject.toml | $(VENV)/.stamp-venv
	@echo "installing the documentation tools into $(VENV)"
	@$(PIP) --editable '.[docs]'
	@touch $@
