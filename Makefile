# GNU make 3.81 is enough. Every target prepares .venv for itself (requirements/venv.sh).
PY := .venv/bin/python
TYPED := src $(wildcard examples bench/*.py)
LINTED := src tests $(wildcard examples bench)
QUICK := tests/tidy tests/public $(wildcard tests/core)
JOBS := auto
ARGS :=
DB := sqlite
export PYTHON
unexport PYTHONDONTWRITEBYTECODE # the tests start a thousand processes, which would all compile everything anew

.PHONY: help demo test check bench fmt clean venv demo-venv servers-test

help:
	@echo "make demo    run the checkout marketplace through outages, crashes and double clicks"
	@echo "             DB=sqlite (default), postgres, mysql (MariaDB, found on this machine) or redis: a private server"
	@echo "make test    every check and every test, with real servers"
	@echo "make check   format, lint, types, layers and the quick tests; under a minute"
	@echo "make bench   the benchmarks; needs a quiet machine"
	@echo "make fmt     format and fix what can be fixed"
	@echo "make clean   remove .venv, caches and built files"
	@echo ""
	@echo "ARGS='...' is handed to the demo, the benchmarks or pytest; PYTHON=... names the interpreter for .venv"

venv:
	@sh requirements/venv.sh test

demo-venv:
	@sh requirements/venv.sh demo

demo: demo-venv
	@$(PY) -m examples.checkout.demo --database $(DB) $(ARGS)

check: venv
	@echo "== format"
	@$(PY) -m ruff format --check --output-format=concise $(LINTED) || { echo "run 'make fmt'"; exit 1; }
	@echo "== lint"
	@$(PY) -m ruff check --quiet $(LINTED)
	@echo "== types"
	@$(PY) -m mypy $(TYPED)
	@echo "== quick tests"
	@$(PY) -m pytest -q $(QUICK)

# Workers pay off only where tests wait for servers and processes; a server is started once per worker.
servers-test: venv
	@echo "== all other tests"
	@$(PY) -m pytest -q -n $(JOBS) --maxprocesses=8 --dist=loadgroup \
		$(foreach dir,$(QUICK),--ignore=$(dir)) tests $(ARGS)

test: check
	@$(MAKE) --no-print-directory servers-test

bench: venv
	@$(PY) -m bench $(ARGS)

fmt: venv
	@$(PY) -m ruff check --quiet --fix-only $(LINTED)
	@$(PY) -m ruff format --quiet $(LINTED)

clean:
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find src tests examples bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
