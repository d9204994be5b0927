# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet

.PHONY: demo test check format docs figures dist renew clean

demo: $(VENV)/installed ## a first answer: does gradient reach through an LSTM?
	$(BIN)/harness run --model lstm --probe grad_reach

test: $(VENV)/installed ## the tests on up to four cores, benchmarks and long reproductions left out
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist worksteal

check: $(VENV)/installed ## lint, format, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/installed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/installed ## the documentation as a site in site/; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

figures: $(VENV)/installed ## docs/reach.png and docs/page.png, from a run of ten minutes; needs Chromium
	$(BIN)/harness run -m elman -m lstm -m gpt -t recall:train_max=100 -p accuracy -p grad_reach -p attention_to_subject \
		-p edge_cut -p input_swap -p speed --seeds 3 --out runs/figures
	$(BIN)/python docs/make_figures.py runs/figures

dist: $(VENV)/installed ## sdist and wheel in dist/, checked
	rm -rf dist
	$(BIN)/hatchling build
	$(BIN)/twine check --strict dist/*

renew: $(VENV)/installed ## the newest development tools, written to constraints-dev.txt
	$(INSTALL) --upgrade --constraint constraints.txt --editable '.[dev]' $$(sed -n 's/==.*//p' constraints-dev.txt)
	$(BIN)/python -c 'import pathlib, re; from importlib.metadata import version; file = pathlib.Path("constraints-dev.txt"); file.write_text(re.sub(r"(?m)^([\w.-]+)==.*", lambda line: f"{line[1]}=={version(line[1])}", file.read_text()))'

clean:
	rm -rf .venv .venv-* build dist site

$(VENV)/installed: pyproject.toml constraints.txt constraints-dev.txt
	$(PYTHON) -c "import sys; sys.exit('Python 3.11.1 or newer is needed (3.11.0 cannot write some tracebacks); say which: make PYTHON=python3.12') if sys.version_info < (3, 11, 1) else 0"
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) --constraint constraints.txt --constraint constraints-dev.txt --editable '.[dev]'
	touch $@
