# Everything is built from the Go module proxy; nothing but Go and make has to be there, and for make race a C compiler.

.DEFAULT_GOAL := help
.NOTPARALLEL: # the test runner's summary comes last
# Each target with a line of help.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*[#][#] .*/\1/p' Makefile)

GOLANGCI_LINT := v2.15.0
GOTESTSUM     := v1.13.0
VERSITYGW     := v1.8.0

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN     := $(CURDIR)/bin

help: ## Show this list
	@awk -F ':.*## ' '/^##@ /{printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' Makefile

##@ Use

run: build ## Serve here; families without a key are simulated: make run ARGS="--listen :7788"
	@bin/mneme serve --simulate $(ARGS)

build: ## Build bin/mneme, one static binary
	@CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-X main.version=$(VERSION)' -o $(BIN)/mneme .

##@ Develop

test: vet lint layout unit ## Vet, lint, layout, all tests

vet: ## Vet all packages
	go vet ./...

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT) ## Lint as .golangci.yml says
	$< run ./...

layout: ## Who may import whom, sizes, links of the pages
	go test ./docs

SINCE ?= HEAD
quick: ## Vet and test the packages changed since SINCE (HEAD)
	@changed=$$({ git diff --name-only --diff-filter=d $(SINCE); git ls-files -o --exclude-standard; } | \
		awk '/[.]go$$/ && sub("/[^/]*$$", "") {print "./" $$0} /^[^/]*[.]go$$/ {print "."}' | sort -u); \
	[ -n "$$changed" ] || { echo 'no Go file has changed since $(SINCE)'; exit 0; }; \
	go test $$changed

FUZZTIME ?= 10s
# The store's and the server's own targets reach what they keep to themselves.
FUZZED   := fuzz store store/internal/blob store/internal/short server/edge
fuzz: ## Every fuzz target in turn, FUZZTIME each (10s), and how often each ran
	@fuzz/run $(FUZZTIME) $(FUZZED)

# Properties are tried from one seed, so that a finding is one on every machine. Others: RAPID_SEED=0 takes a random one.
export RAPID_SEED ?= 1

# The packages that take minutes come first. They wait more than they compute, so one more runs than there are cores.
LONGEST := ./server ./server/cluster ./store ./store/catalog ./bench/grid .
tested   = $< --format pkgname-and-test-fails --format-hide-empty-pkg --raw-command -- \
	go test -json -vet=off -timeout 20m -p $$(($$(getconf _NPROCESSORS_ONLN) + 1))

unit: $(BIN)/gotestsum-$(GOTESTSUM) ## All tests, without vet and lint
	$(tested) $(LONGEST) ./...

# It takes five to ten times the CPU time. Left out are hundreds of cases one after the other (-short), in which it finds what
# it finds in one of them, tests of allocations, because it allocates itself, and browsers.
race: $(BIN)/gotestsum-$(GOTESTSUM) ## The tests of all that has goroutines, under the race detector
	$(tested) -race -short -skip 'Alloc|^Fuzz|ABrowser' $(LONGEST) ./bench/... ./codec/... ./router/... ./server/... ./store/...

docs: ## Write the pages that are made from code: docs/configuration.md
	@go test ./docs -count=1 -run TestTheConfigurationPageIsUpToDate -update

api-client: ## Make the client that the tests use from docs/api/openapi.yaml
	cd server/api && go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.5.1 -config client.yaml ../../docs/api/openapi.yaml

grid: ## Print the conformance grid: every surface against every provider format
	@cd bench/grid && go test -count=1 -run TestEveryCrossingCarriesEveryCase -grid

pitfalls: ## Known pitfalls of translation without a test of their own, and where they are held
	@cd codec/crossing && go test -count=1 -v -run TestEveryPitfallIsNamed

s3-server: $(BIN)/versitygw-$(VERSITYGW) ## Build the S3 service that tests of buckets use; they are skipped without it

fmt: $(BIN)/golangci-lint-$(GOLANGCI_LINT) ## Format all Go files
	$< fmt ./...

clean: ## Remove what was built; ./data stays
	rm -rf $(BIN)

##@ Measure

bench: build ## Measure this machine beside floors, capture on: make bench ARGS="all --rounds 7"
	@bin/mneme bench run $(or $(ARGS),--scale 0.35)

BASE ?= HEAD~1
bench-compare: build ## Measure this tree beside the commit BASE (HEAD~1): ARGS="chat --rounds 9"
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git archive $(BASE) | tar -x -C "$$dir" && \
	(cd "$$dir" && go build -buildvcs=false -o mneme .) && bin/mneme bench compare "$$dir/mneme" bin/mneme $(ARGS)

bench-check: ## Fail when the newest report breaks a budget of bench/budgets.yaml
	@bin/mneme bench check --budgets bench/budgets.yaml

