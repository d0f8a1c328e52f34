# make help lists the targets.

GO ?= go
TOOL = $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 1m
IMAGE ?= webhook-gateway

# What the release binary is built with, here and in the Dockerfile.
BUILD = CGO_ENABLED=0 $(GO) build -trimpath -ldflags="-s -w"

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: postgres ## start PostgreSQL and the gateway on this machine, with samples to send; Ctrl-C stops everything
	@mkdir -p bin && $(GO) build -buildvcs=false -o bin/gateway ./cmd/gateway
	@exec bin/gateway dev

.PHONY: test
test: postgres cc prometheus pgbouncer systemd ## run every test, with the race detector, on real PostgreSQL
	$(GO) test -race -timeout 15m ./...

.PHONY: lint
lint: ## run every linter
	@unformatted=$$(gofmt -l $$($(GO) list -f '{{.Dir}}' ./...)) && if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) -C tools/dashboards test -count=1 ./... # the cache does not see a file outside its module
	sh -n scripts/need
	sh -n scripts/fuzz
	bash -n .ci/run

.PHONY: check
check: lint test bench-short ## what CI runs

.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (1m)
	scripts/fuzz $(FUZZTIME)

.PHONY: fuzz-short
fuzz-short: ## run each fuzz target for five seconds
	scripts/fuzz 5s

.PHONY: mutants
mutants: postgres ## break the code's rules one by one and check that a test notices each, in half an hour
	$(GO) run ./internal/tools/mutants

.PHONY: soak
soak: postgres ## use idempotency in every way for ten minutes while connections are cut and processes killed
	$(GO) test -count=1 -v -timeout 30m ./test/soak -soak 10m

.PHONY: bench
bench: bench-build ## compare the gateway with pgbench and others, in ten minutes; writes docs/benchmarks/
	bin/bench

.PHONY: bench-short
bench-short: bench-build ## check that every part of bench runs, in a minute; its figures mean nothing
	bin/bench -short

.PHONY: bench-size
bench-size: bench-build ## measure with 1, 5 and 20 million keys: 15 to 40 minutes, 20 GB of disk
	bin/bench -size

.PHONY: bench-claims
bench-claims: postgres ## compare claims with a bare INSERT, and measure the sweep, in four minutes; writes docs/benchmarks/
	$(GO) build -o bin/bench-claims ./test/bench/claims
	bin/bench-claims

.PHONY: hostile
hostile: postgres build ## attack the gateway during honest calls, in three minutes; prints a table
	$(GO) run ./test/hostile

.PHONY: bench-build
bench-build: postgres build
	$(GO) build -o bin/bench ./test/bench

.PHONY: build
build: ## build the static release binary, bin/gateway
	$(BUILD) -o bin/gateway ./cmd/gateway

.PHONY: image
image: ## build the container image
	docker build -t $(IMAGE) .

.PHONY: postgres
postgres: ## install PostgreSQL's programs if they are missing, without a running server
	@scripts/need postgres

.PHONY: cc
cc:
	@scripts/need cc

.PHONY: prometheus
prometheus:
	@scripts/need prometheus

.PHONY: pgbouncer
pgbouncer:
	@scripts/need pgbouncer

.PHONY: systemd
systemd:
	@scripts/need systemd
