#!/usr/bin/env bash
# Finds promtool, which checks queries and rules for Prometheus, and writes its path to .tools/promtool. One on PATH is
# taken; else Debian's package is fetched and unpacked, which needs no root. PROMTOOL=/path/to/it names another.
set -euo pipefail
cd "$(dirname "$0")/.."

find_promtool() {
    local name
    for name in "${PROMTOOL:-promtool}" .tools/promtool-deb/usr/bin/promtool; do
        command -v "$name" && return
    done
    return 1
}

mkdir -p .tools
if ! find_promtool >/dev/null && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    echo "fetching promtool for the tests (apt-get download)" >&2
    rm -rf .tools/promtool-deb
    mkdir -p .tools/promtool-deb
    (
        cd .tools/promtool-deb
        download="apt-get download -qq -o APT::Sandbox::User=root prometheus"
        $download >&2 || { [ "$(id -u)" = 0 ] && apt-get update -qq >&2 && $download >&2; }
        dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool
        rm -f prometheus_*.deb
    ) || echo "apt-get could not fetch it" >&2
fi

if ! promtool=$(find_promtool); then
    cat >&2 <<'TEXT'
The tests of deploy/ need promtool, which comes with Prometheus, and it is not on PATH. Please install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install prometheus
  Fedora:          sudo dnf install golang-github-prometheus
  elsewhere:       any Prometheus, and  make test PROMTOOL=/path/to/promtool
TEXT
    exit 1
fi
realpath -s "$promtool" >.tools/promtool
