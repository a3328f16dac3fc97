# Two commands do all the set-up on a fresh machine: `make demo` and `make test`.
# ARGS goes to the command: `make test ARGS='-k sse'`, `make demo ARGS=--serve`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test check faults operate bench soak engines npm trainers agents clean

demo: .venv/.demo
	$(BIN)/rollout-gateway demo $(ARGS)

test: .venv/.dev
	$(BIN)/pytest $(ARGS)

check: .venv/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Faults on purpose, over and over, and a ledger of what is lost, doubled or wrong. COUNT is how often each; ONLY=D9
# picks; LANES are played side by side. docs/durability.md says what each does. As root, for a disk that is full needs a
# file system of its own.
COUNT ?= 100
LANES ?= 4
ONLY ?=
faults: .venv/.dev
	$(BIN)/python -m tests.faults --count $(COUNT) --lanes $(LANES) --only "$(ONLY)" $(ARGS)

# Forty scripted backends, three hundred agents, and an operator who has no quiet minute; held against what is promised.
# GATEWAYS=2 share a PostgreSQL that is started for it. docs/operations.md has what was tried.
MINUTES ?= 10
GATEWAYS ?= 1
operate: .venv/.dev
	$(BIN)/python -m tests.operating --minutes $(MINUTES) --gateways $(GATEWAYS) $(ARGS)

# CPU per call beside nginx and rllm-model-gateway; needs Debian's nginx-light. docs/benchmarks.md says how it measures.
# Then CPU per session of what builds the samples, as sessions grow.
bench: .venv/.demo .venv/rllm/.installed
	$(BIN)/python -m benchmarks $(ARGS)
	$(BIN)/python -m benchmarks.samples
	$(BIN)/python -m benchmarks.concurrency

# Forty minutes of streams: whether memory, descriptors or tasks grow.
soak: .venv/.demo
	$(BIN)/python -m benchmarks.soak $(ARGS)

# Real vLLM, SGLang and Dynamo on the CPU: gigabytes of packages. docs/engines.md says what it needs.
engines: .venv/.dev
	$(BIN)/pytest -q -o addopts= --import-mode=importlib -p no:cacheprovider tests/engines
	$(BIN)/python -m tests.engines $(ARGS)
	$(BIN)/python -m tests.engines.drift
	$(BIN)/python -m tests.engines.anthropic_sdk
	$(BIN)/python -m tests.engines.responses_sdk

# The SDKs that npm has, each parsing what it gets through the gateway: needs Node 20 or newer.
npm: .venv/.dev .venv/npm/.installed
	$(BIN)/python -m tests.npm

# What trainers' own code says of the rows that it gets: gigabytes of packages. docs/trainers.md has what was tried.
trainers: .venv/trainers/.installed
	PYTHONPATH=. .venv/trainers/bin/python -m pytest -q -c /dev/null --rootdir . --import-mode=importlib -p no:cacheprovider \
	  tests/trainers $(ARGS)

# Agent programs of PyPI and npm, run to their end; for Linux on x86-64. docs/agents.md has what was tried.
agents: .venv/.dev .venv/agents/.installed
	$(BIN)/python -m tests.agents $(ARGS)

# Each virtual environment is made once, and brought up to date when pyproject.toml changes.
.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "rollout-gateway needs Python 3.11 or newer; say which with: make PYTHON=python3.11 …" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || \
	  { echo "This Python can't make virtual environments; on Debian: apt-get install python3-venv" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.demo: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

.venv/.dev: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ .venv/.demo

# In an environment of its own, as its users get it.
.venv/rllm/.installed: | .venv/bin/python
	$(BIN)/python -m venv .venv/rllm
	.venv/rllm/bin/python -m pip install --quiet --disable-pip-version-check rllm-model-gateway==0.1.0
	@touch $@

# Trainers pin versions of torch and transformers that exclude each other, so three come without what they ask for and
# with what the modules tried import.
.venv/trainers/.installed: | .venv/bin/python
	$(BIN)/python -m venv .venv/trainers
	.venv/trainers/bin/python -m pip install --quiet --disable-pip-version-check torch==2.13.0 trl==1.16.0 tinker==0.38.0 \
	  aiofiles aiohttp cachetools codetiming colorlog einops fastapi flask hydra-core lark numba openai pillow ray \
	  'tensordict<=0.10' tenacity torchdata uvicorn uvloop hypothesis msgspec pytest uuid-utils
	.venv/trainers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps \
	  areal==1.0.4 miles-rl==0.0.2 verl==0.9.1
	@touch $@

.venv/npm/.installed: tests/npm/package.json | .venv/bin/python
	mkdir -p .venv/npm
	cp tests/npm/package.json .venv/npm/
	npm install --prefix .venv/npm --silent --no-audit --no-fund --no-package-lock
	@touch $@

.venv/agents/.installed: | .venv/bin/python
	$(BIN)/python -m venv .venv/agents
	.venv/agents/bin/python -m pip install --quiet --disable-pip-version-check openai-agents==0.24.0 \
	  langchain==1.4.7 langchain-openai==1.7.3 langgraph==1.2.22 mini-swe-agent==2.4.6 litellm==1.83.0
	npm install --prefix .venv/agents --silent --no-audit --no-fund --no-package-lock \
	  @anthropic-ai/claude-code@2.1.330 @openai/codex@0.169.0 opencode-ai@1.18.33 @qwen-code/qwen-code@0.15.10
	@touch $@

clean:
	rm -rf .venv
