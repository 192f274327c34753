# The stages themselves live in .ci/run, so that this file and CI cannot disagree.
.DEFAULT_GOAL := help
VENV ?= .venv
export VENV

.PHONY: help setup check test test-long fuzz goldens metamorphic docs docs-follow study perf evidence engines reproduce look screens lock clean audit branches mutants oldest newest shuffled

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create .venv from requirements.lock, with foreclick editable in it
	@bash .ci/run setup

check: ## Format, lint, types, layer contracts, dependencies, spelling
	@bash .ci/run check

test: ## All tests and doctests (PYTEST_ARGS="-k tally" to narrow, --cov to count lines)
	@bash .ci/run test

test-long: ## The same, with several times as many random cases, a cluster and real logs; notes when it passed
	@FORECLICK_LONG=1 bash .ci/run test
	@sed -i "s/^Last \`make test-long\`: .*/Last \`make test-long\`: $$(date +%F), all of it, at $$(git rev-parse --short HEAD)./" CONTRIBUTING.md

branches: ## Lines and branches that tests reach, by package (ARGS='-m "not spark and not postgres"')
	@mkdir -p .cache
	COVERAGE_FILE=.cache/branches $(VENV)/bin/pytest -q -n 2 --dist loadgroup --cov --cov-context=test \
		--cov-report= --cov-fail-under=0 --junitxml=.cache/branches.xml $(ARGS)
	$(VENV)/bin/python -m benchmarks.branches

mutants: ## Small changes of the code that no test notices; after `make branches` (ARGS="--seed 7")
	$(VENV)/bin/python -m benchmarks.mutants $(ARGS)

shuffled: ## All tests ten times, each time in another order (hours; SEEDS="1 2", PYTEST_ARGS as in test)
	@for seed in $(or $(SEEDS),1 2 3 4 5 6 7 8 9 10); do \
		FORECLICK_SHUFFLED=$$seed bash .ci/run test || exit 1; done

oldest: ## Tests with the lowest versions of the dependencies that pyproject.toml allows
	@bash .ci/run oldest

newest: ## Tests with the highest versions, those before their release included, and with DuckDB 2.0
	@bash .ci/run prereleases newest

fuzz: ## Random logs and questions beside oracles: 100,000 answers (half an hour; ARGS="--seed 7")
	$(VENV)/bin/python -m tests.fuzz $(ARGS)

goldens: ## Some 450 questions, and the answers they had before (a minute; ARGS="--only shop", --write)
	$(VENV)/bin/python -m tests.goldens $(ARGS)

metamorphic: ## Names, order, files and what else is in a log: 5,000 answers that must not change (ARGS="--seed 7")
	$(VENV)/bin/python -m tests.fuzz --only changes --cases 5000 $(ARGS)
	$(VENV)/bin/python -m tests.fuzz --only tiny --cases 2000 $(ARGS)

docs: ## Build the site into site/
	@bash .ci/run docs

docs-follow: ## Every page of the documentation, with nothing but the wheel and the extras it names
	@bash .ci/run follow

study: ## What foreclick says of many logs, beside the truth (NAME=shop ARGS="--logs 2"; alone: their names)
	@$(VENV)/bin/python -m benchmarks $(NAME) $(ARGS)

perf: ## What answers cost beside the engine's own pass (an hour; ARGS="--sizes 200000")
	@$(VENV)/bin/python -m benchmarks perf $(ARGS)

evidence: ## Write the tables of docs/evidence.md from benchmarks/results
	@$(VENV)/bin/python -m benchmarks evidence

engines: ## Try every engine and write the table of docs/engines.md
	$(VENV)/bin/python -m tests.engines.world --write

audit: ## Known vulnerabilities of what is locked (asks a public service), and a list of it all
	$(VENV)/bin/python .ci/sbom.py requirements.lock sbom.json
	$(VENV)/bin/uv tool run pip-audit --strict --require-hashes --disable-pip -r requirements.lock

reproduce: ## The paper's experiments on a simulated log, drawn into experiments/notes/images
	$(VENV)/bin/foreclick reproduce -o experiments/notes/images --seed 700

look: ## A report as page and pictures, checked for accessibility (node, Chromium)
	@! command -v npm >/dev/null || npm install --silent --no-fund --no-audit --prefix .cache/look playwright-core axe-core
	PYTHONPATH=. $(VENV)/bin/python docs/images/report.py $(ARGS)

screens: ## Terminals and a notebook as pictures in docs/pictures (tmux, Chromium)
	PYTHONPATH=. $(VENV)/bin/python docs/images/screens.py

lock: ## Resolve pyproject.toml anew into requirements.lock (every extra, group and Python)
	$(VENV)/bin/uv pip compile pyproject.toml --all-extras --group dev --universal --upgrade \
		--python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --quiet --output-file requirements.lock
	@! grep -nE '://|(^|[ @])/' requirements.lock || { echo "requirements.lock names a host or a path"; exit 1; }

clean: ## Remove everything that can be made again
	rm -rf $(VENV) site build dist htmlcov .coverage* .cache .hypothesis .*_cache spark-warehouse metastore_db
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
