# Two commands to know: `make demo` (core only) and `make test`. Each sets up its own .venv from a bare clone.
export GOMP_SPINCOUNT := 0
export OMP_NUM_THREADS ?= 1
PYTHON ?= python3
PIP := .venv/bin/pip install -q -c constraints.txt
WANTS := pyproject.toml constraints.txt
GPU_PROGRAMS := $(addprefix tests/kernels/gpu/test_,full_bce_low.py one_pass_layers.py packed_attention.py)

.PHONY: demo test check lint setup docs slow fuzz triton bench-peers clean

demo: .venv/.core
	.venv/bin/treetop demo

# Two workers; the tests of one file stay together, in one process.
test: lint
	.venv/bin/python -m pytest -n 2 --dist loadfile

check: lint
	.venv/bin/python -m pytest tests/test_ladder.py tests/test_docs.py

lint: .venv/.test
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

setup: .venv/.all

docs: .venv/.test
	.venv/bin/python -m tools.docs

slow: .venv/.test
	.venv/bin/python -m pytest -m slow

# Random input through the real entry points, kernels with bounds checks: `make fuzz SECONDS=600 SEED=7`.
fuzz: SECONDS ?= 60
fuzz: SEED ?= 0
fuzz: .venv/.test
	NUMBA_BOUNDSCHECK=1 TREETOP_CACHE=build/fuzz-cache HF_HUB_OFFLINE=1 \
		.venv/bin/python -m tests.fuzz --seconds $(SECONDS) --seed $(SEED) $(FUZZ)

# GPU programs without a GPU, interpreted; Triton lies apart, so that the suite shows what runs without it.
triton: .venv/.test
	$(PIP) --target build/triton --no-deps --upgrade triton
	PYTHONPATH=build/triton TRITON_INTERPRET=1 .venv/bin/python -m pytest $(GPU_PROGRAMS)

# On a machine with a GPU, with the Python that has torch there (nothing is installed): every network and GPU program.
gpu:
	$(PYTHON) -m pytest -m gpu tests/gpu
	$(PYTHON) -m pytest $(GPU_PROGRAMS)

bench-peers: .venv/.test
	.venv/bin/python -m tools.peers
	.venv/bin/python -m tools.docs tables

clean:
	rm -rf .venv build dist *.egg-info

.venv/.core: $(WANTS)
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/.test: $(WANTS)
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) -e '.[torch,test]'
	touch $@ .venv/.core

.venv/.all: $(WANTS)
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	$(PIP) torch==2.13.0
	$(PIP) -e '.[all,test]'
	touch $@ .venv/.core .venv/.test
