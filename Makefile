# The stages themselves live in .ci/run, so that this file and CI cannot disagree.
.DEFAULT_GOAL := help
VENV ?= .venv
export VENV

.PHONY: help setup check test test-long fuzz docs study perf lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Create .venv from requirements.lock, with foreclick editable in it
	@bash .ci/run setup

check: ## Format, lint, types, layer contracts, dependencies, spelling
	@bash .ci/run check

test: ## All tests and doctests (PYTEST_ARGS="-k tally" to narrow, --cov to count lines)
	@bash .ci/run test

test-long: ## The same with several times as many random cases, a Spark cluster, larger logs (an hour)
	@FORECLICK_LONG=1 bash .ci/run test

fuzz: ## Random logs and questions beside oracles: 100,000 answers (half an hour; ARGS="--seed 7")
	$(VENV)/bin/python -m tests.fuzz $(ARGS)

docs: ## Build the site into site/
	@bash .ci/run docs

study: ## Answers to many logs, beside the truth: make study shop ARGS="--logs 2"; alone: their names
	@$(VENV)/bin/python -m benchmarks $(NAME) $(ARGS) || [ -z "$(NAME)" ]

perf: ## What answers cost beside the engine's own pass (an hour; ARGS="--sizes 200000")
	@$(VENV)/bin/python -m benchmarks perf $(ARGS)

lock: ## Resolve pyproject.toml anew into requirements.lock (every extra, group and Python)
	$(VENV)/bin/uv pip compile pyproject.toml --all-extras --group dev --universal --upgrade \
		--python-version 3.11 --generate-hashes --no-emit-index-url \
		--custom-compile-command "make lock" --quiet --output-file requirements.lock
	@! grep -nE '://|(^|[ @])/' requirements.lock || { echo "requirements.lock names a host or a path"; exit 1; }

clean: ## Remove everything that can be made again
	rm -rf $(VENV) site build dist htmlcov .coverage* .cache .hypothesis .*_cache spark-warehouse metastore_db
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The word after `study` is no target: it names the study.
NAME ?= $(if $(filter study,$(firstword $(MAKECMDGOALS))),$(word 2,$(MAKECMDGOALS)))
ifneq ($(filter study,$(firstword $(MAKECMDGOALS))),)
ifneq ($(word 2,$(MAKECMDGOALS)),)
.PHONY: $(word 2,$(MAKECMDGOALS))
$(word 2,$(MAKECMDGOALS)): ; @:
endif
endif