bench-readme: ## Print the newest report as the table of docs/benchmarks.md
	@bin/mneme bench readme

CAPACITY ?= 100000
capacity: ## Measure the store: rates, CPU, memory, opening: make capacity CAPACITY=1000000
	@go build -o $(BIN)/capacity ./bench/capacity
	@for shape in small medium stream large; do GOMEMLIMIT=$${GOMEMLIMIT:-160MiB} $(BIN)/capacity -shape $$shape -exchanges $(CAPACITY) -remember record || exit 1; done
	@GOMEMLIMIT=$${GOMEMLIMIT:-160MiB} $(BIN)/capacity -shape small -exchanges $(CAPACITY) -remember index

IDLE ?= 5000
idle: build ## Hold IDLE idle streams open (5000) and measure each; needs ulimit -n 12000
	MNEME_TEST_PROGRAM=$(BIN)/mneme MNEME_IDLE_STREAMS=$(IDLE) go test ./server -count=1 -run 'TestIdleStreams|TestHalfOfManyClientsLeaveAtOnce' -v -timeout 10m | grep -E '(idle|leaving)_test|^ *(---|ok|FAIL)'

search-speed: build ## Measure searches in a large account under traffic: ARGS="-documents 10000"
	@go run ./bench/searchspeed $(ARGS)

recall-speed: build ## Measure decisions of recall, idle and under traffic: ARGS="-documents 10000"
	@go run ./bench/searchspeed -recall $(ARGS)

window-speed: build ## Measure the page at /ui with Chromium: ARGS="-exchanges 100000"
	@go run ./bench/windowspeed $(ARGS)

eval: ## Measure retrieval, with gates: EVAL_DIR=... for more sets, ARGS="-postgres URL"
	@EVAL_DIR='$(EVAL_DIR)' go run ./bench/eval $(ARGS)

screenshots: build ## Take the pictures of docs/window.md with Chromium: ARGS="-every -to /tmp/look"
	@go run ./bench/screenshots $(ARGS)

##@ Break

STORE_ROUNDS  ?= 200
SEARCH_ROUNDS ?= 50
crash: ## Kill store, search, program at work (STORE_ROUNDS, SEARCH_ROUNDS, ROUNDS)
	MNEME_TEST_CRASH_ROUNDS=$(STORE_ROUNDS) go test ./store -count=1 -v -timeout 3h -run 'Crash|Kill'
	MNEME_TEST_CRASH_ROUNDS=$(SEARCH_ROUNDS) go test ./store/search -count=1 -v -timeout 3h -run 'Crash|Kill'
	$(MAKE) --no-print-directory kill-rounds

ROUNDS ?= 50
kill-rounds: ## Kill the program ROUNDS times (50): every turn is found once, every cost counted
	@out=$$(MNEME_TEST_KILL_ROUNDS=$(ROUNDS) go test -count=1 -timeout 60m -v -run TestKilledAnywhere ./server 2>&1); failed=$$?; \
	echo "$$out" | grep -E '^(---|ok|FAIL|panic|    (search|costs)_kill)'; exit $$failed

damage: ## Corrupt every file of store and index in every way; all damage must be reported
	MNEME_TEST_DAMAGE=1 go test ./store/... -count=1 -timeout 3h -run 'Damage'

hostile: ## Measure how long good requests take beside attackers; needs a quiet machine
	MNEME_HOSTILE=1 go test ./server -count=1 -run TestLegitimateTrafficKeepsItsLatency -v -timeout 10m | grep -E 'hostile.*_test|^ *(---|ok|FAIL)'

byte-load: ## Send large bodies at once, without a key and with one: memory is bounded, all are told
	MNEME_BYTE_LOAD=1 go test ./server -count=1 -run 'TestBodiesOfStrangers|TestBodiesOfCallers' -v -timeout 20m | grep -E 'byte_load_test|^ *(---|ok|FAIL)'

answer-load: ## Pass large answers to slow readers at once: memory is bounded, every answer ends
	MNEME_ANSWER_LOAD=1 go test ./server -count=1 -run TestLargeAnswersAtOnceFitInMemory -v -timeout 20m | grep -E 'answer_load_test|^ *(---|ok|FAIL)'

SOAK ?= 10m
soak: ## Traffic, faults, restarts for SOAK (10m): nothing piles up, counters add up
	SOAK=$(SOAK) go test ./server -count=1 -v -timeout 24h -run '^TestSoak$$'

PREFIX_SESSIONS ?= 750
prefixes: ## 100,000 requests with recall, 200 kills: each begins with the one before
	go test ./server -count=1 -v -timeout 60m -run TestEachRequestBeginsWithTheOneBefore -prefix-sessions $(PREFIX_SESSIONS) -prefix-kills 200 2>&1 | grep -E '^(---|ok|FAIL)|recall_[a-z]+_test'

