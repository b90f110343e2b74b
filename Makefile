# Every target says in `make help` what it does; tests/architecture holds us to it.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
UV_INSTALL := $(BIN)/uv pip install --python $(BIN)/python --excludes excludes.txt
PYTEST := $(BIN)/python -m pytest
# Demo, tests and benchmarks start hundreds of processes. Without bytecode each compiles all that it
# imports anew, which takes as long as the rest of its start.
unexport PYTHONDONTWRITEBYTECODE
# tests/workers.py says which tests share a process, and what each of three is for, on two cores.
# Where nothing waits for servers, two are enough. JOBS=0 runs everything in one.
JOBS ?=
# Classes of Spark for the JVMs that tests start; without it they start more slowly.
CLASSES := .venv/spark-classes.jsa
parallel = -n $(or $(JOBS),$(1)) --dist loadscope --no-loadscope-reorder

# In the order they run: what fails cheaply comes first.
FAST_SUITES := architecture docker unit property contract simulation
SUITES := $(FAST_SUITES) integration spark cluster airflow
paths = $(wildcard $(1:%=tests/%))
PROPERTIES = $(shell grep -rl --include='test_*.py' '^from tests.examples import' tests)

##@ Begin here

.PHONY: help
help: ## Explain every target (the default)
	@awk 'BEGIN {FS = ":.*## "} \
	  /^##@/ {printf "\n%s\n", substr($$0, 5)} \
	  /^[a-z][a-z-]*:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: venv ## Show everything: ZooKeeper, Spark and Airflow over real flights (ARGS="--keep")
	@$(BIN)/python -m examples.demo $(ARGS)

.PHONY: compose
compose: ## Show everything in containers: PROFILE=minimal for one Airflow without a Spark cluster, STORE=s3
	@STORE=$(STORE) docker/up $(or $(PROFILE),full)

.PHONY: compose-down
compose-down: ## End the containers of make compose, and remove their volumes (KEEP=1 keeps them)
	@STORE=$(STORE) docker/down $(if $(KEEP),keep)

.PHONY: compose-sbom
compose-sbom: ## Write what each image of the containers consists of to build/sbom, as CycloneDX
	@docker/sbom

.PHONY: compose-test
compose-test: venv ## Play everything in containers, then kills, cuts and upgrades while rows are written (STORE=s3, ARGS="--only redis")
	@STORE=$(STORE) docker/test $(ARGS)

.PHONY: test
# The checks run in what the tests leave idle. They are shown once they have ended.
test: venv $(CLASSES) ## Run the checks and every suite, with one summary (ARGS="-k name", JOBS=3)
	@mkdir -p build; checks=0; tests=0; \
	{ nice $(MAKE) --no-print-directory check >build/check.log 2>&1; ended=$$?; \
	  echo; cat build/check.log; exit $$ended; } & beside=$$!; \
	trap 'pkill -TERM -P $$beside' INT TERM; \
	$(PYTEST) $(call parallel,3) -m "not long" --junitxml=build/tests.xml $(ARGS) $(call paths,$(SUITES)) || tests=$$?; \
	wait $$beside || checks=$$?; \
	if [ $$tests -eq 5 ]; then echo "no test was found: that is a failure"; fi; \
	if [ $$checks -ne 0 ]; then echo "make check failed, see above, or build/check.log"; fi; \
	exit $$((tests ? tests : checks))

##@ While working

.PHONY: commands
commands: venv ## Write the table of commands that help and completion are answered from
	@$(BIN)/python -m tests.command_table

.PHONY: venv
venv: prerequisites $(STAMP) ## Make .venv with every pinned version (PYTHON=python3.12)

.PHONY: prerequisites
prerequisites: ## Say whether Python 3.11+ and Java 17+ are here, and how to get them
	@.ci/prerequisites $(PYTHON)

# A work tree may borrow the environment of another one: `ln -s ../main/.venv .venv`. Nothing is
# installed into it, and all commands of this tree run this tree's package.
ifeq ($(shell test -L .venv && echo borrowed),borrowed)
export PYTHONPATH := $(CURDIR)
$(STAMP):
	@echo ".venv is a link to an environment that is not complete: run make venv there, or rm .venv"; exit 1
else
$(STAMP): pyproject.toml constraints.txt excludes.txt hatch_build.py
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	$(UV_INSTALL) --quiet -c constraints.txt -e '.[dev]'
	@$(BIN)/python -c 'from airflow_provider_segtable.spark.driver.install_check import check_install as c; c()'
	@touch $@
