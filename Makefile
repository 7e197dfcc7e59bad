# SPDX-License-Identifier: PostgreSQL
#
# Tidepool: plain GNU make, one file, everything built goes under build/. `make help` lists the targets.

VERSION   := 0.1.0
SOVERSION := 0

prefix     ?= /usr/local
bindir     ?= $(prefix)/bin
libdir     ?= $(prefix)/lib
includedir ?= $(prefix)/include
mandir     ?= $(prefix)/share/man
DESTDIR    ?=
INSTALL    ?= install
PKG_CONFIG ?= pkg-config

# A sanitizer run (SANITIZE=address,undefined) or another compiler (BUILD=build/clang CC=clang) gets
# a folder of its own.
SANITIZE ?=
BUILD    ?= $(if $(SANITIZE),build/$(SANITIZE),build)

ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-8s%s\n'
endif

, := ,
libs := numa liburcu-memb liburing libxxhash
no_build := help clean deps coverage lint% format
ifneq ($(filter-out $(no_build),$(or $(MAKECMDGOALS),all)),)
LIBS_CFLAGS  := $(shell $(PKG_CONFIG) --cflags $(libs))
LIBS_LDLIBS  := $(shell $(PKG_CONFIG) --libs $(libs))
CHECK_CFLAGS := $(shell $(PKG_CONFIG) --cflags check)
CHECK_LDLIBS := $(shell $(PKG_CONFIG) --libs check)
TOOLS_CFLAGS := $(shell $(PKG_CONFIG) --cflags libpq)
TOOLS_LDLIBS := $(shell $(PKG_CONFIG) --libs libpq)
BIG_CFLAGS := $(shell $(PKG_CONFIG) --cflags liburcu-cds jansson zlib)
BIG_LDLIBS := $(shell $(PKG_CONFIG) --libs jansson liburcu-cds zlib)
endif

