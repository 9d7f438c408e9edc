# Two commands are enough: `make demo` and `make test`. Each does all of its own set-up.
PYTHON ?= $(shell for p in python3.12 python3.11 python3 python; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install
export PYTHONHASHSEED ?= 0

.PHONY: demo test shuffled test-extras proofs mutants mutants-src lint fast package assurance papers contracts lock clean help

help:  ## this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 14

demo: .venv/.runtime  ## make a survey and a bank, ask 150 questions, verify the books
	$(BIN)/noisebank demo

test: lint .venv/.dev  ## everything that must pass, in a few minutes
	@tools/system-parts
	@tools/npm-parts
	@tools/run-tests main timing crowd browser

shuffled: .venv/.dev  ## the main tests in a random order; NOISEBANK_SHUFFLE=N repeats one
	@tools/run-tests shuffled

test-extras: .venv/.extras .flower-venv/.ready  ## what needs heavy parts: Spark in local mode, torch, Flower
	@tools/system-parts java
	@tools/run-tests extras flower

proofs: .venv/.dev  ## bounded proofs about the compiled contract (halmos), one by one: up to an hour
	@tools/system-parts
	@tools/npm-parts
	@tools/halmos-venv
	$(BIN)/python -m pytest -q -m "slow" tests/contract/test_halmos.py

mutants: .venv/.dev  ## change the contract in every small way; each change must be noticed
	PYTHONPATH=src:tests $(BIN)/python -m contract.mutants

mutants-src: .venv/.dev  ## change src/ in 100 sampled small ways; at least 95 must be noticed
	@tools/mutate-src -j $(or $(JOBS),2)

fast: .venv/.dev  ## unit and property tests only
	$(BIN)/python -m pytest -q -x -m "not slow" tests/unit tests/property src research

lint: .venv/.dev  ## format, lint, types, layers
	$(BIN)/ruff format --check src tests research contracts tools/codemod tools/mutants
	$(BIN)/ruff check src tests research contracts tools/codemod tools/mutants
	$(BIN)/mypy
	$(BIN)/lint-imports

package: .venv/.dev  ## `pip install .` alone gives a working demo
	tools/package-test

assurance: .venv/.dev  ## rows of the assurance table that have not passed on these files, at their full counts; goes on where it stopped
	@tools/system-parts
	PYTHONPATH=src:tests $(BIN)/python -m assurance -j $(or $(JOBS),1) $(ROWS)

papers: .venv/.dev  ## every figure and table of the papers in full; writes docs/results/papers.md and budget.md
	@tools/npm-parts
	$(BIN)/python -m research reproduce all --out noisebank-papers
	$(BIN)/python -m research.papers.page noisebank-papers docs

contracts: .venv/.dev  ## compile the contracts into the package
	$(BIN)/python contracts/compile.py

lock: .venv/.dev  ## pin requirements anew, with hashes and without index addresses
	tools/lock

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "noisebank needs Python 3.11 or 3.12 on the path"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.runtime: requirements/runtime.txt requirements/build.txt pyproject.toml | .venv/bin/python
	@echo "installing what noisebank needs (once) ..."
	$(PIP) --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.runtime
	@echo "installing what its tests need (once) ..."
	$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

# Without isolation: Spark comes as source, and what builds it is pinned in requirements/build.txt.
.venv/.extras: requirements/extras.txt .venv/.dev
	@echo "installing Spark and torch for the extra tests (once) ..."
	tools/install-torch
	$(PIP) --no-build-isolation --require-hashes -r requirements/extras.txt
	@touch $@

.flower-venv/.ready: requirements/flower.txt pyproject.toml | .venv/bin/python
	@echo "installing Flower into an environment of its own (once) ..."
	.venv/bin/python -m venv .flower-venv
	.flower-venv/bin/python -m pip --disable-pip-version-check -q install --require-hashes -r requirements/build.txt -r requirements/flower.txt
	.flower-venv/bin/python -m pip --disable-pip-version-check -q install --no-deps --no-build-isolation -e .
	@touch $@

clean:  ## remove what make made
	rm -rf .venv .flower-venv .npm-parts .halmos-venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
