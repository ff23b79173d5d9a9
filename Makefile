# terret - make help lists the targets.
PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
CC ?= cc
-include config.mk

LUA_PC := $(shell { pkg-config --exists lua5.4; } 2>/dev/null && echo lua5.4 || echo lua-5.4)
BSD_PC := $(shell { pkg-config --exists libbsd; } 2>/dev/null && echo libbsd)
OS := $(shell uname -s)
INCLUDES := $(shell pkg-config --cflags $(LUA_PC) libcurl $(BSD_PC) 2>/dev/null)
LUA_LIB := $(shell pkg-config --libs $(LUA_PC) 2>/dev/null)
LIBS := $(shell pkg-config --libs libcurl $(BSD_PC) $$(pkg-config --exists libseccomp && echo libseccomp) 2>/dev/null) -lm -lpthread
# The executable carries its own Lua where the distribution has the archive.
LUA_A := $(firstword $(wildcard $(shell pkg-config --variable=libdir $(LUA_PC) 2>/dev/null)/liblua5.4.a))
ifeq ($(shell command -v pkg-config 2>/dev/null),)
$(info pkg-config is missing: `make deps` installs what the build needs, or says what to install)
endif
ifneq ($(LUA_A),)
EXE_LUA := $(LUA_A) -ldl
else
EXE_LUA := $(LUA_LIB)
endif
ifeq ($(OS),Darwin)
SO_FLAGS := -bundle -undefined dynamic_lookup
else
SO_FLAGS := -shared
EXE_FLAGS := -Wl,-E
endif

WARN := -Wall -Wextra -Wconversion -Wshadow $(WERROR)
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=c11 $(WARN) -fPIC -fvisibility=hidden -D_GNU_SOURCE $(INCLUDES) $(CFLAGS) $(SAN)

