#!/usr/bin/env bash
# Runs uv: the one on PATH, else one that pip fetches into .tools/uv (pinned by hash; needs neither venv nor root).
# uv does not read pip's configuration, so an index, certificate or folder of wheels set there is handed on.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}

find_uv() {
    command -v uv && return
    if ! cmp -s requirements/uv.txt .tools/uv/pinned.txt; then
        echo "fetching uv into .tools/uv" >&2
        rm -rf .tools/uv
        PIP_USER=0 "$python" -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
            --no-deps --require-hashes --target .tools/uv -r requirements/uv.txt >&2
        cp requirements/uv.txt .tools/uv/pinned.txt
    fi
    echo .tools/uv/bin/uv
}

pip_config=
pip_setting() { # the value of a key in pip's environment or files, as a list with spaces
    [ -n "$pip_config" ] || pip_config=$("$python" -m pip config list 2>/dev/null || true)
    sed -nE "s/^(:env:|global|install)\.$1='(.*)'$/\2/p" <<<"$pip_config" | head -n 1 |
        sed -E 's/\\n/ /g; s/^ +//; s/ +$//; s/ +/ /g'
}

hand_on() { # <uv's variable> <pip's key> [separator]: what is set for uv already wins
    local value
    [ -z "${!1:-}" ] || return 0
    value=$(pip_setting "$2")
    [ -z "$value" ] || export "$1=${value// /${3:- }}"
}

uv=$(find_uv)
hand_on UV_DEFAULT_INDEX index-url
hand_on SSL_CERT_FILE cert
if [ "${2:-}" = install ]; then # only installing: a lock must list every platform's hashes, which a side index may lack
    hand_on UV_INDEX extra-index-url
    hand_on UV_FIND_LINKS find-links ,
    # Any index may serve a file, since its hash decides whether it is the right one.
    export UV_INDEX_STRATEGY=${UV_INDEX_STRATEGY:-unsafe-best-match}
fi
export UV_PYTHON_DOWNLOADS=${UV_PYTHON_DOWNLOADS:-never}
exec "$uv" "$@"