recall-echo: ## Sessions that recall each other spread nothing; no quote crosses an account
	go test ./server -count=1 -v -timeout 60m -run 'TestSessionsThatRecallEachOther|TestNoDecisionQuotesAnother' -echo-sessions 50 -echo-rounds 10 -isolation-accounts 10 -isolation-decisions 100000 2>&1 | grep -E '^(---|ok|FAIL)|recall_[a-z]+_test'

recall-clients: build ## Real agents with recall: caches must not suffer, questions over MCP are answered
	@go build -o $(BIN)/recallclients ./bench/recallclients
	@.ci/recall-clients $(CLIENTS)

##@ Clusters

cluster: build ## Run a cluster on this machine, see data/cluster/cluster.json: ARGS="-dir DIR"
	@$(MAKE) -s s3-server || true # without it, bodies stay in Postgres
	@go build -o $(BIN)/cluster ./bench/cluster
	@exec $(BIN)/cluster -mneme $(BIN)/mneme $(ARGS)

cluster-clients: build ## Real agents converse over six edges, of which five are killed; one session each
	@go build -o $(BIN)/cluster ./bench/cluster
	@.ci/cluster-clients $(CLIENTS)

js-clients: build ## Two generations of JavaScript SDKs read every kind of answer, offline; needs npm
	@.ci/js-clients $(CLIENTS)

clients: build ## Python clients and frameworks read every kind of answer of every family, offline; needs python3
	@.ci/clients $(CLIENTS)

FIRE ?= 5m
fire: ## Kill parts of a cluster at random for FIRE (5m): nothing may be lost or doubled
	MNEME_TEST_FIRE=$(FIRE) go test ./server/cluster -count=1 -v -timeout 24h -run '^TestNothingAcknowledgedIsLostUnderFire$$'

upgrade: BASE = 78826023
upgrade: ## Replace a cluster built from BASE by this tree while clients converse
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git archive $(BASE) | tar -x -C "$$dir" && \
	(cd "$$dir" && go build -buildvcs=false -o mneme .) && \
	MNEME_TEST_UPGRADE_FROM="$$dir/mneme" go test ./bench/cluster -count=1 -v -timeout 30m -run '^TestNothingIsLostWhileTwoVersionsRunTogether$$'

##@ Release

# Vet type-checks the tests too. They run on Linux alone.
cross: ## Build and vet for macOS and Windows
	@for platform in $(filter-out linux-%,$(PLATFORMS)); do \
		echo "cross $$platform"; export CGO_ENABLED=0 GOOS=$${platform%-*} GOARCH=$${platform#*-}; \
		go build -o /dev/null . && go vet ./... || exit 1; \
	done

RELEASE   := $(BIN)/release
PLATFORMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64

release: $(PLATFORMS:%=$(RELEASE)/mneme-%) ## Build packages in bin/release: make release VERSION=0.9.0
	@cd .ci/release && GOFLAGS= go run . -dir $(RELEASE) -root $(CURDIR) -version $(VERSION)
	@cat $(RELEASE)/SHA256SUMS

CLIENTS ?=
first-use: ## Use each package of bin/release with real clients, offline: CLIENTS=curl
	@.ci/first-use $(RELEASE) $(CLIENTS)

# Equal sources and an equal Go give equal bytes, wherever and whenever they are built.
.PHONY: $(PLATFORMS:%=$(RELEASE)/mneme-%)
$(PLATFORMS:%=$(RELEASE)/mneme-%): EXE = $(if $(findstring windows,$@),.exe)
$(PLATFORMS:%=$(RELEASE)/mneme-%): $(RELEASE)/mneme-%:
	@mkdir -p $(RELEASE)
	@CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$*)) GOARCH=$(word 2,$(subst -, ,$*)) GOFLAGS= \
		go build -buildvcs=false -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $@$(EXE) .
	@go version -m $@$(EXE) | awk -v version=$(VERSION) -f deploy/sbom.awk >$@.cdx.json

# The version is part of the name, so that a new pin is a new file.
$(BIN)/golangci-lint-$(GOLANGCI_LINT):
	GOBIN=$(BIN) GOFLAGS= go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	@mv $(BIN)/golangci-lint $@

$(BIN)/gotestsum-$(GOTESTSUM):
	GOBIN=$(BIN) GOFLAGS= go install gotest.tools/gotestsum@$(GOTESTSUM)
	@mv $(BIN)/gotestsum $@

$(BIN)/versitygw-$(VERSITYGW):
	GOBIN=$(BIN) GOFLAGS= go install -trimpath -ldflags '-s -w' github.com/versity/versitygw/cmd/versitygw@$(VERSITYGW)
	@mv $(BIN)/versitygw $@
