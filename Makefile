# SPDX-License-Identifier: Apache-2.0
# What one types. The work is done by tools/ and Meson; each line here only says which of them. `make help` lists it.
USERS ?= 60000

build:    ## compile into build/ (the default)
	@tools/setup build
	@tools/build build --buildtype=release -Dtests=false

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
buy:      ## one purchase, told step by step
	@tools/run do buy
rush:     ## USERS=60000 users at once, then the proof
	@tools/run do rush --users $(USERS)
demo: build ## the same sale in one process, in memory, nothing installed
	@build/seckill demo

test:     ## every test, on servers of its own
	@tools/test
test-fast: ## the tests that need no server, in under half a minute
	@tools/test --fast
check:    ## shell scripts looked over, warnings as errors with gcc and clang
	@tools/setup ci
	@tools/check
asan:     ## the fast tests under AddressSanitizer and UBSan
	@tools/setup test
	@SECKILL_TEST_BUILD=build-asan tools/test --fast --buildtype=debug -Db_sanitize=address,undefined
clang:    ## compile with clang into build-clang/
	@tools/setup ci
	@CC=clang tools/build build-clang -Dwerror=true
fuzz:     ## compile the fuzz targets into build-fuzz/ (clang), and run each for a minute
	@tools/setup ci
	@tools/fuzz
help:     ## this
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 18

.PHONY: build run stop reset status logs buy rush demo test test-fast check asan clang fuzz help
