# Two commands are enough: `make demo` and `make test`. Each does all of its own set-up.
PYTHON ?= $(shell for p in python3.12 python3.11 python3 python; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q install
export PYTHONHASHSEED ?= 0

.PHONY: demo test shuffled test-extras proofs mutants mutants-src lint fast package docs assurance papers contracts lock clean help

help:  ## print this list
	@grep -E '^[a-z-]+:.*##' Makefile | sed 's/:.*##/\t/' | expand -t 14

demo: .venv/.runtime  ## run the demo: a made-up survey, 150 questions, verified books; a minute, mostly installing
	$(BIN)/noisebank demo

test: lint .venv/.dev  ## lint, then all tests that must pass; a few minutes
	@tools/system-parts
	@tools/npm-parts
	@tools/run-tests main timing crowd browser

shuffled: .venv/.dev  ## run the main tests in a random order, NOISEBANK_SHUFFLE=N repeats one; a few minutes
	@tools/run-tests shuffled

test-extras: .venv/.extras .flower-venv/.ready  ## run the tests that need Spark, torch or Flower; minutes, the first time mostly installing
	@tools/system-parts java
	@tools/run-tests extras flower

proofs: .venv/.dev  ## prove bounded properties of the compiled contract (halmos); up to an hour
	@tools/system-parts
	@tools/npm-parts
	@tools/halmos-venv
	$(BIN)/python -m pytest -q -m "slow" tests/contract/test_halmos.py

mutants: .venv/.dev  ## check that the tests notice every small change of the contract; one compilation per change: long
	PYTHONPATH=src:tests $(BIN)/python -m contract.mutants --json docs/results/contract-mutants.json

mutants-src: .venv/.dev  ## check that the tests notice at least 95 of 100 sampled small changes of src/; long
	@tools/mutate-src -j $(or $(JOBS),2)

fast: .venv/.dev  ## run unit tests, property tests and doctests only; a few minutes, stops at the first failure
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -x -m "not slow and not extras and not flower" tests/unit tests/property src research

lint: .venv/.dev  ## check format, lint, types and import layers; half a minute
	$(BIN)/ruff format --check src tests research examples contracts docs/conf.py docs/tutorial/hospital.py tools/codemod tools/docsite tools/mutants
	$(BIN)/ruff check src tests research examples contracts docs/conf.py docs/tutorial/hospital.py tools/codemod tools/docsite tools/mutants
	$(BIN)/mypy
	$(BIN)/lint-imports

package: .venv/.dev  ## use each door of the built wheel in an empty environment; minutes, mostly installing
	tools/package-test

docs: .venv/.docs  ## build the documentation into docs/_build/html, warnings are errors; half a minute, the first time installing
	$(BIN)/python -m sphinx --jobs auto --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "open docs/_build/html/index.html"

assurance: .venv/.dev  ## run the stale rows of the assurance table at full counts, resumable; up to an hour of CPU time
	@tools/system-parts
	PYTHONPATH=src:tests $(BIN)/python -m assurance -j $(or $(JOBS),1) $(ROWS)

papers: .venv/.dev  ## reproduce every figure and table of the papers into docs/papers and docs/results; about an hour
	@tools/npm-parts
	$(BIN)/python -m research papers --full --out noisebank-papers --pages docs

contracts: .venv/.dev  ## compile the contracts into src/noisebank/ledger; seconds
	$(BIN)/python contracts/compile.py

lock: .venv/.dev  ## pin all requirements anew, with hashes; minutes, needs the network
	tools/lock

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "noisebank needs Python 3.11 or 3.12 on the path"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.runtime: requirements/runtime.txt requirements/build.txt pyproject.toml | .venv/bin/python
	@echo "installing what noisebank needs (once) ..."
	$(PIP) --require-hashes -r requirements/build.txt -r requirements/runtime.txt
	$(PIP) --no-deps --no-build-isolation -e ".[bank]"
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.runtime
	@echo "installing what its tests need (once) ..."
	$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

.venv/.docs: requirements/docs.txt .venv/.dev
	@echo "installing what builds the documentation (once) ..."
	$(PIP) --require-hashes -r requirements/docs.txt
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
	.flower-venv/bin/python -m pip --disable-pip-version-check -q install --no-deps --no-build-isolation -e ".[bank,flower]"
	@touch $@

clean:  ## remove environments, builds and caches; seconds
	rm -rf docs/_build .venv .flower-venv .npm-parts .halmos-venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
