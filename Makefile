# SPDX-License-Identifier: Apache-2.0
# What one types. The work is done by tools/ and Meson; each line here only says which of them. `make help` lists it.
USERS ?= 60000
SECONDS ?= 60
SEED ?= 1
SCENARIO ?= load/steady.yaml
SEEDS ?= 20000
PREFIX ?= /usr/local

build:    ## compile into build/ (the default)
	@tools/setup build
	@tools/build build --buildtype=release -Dtests=false

install: build ## PREFIX=/usr/local DESTDIR=: the program and its completions
	@install -D -m 755 build/seckill "$(DESTDIR)$(PREFIX)/bin/seckill"
	@install -d "$(DESTDIR)$(PREFIX)/share/bash-completion/completions" "$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d"
	@build/seckill completion bash >"$(DESTDIR)$(PREFIX)/share/bash-completion/completions/seckill"
	@build/seckill completion fish >"$(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/seckill.fish"

run:      ## the whole sale on private servers under .run/, in the foreground
	@tools/run
stop:     ## drain and stop it from another shell
	@tools/run stop
reset:    ## stop it and delete its data
	@tools/run reset
status:   ## what runs, where
	@tools/run status
logs:     ## follow all its logs
	@tools/run logs
buy:      ## one purchase, told step by step; PAY=1 pays for it too
	@tools/run do buy $(if $(PAY),--pay)
rush:     ## USERS=60000 users at once, then the proof
	@tools/run do rush --users $(USERS)
sale:     ## a new demo sale for buy and rush, once the old one is sold out
	@tools/run sale
load:     ## SCENARIO=load/steady.yaml [SCALE=0.01]: requests at a set rate, then the proof; a page in .run/load.html
	@tools/run do load "$(SCENARIO)" $(if $(SCALE),--scale $(SCALE)) --report "$${SECKILL_RUN:-.run}/load.html"
sim: build ## SEEDS=20000 imagined deployments, each with its own troubles, from seed SEED=1 on: a few minutes
	@build/seckill sim $(SEED) --seeds $(SEEDS)
demo: build ## the same sale in one process, in memory, nothing installed
	@build/seckill demo

test:     ## every test, on servers of its own
	@tools/test
chaos:    ## SEED=1 SECONDS=300: a sale while everything is killed, stopped and cut; then the long tests (PART=schedule points engines links)
	@tools/chaos --seed $(SEED) --seconds $(SECONDS) $(PART)
chaos: SECONDS = 300
acceptance: ## what the mission promises (C-01 to C-17) and what may go wrong, each with its proof
	@tools/test --acceptance
planted:  ## one guard after another taken away in a copy: a test must find each (test/planted/guards.py)
	@tools/setup test
	@tools/planted
test-fast: ## the tests that need no server, in under half a minute
	@tools/test --fast
browser: build ## a real browser against the admin listener: pages of other origins, DNS rebinding (brings Chromium, some 300 MB)
	@tools/setup browser
	@python3 test/live/browser_admin.py
check:    ## shell scripts looked over, warnings as errors with gcc and clang
	@tools/setup ci
	@tools/check
# Without what compiles for itself. A finding of any process counts as a failure.
asan:     ## every test under AddressSanitizer and UBSan, those with real servers too
	@SECKILL_TEST_BUILD=build-asan SECKILL_TEST_PATIENCE=5 tools/test --without readme --buildtype=debug -Db_sanitize=address,undefined
tsan:     ## what threads share under ThreadSanitizer: all but the live tests, and three sales with real servers
	@SECKILL_TEST_BUILD=build-tsan SECKILL_TEST_PATIENCE=5 tools/test --without live --also threads_live --also road --also queues_live --buildtype=debug -Db_sanitize=thread
clang:    ## compile with clang into build-clang/
	@tools/setup ci
	@CC=clang tools/build build-clang -Dwerror=true
docs: build ## the pages of docs/reference, from the tables of spec/
	@ninja -C build docs >/dev/null
fuzz:     ## compile the fuzz targets into build-fuzz/ (clang), and run each for SECONDS=60
	@tools/setup ci
	@tools/fuzz $(SECONDS)
help:     ## this
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 18

.PHONY: build install sale run stop reset status logs buy rush load demo sim test acceptance chaos planted test-fast browser check asan tsan clang docs fuzz help
