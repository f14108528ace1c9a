# Every target sets up what it needs: a virtual environment with pinned versions, made again when they change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
PINS := pyproject.toml constraints.txt

.PHONY: quickstart test lint types test-slow test-engines wheel clean

quickstart: $(VENV)/.quickstart ## Train the tiny model with GeoAlign and write runs/quickstart/report.html
	$(BIN)/geoalign train configs/quickstart.yaml --output runs/quickstart

test: $(VENV)/.dev ## Lint, types and the test suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -m "not slow and not gpu and not engines"

test-slow: $(VENV)/.dev ## The long tests
	$(BIN)/python -m pytest -m "slow and not gpu and not engines"

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.quickstart: $(VENV)/bin/python $(PINS)
	$(BIN)/python $(INSTALL) --editable '.[trl,report]'
	touch $@

$(VENV)/.dev: $(VENV)/bin/python $(PINS)
	$(BIN)/python $(INSTALL) --editable '.[all,dev]'
	touch $@ $(VENV)/.quickstart

clean: ## Remove the environments and caches, never the runs
	rm -rf $(VENV) .venvs .pytest_cache .mypy_cache .ruff_cache dist build