endif

$(CLASSES): $(STAMP)
	-@$(BIN)/python -m tests.class_archive $@

.PHONY: test-fast
test-fast: venv ## Run the suites that need neither Spark nor Airflow, without slow tests
	@$(PYTEST) $(call parallel,2) -m "not slow and not long" $(ARGS) $(call paths,$(FAST_SUITES))

.PHONY: test-long
test-long: venv $(CLASSES) ## Run what is marked `long`, then all examples of properties: left out of `make test`
	@$(PYTEST) -m long $(ARGS) $(call paths,$(SUITES))
	@HYPOTHESIS_PROFILE=whole $(PYTEST) -m "not long" $(ARGS) $(PROPERTIES)

.PHONY: test-stores
test-stores: venv ## Install real S3, GCS and Azure servers below build/, hold the contracts against each, print a matrix (ARGS="-k azurite")
	@.ci/stores
	@SEGTABLE_STORES=required $(PYTEST) -q $(ARGS) tests/stores

.PHONY: test-airflows
test-airflows: venv ## Make an environment for each supported Airflow below build/, run what touches it, print a table (ARGS=...)
	@.ci/airflows
	@.ci/airflows test $(ARGS)

.PHONY: test-page
test-page: venv ## Look at the page with Chromium, in a real Airflow with real tables: each view and action (ARGS="-k keyboard")
	@.ci/browser
	@rm -rf build/page
	@SEGTABLE_PAGE=required $(PYTEST) $(ARGS) tests/page
	@echo "pictures: build/page"

.PHONY: test-neighbours
test-neighbours: venv ## Let Spark, Trino, DuckDB and ClickHouse, which it fetches, read published tables and try to write (ARGS=...)
	@$(BIN)/python -m tests.neighbours.prepare && $(PYTEST) $(ARGS) tests/neighbours

.PHONY: test-remote-spark
test-remote-spark: venv ## Run drivers and clusters of other versions of Spark, YARN and Spark Connect, which it fetches (ARGS=...)
	@$(BIN)/python -m tests.remote_spark.prepare && $(PYTEST) $(ARGS) tests/remote_spark

.PHONY: sim
sim: venv ## Simulate disasters: SEED=42 replays one with its trace, SEEDS=5000 looks for more
	@$(BIN)/python -m tests.simulation.scenario \
	  $(if $(SEED),--seed $(SEED),--seeds $(or $(SEEDS),500)) $(ARGS)

.PHONY: sim-swarm
sim-swarm: venv ## Play thousands of small worlds of every scenario (SEEDS=10000, JOBS=2)
	@$(BIN)/python -m tests.simulation.swarm --seeds $(or $(SEEDS),1000) --jobs $(or $(JOBS),2) $(ARGS)

.PHONY: mutants
mutants: venv ## Plant errors in core, planning and table, list those no test notices (ARGS="core/locks --minutes 5")
	@nice $(BIN)/python .ci/mutants.py $(ARGS)

.PHONY: model
model: venv ## Check the TLA+ models of docs/model, with and without each of their rules (ARGS="Timeline --traces")
	@nice $(BIN)/python .ci/model.py $(ARGS)

.PHONY: stress
stress: venv ## Everything at once for MINUTES=5: processes, ZooKeeper, Spark, kills (ARGS=...)
	@$(BIN)/python -m tests.stress.run --minutes $(or $(MINUTES),5) $(ARGS)

.PHONY: stress-keyed
stress-keyed: venv ## Eight writers of the same keys for MINUTES=5, without locks: compactions, cleaning, kills (ARGS=...)
	@$(BIN)/python -m tests.stress.keyed.run --minutes $(or $(MINUTES),5) $(ARGS)

.PHONY: stress-publishing
stress-publishing: venv ## Publishers, writers, a cleaner and readers of Delta Lake and Iceberg for MINUTES=5, with kills (ARGS=...)
	@$(BIN)/python -m tests.stress.publishing.run --minutes $(or $(MINUTES),5) $(ARGS)

.PHONY: stress-log-store
stress-log-store: venv ## Writers, services and readers of log stores for MINUTES=5: kills, sleep, slow storage, ZooKeeper away (ARGS=...)
	@$(BIN)/python -m tests.stress.log_store.run --minutes $(or $(MINUTES),5) $(ARGS)

