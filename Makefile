# Everything is built from the Go module proxy; nothing but Go and make has to be there. With a C compiler the
# tests of all that has goroutines run under the race detector.

.DEFAULT_GOAL := help
.NOTPARALLEL: # the test runner's summary comes last
.PHONY: api-client docs help run build release cross test vet lint fuzz unit grid soak pitfalls eval search-speed kill-rounds idle hostile bench bench-check bench-readme capacity fmt clean

GOLANGCI_LINT := v2.15.0
GOTESTSUM     := v1.13.0
VERSITYGW     := v1.8.0

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
BIN     := $(CURDIR)/bin
# cgo is off where there is no C compiler, and the race detector needs it.
RACE    := $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

run: build ## Serve on this machine; families without a key are simulated. More flags: make run ARGS="--listen :7788"
	@bin/mneme serve --simulate $(ARGS)

build: ## Build bin/mneme, one static binary
	@CGO_ENABLED=0 go build -buildvcs=false -trimpath -ldflags '-X main.version=$(VERSION)' -o $(BIN)/mneme .

RELEASE   := $(BIN)/release
PLATFORMS := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64

release: $(PLATFORMS:%=$(RELEASE)/mneme-%) ## Build bin/release: binaries with bills of materials, archives, deb, rpm, npm, Homebrew, an OCI image, checksums: make release VERSION=0.9.0
	@cd .ci/release && GOFLAGS= go run . -dir $(RELEASE) -root $(CURDIR) -version $(VERSION)
	@cat $(RELEASE)/SHA256SUMS

.PHONY: first-use
CLIENTS ?=
first-use: ## Use every package of bin/release and go install for the first time, with real clients, offline; needs npm. One: make first-use CLIENTS=curl
	@.ci/first-use $(RELEASE) $(CLIENTS)

# Equal sources and an equal Go give equal bytes, wherever and whenever they are built.
.PHONY: $(PLATFORMS:%=$(RELEASE)/mneme-%)
$(PLATFORMS:%=$(RELEASE)/mneme-%): EXE = $(if $(findstring windows,$@),.exe)
$(PLATFORMS:%=$(RELEASE)/mneme-%): $(RELEASE)/mneme-%:
	@mkdir -p $(RELEASE)
	@CGO_ENABLED=0 GOOS=$(word 1,$(subst -, ,$*)) GOARCH=$(word 2,$(subst -, ,$*)) GOFLAGS= \
		go build -buildvcs=false -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $@$(EXE) .
	@go version -m $@$(EXE) | awk -v version=$(VERSION) -f deploy/sbom.awk >$@.cdx.json

# Vet type-checks the tests too. They run on Linux alone.
cross: ## Build and vet for macOS and Windows
	@for platform in $(filter-out linux-%,$(PLATFORMS)); do \
		echo "cross $$platform"; export CGO_ENABLED=0 GOOS=$${platform%-*} GOARCH=$${platform#*-}; \
		go build -o /dev/null . && go vet ./... || exit 1; \
	done

test: vet lint unit ## Everything that has to pass: vet, lint, all tests, variants of the fuzz corpora among them

vet:
	go vet ./...

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT) ## Lint as .golangci.yml says
	$< run ./...

FUZZTIME ?= 10s
# The store's and the server's own targets reach what they keep to themselves.
FUZZED   := fuzz store store/internal/blob store/internal/short server/edge
fuzz: ## Every fuzz target in turn, FUZZTIME each (10s), and how often each ran
	@fuzz/run $(FUZZTIME) $(FUZZED)

# Properties are tried from one seed, so that a finding is one on every machine. Others: RAPID_SEED=0 takes a random one.
export RAPID_SEED ?= 1

# Under the race detector tests take five to ten times the CPU time. It has nothing to find where nothing happens at the same
# time: in codec, docs and fuzz, but for tests that say AtTheSameTime (docs/layout_test.go), and in fuzz targets, which try
# one input after the other. Tests of allocations run without it because it allocates itself.
with  = $(patsubst %/,./%,$(sort $(dir $(shell grep -rlE --include='*_test.go' '^func $(1)' $(2)))))
unit: TEST  = go test -json -vet=off -timeout 20m
unit: APART = $(sort $(call with,Test.*Alloc,router server) $(call with,Fuzz,store server))
unit: SHARE = $(call with,Test.*AtTheSameTime,codec docs fuzz)

# The packages that take minutes come first. They wait more than they compute, so one more runs than there are cores.
# make test has run vet before. The runner's summary is of all of them.
unit: $(BIN)/gotestsum-$(GOTESTSUM) ## All tests, without vet and lint
	@$(if $(RACE),true,echo 'no C compiler found: testing without the race detector' >&2)
	$< --format pkgname-and-test-fails --format-hide-empty-pkg --raw-command -- sh -c 'failed=0; \
		$(TEST) ./codec/... ./docs/... ./fuzz/... || failed=1; \
		$(TEST) -run "Alloc|^Fuzz" $(APART) || failed=1; \
		$(TEST) $(RACE) -run AtTheSameTime $(SHARE) || failed=1; \
		$(TEST) $(RACE) -skip "^Fuzz" -p $$(($$(getconf _NPROCESSORS_ONLN) + 1)) \
			./server ./server/cluster ./store ./store/catalog ./bench/grid . ./bench/... ./router/... ./server/... ./store/... || failed=1; \
		exit $$failed'

