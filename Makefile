# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test check format clean

demo: $(VENV)/installed ## a first answer: does gradient reach through an LSTM?
	$(BIN)/harness run --model lstm --probe grad_reach

test: $(VENV)/installed ## the tests, benchmarks and long reproductions left out
	$(BIN)/python -m pytest

check: $(VENV)/installed ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-* build dist

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -c "import sys; sys.exit('Python 3.11 or newer is needed; say which: make PYTHON=python3.12') if sys.version_info < (3, 11) else 0"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@
