PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.PHONY: setup demo test test-all lint format types bench clean

setup: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -c constraints.txt -e ".[geo,plots,cluster,dev]"
	touch $@

demo: $(INSTALLED)
	$(BIN)/vbagg demo

# One file per worker keeps the compiled JAX functions of a file in one process.
test: $(INSTALLED)
	$(BIN)/pytest -n 2 --dist loadfile

test-all: $(INSTALLED)
	$(BIN)/pytest -n 2 --dist loadfile -m "slow or not slow"

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: $(INSTALLED)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(INSTALLED)
	$(BIN)/mypy

bench: $(INSTALLED)
	set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python "$$script"; done

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
