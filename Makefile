# `make demo` and `make test` install what they need into .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_RUN ?= runs/demo

.PHONY: help install demo test test-deploy lint docs site dist audit sbom lock bench clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

install: $(READY)  ## create .venv and install pfedul with its development tools

LOCKS := $(addprefix requirements/,dev.lock torch-cpu.lock torch.lock)
PIP_FLAGS := --quiet --disable-pip-version-check
LOCKED := $(PIP_FLAGS) --require-hashes --no-deps --only-binary :all:

# The last command adds no package, but for GPU libraries if torch is a build that asks for them.
$(READY): pyproject.toml $(LOCKS)
	$(PYTHON) -c 'import sys; sys.exit("pfedul needs Python 3.11 or newer: make PYTHON=python3.11 ..." if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install $(LOCKED) --requirement requirements/dev.lock
	$(BIN)/pip install $(LOCKED) --requirement requirements/torch-cpu.lock || { \
	  echo "No CPU build of torch was found; installing the build of the package index instead."; \
	  $(BIN)/pip install $(LOCKED) --requirement requirements/torch.lock; }
	$(BIN)/pip install $(PIP_FLAGS) --no-build-isolation --editable '.[dev]'
	@touch $@

demo: $(READY)  ## train a federation on embedded digits, rehearse the paper's removal, do the default one, draw both
	@rm -rf $(DEMO_RUN)
	$(BIN)/pfedul train $(DEMO_RUN) --config demo.toml
	$(BIN)/pfedul rehearse $(DEMO_RUN) --client client-00 --correction paper
	$(BIN)/pfedul forget $(DEMO_RUN) --client client-00 --yes
	$(BIN)/pfedul status $(DEMO_RUN)
	$(BIN)/pfedul report $(DEMO_RUN) --picture $(DEMO_RUN)/reports/removal.png
	@echo "Look at $(DEMO_RUN)/reports/removal.png, and open report.html next to it; docs/report.md says how to read them."

# Without kept bytecode every process would compile pfedul, and pytest all assertions, once again.
test: $(READY)  ## run the test suite
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --ignore=tests/deploy --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test-deploy: $(READY)  ## test an installed wheel, the examples, and real Flower deployments whose nodes are killed, hang or misbehave (a quarter of an hour)
	$(BIN)/python -m pytest tests/deploy

lint: $(READY)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)  ## regenerate the generated pages of the docs
	$(BIN)/python docs/generate.py

DOCS := .docs-venv
DOCS_READY := $(DOCS)/.ready

$(DOCS_READY): requirements/docs.lock
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/pip install $(LOCKED) --requirement requirements/docs.lock
	@touch $@

site: $(DOCS_READY)  ## build the docs site into site/; broken links and foreign scripts are errors
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build
	@! grep -rlE '<(script|link|img|iframe)[^>]*(src|href)="?https?:' --include='*.html' site || { \
	  echo "These pages load something from elsewhere."; exit 1; }

dist: $(READY)  ## build the source distribution and the wheel into dist/
	$(BIN)/uv build --quiet --clear --no-build-isolation --python $(BIN)/python

AUDIT := .audit-venv
AUDIT_READY := $(AUDIT)/.ready

$(AUDIT_READY): requirements/audit.lock
	$(PYTHON) -m venv $(AUDIT)
	$(AUDIT)/bin/pip install $(LOCKED) --requirement requirements/audit.lock
	@touch $@

audit: $(READY) $(AUDIT_READY)  ## check the licences of all packages (offline), then ask for known vulnerabilities
	$(BIN)/python tools/licences.py
	$(BIN)/python tools/vulnerabilities.py $(AUDIT)/bin/pip-audit $(AUDIT_FLAGS)

sbom: $(READY) $(AUDIT_READY)  ## write sbom.json: every package of .venv, in the form of CycloneDX
	$(AUDIT)/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible --output-file sbom.json

COMPILE := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-annotate \
  --custom-compile-command 'make lock'

lock: $(READY)  ## renew the lock files; the hash in torch-cpu.lock is that which `pip hash` prints for the wheel
	$(COMPILE) --extra dev --constraint constraints.txt --excludes requirements/gpu.txt --no-emit-package torch \
	  --output-file requirements/dev.lock pyproject.toml
	$(COMPILE) --no-deps --output-file requirements/torch.lock constraints.txt
	$(COMPILE) --output-file requirements/audit.lock requirements/audit.in
	$(COMPILE) --output-file requirements/docs.lock requirements/docs.in

bench: $(READY)  ## measure training against a bare loop and pfl, and forgetting against retraining
	$(BIN)/python bench/speed.py
	$(BIN)/python bench/forget.py

clean:  ## remove virtual environments, what was built, and the demo's run
	rm -rf $(VENV) $(AUDIT) $(DOCS) site dist $(DEMO_RUN) bench/.pfl-venv bench/.crosscheck-venv
