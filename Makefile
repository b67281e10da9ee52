# make build   bin/bulkhead, the server, and bin/bulkhead-lab, which measures and simulates
# make run     build a node, start it, show it the sample messages, leave it running
# make test    the tests of the server, which need Go and nothing else
# make test-lab  the tests of the laboratory, a module of its own: simulations, replays, attacks
# make interop the tests that run real clients and mail servers, in a root of their own made of Debian packages
# make fidelity our digests beside those of the real clients; BULKHEAD_FULL=1 for all mail and not a sample
# make torture  kill a node, starve it, damage its files, cut its power and move its clock, and compare it with a map: TORTURE=2m each, or hours
# make soak-mesh  random schedules of processes that share, of pairs with witnesses and streams, of split sites and of
#                 partitions, compared with maps: SOAK=500 of each from SEED on, SOAKJOBS at once
# make race    the tests under the race detector, without the longest simulations
# make fuzz    fuzz every parser, FUZZTIME each
# make fuzz-cover  what FUZZTIME of fuzzing reaches of each package with parsers, and of those of PARSERS alone
# make seed-cover  what the inputs of the fuzz tests in the tree reach of each parser; fails below 80 % of its blocks
# make cost    search for messages that cost more processor time than any may, for the time SEARCH
# make vuln    known vulnerabilities of what is linked, by the Go project's database: VULNDB=file:///... for a copy of it
# make vet     formatting, go vet, staticcheck, prose
# make prose   the English of comments, messages and documents, and the length of lines
# make mutate  change MUTANTS small things in each package of PKG, and list those that no test notices; fails below 90 %
# make mutate PKG=./internal/mesh/member WITH=./internal/mesh   the same, noticed by the tests of either package
# make wellknown  the list of widely used domains anew, from Debian packages
# make bench   the benchmarks
# make bench-gate   the speed of each door beside the last release, or the commit RELEASE; fails where it is 10 % slower than lab/gate/costs.tsv explains; MAIL="FOLDER..."
# make bench-stat   benchmarks of a message's signatures, a check and a vote beside the last release, or RELEASE
# make bench-peers  the arrays beside rival libraries, into docs/performance.md
# make stream  what the rules catch and hit in a month of mail: MAIL="FOLDER..." TEMPLATES=FOLDER
# make real    judge real processes by whole mail: SEED, REAL="more flags", MAIL="FOLDER..." for real mail in place of worlds
# make real-mail  the same with the private mail corpus, which BULKHEAD_CORPUS names
# make packages     archives, deb, rpm, apk, container images, checksums and SBOMs in dist/
# make reproducible the same twice, which must be equal

GO          ?= go
FUZZTIME    ?= 20s
FUZZJOBS    ?= 2
PARSERS     ?=
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNDB      ?= https://vuln.go.dev

MUTANTS     ?= 60
SEED        ?= 1
TORTURE     ?= 2m
SOAK        ?= 500
SOAKJOBS    ?= 4
SOAKS       ?= |Standby|Site

# Everything is compiled as releases are: without cgo and without paths. So no target compiles again what another one
# has compiled.
export CGO_ENABLED = 0
export GOFLAGS    := $(shell $(GO) env GOFLAGS) -trimpath

# The packages whose tests take longest come first. The root's tests come last, because they link the server, which is
# compiled by then. Tests of so many packages at once, because they wait for disks and connections more than they
# compute. "make vet" runs go vet.
PACKAGES     = 4
LONG         = ./internal/mesh ./internal/engine ./signature ./internal/node

# Packages in which the race detector sees nothing: the code and the tests start no goroutine, or each goroutine of
# the tests has a simulation of its own, or -short leaves out what starts goroutines. "make test" and "make test-lab"
# run their tests. The races of what the simulations of lab drive are found by the tests of internal/engine.
RACELESS     = /(bulkhead-mail/bulkhead|digest/(dcc|pyzor|razor|rspamd)|filter|filter/shape|internal/(engine/(replica|resolve)|mail|mail/(document|picture|seen)|text/(charset|css|markup))|lab/(attack|learning|real|reliability|replay|stream|study))$$

# What decides and what keeps, and the doors. About an hour on two processors.
PKG         ?= ./internal/engine/verdict ./internal/engine/resolve ./internal/store ./razor2 ./pyzor ./dcc ./fuzzy ./milter \
	./policy ./dnsbl ./internal/mesh ./internal/mesh/origin ./internal/mesh/replica ./internal/mesh/wire
# Tests of many random schedules, which notice much and take minutes for each change.
SCHEDULES    = ^(TestModel|TestModelDays|TestModelNATS|TestAggregateModel)$$

SEARCH      ?= 10m

MAIL        ?=
RELEASE     ?=
REAL        ?=
TEMPLATES   ?=

.PHONY: wellknown all build server run test test-lab interop torture soak-mesh fidelity race fuzz fuzz-cover seed-cover cost vuln vet prose mutate bench bench-gate bench-stat bench-peers stream real real-mail packages reproducible clean

all: vet test

build: server
	$(GO) build -C lab -v -o ../bin/ ./cmd/bulkhead-lab

server:
	@echo "compiling; the first time, that fetches modules and takes some minutes"
	$(GO) build -v -o bin/ ./cmd/bulkhead

