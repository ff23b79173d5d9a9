# terret - make help lists the targets.
PREFIX ?= /usr/local
DESTDIR ?=
BUILD ?= build
CC ?= cc
-include config.mk

LUA_PC := $(shell pkg-config --exists lua5.4 2>/dev/null && echo lua5.4 || echo lua-5.4)
BSD_PC := $(shell pkg-config --exists libbsd 2>/dev/null && echo libbsd)
OS := $(shell uname -s)
INCLUDES := $(shell pkg-config --cflags $(LUA_PC) libcurl $(BSD_PC) 2>/dev/null)
LUA_LIB := $(shell pkg-config --libs $(LUA_PC) 2>/dev/null)
LIBS := $(shell pkg-config --libs libcurl $(BSD_PC) 2>/dev/null) -lm -lpthread
# The executable carries its own Lua where the distribution has the archive.
LUA_A := $(firstword $(wildcard $(shell pkg-config --variable=libdir $(LUA_PC) 2>/dev/null)/liblua5.4.a))
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
NOT_MODULES := main util
MODULES ?= $(sort $(filter-out $(NOT_MODULES),$(basename $(notdir $(wildcard runtime/*.c sandbox/*.c)))))
OBJECTS := $(MODULES:%=$(BUILD)/obj/%.o)
SO := $(MODULES:%=$(BUILD)/lib/terret/%.so)
SCRIPTS := $(sort $(shell find scripts sandbox skills types -name '*.lua' -o -name '*.md' -path 'skills/*' -o -name '*.md' -path 'scripts/*' 2>/dev/null))

.PHONY: all so test test-asan test-so lint bench demo deps install clean help fuzz
all: $(BUILD)/terret

help:
	@grep -E '^# [a-z-]+: ' Makefile | sed 's/^# //'

$(BUILD)/obj/%.o: runtime/%.c runtime/terret.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<
$(BUILD)/obj/%.o: sandbox/%.c runtime/terret.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Iruntime -c -o $@ $<

# Regenerated when the list changes, not only when a file does.
$(BUILD)/modules.h: FORCE
	@mkdir -p $(@D)
	@{ for m in $(MODULES); do echo "MODULE($$m)"; done; } > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
$(BUILD)/embedded.c: $(SCRIPTS) runtime/embed.sh $(BUILD)/scripts.list
	@sh runtime/embed.sh $(SCRIPTS) > $@
$(BUILD)/scripts.list: FORCE
	@mkdir -p $(@D)
	@echo $(SCRIPTS) > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
.PHONY: FORCE
FORCE:

$(BUILD)/obj/main.o: runtime/main.c runtime/terret.h $(BUILD)/modules.h
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -I$(BUILD) -DTERRET_PREFIX='"$(PREFIX)"' -c -o $@ runtime/main.c
$(BUILD)/obj/embedded.o: $(BUILD)/embedded.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -Os -c -o $@ $<

$(BUILD)/terret: $(BUILD)/obj/main.o $(BUILD)/obj/util.o $(BUILD)/obj/embedded.o $(OBJECTS)
	$(CC) $(SAN) $(EXE_FLAGS) $(LDFLAGS) -o $@ $^ $(EXE_LUA) $(LIBS)

$(BUILD)/lib/terret/%.so: $(BUILD)/obj/%.o $(BUILD)/obj/util.o
	@mkdir -p $(@D)
	$(CC) $(SAN) $(SO_FLAGS) $(LDFLAGS) -o $@ $^ $(LIBS)
# so: the modules for plain lua5.4, in build/lib/terret
so: $(SO)

clean:
	rm -rf $(BUILD)