CFLAGS   ?= -O2 -g
WARNINGS := -Wall -Wextra -Wshadow -Werror
sanitize := $(if $(SANITIZE),-fsanitize=$(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer)

all_cflags := -std=gnu11 $(WARNINGS) $(CFLAGS) -fPIC -fvisibility=hidden -pthread $(sanitize) -MMD -MP
lib_cflags  = $(all_cflags) -Wconversion -D_GNU_SOURCE -Iinclude -Isrc $(LIBS_CFLAGS) $(CPPFLAGS)

# --- library -----------------------------------------------------------------------------------------

layers      := memory rcu resize pool
lib_sources := $(sort $(wildcard $(layers:%=src/%/*.c)))
lib_objects := $(lib_sources:%.c=$(BUILD)/%.o)
lib_headers := $(wildcard include/tidepool/*.h)
lib_shared  := $(BUILD)/lib/libtidepool.so.$(SOVERSION)
lib_static  := $(BUILD)/lib/libtidepool.a

.PHONY: all
all: library extension programs

.PHONY: library
library: $(lib_shared) $(BUILD)/lib/libtidepool.so $(lib_static)

define layer_rules
$(BUILD)/src/$(1)/%.o: src/$(1)/%.c
	@mkdir -p $$(@D)
	$$(say) CC $$<
	$$(Q)$$(CC) $$(lib_cflags) -c -o $$@ $$<

endef
$(eval $(foreach layer,$(layers),$(call layer_rules,$(layer))))

# clang's sanitizer runtimes are linked into programs only, so a sanitized library has undefined symbols.
$(lib_shared): $(lib_objects) src/libtidepool.map
	@mkdir -p $(@D)
	$(say) LD $@
	$(Q)$(CC) -shared -Wl,-soname,libtidepool.so.$(SOVERSION) $(if $(SANITIZE),,-Wl$(,)-z$(,)defs) \
		-Wl,-Bsymbolic-functions -Wl,--version-script=src/libtidepool.map -pthread $(sanitize) $(LDFLAGS) \
		-o $@ $(lib_objects) $(LIBS_LDLIBS)

$(BUILD)/lib/libtidepool.so: $(lib_shared)
	$(Q)ln -sf libtidepool.so.$(SOVERSION) $@

$(lib_static): $(lib_objects)
	@mkdir -p $(@D)
	$(say) AR $@
	$(Q)rm -f $@ && $(AR) rcs $@ $(lib_objects)

# --- tools -------------------------------------------------------------------------------------------

# tools/*.c and tools/*.d/*.c are programs of one file; a folder tools/NAME holds one of several.
tool_sources  := $(sort $(wildcard tools/*.c tools/*.d/*.c))
tool_folders  := tidestress bench-pool
tool_programs := $(tool_sources:%.c=$(BUILD)/%)
big_sources   := $(sort $(wildcard $(tool_folders:%=tools/%/*.c)))
big_objects   := $(big_sources:%.c=$(BUILD)/%.o)
big_programs  := $(foreach t,$(tool_folders),$(if $(wildcard tools/$(t)/*.c),$(BUILD)/bin/$(t)))

.PHONY: programs
programs: $(tool_programs) $(big_programs)

$(big_objects): $(BUILD)/tools/%.o: tools/%.c
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(lib_cflags) $(BIG_CFLAGS) -Itools -c -o $@ $<

define big_program_rule
$(BUILD)/bin/$(1): $(filter $(BUILD)/tools/$(1)/%,$(big_objects)) $(lib_static)
	@mkdir -p $$(@D)
	$$(say) LD $$@
	$$(Q)$$(CC) -pthread $(sanitize) $$(LDFLAGS) -o $$@ $$^ $$(BIG_LDLIBS) $$(LIBS_LDLIBS) -lm

endef
$(eval $(foreach t,$(tool_folders),$(if $(wildcard tools/$(t)/*.c),$(call big_program_rule,$(t)))))

$(BUILD)/tools/%: tools/%.c $(lib_static)
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(lib_cflags) $(TOOLS_CFLAGS) -MF $@.d $(LDFLAGS) -o $@ $< $(lib_static) \
		$(TOOLS_LDLIBS) $(LIBS_LDLIBS)

# --- extension: one build for each server ------------------------------------------------------------

pg_config_usable = $(if $(wildcard $(shell $(1) --includedir-server)/postgres.h),$(1))
pg_config_found := $(wildcard /usr/lib/postgresql/*/bin/pg_config)
PG_CONFIGS ?= $(foreach c,$(pg_config_found),$(call pg_config_usable,$(c)))

ext_sources := $(sort $(wildcard src/postgres/*.c))
ext_data    := $(wildcard src/postgres/tidepool.control src/postgres/tidepool--*.sql)

pg_major     = $(shell $(1) --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
ext_cflags   = $(all_cflags) -Wno-unused-parameter -fvisibility=default -fno-strict-aliasing -fwrapv \
	       -D_GNU_SOURCE -Iinclude -Isrc -isystem $(shell $(1) --includedir-server) $(CPPFLAGS)

# $(1) = pg_config, $(2) = folder of objects, $(3) = further flags
# Functions called from SQL must be visible, which PostgreSQL 15's macros leave to the default; those of
# the library are kept to ourselves, and our names win over equal ones in the server. Symbols of the
# server stay undefined, so the linker cannot tell when one of ours is missing; nm can.
define extension_rules
$(2)/%.o: src/postgres/%.c
	@mkdir -p $$(@D)
	$$(say) CC '$$< ($(notdir $(2)))'
	$$(Q)$$(CC) $(call ext_cflags,$(1)) $(3) -c -o $$@ $$<

$(2)/tidepool.so: $(patsubst src/postgres/%.c,$(2)/%.o,$(ext_sources)) $(lib_static)
	$$(say) LD $$@
	$$(Q)$$(CC) -shared -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -pthread $(sanitize) $$(LDFLAGS) \
		-o $$@ $$^ $$(LIBS_LDLIBS)
	$$(Q)! nm -D --undefined-only $$@ | grep -i ' tide' || { rm $$@; false; }

-include $(wildcard $(2)/*.d)
endef

# $(1) = pg_config, $(2) = the library to install
define extension_install
	$(INSTALL) -d '$(DESTDIR)$(shell $(1) --pkglibdir)' '$(DESTDIR)$(shell $(1) --sharedir)/extension'
	$(INSTALL) -m 755 $(2) '$(DESTDIR)$(shell $(1) --pkglibdir)/tidepool.so'
	$(INSTALL) -m 644 $(ext_data) '$(DESTDIR)$(shell $(1) --sharedir)/extension/'

endef

ext_folder      = $(BUILD)/postgres-$(call pg_major,$(1))
ext_test_folder = $(BUILD)/test-postgres-$(call pg_major,$(1))

.PHONY: extension install-extension
extension:
install-extension:
ifneq ($(and $(ext_sources),$(if $(SANITIZE),,yes),$(filter-out $(no_build),$(or $(MAKECMDGOALS),all))),)
$(foreach c,$(PG_CONFIGS),$(eval $(call extension_rules,$(c),$(call ext_folder,$(c)),)))
extension: $(foreach c,$(PG_CONFIGS),$(call ext_folder,$(c))/tidepool.so)
install-extension: extension
	$(foreach c,$(PG_CONFIGS),$(call extension_install,$(c),$(call ext_folder,$(c))/tidepool.so))
endif

# For tests only: the extension with named pause points, installed into the server of PG_CONFIG.
.PHONY: test-extension install-test-extension
test-extension install-test-extension:
ifneq ($(filter test-extension install-test-extension,$(MAKECMDGOALS)),)
ifeq ($(PG_CONFIG),)
$(error say which server: make $(MAKECMDGOALS) PG_CONFIG=/path/to/bin/pg_config)
endif
ifneq ($(ext_sources),)
$(eval $(call extension_rules,$(PG_CONFIG),$(call ext_test_folder,$(PG_CONFIG)),-DTIDE_PAUSE_POINTS))
test-extension: $(call ext_test_folder,$(PG_CONFIG))/tidepool.so
install-test-extension: test-extension
	$(call extension_install,$(PG_CONFIG),$(call ext_test_folder,$(PG_CONFIG))/tidepool.so)
endif
endif

# --- tests -------------------------------------------------------------------------------------------

unit_sources  := $(sort $(wildcard $(layers:%=tests/%/test_*.c)))
unit_programs := $(unit_sources:%.c=$(BUILD)/%)

# Tests reach private headers and symbols, so they are linked with the objects and not with the library.
$(BUILD)/tests/%: tests/%.c $(lib_objects)
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(lib_cflags) $(CHECK_CFLAGS) -MF $@.d $(LDFLAGS) -o $@ $< $(lib_objects) \
		$(CHECK_LDLIBS) $(LIBS_LDLIBS)

.PHONY: test-programs
test-programs: $(unit_programs)

# $(1) = major version. A server that cannot be had is no failure here: its tests say so and are skipped.
prepare_server = pg_config=$$(tests/servers/build $(1)) && \
	$(MAKE) --no-print-directory install-test-extension PG_CONFIG=$$pg_config || [ $$? = 77 ]

server_tests := $(sort $(wildcard tests/postgres/t/*.pl))
suites       := $(sort $(wildcard tests/postgres/suites/*.pl))
layer_tests  := $(sort $(wildcard $(layers:%=tests/%/*.pl) $(layers:%=tests/%/*.sh)))
models       := $(wildcard tests/models/run)
guest        := $(wildcard tests/memory/numa-guest)

sanitizers         := address,undefined thread
# ThreadSanitizer has mappings of its own and takes most of the address space: a test that counts mappings
# or reserves terabytes is not for it, nor is one of pure functions that takes a minute with it.
not_for_thread     := tests/memory/test_fault.c tests/memory/test_region.c tests/pool/test_replace.c
sanitized_programs := $(unit_sources:%.c=build/address$(,)undefined/%) \
	$(patsubst %.c,build/thread/%,$(filter-out $(not_for_thread),$(unit_sources)))
# Those that go on for longer with TIDE_TEST_LONG.
long_programs      := $(patsubst %,$(BUILD)/tests/rcu/%,test_lookup test_lookup_readers)
storm              := $(wildcard tests/pool/storm.pl)

# With SANITIZE only the unit tests: a server does not load a sanitized library.
.PHONY: check check-long check-all
ifneq ($(SANITIZE),)
check: test-programs
	tests/run $(unit_programs)
else
check: all test-programs
	$(call prepare_server,15)
	tests/run $(unit_programs) $(layer_tests) $(models) $(server_tests:%=15:%)
endif

# What check-all adds to check.
check-long: all test-programs
	$(foreach s,$(sanitizers),$(MAKE) --no-print-directory SANITIZE=$(s) test-programs build/$(s)/bin/tidestress &&) true
	$(call prepare_server,15)
	$(call prepare_server,18)
	$(Q)status=0; tests/run $(sanitized_programs) || status=1; \
	TIDE_TEST_LONG=1 tests/run $(long_programs) $(storm) $(guest) $(server_tests:%=18:%) $(suites:%=18:%) \
		$(suites:%=15:%) || status=1; \
	exit $$status

check-all:
	$(MAKE) check
	$(MAKE) check-long

# Lines that the unit tests reach, by layer: a table, build/coverage/index.html, and an error below the least.
coverage_least := 90

.PHONY: coverage
coverage:
	$(MAKE) --no-print-directory BUILD=build/coverage CFLAGS='-O0 -g --coverage' test-programs
	find build/coverage -name '*.gcda' -delete
	tests/run $(unit_sources:%.c=build/coverage/%)
	gcovr --root . --filter 'src/' --json build/coverage/lines.json build/coverage/src
	gcovr --root . --add-tracefile build/coverage/lines.json --html-details build/coverage/index.html --txt
	$(Q)status=0; for layer in $(layers); do \
		gcovr --root . --add-tracefile build/coverage/lines.json --filter "src/$$layer/" --txt build/coverage/$$layer.files.txt \
			--print-summary --fail-under-line $(coverage_least) >build/coverage/$$layer.txt || status=1; \
		printf '%-8s%s\n' "$$layer" "$$(grep '^lines' build/coverage/$$layer.txt)"; \
	done; exit $$status

# --- lint --------------------------------------------------------------------------------------------

lint_sources := $(lib_sources) $(tool_sources) $(big_sources)
lint_format  := $(lint_sources) $(lib_headers) $(unit_sources) \
	$(wildcard $(layers:%=src/%/*.h) $(layers:%=tests/%/*.[ch]) $(tool_folders:%=tools/%/*.h) examples/*.c)
lint_scripts := $(shell grep -lsE '^.!/bin/(ba)?sh' .ci/run tools/* tests/* tests/*/* tests/*/*/*)
lint_flags   := -std=gnu11 -D_GNU_SOURCE -Iinclude -Isrc -Itools $(shell $(PKG_CONFIG) --cflags libpq)

.PHONY: lint format
lint: lint-format lint-tidy lint-cppcheck lint-scripts

.PHONY: lint-format lint-tidy lint-cppcheck lint-scripts
lint-format:
	clang-format --dry-run -Werror $(sort $(lint_format))

# $(1) = sources, $(2) = further options
run_tidy = printf '%s\n' $(1) | xargs -r -P 2 -n 1 \
	sh -c 'clang-tidy --quiet $(2) "$$0" -- $(lint_flags) 2>/dev/null'

# A tool has one thread and may end its process.
lint-tidy:
	$(call run_tidy,$(lib_sources))
	$(call run_tidy,$(tool_sources) $(big_sources),--checks=-concurrency-mt-unsafe)

lint-cppcheck:
	cppcheck --quiet -j 2 --std=c11 --enable=warning,performance,portability,style \
		--inline-suppr --suppress=variableScope --suppress=missingIncludeSystem \
		--error-exitcode=1 -D_GNU_SOURCE -Iinclude -Isrc $(lint_sources)

lint-scripts:
	shellcheck $(lint_scripts)

format:
	clang-format -i $(sort $(lint_format))

# --- the rest ----------------------------------------------------------------------------------------

.PHONY: install
install: library install-extension $(BUILD)/bin/tidestress
	$(INSTALL) -d '$(DESTDIR)$(libdir)/pkgconfig' '$(DESTDIR)$(includedir)/tidepool' '$(DESTDIR)$(bindir)' \
		'$(DESTDIR)$(mandir)/man1' '$(DESTDIR)$(mandir)/man3'
	$(INSTALL) -m 755 $(BUILD)/bin/tidestress '$(DESTDIR)$(bindir)/'
	$(INSTALL) -m 644 $(wildcard tools/man/*.1) '$(DESTDIR)$(mandir)/man1/'
	$(INSTALL) -m 644 $(wildcard tools/man/*.3) '$(DESTDIR)$(mandir)/man3/'
	$(INSTALL) -m 755 $(lib_shared) '$(DESTDIR)$(libdir)/'
	ln -sf libtidepool.so.$(SOVERSION) '$(DESTDIR)$(libdir)/libtidepool.so'
	$(INSTALL) -m 644 $(lib_static) '$(DESTDIR)$(libdir)/'
	$(INSTALL) -m 644 $(lib_headers) '$(DESTDIR)$(includedir)/tidepool/'
	sed -e 's|@prefix@|$(prefix)|' -e 's|@libdir@|$(libdir)|' -e 's|@includedir@|$(includedir)|' \
		-e 's|@VERSION@|$(VERSION)|' tidepool.pc.in >'$(DESTDIR)$(libdir)/pkgconfig/tidepool.pc'

.PHONY: deps demo bench bench-pool
deps:
	tools/deps

# Nothing need be there before. The second make finds the packages that the first step installed.
demo:
	tools/deps
	+$(MAKE) --no-print-directory all
	tools/demo

# BENCH = groups and options, for instance BENCH='--quick grow'
bench: all
	BUILD='$(abspath $(BUILD))' tools/bench $(BENCH)

bench-pool: $(BUILD)/bin/bench-pool
	$< $(BENCH)

.PHONY: clean
clean:
	rm -rf build


.PHONY: help
help:
	@echo 'Targets:'
	@echo '  all         library, extension for every server found, tools (default)'
	@echo '  deps        install the Debian packages that the rest needs'
	@echo '  install     into DESTDIR and prefix; the extension into each server of PG_CONFIGS'
	@echo '  demo        a private server whose pool is resized live'
	@echo '  check       tests, under 10 minutes'
	@echo '  check-long  what check-all adds: sanitizers, PostgreSQL 18, its regression suites, the guest'
	@echo '  check-all   check and check-long'
	@echo '  coverage    lines that the unit tests reach, in build/coverage/; an error below $(coverage_least) % of a layer'
	@echo '  bench       table of figures, JSON in build/bench/; BENCH="--quick grow" picks'
	@echo '  bench-pool  figures of the embedded pool; BENCH= as for bench'
	@echo '  lint        clang-format, clang-tidy, cppcheck, shellcheck; `format` rewrites the sources'
	@echo '  clean       remove build/'
	@echo 'Variables:'
	@echo '  V=1                           show commands'
	@echo '  CC=clang BUILD=build/clang    another compiler, in a folder of its own'
	@echo '  SANITIZE=address,undefined    a sanitizer, in a folder of its own'
	@echo '  PG_CONFIGS="/path/bin/pg_config ..."   servers to build the extension for'
	@echo '  TIDEPOOL_CACHE=/path          where servers for tests are kept'

-include $(lib_objects:.o=.d) $(big_objects:.o=.d) $(unit_programs:=.d) $(tool_programs:=.d)
