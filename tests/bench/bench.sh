#!/bin/sh
# tests/bench/bench.sh - make bench: terret beside a floor program in C, in one run, as ratios.
# Needs python3 (standard library only); nothing leaves 127.0.0.1.  Figures are printed, never asserted.
set -eu
cd "$(dirname "$0")/../.."
BUILD=${BUILD:-build}
command -v python3 >/dev/null 2>&1 || { echo "make bench needs python3" >&2; exit 1; }
tmp=$(mktemp -d "${TMPDIR:-/tmp}/terret-bench-XXXXXX")
trap 'rm -rf "$tmp"' EXIT INT TERM
export TERRET="$PWD/$BUILD/terret" FLOOR="$tmp/floor_agent" PYTHONDONTWRITEBYTECODE=1
cc -O2 -o "$FLOOR" tests/bench/floor_agent.c -lcurl
echo "== the session's store and log"
"$TERRET" --lua tests/bench/store.lua full
cd tests/bench
echo "== start, CPU a turn, memory, growth (ratio to the floor with bwrap; growth: CPU of turn 1000 to turn 100)"
python3 compare.py --turns "${TURNS:-500}" --reps "${REPS:-3}" ${GROWTH---growth}
echo "== 20 parallel calls of sleep 0.2, 50,000 streamed events, one result of 10 MB"
python3 bench.py --peers terret,floor-bwrap --reps "${REPS:-3}" par stream big
