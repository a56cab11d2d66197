#!/usr/bin/env bash
# Installs LiteLLM, a proxy for model servers with rate limits, into an environment of its own, .tools/litellm: its
# dependencies are pinned by hash, and do not fit beside ours.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "fetching LiteLLM for the tests" >&2
rm -rf .tools/litellm
mkdir -p .tools
scripts/uv.sh venv --quiet --python "$(.venv/bin/python -c 'import sys; print(sys.executable)')" .tools/litellm >&2
scripts/uv.sh pip install --quiet --compile-bytecode --python .tools/litellm/bin/python \
    --require-hashes -r requirements/litellm.txt >&2
