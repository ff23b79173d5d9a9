#!/bin/sh
# tests/all.sh plain|so|asan... - runs the suites, prints what failed and one closing line.
#
#   plain  unit tests, fuzz corpora, specs, contract and integration in build/terret
#   so     the specs in plain lua5.4 over build/lib/terret/*.so
#   asan   all of plain and the allocation-failure sweep in the ASAN+UBSAN build
# Every suite speaks TAP; the lines are counted here.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build}
case $BUILD in /*) ;; *) BUILD=$PWD/$BUILD ;; esac
out=$BUILD/tests/out
mkdir -p "$out"
passed=0
failed=0
broken=0

# A home of its own: no test reads or writes the user's files.
scratch=$(mktemp -d "${TMPDIR:-/tmp}/terret-test-XXXXXX") || exit 2
trap 'chmod -R u+rwX "$scratch" 2>/dev/null; rm -rf "$scratch"' EXIT INT TERM
export HOME="$scratch/home" XDG_CONFIG_HOME="$scratch/home/.config" XDG_STATE_HOME="$scratch/home/.local/state"
export XDG_CACHE_HOME="$scratch/home/.cache" TMPDIR="$scratch/tmp" TERRET_STRICT=1 LC_ALL=C.UTF-8
mkdir -p "$HOME" "$TMPDIR"
unset OPENAI_API_KEY OPENAI_BASE_URL OPENROUTER_API_KEY ANTHROPIC_API_KEY TERRET_MODEL TERRET_PATH http_proxy https_proxy all_proxy
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99 UBSAN_OPTIONS=print_stacktrace=1

# A suite that hangs is a suite that fails.
limited() {
    if command -v timeout >/dev/null 2>&1; then timeout -s KILL 280 "$@"; else "$@"; fi
}

# suite NAME COMMAND... : runs it, counts its TAP lines.
suite() {
    name=$1
    shift
    log=$out/$(printf '%s' "$name" | tr '/ ' '__').tap
    started=$(date +%s)
    limited "$@" >"$log" 2>&1 </dev/null
    rc=$?
    ok=$(grep -a -c '^ok ' "$log")
    bad=$(grep -a -c '^not ok ' "$log")
    passed=$((passed + ok))
    failed=$((failed + bad))
    printf '%-28s %5d ok %4d failed  (%d s)\n' "$name" "$ok" "$bad" $(($(date +%s) - started))
    if [ "$bad" != 0 ]; then
        grep -a -A12 '^not ok ' "$log" | head -n 120
    elif [ "$rc" != 0 ] || [ "$ok" = 0 ]; then
        printf '  %s ended with status %d and %d tests:\n' "$name" "$rc" "$ok"
        tail -n 25 "$log"
        broken=$((broken + 1))
    fi
}

# script NAME COMMAND... : a program that says by its status whether all is well, as one test.
script() {
    name=$1
    shift
    log=$out/$name.log
    if "$@" >"$log" 2>&1 </dev/null; then
        passed=$((passed + 1))
        printf '%-28s %s\n' "$name" "$(tail -n 1 "$log" | cut -c 1-100)"
    else
        failed=$((failed + 1))
        printf '%s failed:\n' "$name"
        tail -n 25 "$log"
    fi
}

unit() { # DIR of the test programs
    for t in "$1"/test_*; do
        [ -x "$t" ] && suite "$2$(basename "$t")" "$t"
    done
    for f in "$1"/fuzz_*; do
        [ -x "$f" ] && suite "$2$(basename "$f")" "$f" tests/fuzz/corpus/"$(basename "$f" | sed 's/fuzz_//')"/*
    done
}

specs() { # LABEL HOST...
    label=$1
    shift
    for dir in spec contract integration; do
        [ -n "$(find tests/$dir -name '*_spec.lua' 2>/dev/null)" ] || continue
        suite "$label$dir" "$@" tests/run.lua -o TAP tests/$dir
    done
}

# Two cores: the sanitized half runs beside the other one.
beside=""
case " $* " in
*" asan "*)
    if [ $# -gt 1 ]; then
        beside=$out/beside.log
        sh "$0" asan >"$beside" 2>&1 &
        half=$!
    fi
    ;;
esac

for what in "$@"; do
    case $what in
    plain)
        export TERRET=$BUILD/terret TERRET_MOCKD=$BUILD/tests/mockd
        unit "$BUILD/tests" ""
        specs "" "$BUILD/terret" --lua
        script permissions-property "$BUILD/terret" --lua tests/permissions/property.lua 500 1
        script fuzz-shell "$BUILD/terret" --lua tests/fuzz/fuzz_shell.lua 2 1
        script fuzz-wire "$BUILD/terret" --lua tests/fuzz/fuzz_wire.lua 2 1
        ;;
    so)
        export TERRET=$BUILD/terret TERRET_MOCKD=$BUILD/tests/mockd
        # The scripts as luarocks would install them: terret/*.lua on the path.
        mkdir -p "$scratch/lua"
        cp -R scripts "$scratch/lua/terret"
        cp -R sandbox "$scratch/lua/terret/sandbox"
        (
            LUA_PATH="$scratch/lua/?.lua;$scratch/lua/?/init.lua;;" LUA_CPATH="$BUILD/lib/?.so;;"
            export LUA_PATH LUA_CPATH
            suite "so/spec" lua5.4 tests/run.lua -o TAP tests/spec
            echo "$passed $failed $broken" >"$scratch/so"
        )
        read -r passed failed broken <"$scratch/so"
        ;;
    asan)
        [ -z "$beside" ] || continue
        export TERRET=$BUILD/asan/terret TERRET_MOCKD=$BUILD/asan/tests/mockd
        unit "$BUILD/asan/tests" "asan/"
        suite "asan/oom" "$BUILD/asan/tests/oom" tests/oom/*.lua
        specs "asan/" "$BUILD/asan/terret" --lua
        ;;
    esac
done

if [ -n "$beside" ]; then
    wait "$half"
    sed '$d' "$beside"
    counts=$(tail -n 1 "$beside" | sed -n 's/^\([0-9]*\) passed, \([0-9]*\) failed$/\1 \2/p')
    if [ -n "$counts" ]; then
        passed=$((passed + ${counts% *}))
        failed=$((failed + ${counts#* }))
    else
        broken=$((broken + 1))
    fi
fi
[ "$broken" = 0 ] || failed=$((failed + broken))
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ] && [ "$passed" != 0 ]