.PHONY: s3-server
s3-server: $(BIN)/versitygw-$(VERSITYGW) ## Build the S3 service that tests of a centre with a bucket use; they are skipped without it

.PHONY: cluster
cluster: build ## Run a cluster on this machine: three brokers, Postgres, an S3 service, a centre, a worker, two edges; see data/cluster/cluster.json. Elsewhere: make cluster ARGS="-dir DIR"
	@$(MAKE) -s s3-server || true # without it, bodies stay in Postgres
	@go build -o $(BIN)/cluster ./bench/cluster
	@exec $(BIN)/cluster -mneme $(BIN)/mneme $(ARGS)

.PHONY: cluster-clients
cluster-clients: build ## Have real Claude Code, Codex, opencode and two SDKs converse over six edges at random, of which five are killed, and a centre of two; their turns are all at both centres, in one session
	@go build -o $(BIN)/cluster ./bench/cluster
	@.ci/cluster-clients $(CLIENTS)

FIRE ?= 5m
.PHONY: fire
fire: ## Kill brokers, edges, centre, database and S3 service of a cluster at random for FIRE (5m) with each kind of centre (below 1m not with Postgres alone), empty disks of brokers, and see that nothing is lost or doubled
	MNEME_TEST_FIRE=$(FIRE) go test ./server/cluster -count=1 -v -timeout 24h -run '^TestNothingAcknowledgedIsLostUnderFire$$'

.PHONY: upgrade
upgrade: BASE = cadfea41
upgrade: ## Replace the programs of a cluster, built from the commit BASE (cadfea41, tables of version 8), by those of this tree one by one while clients converse, in both orders, and see that nothing is lost or doubled
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git archive $(BASE) | tar -x -C "$$dir" && \
	(cd "$$dir" && go build -buildvcs=false -o mneme .) && \
	MNEME_TEST_UPGRADE_FROM="$$dir/mneme" go test ./bench/cluster -count=1 -v -timeout 30m -run '^TestNothingIsLostWhileTwoVersionsRunTogether$$'

SOAK ?= 10m
soak: ## Mixed traffic, faults, restarts and reloads for SOAK (10m); nothing may pile up, and the books have to balance
	SOAK=$(SOAK) go test ./server -count=1 -v -timeout 24h -run '^TestSoak$$'

grid: ## Print the conformance grid: every surface against every provider format, case by case
	@cd bench/grid && go test -count=1 -run TestEveryCrossingCarriesEveryCase -grid

api-client: ## Make the client that the tests use from docs/api/openapi.yaml
	cd server/api && go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.5.1 -config client.yaml ../../docs/api/openapi.yaml

eval: ## Measure how well searches find, with gates; more sets than the generated one: make eval EVAL_DIR=...; beside those of Postgres: ARGS="-postgres URL"
	@EVAL_DIR='$(EVAL_DIR)' go run ./bench/eval $(ARGS)

ROUNDS ?= 50
kill-rounds: ## Kill the program at random, ROUNDS times (50), and see that it finds every turn once and counts every cost
	@out=$$(MNEME_TEST_KILL_ROUNDS=$(ROUNDS) go test -count=1 -timeout 60m -v -run TestKilledAnywhere ./server 2>&1); failed=$$?; \
	echo "$$out" | grep -E '^(---|ok|FAIL|panic|    (search|costs)_kill)'; exit $$failed

PREFIX_SESSIONS ?= 750
.PHONY: prefixes
prefixes: ## See in 100,000 requests, and across 200 kills, that each begins with the one before where recall puts text into them
	go test ./server -count=1 -v -timeout 60m -run TestEachRequestBeginsWithTheOneBefore -prefix-sessions $(PREFIX_SESSIONS) -prefix-kills 200 2>&1 | grep -E '^(---|ok|FAIL)|recall_[a-z]+_test'

.PHONY: recall-echo
recall-echo: ## See that 50 sessions that recall each other ten times spread nothing, and that of 100,000 decisions none quotes another account or project, or what was erased
	go test ./server -count=1 -v -timeout 60m -run 'TestSessionsThatRecallEachOther|TestNoDecisionQuotesAnother' -echo-sessions 50 -echo-rounds 10 -isolation-accounts 10 -isolation-decisions 100000 2>&1 | grep -E '^(---|ok|FAIL)|recall_[a-z]+_test'

.PHONY: recall-clients
recall-clients: build ## Have real Claude Code and Codex converse with recall and without, offline; fails where a prompt cache has half a point less. One: make recall-clients CLIENTS=claude
	@go build -o $(BIN)/recallclients ./bench/recallclients
	@.ci/recall-clients $(CLIENTS)

search-speed: build ## Measure searches in a large account while exchanges pass. More: make search-speed ARGS="-documents 10000"
	@go run ./bench/searchspeed $(ARGS)

