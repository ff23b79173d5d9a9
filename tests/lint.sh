#!/bin/sh
# tests/lint.sh - what the compiler doesn't check: luacheck, formatting, symbols, sizes, stubs.
set -u
cd "$(dirname "$0")/.." || exit 2
BUILD=${BUILD:-build/lint}
bad=0
complain() {
    printf 'lint: %s\n' "$*"
    bad=$((bad + 1))
}

luacheck -q --no-color scripts sandbox tests examples 2>/dev/null | tail -n 1 | grep -q "0 warnings / 0 errors" ||
    { luacheck -q --no-color scripts sandbox tests examples | grep -v ' OK$' | head -n 40; complain "luacheck"; }

if command -v clang-format >/dev/null 2>&1; then
    for f in runtime/*.[ch] sandbox/*.c tests/*/*.c; do
        [ -f "$f" ] || continue
        case $f in runtime/text_width.h) continue ;; esac # a generated table
        clang-format --dry-run -Werror "$f" >/dev/null 2>&1 || complain "$f: not as clang-format leaves it"
    done
fi

# No mutable file-scope variables, but for the signal pipe and the terminal to restore.
# (.data.rel.ro is constant: tables of pointers that the loader fills in.)
for o in "$BUILD"/obj/*.o; do
    objdump -t "$o" | awk '$4 ~ /^\.(data|bss)/ || $3 ~ /^\.(data|bss)/ || $5 ~ /COM/ {print}' | grep ' O ' | grep -v 'data\.rel\.ro' |
        awk -v o="$(basename "$o" .o)" '{print o ": " $NF}'
done | grep -vE "^(reactor: signal_|tty: guard|embedded: )" >"$BUILD/symbols"
[ -s "$BUILD/symbols" ] && { cat "$BUILD/symbols"; complain "mutable variables at file scope"; }

# The rockspec lists what the directories hold.
sh runtime/rockspec.sh | cmp -s - terret-scm-1.rockspec || complain "terret-scm-1.rockspec is old: sh runtime/rockspec.sh > terret-scm-1.rockspec"

# Exported names of the modules.
for so in "$BUILD"/lib/terret/*.so; do
    names=$(nm -D --defined-only "$so" | awk '{print $3}' | grep -v '^_' | grep -vx "luaopen_terret_$(basename "$so" .so)")
    [ -n "$names" ] && complain "$so exports $names"
done

# The budget of what ships, and of one file.
git ls-files '*.c' '*.h' '*.lua' | grep -v '^tests/' | while read -r f; do
    n=$(wc -l <"$f")
    [ "$n" -gt 500 ] && [ "$f" != runtime/types.lua ] && [ "$f" != types/terret.lua ] && printf '%s: %d lines\n' "$f" "$n"
done >"$BUILD/long"
[ -s "$BUILD/long" ] && { cat "$BUILD/long"; complain "files over 500 lines"; }
count() { git ls-files "$@" | grep -v types.lua | xargs cat 2>/dev/null | wc -l; }
printf 'lines: %d of C in runtime/ and sandbox/ (budget 6500), %d of Lua in scripts/ (budget 8500), %d in sandbox/\n' \
    "$(count 'runtime/*.c' 'runtime/*.h' 'sandbox/*.c')" "$(count 'scripts/*.lua' 'scripts/**/*.lua')" "$(count 'sandbox/*.lua')"

[ "$bad" = 0 ] && echo "lint: clean"
[ "$bad" = 0 ]
