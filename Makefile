# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check format clean

demo: .venv/installed ## a first answer: does gradient reach through an LSTM?
	$(BIN)/harness run --model lstm --probe grad_reach

test: .venv/installed ## the tests, benchmarks and long reproductions left out
	$(BIN)/python -m pytest

check: .venv/installed ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv build dist

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('Python 3.11 or newer is needed; say which: make PYTHON=python3.12') if sys.version_info < (3, 11) else 0"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
