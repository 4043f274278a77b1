# `make run` reproduces the paper's synthetic study, `make paper` the whole paper; `make test` runs every check, and
# `make test-all` the deep tests as well; `make coverage` counts the lines that tests run. Each sets up .venv first.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= runs/synthetic
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
# Modules are compiled when they are first imported, and kept: pip would compile all of them, most for nothing.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run paper test test-all test-slow coverage checks lint types contracts tests benchmarks notebooks docs wheel test-lowest clean

run: .venv/.installed
	$(BIN)/domaincover paper synthetic --out $(OUT)

paper: .venv/.installed-data
	$(BIN)/domaincover paper all

test: .venv/.installed-dev
	$(MAKE) -j 2 --output-sync=target tests checks

test-all: export HYPOTHESIS_PROFILE := deep
test-all: test

checks: lint types contracts

lint: .venv/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed-dev
	$(BIN)/mypy

contracts: .venv/.installed-dev
	$(BIN)/lint-imports

tests: .venv/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --maxprocesses 8 --dist loadfile $(COUNTING)

# The same, and fails where the tests run less than 95 % of the lines and branches.
coverage: export COUNTING := --cov --cov-report=term
coverage: test

# The tests, or TESTS, on one core that four busy loops share, with every clock five times as fast: needs faketime.
TESTS ?= tests src
test-slow: .venv/.installed-dev
	for _ in 1 2 3 4; do taskset -c 0 sh -c 'while :; do :; done' & loops="$$loops $$!"; done; \
	trap "kill $$loops" EXIT; \
	OMP_NUM_THREADS=1 taskset -c 0 faketime -m -f '+0 x5' $(BIN)/python -m pytest $(TESTS)

benchmarks: .venv/.installed-dev
	$(BIN)/python -m benchmarks

notebooks: .venv/.installed-dev
	$(BIN)/python -m notebooks

docs: .venv/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

wheel: .venv/.installed-dev
	rm -rf build/lib build/bdist.*
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# The tests with the lowest versions that pyproject.toml admits; PYTHON is the oldest one supported, 3.11.
test-lowest: .venv-lowest/.installed
	OMP_NUM_THREADS=1 .venv-lowest/bin/python -m pytest -n auto --dist loadfile

.venv-lowest/.installed: pyproject.toml constraints-lowest.txt examples/packages.txt
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-compile -r constraints-lowest.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r examples/packages.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

.venv/.made:
	$(PYTHON) -m venv .venv
	touch $@

.venv/.installed: .venv/.made pyproject.toml constraints.txt
	$(INSTALL) -e '.[train]'
	touch $@

.venv/.installed-data: .venv/.made pyproject.toml constraints.txt
	$(INSTALL) -e '.[train,data]'
	touch $@ .venv/.installed

.venv/.installed-dev: .venv/.made pyproject.toml constraints.txt examples/packages.txt
	$(INSTALL) -e '.[dev]'
	$(INSTALL) --no-deps -r examples/packages.txt
	touch $@ .venv/.installed

clean:
	rm -rf .venv .venv-lowest build dist runs .mypy_cache .ruff_cache .pytest_cache .coverage*