run: server
	./samples/run.sh bin/bulkhead

test:
	@echo "compiling and testing $$($(GO) list ./... | wc -l) packages; the first time, compiling takes some minutes"
	$(GO) test -p $(PACKAGES) -vet=off -timeout 30m -skip '^TestCost$$' $(LONG) $$($(GO) list ./... | sed 1d) .
	$(GO) test -vet=off -timeout 30m -p 1 -run '^TestCost$$' ./signature ./internal/trial # alone: it compares processor times
	$(GO) test -vet=off -tags simclock -run Clock ./internal/clock ./internal/node
	cd test/outside && $(GO) test -vet=off ./...
	cd packaging/release && $(GO) test -vet=off ./...

test-lab:
	cd lab && $(GO) test -vet=off -timeout 30m ./learning ./real ./...

race: export CGO_ENABLED = 1
# Each program that a script runs waits as long at its end: a second, by default.
race: export GORACE = atexit_sleep_ms=10
race:
	$(GO) test -p $(PACKAGES) -vet=off -race -short -timeout 40m $(LONG) $$($(GO) list ./... | grep -vE '$(RACELESS)')
	cd lab && $(GO) test -p $(PACKAGES) -vet=off -race -short -timeout 40m $$($(GO) list ./... | grep -vE '$(RACELESS)')

interop:
	@test/interop

torture:
	TORTURE=$(TORTURE) $(GO) test -tags interop -count=1 -timeout 0 -v ./test/torture

soak-mesh:
	$(GO) test -vet=off -tags interop -count=1 -timeout 0 -v -run '^TestSoak($(SOAKS))$$' -parallel $(SOAKJOBS) ./test/mesh -soak $(SOAK) -seed $(SEED)
	$(GO) test -vet=off -count=1 -timeout 0 -run '^TestPartitions' -parallel $(SOAKJOBS) ./internal/standby -schedules $(SOAK) -seed $(SEED)

fidelity:
	@test/interop test/fidelity

fuzz:
	@packaging/fuzz $(FUZZTIME) $(FUZZJOBS)

fuzz-cover:
	@packaging/fuzz-cover $(FUZZTIME) $(PARSERS)

seed-cover:
	$(GO) run ./test/fuzzcover

cost:
	$(GO) test ./signature -run 'TestCost' -timeout 0 -v -search $(SEARCH) -searchseed $(SEED)

vet:
	@test -z "$$(gofmt -l . | tee -a /dev/stderr)" || { echo "gofmt -w the files above"; exit 1; }
	$(GO) vet -tags interop,man,simclock ./...
	$(GO) vet $$(grep -rlE --include='*.go' '^//go:build.*!(interop|man|simclock)' . | xargs -n 1 dirname | sort -u)
	cd test/outside && $(GO) vet ./...
	cd lab && $(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...
	cd lab && $(GO) run $(STATICCHECK) ./...
	$(GO) run ./test/prose

prose:
	$(GO) run ./test/prose

vuln:
	@for dir in . packaging/release test/outside lab; do \
		echo "$$dir"; (cd $$dir && $(GO) run $(GOVULNCHECK) -db $(VULNDB) -tags interop,simclock,man ./...) || exit 1; \
	done

mutate:
	$(GO) run ./test/mutate -n $(MUTANTS) -seed $(SEED) -min 90 -short -skip '$(SCHEDULES)' \
		$(addprefix -with ,$(WITH)) $(PKG)

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...
	cd lab && $(GO) test -run '^$$' -bench . -benchmem ./...

bench-gate: build
	test/released bin/released $(RELEASE)
	bin/bulkhead-lab gate --old bin/released --new bin/bulkhead $(if $(RELEASE),,--costs lab/gate/costs.tsv) $(addprefix --mail ,$(MAIL))

bench-stat:
	test/benchstat $(RELEASE)

bench-peers:
	cd lab/bench && $(GO) run . -o ../../docs/performance.md

packages:
	@packaging/goreleaser release --snapshot --clean --skip=publish

reproducible:
	@packaging/reproducible

clean:
	rm -rf bin dist

stream:
	$(GO) build -C lab -o ../bin/ ./cmd/bulkhead-lab
	bin/bulkhead-lab stream --reporting 0.1,0.02 --lone --seed $(SEED) --svg stream.svg $(if $(TEMPLATES),--templates $(TEMPLATES)) $(MAIL)

real:
	$(GO) build -C lab -o ../bin/ ./cmd/bulkhead-lab
	bin/bulkhead-lab real --seed $(SEED) $(REAL) $(MAIL)

CORPUS = $(or $(filter-out required,$(BULKHEAD_CORPUS)),../shared/corpus)

real-mail:
	$(GO) build -C lab -o ../bin/ ./cmd/bulkhead-lab
	@mkdir -p bin/corpus
	@for set in csdmc-2009-2010 lists-2019-2020 phishing-2004-2005 phishing-pot-2023-2024 spamassassin-2002; do \
		[ -d bin/corpus/$$set ] || zstd -dc $(CORPUS)/$$set.tar.zst | tar x -C bin/corpus || exit 1; done
	bin/bulkhead-lab real --seed $(SEED) $(REAL) bin/corpus/*

wellknown:
	internal/wellknown/list.sh
