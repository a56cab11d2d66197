#!/usr/bin/env bash
# Finds the pooler that tests put between mediamill and PostgreSQL and writes its path to .tools/pgbouncer; installs
# Debian's where it may. PGBOUNCER=/path/to/it names one that lies elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin

find_pooler() { command -v "${PGBOUNCER:-pgbouncer}"; }

if ! find_pooler >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing pgbouncer for the tests (apt-get)" >&2
    export DEBIAN_FRONTEND=noninteractive
    { apt-get update -qq && apt-get install -qq -y --no-install-recommends pgbouncer; } >&2 ||
        echo "apt-get could not install pgbouncer" >&2
fi

if ! pooler=$(find_pooler); then
    cat >&2 <<'TEXT'
The tests with a pooler need PgBouncer, and it is not on PATH. Please install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install pgbouncer
  Fedora:          sudo dnf install pgbouncer
  elsewhere:       make test PGBOUNCER=/path/to/the/executable
TEXT
    exit 1
fi
mkdir -p .tools
printf '%s\n' "$pooler" >.tools/pgbouncer
