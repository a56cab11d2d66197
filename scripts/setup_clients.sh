#!/usr/bin/env bash
# An environment with programs of others that the tests let talk to mediamill: two generators of clients (one needs Java,
# which comes along) with what their clients need, and MCP's own client for Python. Its Python is in .tools/clients.
set -euo pipefail
cd "$(dirname "$0")/.."

mkdir -p .tools
echo "fetching generators of clients for the tests" >&2
scripts/uv.sh venv --quiet --clear --python .venv/bin/python .tools/clients-env >&2
scripts/uv.sh pip install --quiet --compile-bytecode --python .tools/clients-env/bin/python --only-binary :all: \
    --require-hashes -r requirements/clients.txt >&2
printf '%s\n' "$PWD/.tools/clients-env/bin/python" >.tools/clients
