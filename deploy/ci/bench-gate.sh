#!/bin/sh
# Compares the build of a base with that of the working tree, side by side, and writes a comment with one verdict.
#
#   SERVER      server whose workloads are used: kvcache, http-server, …
#   PROGRAM     path of the built program, below the project's root
#   BUILD       command that builds it there
#   BASE        commit to compare with; empty: the one in the file .bench-baseline, else where the branch left TARGET
#   TARGET      branch that the change is for [origin/main]
#   THRESHOLD   slowdown that fails the job [2%]
#   WORKLOADS   names, comma separated [those of a quick run]
#   BUDGET      longest time for all of them [15m]
#   PROFILE     cargo profile of the load generator [release]
#   QUINTET     directory with a checkout of Quintet, whose cargo xtask bench-matrix compares
#   OUT         directory of the results [bench-gate]
#
# Exit status: 0 nothing became slower by more than the threshold, 4 something did, others: the comparison failed.
set -eu

: "${SERVER:?}" "${PROGRAM:?}" "${BUILD:?}" "${QUINTET:?}"
TARGET=${TARGET:-origin/main}
OUT=${OUT:-bench-gate}

if [ -z "${BASE:-}" ]; then
    if [ -f .bench-baseline ]; then
        BASE=$(sed -n '1s/[[:space:]].*//;1p' .bench-baseline)
    else
        BASE=$(git merge-base HEAD "$TARGET")
    fi
fi
mkdir -p "$OUT"
OUT=$(cd "$OUT" && pwd)
change=$(pwd)

base=$(mktemp -d)
trap 'git worktree remove --force "$base/tree" >/dev/null 2>&1 || true; rm -rf "$base"' EXIT
git worktree add --detach --quiet "$base/tree" "$BASE"
(cd "$base/tree" && sh -c "$BUILD")
sh -c "$BUILD"

set -- --servers "$SERVER" --program "base=$base/tree/$PROGRAM" --program "change=$change/$PROGRAM" \
    --fail-on-regression "${THRESHOLD:-2%}" --time-budget "${BUDGET:-15m}" --profile "${PROFILE:-release}" --out "$OUT" --force
[ -z "${WORKLOADS:-}" ] || set -- "$@" --workload "$WORKLOADS"
cd "$QUINTET"
cargo xtask bench-matrix "$@"
