# `make demo` and `make test` work from a fresh clone; both need python3 (3.11 or newer), git and make. With a C++
# compiler as well, the native kernels are built.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
LOCKER := .venv-lock
NEON := .venv-neon
STAMP := $(VENV)/.installed
NATIVE_STAMP := $(VENV)/.native
NATIVE_SOURCES := CMakeLists.txt $(wildcard src/steadyrl/kernels/native/*)
LOCK := requirements/dev.txt
TORCH_CPU := requirements/torch-cpu.txt
# Twice quiet: errors only. Warnings about the local pip set-up would drown the few lines a newcomer should read.
PIP_FLAGS := -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help setup native demo test test-native test-neon check format test-learning test-matrix test-soak test-full bench-peers speed faults lock clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "%-14s %s\n", $$1, $$2}'

# make_venv DIR: an empty virtual environment, or one sentence that says what is missing.
define make_venv
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
	  echo "error: steadyrl needs Python 3.11 or newer and '$(PYTHON)' is not: run make PYTHON=/path/to/python3.11." >&2; exit 2; }
	@test -x $(1)/bin/pip || $(PYTHON) -m venv --clear $(1) >/dev/null 2>&1 || { rm -rf $(1); \
	  echo "error: '$(PYTHON) -m venv' fails: install your system's venv package (Debian, Ubuntu: python3-venv)." >&2; exit 2; }
endef

setup: $(STAMP) $(NATIVE_STAMP) ## make .venv with the locked dependencies and this package

# pip prefers an index's wheel of torch (CUDA on Linux, gigabytes) to a CPU build in a folder given by PIP_FIND_LINKS, since
# only the index announces its hash; so such a folder is asked first, and its absence is no error.
# The lock leaves out CUDA libraries. The last pip call changes nothing for a CPU build; for a CUDA build of the index it
# brings the libraries which that build itself pins.
# The build backend's .pth would also import a hook for rebuilds at every start of Python; the path is enough.
$(STAMP): $(LOCK) $(TORCH_CPU) pyproject.toml src/steadyrl/_version.py
	$(call make_venv,$(VENV))
	@echo "Installing the locked dependencies into $(VENV) (minutes where torch must be downloaded) ..."
	@$(BIN)/python -m pip install $(PIP_FLAGS) --no-index --require-hashes --no-deps -r $(TORCH_CPU) 2>/dev/null || true
	@$(BIN)/python -m pip install $(PIP_FLAGS) --require-hashes --no-deps -r $(LOCK)
	@$(BIN)/python -m pip install $(PIP_FLAGS) --no-build-isolation --no-deps -e .
	@sed -i.bak '/^import /d' $(VENV)/lib/python*/site-packages/_editable_skbc_steadyrl.pth
	@$(BIN)/python -m pip install $(PIP_FLAGS) "$$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' $(LOCK))"
	@touch $@

native: $(STAMP) ## build the native kernels again (make setup does it where a source is newer)
	@$(BIN)/python requirements/native.py
	@touch $(NATIVE_STAMP)

$(NATIVE_STAMP): $(STAMP) $(NATIVE_SOURCES)
	@echo "Building the native kernels (under a minute) ..."
	@$(BIN)/python requirements/native.py
	@touch $@

demo: setup ## train PPO on CartPole-v1, evaluate it, say where everything is
	@$(BIN)/steadyrl train ppo CartPole-v1 --seed 0 --total-timesteps 100000 --name demo
	@echo "             (steadyrl is in $(VENV): source $(BIN)/activate first)"

test: setup ## every test that fits a plain machine
	@$(BIN)/python -m pytest -n 2
	@$(BIN)/python requirements/matrix.py 1.1.1 --quick

test-native: setup ## the kernel tests on a build with AddressSanitizer and UndefinedBehaviorSanitizer
	$(BIN)/python requirements/native.py sanitize

test-neon: $(NEON)/.installed ## the kernels for NEON, cross-compiled and run in an emulator
	$(NEON)/bin/python requirements/neon.py

$(NEON)/.installed: requirements/neon.txt
	$(call make_venv,$(NEON))
	@$(NEON)/bin/python -m pip install $(PIP_FLAGS) -r requirements/neon.txt
	@touch $@

check: setup ## lint, format, types, import direction
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

format: setup ## rewrite the code in the house format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-learning: setup ## train to the published scores
	$(BIN)/python -m pytest -m learning -n 2 --timeout 14400

test-matrix: setup ## the environment layer on every supported version of Gymnasium
	$(BIN)/python requirements/matrix.py

test-soak: setup ## fault and fuzz tests at full size
	$(BIN)/python -m pytest -m soak --timeout 14400

test-full: setup ## also the tests that need what a plain machine may lack
	$(BIN)/python -m pytest -m "not learning and not soak" -n 2

bench-peers: $(PEERS)/.installed ## the libraries we compare with, in an environment of their own

$(PEERS)/.installed: requirements/peers.txt
	$(call make_venv,$(PEERS))
	@echo "Installing the peers into $(PEERS) (minutes where torch must be downloaded) ..."
	@$(PEERS)/bin/python -m pip install $(PIP_FLAGS) -r requirements/peers.txt
	@touch $@

speed: setup bench-peers ## speed beside Stable-Baselines3 on this machine, as JSON
	@$(BIN)/python benchmarks/speed.py

faults: setup bench-peers ## faults of environments beside Gymnasium and Stable-Baselines3, as JSON
	@$(BIN)/python benchmarks/faults.py

lock: ## resolve requirements/dev.txt anew (make lock ARGS=--upgrade takes newer versions)
	$(call make_venv,$(LOCKER))
	@$(LOCKER)/bin/python -m pip install $(PIP_FLAGS) uv==0.13.9
	@PATH="$(CURDIR)/$(LOCKER)/bin:$$PATH" $(LOCKER)/bin/python requirements/lock.py $(ARGS)

clean: ## remove what the tools left behind, but no run and no environment
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests benchmarks requirements -name __pycache__ -type d -prune -exec rm -rf {} +