# A directory is a registry: each C file in runtime/ and sandbox/ is one module.
NOT_MODULES := main util embed
MODULES ?= $(sort $(filter-out $(NOT_MODULES),$(basename $(notdir $(wildcard runtime/*.c sandbox/*.c)))))
OBJECTS := $(MODULES:%=$(BUILD)/obj/%.o)
SO := $(MODULES:%=$(BUILD)/lib/terret/%.so)
SCRIPTS := $(sort $(shell find scripts sandbox skills types -name '*.lua' -o -name '*.md' -path 'skills/*' -o -name '*.md' -path 'scripts/*' 2>/dev/null))

.PHONY: all so test test-asan test-so lint bench demo deps install clean help fuzz
all: $(BUILD)/terret

help:
	@grep -E '^# [a-z-]+: ' Makefile | sed 's/^# //'

$(BUILD)/obj/%.o: runtime/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -c -o $@ $<
$(BUILD)/obj/%.o: sandbox/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -Iruntime -c -o $@ $<
-include $(wildcard $(BUILD)/obj/*.d)

# Regenerated when the list changes, not only when a file does.
$(BUILD)/modules.h: FORCE
	@mkdir -p $(@D)
	@{ for m in $(MODULES); do echo "MODULE($$m)"; done; } > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/embed: runtime/embed.c runtime/hash.c runtime/util.c runtime/terret.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -o $@ runtime/embed.c runtime/hash.c runtime/util.c $(EXE_LUA) $(LIBS)
$(BUILD)/embedded.c: $(SCRIPTS) $(BUILD)/embed $(BUILD)/scripts.list
	@$(BUILD)/embed $(SCRIPTS) > $@.new && mv $@.new $@
$(BUILD)/scripts.list: FORCE
	@mkdir -p $(@D)
	@echo $(SCRIPTS) > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
.PHONY: FORCE
FORCE:

$(BUILD)/obj/main.o: runtime/main.c runtime/terret.h runtime/embedded.h $(BUILD)/modules.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -I$(BUILD) -DTERRET_PREFIX='"$(PREFIX)"' -c -o $@ runtime/main.c
$(BUILD)/obj/embedded.o: $(BUILD)/embedded.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -O0 -Iruntime -c -o $@ $<

$(BUILD)/terret: $(BUILD)/obj/main.o $(BUILD)/obj/util.o $(BUILD)/obj/embedded.o $(OBJECTS)
	$(CC) $(SAN) $(EXE_FLAGS) $(LDFLAGS) -o $@ $^ $(EXE_LUA) $(LIBS)

$(BUILD)/lib/terret/%.so: $(BUILD)/obj/%.o $(BUILD)/obj/util.o
	@mkdir -p $(@D)
	$(CC) $(SAN) $(SO_FLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
# so: the modules for plain lua5.4, in build/lib/terret
so: $(SO)

# ---- installing ---------------------------------------------------------------------------
# install: PREFIX=/usr/local; the executable holds all scripts (terret eject copies one to be edited)
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/doc/terret
	@install -m 755 $(BUILD)/terret $(DESTDIR)$(PREFIX)/bin/terret
	install -m 644 README.md CHANGELOG.md LICENSE runtime/types.lua $(DESTDIR)$(PREFIX)/share/doc/terret

# deps: installs what the build needs (apt as root), or says what to install
deps:
	@sh .ci/deps.sh run
deps-test:
	@sh .ci/deps.sh test
.PHONY: deps-test

# demo: offline; a scripted model mends a failing test of a small C project, in the sandbox
demo: deps
	@[ -x $(BUILD)/terret ] || echo "building terret (a few seconds)..."
	@$(MAKE) --no-print-directory -s all
	@$(BUILD)/terret demo

# ---- testing --------------------------------------------------------------------------------
TESTS := $(BUILD)/tests
UNIT := $(patsubst tests/unit/%.c,$(TESTS)/%,$(wildcard tests/unit/*.c))
FUZZ := $(patsubst tests/fuzz/%.c,$(TESTS)/%,$(wildcard tests/fuzz/*.c))
ASAN := -fsanitize=address,undefined -fno-sanitize-recover=all
ASAN_MAKE := $(MAKE) --no-print-directory BUILD=$(BUILD)/asan SAN="$(ASAN)" CFLAGS="-O1 -g"
TEST_CC = $(CC) $(ALL_CFLAGS) -Iruntime -I$(BUILD)

$(TESTS)/mockd: tests/mock/mockd.c
	@mkdir -p $(@D)
	$(TEST_CC) -o $@ $<
$(TESTS)/test_%: tests/unit/test_%.c $(BUILD)/obj/util.o $(wildcard runtime/*.[ch])
	@mkdir -p $(@D)
	$(TEST_CC) -Wno-unused-function -o $@ $< $(BUILD)/obj/util.o $(EXE_LUA) $(LIBS) $(if $(filter Darwin,$(OS)),,-lutil)
$(TESTS)/fuzz_%: tests/fuzz/fuzz_%.c $(BUILD)/obj/util.o $(OBJECTS)
	@mkdir -p $(@D)
	$(TEST_CC) -DREPLAY -o $@ $< $(BUILD)/obj/util.o $(OBJECTS) $(EXE_LUA) $(LIBS)
# Fails the k-th allocation of Lua and of our own modules.
$(TESTS)/oom: tests/oom/oom.c $(BUILD)/obj/util.o $(OBJECTS) $(BUILD)/modules.h
	@mkdir -p $(@D)
	$(TEST_CC) -o $@ $< $(BUILD)/obj/util.o $(OBJECTS) -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc $(EXE_LUA) $(LIBS)
.PHONY: test-bins
test-bins: all $(TESTS)/mockd $(UNIT) $(FUZZ) $(TESTS)/oom

# test: everything; T=name runs one spec (tests/spec/name_spec.lua)
test: deps-test
ifdef T
	@$(MAKE) --no-print-directory all $(TESTS)/mockd >/dev/null
	@TERRET_MOCKD=$(abspath $(TESTS)/mockd) $(BUILD)/terret --lua tests/run.lua $$(find tests -name '$(T)_spec.lua')
else
	@$(MAKE) --no-print-directory -j2 all so test-bins >/dev/null
	@$(ASAN_MAKE) -j2 test-bins >/dev/null
	@BUILD=$(BUILD) sh tests/all.sh plain so asan
endif
# test-sandbox: all attacks on the sandbox and all ordinary work in it, as root also for an ordinary user
test-sandbox: all
	@BUILD=$(BUILD) sh tests/sandbox/all.sh
.PHONY: test-sandbox
# test-asan: unit tests, specs and the allocation-failure sweep under ASAN and UBSAN
test-asan: deps-test
	@$(ASAN_MAKE) -j2 test-bins >/dev/null
	@BUILD=$(BUILD) sh tests/all.sh asan
# test-so: the specs in plain lua5.4 over the .so files
test-so: deps-test
	@$(MAKE) --no-print-directory -j2 all so test-bins >/dev/null
	@BUILD=$(BUILD) sh tests/all.sh so
# test-permissions: 10,000 generated command lines, compared with what bash runs
test-permissions: deps-test
	@$(MAKE) --no-print-directory -j2 all >/dev/null
	@$(BUILD)/terret --lua tests/permissions/property.lua 10000
.PHONY: test-permissions
# test-crash: a busy session killed at 1,000 random moments (KILLS=n), a full disk, EIO, a read-only directory
test-crash: deps-test all
	@TERRET=$(abspath $(BUILD))/terret $(BUILD)/terret --lua tests/crash/run.lua $(or $(KILLS),1000)
.PHONY: test-crash
# lint: warnings as errors, luacheck, formatting, symbols, line budget
lint: deps-test
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/lint WERROR=-Werror -j2 all so >/dev/null
	@BUILD=$(BUILD)/lint sh tests/lint.sh
# bench: speed and memory against a floor program in C, as ratios in one run
bench: all
	@BUILD=$(BUILD) sh tests/bench/bench.sh

clean:
	rm -rf $(BUILD)
