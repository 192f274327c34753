# The stages themselves live in .ci/run, so that this file and CI cannot disagree.
.DEFAULT_GOAL := help
VENV ?= .venv
export VENV

.PHONY: help setup check test test-long fuzz goldens metamorphic docs docs-follow bench drawing bench-scale bench-spark bench-events spark-cluster engines coverage verdicts pairs headline shop replay exam examination success accuracy ladder optimize unexplored bench-optimize bench-reproduce reproduce real obp look screens lock clean torture limits audit branches mutants oldest newest shuffled

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

bench: ## What answers cost beside the engine's own pass, on a long-tailed log (an hour; ARGS="--sizes 200000")
	$(VENV)/bin/python -m benchmarks.bench $(ARGS)

drawing: ## Answers of drawn contexts beside those of the whole log (hours; ARGS="--draws 2 --logs 1")
	$(VENV)/bin/python -m benchmarks.drawing $(ARGS)

bench-scale: ## A million to 167 million records, under 2 GB (hours; ARGS="--sizes 10000000")
	$(VENV)/bin/python -m benchmarks.scale $(ARGS)

bench-spark: ## A real cluster: the same answers, workers killed, beside Spark SQL by hand
	$(VENV)/bin/python -m benchmarks.on_spark same killed --records 1000000
	$(VENV)/bin/python -m benchmarks.on_spark timed --records 10000000

bench-events: ## From events to a log, beside SQL by hand
	$(VENV)/bin/python -m benchmarks.events duckdb --impressions 10000000
	$(VENV)/bin/python -m benchmarks.events spark --impressions 1000000

spark-cluster: ## Start a Spark master and two workers on this machine, until Ctrl-C
	$(VENV)/bin/python -m benchmarks.spark_cluster

engines: ## Try every engine and write the table of docs/engines.md
	$(VENV)/bin/python -m tests.engines.world --write

coverage: ## How often intervals hold the truth, in simulated worlds (an hour; ARGS="--parts single")
	$(VENV)/bin/python -m benchmarks.coverage $(ARGS)

verdicts: ## How often verdicts are wrong, and what pairing gains (an hour; ARGS="--worlds PBM")
	$(VENV)/bin/python -m benchmarks.verdicts $(ARGS)

pairs: ## How often intervals of pairs hold where cells are small (10 minutes; ARGS="--logs 50")
	$(VENV)/bin/python -m benchmarks.pairs $(ARGS)

headline: ## What the default answer says of candidates of known worth (minutes; ARGS="null --logs 20")
	$(VENV)/bin/python -m benchmarks.headline $(ARGS)

shop: ## The default answer in a search shop with a long tail (5 minutes; ARGS="--regimes all --logs 2 --quiet")
	$(VENV)/bin/python -m benchmarks.shop $(ARGS)

replay: ## 60 simulated A/B tests, predicted and measured (an hour; ARGS="--records 100000 --forward --jobs 2")
	$(VENV)/bin/python -m benchmarks.replay $(ARGS)

exam: ## The default answer where rankers are really trained (half an hour; ARGS="--logs 2 --jobs 2")
	$(VENV)/bin/python -m benchmarks.exam $(ARGS)

examination: ## How well a known examination curve is found (minutes; ARGS="--records 900000")
	$(VENV)/bin/python -m benchmarks.examination $(ARGS)

success: ## How well "at least one click" is known, in simulated worlds (2 minutes)
	$(VENV)/bin/python -m benchmarks.success $(ARGS)

ladder: ## The ladder in six worlds: ARGS="accuracy --logs 30", "coverage --logs 150" (hours), "judge --logs 6"
	$(VENV)/bin/python -m benchmarks.ladder $(or $(ARGS),accuracy)

optimize: ## How good optimised policies really are, in simulated worlds (15 minutes)
	$(VENV)/bin/python -m benchmarks.optimize $(ARGS)

unexplored: ## What optimize does with logs that hardly explored (minutes)
	$(VENV)/bin/python -m benchmarks.unexplored $(ARGS)

bench-optimize: ## How many contexts a second are optimised (minutes)
	$(VENV)/bin/python -m benchmarks.optimize_scale $(ARGS)

accuracy: ## How far estimators are from the truth, in simulated worlds (an hour; ARGS="--seeds 11")
	$(VENV)/bin/python -m benchmarks.accuracy $(ARGS)

torture: ## Kill every command that writes, ask a thousand times (an hour; ARGS="--moments 6")
	$(VENV)/bin/python -m benchmarks.torture $(ARGS)
	FORECLICK_LONG=1 $(VENV)/bin/python -m pytest -q -n 0 tests/torture

limits: ## CPU time and memory of extreme logs (10 minutes)
	$(VENV)/bin/python -m benchmarks.limits $(ARGS)

audit: ## Known vulnerabilities of what is locked (asks a public service), and a list of it all
	$(VENV)/bin/python .ci/sbom.py requirements.lock sbom.json
	$(VENV)/bin/uv tool run pip-audit --strict --require-hashes --disable-pip -r requirements.lock

bench-reproduce: ## The paper from a raw file of 20 million lines: CPU time and memory (10 minutes)
	$(VENV)/bin/python -m benchmarks.reproduce $(ARGS)

reproduce: ## The paper's experiments on a simulated log, drawn into experiments/notes/images
	$(VENV)/bin/foreclick reproduce -o experiments/notes/images --seed 700

DATA ?= data
real: ## The estimators on real logs, which lie in DATA
	$(VENV)/bin/python -m benchmarks.real $(DATA)

OBP_PYTHON ?= python3.10
obp: ## Values, times and memory beside obp, which OBP_PYTHON has
	$(VENV)/bin/python benchmarks/beside_obp.py --python $(OBP_PYTHON)

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
