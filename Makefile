# Two commands to know: `make demo` (core only) and `make test`. Each sets up its own .venv from a bare clone.
export GOMP_SPINCOUNT := 0
export OMP_NUM_THREADS ?= 1
PYTHON ?= python3
PIP := .venv/bin/pip install -q -c constraints.txt
WANTS := pyproject.toml constraints.txt
AXE := build/axe/node_modules/axe-core/axe.min.js
GPU_PROGRAMS := $(addprefix tests/kernels/gpu/test_,full_bce_low.py one_pass_layers.py packed_attention.py)

.PHONY: demo test check lint warm setup docs site slow fuzz triton test-browser test-schema bench-peers bench-serve bench-annif \
	container test-container package package-debian supply locked audit clean

demo: .venv/.core
	.venv/bin/treetop demo

# Two workers; the tests of one file stay together, in one process. One that stands still for five minutes shows where
# all its threads are and ends its process, so that the suite always comes to an end.
test: .venv/.test
	$(MAKE) -j2 lint warm
	.venv/bin/python -m pytest -n 2 --dist loadfile -o faulthandler_timeout=300 -o faulthandler_exit_on_timeout=true \
		--max-worker-restart 1

check: lint
	.venv/bin/python -m pytest tests/test_ladder.py tests/test_docs.py

lint: .venv/.test
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy

# Both workers of the suite would compile the same kernels.
warm: .venv/.test
	.venv/bin/treetop warmup

setup: .venv/.all

docs: .venv/.test
	.venv/bin/python -m tools.docs

# The documentation as a site in build/site; links and anchors that lead nowhere end it.
site: .venv/.docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict

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

# The page in a real browser: Debian's Chromium (or the one CHROMIUM names), and axe-core for accessibility.
test-browser: export CHROMIUM ?= /usr/bin/chromium
test-browser: .venv/.test
	test -x "$$CHROMIUM" || apt-get install -y chromium
	.venv/bin/python -c "import playwright" 2>/dev/null || $(PIP) playwright
	test -f $(AXE) || which npm > /dev/null || apt-get install -y npm
	test -f $(AXE) || npm install --no-audit --no-fund --prefix build/axe axe-core@4.14.0
	.venv/bin/python -m pytest -m browser tests/browser

# On a machine with a GPU, with the Python that has torch there (nothing is installed): every network and GPU program.
gpu:
	$(PYTHON) -m pytest -m gpu tests/gpu
	$(PYTHON) -m pytest $(GPU_PROGRAMS)

bench-peers: .venv/.test
	.venv/bin/python -m tools.peers
	.venv/bin/python -m tools.docs tables

# Random requests by the OpenAPI file.
test-schema: .venv/.test
	$(PIP) schemathesis
	.venv/bin/python -m pytest -m slow tests/serve/test_schema.py

# Load on a real server, on a quiet machine (autocannon from npm, wrk from Debian): `make bench-serve SECONDS=600`.
bench-serve: SECONDS ?= 600
bench-serve: DATA ?= ../shared/data/finna-yso-en-25k
bench-serve: .venv/.test build/node_modules
	which wrk > /dev/null || apt-get install -y wrk
	test -d build/serve/finna || .venv/bin/treetop fit xr_linear $(DATA) --out build/serve/finna
	.venv/bin/python -m tools.serve build/serve/finna $(DATA) --record benchmarks/results/serve.jsonl \
		--only rated --only overload --only reload --repeat 3
	.venv/bin/python -m tools.serve build/serve/finna $(DATA) --record benchmarks/results/serve.jsonl \
		--only maximum --only kill --only soak --soak $(SECONDS)

# Annif from PyPI in build/annif, trained on the same data (minutes, once) and loaded the same way, on a quiet machine.
bench-annif: SECONDS ?= 10
bench-annif: DATA ?= ../shared/data/finna-yso-en-25k
bench-annif: .venv/.test
	.venv/bin/python -m tools.annif $(DATA) --seconds $(SECONDS) --record benchmarks/results/serve.jsonl

# The image `treetop`, without pulling another (mmdebstrap and podman are Debian's); then a container of it is asked.
container: .venv/.test
	which mmdebstrap podman runc > /dev/null || apt-get install -y mmdebstrap podman runc
	PYTHON=.venv/bin/python deploy/build.sh

test-container: .venv/.test
	.venv/bin/python -m pytest -m container tests/deploy

# What a release consists of, in build/package, the same bytes twice; then as a stranger would use it, on this Python.
package: .venv/.test
	.venv/bin/python -m tools.package --here $(PYTHON)

# The same on the Pythons of Debian's releases, in roots made of Debian's packages; needs root.
package-debian: .venv/.test
	which mmdebstrap > /dev/null || apt-get install -y mmdebstrap
	.venv/bin/python -m tools.package --debian bookworm:3.11 --debian trixie:3.13 --debian sid:3.14 --debian sid:3.15

# SBOM, hashes and licences of everything treetop needs, from what pip resolves now; a test checks that they are current.
supply: .venv/.test
	.venv/bin/python -m tools.supply

# Everything by hash, in build/locked: pip refuses a wheel that is not the one listed. It then opens a kept model.
locked:
	test -x build/locked/bin/pip || $(PYTHON) -m venv build/locked
	build/locked/bin/pip install -q --require-hashes --only-binary :all: -r constraints-hashes.txt
	build/locked/bin/pip install -q --no-deps --no-build-isolation .
	build/locked/bin/pip check
	cd build && for model in ../tests/golden/models/*/*/; do locked/bin/treetop verify $$model; done

# Known faults of these versions, by PyPI's advisories (needs its JSON API) or, with SERVICE=osv, by those of OSV.
audit: SERVICE ?= pypi
audit:
	test -x build/audit/bin/pip-audit || { $(PYTHON) -m venv build/audit && build/audit/bin/pip install -q pip-audit; }
	build/audit/bin/pip-audit --strict --vulnerability-service $(SERVICE) --disable-pip -r constraints-hashes.txt

build/node_modules:
	which npm > /dev/null || apt-get install -y nodejs npm
	mkdir -p build
	npm install --prefix build --no-audit --no-fund autocannon@8

clean:
	rm -rf .venv build dist *.egg-info

.venv/.core: $(WANTS)
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	$(PIP) -e .
	touch $@

.venv/.docs: $(WANTS)
	test -x .venv/bin/pip || $(PYTHON) -m venv .venv
	$(PIP) -e '.[docs]'
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
