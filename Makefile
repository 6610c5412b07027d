# The whole of building, testing and checking Posthaste. `make` prints this help;
# `make check` is exactly what CI runs.

SHELL := /bin/bash -o pipefail
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The version comes from git describe below. Without this flag go build asks git by
# itself, and fails in a clone that belongs to another user, as CI's often do.
export GOFLAGS := $(shell go env GOFLAGS) -buildvcs=false

# What to work on: a package pattern, and further arguments for go test, e.g.
# make test PKG=./postgres ARGS='-run Claim -v'
PKG ?= ./...
ARGS ?=

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
# No symbol tables: a third of the size, and panics name their lines all the same.
LDFLAGS := -s -w -X github.com/posthaste-dev/posthaste/internal/cli.version=$(VERSION)

# The systems and processors that Posthaste supports. Tests run on Linux.
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# One package may take long (crash tests), but none this long.
TEST_TIMEOUT ?= 30m
FUZZTIME ?= 10s

.PHONY: help
help: ## print this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' Makefile

.PHONY: run
run: build ## build, then start the engine on SQLite with a receiver to try it on
	./bin/posthaste quickstart $(ARGS)

.PHONY: build
build: ## build bin/posthaste, one static binary
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/posthaste ./cmd/posthaste

# The server lives as long as the tests do: pgtest starts it, passes its URL on,
# and ends it in every case. -count=1 because some tests build and run the real
# binary, which go test's cache cannot see.
.PHONY: test
test: bin/pgtest ## set up what the tests need (PostgreSQL, Chromium, Node), then run all of them
	scripts/setup-tests
	bin/pgtest go test -race -count=1 -timeout $(TEST_TIMEOUT) $(ARGS) $(PKG)

# tools/ is a module of its own, which keeps the linters' dependencies out of ours.
.PHONY: lint
lint: bin/golangci-lint ## linters (.golangci.yml), go.mod, and the rules of conventions_test.go
	go mod tidy -diff
	bin/golangci-lint run
	go test -count=1 -run '^TestConvention' .

.PHONY: check
check: ## all that CI checks: lint, build of every package, vet, tests
	$(MAKE) lint
	$(MAKE) build
	go build ./...
	$(MAKE) cross
	go vet ./...
	$(MAKE) test

# Without optimization: it shows that the code builds, and takes half the time.
.PHONY: cross
cross: ## build every package for each supported system and processor
	@for target in $(PLATFORMS); do \
		echo "build for $$target"; \
		GOOS=$${target%/*} GOARCH=$${target#*/} CGO_ENABLED=0 go build -gcflags='all=-N -l' ./... || exit 1; \
	done

.PHONY: bench
bench: bin/pgtest build ## measure throughput and latency beside the bare minimum (bench/)
	go run ./bench $(ARGS)

.PHONY: cover
cover: bin/pgtest ## tests with coverage: bin/cover.out, the total at the end
	scripts/setup-tests
	bin/pgtest go test -count=1 -timeout $(TEST_TIMEOUT) -coverpkg=./... -coverprofile=bin/cover.out $(PKG)
	go tool cover -func=bin/cover.out | tail -n 1

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (10s)
	scripts/fuzz $(FUZZTIME) $(PKG)

.PHONY: fmt
fmt: bin/golangci-lint ## format the code
	bin/golangci-lint fmt

.PHONY: clean
clean: ## remove what was built (bin/)
	rm -rf bin

.PHONY: bin/pgtest
bin/pgtest:
	@go build -o $@ ./internal/testdb/pgtest

bin/golangci-lint: tools/go.mod tools/go.sum
	go -C tools build -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
