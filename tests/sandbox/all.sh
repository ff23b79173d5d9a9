#!/bin/sh
# tests/sandbox/all.sh - all attacks, all ordinary work, and floods of output, against BUILD/terret: as the user
# who starts it and, when that is root, as an ordinary user too (SANDBOX_USER, default nobody).
set -u
here=$(cd "$(dirname "$0")" && pwd)
TERRET=${TERRET:-${BUILD:-build}/terret}
case $TERRET in /*) ;; *) TERRET=$PWD/$TERRET ;; esac
export TERRET
unset TMPDIR
users=$(id -un)
[ "$(id -u)" = 0 ] && users="$users ${SANDBOX_USER:-nobody}"
failed=0
for user in $users; do
    for runner in run_attacks run_legit run_runtime; do
        python3 "$here/$runner.py" --user "$user" || failed=1
    done
done
[ "$failed" = 0 ] && echo "test-sandbox: all held"
exit "$failed"
