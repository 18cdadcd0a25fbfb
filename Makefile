# `make demo` and `make test` are all that a newcomer needs; both set up .venv first. CONTRIBUTING.md says when to use
# the others.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/pytest

# Container images often set this. Without cached bytecode each of pytest's workers rewrites every test file again, and
# each `senro` process that a test starts compiles senro again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test check lint test-pythons test-cluster soak fuzz bench clean

demo: $(VENV)/.demo
	@$(BIN)/senro demo

# Every test, and the linters beside them. Four at a time, also on two cores: most tests wait for a command or for the
# embedded kubelet most of their time.
test: $(VENV)/.dev
	@tools/with-lint $(BIN) $(PYTEST) -q -n 4 --dist worksteal --cov=senro.domain --cov-branch --cov-fail-under=100 \
		--cov-report=term:skip-covered

# For the edit loop: the linters, unit tests and properties.
check: $(VENV)/.dev
	@tools/with-lint $(BIN) $(PYTEST) -q -n 3 --dist worksteal tests/unit tests/property

lint: $(VENV)/.dev
	@tools/lint $(BIN)

# Unit tests and properties on every Python from 3.11 to 3.14 that is on PATH.
test-pythons:
	@tools/test-pythons

# The end-to-end suite against the cluster that SENRO_K8S_*, SENRO_TEST_IMAGE and SENRO_TEST_NAMESPACE name.
test-cluster: $(VENV)/.dev
	@$(PYTEST) -q tests/e2e tests/contract/ports/test_cluster.py tests/contract/ports/test_pod_watch.py --cluster=real

# Every property with two thousand examples, every matrix in full; then, for SOAK_SECONDS, runs with faults drawn from
# seeds, and as long again the end-to-end suite in troubles drawn from seeds. A failure prints its seed.
SOAK_SECONDS ?= 300
soak: $(VENV)/.dev
	@SENRO_TEST_PROFILE=soak $(PYTEST) -q -n 2 tests --ignore=tests/soak
	@SOAK_SECONDS=$(SOAK_SECONDS) $(PYTEST) -q tests/soak

# Ten minutes (FUZZ_SECONDS) of any bytes, and of the verdicts' laws with twenty thousand examples of each.
fuzz: $(VENV)/.dev
	@tools/fuzz $(BIN)

bench: $(VENV)/.dev
	@for file in benchmarks/bench_*.py benchmarks/transfer.py; do $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) $(VENV)-3.* .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .senro

$(VENV)/.demo: pyproject.toml tools/set-up
	@PYTHON=$(PYTHON) tools/set-up $(VENV) demo

$(VENV)/.dev: pyproject.toml tools/set-up
	@PYTHON=$(PYTHON) tools/set-up $(VENV) dev