.PHONY: recall-speed
recall-speed: build ## Measure the decisions of recall in a project of 100,000 turns, alone and while exchanges pass. More: make recall-speed ARGS="-documents 10000"
	@go run ./bench/searchspeed -recall $(ARGS)

.PHONY: crash
STORE_ROUNDS  ?= 200
SEARCH_ROUNDS ?= 50
crash: ## Kill the store STORE_ROUNDS times (200), its search SEARCH_ROUNDS (50) and the program ROUNDS times (50), while all they do is under way, and look what is left
	MNEME_TEST_CRASH_ROUNDS=$(STORE_ROUNDS) go test ./store -count=1 -v -timeout 3h -run 'Crash|Kill'
	MNEME_TEST_CRASH_ROUNDS=$(SEARCH_ROUNDS) go test ./store/search ./store/engine -p 1 -count=1 -v -timeout 3h -run 'Crash|Kill'
	$(MAKE) --no-print-directory kill-rounds

.PHONY: damage
damage: ## Harm every file of a store and of its search index in every way, and see that nothing is hidden and all else can be recovered
	MNEME_TEST_DAMAGE=1 go test ./store/... -count=1 -timeout 3h -run 'Damage'

bench: build ## Measure this machine: mneme next to floors, capture on; report in bench-report/. More: make bench ARGS="all --rounds 7"
	@bin/mneme bench run $(or $(ARGS),--scale 0.35)

.PHONY: bench-compare
BASE ?= HEAD~1
bench-compare: build ## Measure this tree beside the commit BASE (HEAD~1), round by round; fails where a figure grew. Lanes: ARGS="chat --rounds 9"
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && git archive $(BASE) | tar -x -C "$$dir" && \
	(cd "$$dir" && go build -buildvcs=false -o mneme .) && bin/mneme bench compare "$$dir/mneme" bin/mneme $(ARGS)

CAPACITY ?= 100000
capacity: ## Measure the store: exchanges/s, MB/s, CPU and memory, lists, opening. Larger: make capacity CAPACITY=1000000
	@go build -o $(BIN)/capacity ./bench/capacity
	@for shape in small medium stream large; do GOMEMLIMIT=$${GOMEMLIMIT:-160MiB} $(BIN)/capacity -shape $$shape -exchanges $(CAPACITY) -remember record || exit 1; done
	@GOMEMLIMIT=$${GOMEMLIMIT:-160MiB} $(BIN)/capacity -shape small -exchanges $(CAPACITY) -remember index

bench-check: ## Fail when the newest report breaks a budget of bench/budgets.yaml
	@bin/mneme bench check --budgets bench/budgets.yaml

bench-readme: ## Print the newest report as the table of docs/benchmarks.md
	@bin/mneme bench readme

IDLE ?= 5000
idle: ## Hold IDLE idle streams open (5000): what each takes, how late events come, what half of 1,000 leave behind; needs ulimit -n 12000
	MNEME_IDLE_STREAMS=$(IDLE) go test ./server -count=1 -run 'TestIdleStreamsCostLittle|TestHalfOfManyClientsLeaveAtOnce' -v -timeout 10m | grep -E '(idle|leaving)_test|^ *(---|ok|FAIL)'

hostile: ## Measure how long good requests take beside attackers, and without; needs a machine with nothing else to do
	MNEME_HOSTILE=1 go test ./server -count=1 -run TestLegitimateTrafficKeepsItsLatency -v -timeout 10m | grep -E 'hostile.*_test|^ *(---|ok|FAIL)'

docs: ## Write the pages that are made from code: docs/configuration.md
	@go test ./docs -count=1 -run TestTheConfigurationPageIsUpToDate -update

.PHONY: screenshots
screenshots: build ## Take the pictures of docs/window.md with Chromium. Every view: make screenshots ARGS="-every -to /tmp/look"
	@go run ./bench/screenshots $(ARGS)

.PHONY: window-speed
window-speed: build ## Measure the page at /ui with Chromium: first paint, lists of 1,000,000 exchanges, 10,000 turns, a busy tail. Fewer: make window-speed ARGS="-exchanges 100000"
	@go run ./bench/windowspeed $(ARGS)

.PHONY: answer-load
answer-load: ## Pass 30 embeddings answers of 58 MB, 24 of 100 MB as gzip and 4 streams of 500 MB at once to slow readers; memory and end are bounded
	MNEME_ANSWER_LOAD=1 go test ./server -count=1 -run TestLargeAnswersAtOnceFitInMemory -v -timeout 20m | grep -E 'answer_load_test|^ *(---|ok|FAIL)'

pitfalls: ## Say which known pitfalls of translation have no test of their own, and where they are held instead
	@cd codec/crossing && go test -count=1 -v -run TestEveryPitfallIsNamed

fmt: $(BIN)/golangci-lint-$(GOLANGCI_LINT) ## Format all Go files
	$< fmt ./...

clean: ## Remove what was built; ./data stays
	rm -rf $(BIN)

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
