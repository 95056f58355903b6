# `make run` and `make test` do everything from an empty clone; each makes .venv when missing.

PYTHON ?= python3
PORT ?= 8501
# A folder with another checkpoint, shown beside the bundled model: make run MODEL=path/to/folder
MODEL ?=
# Names that visitors may load from the Hugging Face hub, with commas between; by default every
# name, as only this machine reaches the app: make run ALLOW=gpt2,distilgpt2
ALLOW ?=
# The text file that the bundled model is trained on: make train CORPUS=books.txt.xz
CORPUS ?=

BIN := .venv/bin
RUNTIME := .venv/.runtime
DEV := .venv/.dev

.PHONY: run test unit browser mutants lint format check train bench clean

run: $(RUNTIME)  ## open the app
	GPT2VIZ_MODELS="$(MODEL)" GPT2VIZ_ALLOW_MODEL="$(ALLOW)" $(BIN)/streamlit run app.py --server.port $(PORT)

test: $(DEV)  ## every test; those in a browser need Chromium
	$(BIN)/pytest

unit: $(DEV)  ## only the quick tests, without pages and browser
	$(BIN)/pytest tests/unit tests/parity

browser: $(DEV)  ## only the tests in a real browser
	$(BIN)/pytest tests/browser

mutants: $(DEV)  ## plant one fault after another and demand that a test turns red
	$(BIN)/python -m tests.mutants

lint: $(DEV)  ## style and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(DEV)  ## rewrite files in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

check: lint mutants test  ## all that CI runs

train: $(DEV)  ## make the bundled model again, from a corpus file
	$(BIN)/python -m gpt2viz.training --corpus "$(CORPUS)" --out assets/models/stories

bench: $(DEV)  ## measure beside transformers and other tools; makes their environments
	$(BIN)/python -m benchmarks

clean:  ## remove the environment and caches
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv:
	$(PYTHON) -m venv .venv

$(RUNTIME): requirements.txt | .venv
	$(BIN)/pip install --disable-pip-version-check --quiet -r requirements.txt
	touch $@

$(DEV): requirements-dev.txt $(RUNTIME)
	$(BIN)/pip install --disable-pip-version-check --quiet -r requirements-dev.txt
	touch $@