.PHONY: fleet
fleet: venv ## A lake of TABLES=200, BUSY=20, BROKEN=5 under a real Airflow for MINUTES=15, with kills that SEED=1 gives (ARGS=...)
	@$(BIN)/python -m tests.stress.fleet.run --minutes $(or $(MINUTES),15) --tables $(or $(TABLES),200) \
	  --busy $(or $(BUSY),20) --broken $(or $(BROKEN),5) --seed $(or $(SEED),1) $(ARGS)

.PHONY: bench
bench: venv ## Run the benchmarks in an hour, print one table: ours, peers, goals (QUICK=1: five minutes; ARGS="--only scan")
	@$(BIN)/python benchmarks/run_all.py $(if $(QUICK),--quick) $(ARGS)

##@ Before a commit

.PHONY: check
check: venv ## Run lint, types and imports; all of them, even if one fails
	@$(MAKE) --no-print-directory --keep-going --jobs 3 lint types imports

.PHONY: format
format: venv ## Rewrite the code as ruff formats it, and fix what ruff can
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format .

.PHONY: lint
lint: venv ## Say what ruff finds, and which files are not formatted
	@$(BIN)/ruff check . && $(BIN)/ruff format --check --quiet .

.PHONY: types
types: venv ## Check types with mypy, strictly
	@$(BIN)/mypy

.PHONY: imports
imports: venv ## Check that imports go one way (import-linter)
	@$(BIN)/lint-imports --no-logo

.PHONY: docs-check
docs-check: venv ## Check that links, targets and paths named in the documents exist
	@$(PYTEST) --quiet tests/architecture/test_documents.py

##@ Now and then

.PHONY: docs
docs: venv ## Build the site into build/docs, from docs/ and the code; no network is needed
	@$(BIN)/python -c 'import mkdocs' 2>/dev/null || { echo "make docs needs Python 3.11.5 or newer"; exit 1; }
	@AIRFLOW_HOME=$(CURDIR)/build/airflow NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "open build/docs/index.html"

.PHONY: pictures
pictures: venv ## Draw the pictures of README, tutorial and concepts again, from a real run
	@$(BIN)/python -m docs.drawings && $(BIN)/python -m docs.pictures

.PHONY: page-pictures
page-pictures: venv ## Take the pictures of the page in README and guides again, in a real Airflow
	@.ci/browser
	@SEGTABLE_PAGE=required SEGTABLE_PICTURES=docs/images $(PYTEST) tests/page/test_questions.py

.PHONY: constraints
constraints: venv ## Pin what .venv holds now, and what the containers need beyond it, into constraints.txt
	@$(BIN)/uv pip freeze --python $(BIN)/python | grep -E '^[A-Za-z0-9._-]+==[^ ]+$$' \
	  | grep -vE '^(airflow-provider-segtable|pip|setuptools)==' > constraints.held
	@{ sed -n '/^#/p' constraints.txt; \
	  $(BIN)/uv pip compile --quiet --no-header --no-annotate --python $(BIN)/python \
	    -c constraints.held docker/requirements.txt \
	  | cat constraints.held - | sed 's/==/ /' | LC_ALL=C sort -fu -k1,1 | sed 's/ /==/'; } > constraints.new
	@rm constraints.held && mv constraints.new constraints.txt
	@touch $(STAMP)

.PHONY: upgrade
upgrade: venv ## Install the newest versions that pyproject.toml allows (then test, then constraints)
	$(UV_INSTALL) --upgrade -e '.[dev]'

PAGE := airflow_provider_segtable/page/source

.PHONY: page
page: venv $(PAGE)/node_modules/.package-lock.json ## Build the page from its TypeScript, after its checks and tests (needs node 20+)
	@$(BIN)/python .ci/page_types.py
	@cd $(PAGE) && npm run --silent check && npm run --silent test && npm run --silent build

$(PAGE)/node_modules/.package-lock.json: $(PAGE)/package-lock.json
	@command -v npm >/dev/null || { echo "make page needs node 20 or later, with npm"; exit 1; }
	@cd $(PAGE) && npm ci --ignore-scripts --no-audit --no-fund --silent

.PHONY: wheel
wheel: venv ## Build the distribution into dist/
	@$(BIN)/python -m hatchling build

.PHONY: clean
clean: ## Remove what building, testing and the demo made; .venv stays
	@rm -rf build dist artifacts .segtable-demo spark-warehouse metastore_db derby.log \
	  .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache $(PAGE)/node_modules
	@find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
