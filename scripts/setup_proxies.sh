#!/usr/bin/env bash
# Finds nginx and Caddy, which the tests put in front of a server, and writes their paths to .tools/proxies (a line each).
# One on PATH is taken; else Debian's package is fetched and unpacked, which needs no root and starts no service.
# NGINX=/path/to/it and CADDY=/path/to/it name others.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin

find_proxy() { # NAME GIVEN
    local each
    for each in "${2:-$1}" ".tools/$1-deb/usr/sbin/$1" ".tools/$1-deb/usr/bin/$1"; do
        command -v "$each" && return
    done
    return 1
}

fetch() { # NAME
    echo "fetching $1 for the tests (apt-get download)" >&2
    rm -rf ".tools/$1-deb"
    mkdir -p ".tools/$1-deb"
    (
        cd ".tools/$1-deb"
        download="apt-get download -qq -o APT::Sandbox::User=root $1"
        $download >&2 || { [ "$(id -u)" = 0 ] && apt-get update -qq >&2 && $download >&2; }
        dpkg-deb --extract "$1"_*.deb .
        rm -f "$1"_*.deb
    ) || echo "apt-get could not fetch it" >&2
}

mkdir -p .tools
found=()
for name in nginx caddy; do
    given=$(tr '[:lower:]' '[:upper:]' <<<"$name")
    if ! find_proxy "$name" "${!given:-}" >/dev/null && command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
        fetch "$name"
    fi
    if ! proxy=$(find_proxy "$name" "${!given:-}"); then
        cat >&2 <<TEXT
The tests of deploy/ need $name, and it is not on PATH. Please install it, then run make again:
  Debian, Ubuntu:  sudo apt-get install $name
  Fedora:          sudo dnf install $name
  elsewhere:       make test $given=/path/to/the/executable
TEXT
        exit 1
    fi
    found+=("$(realpath -s "$proxy")")
done
printf '%s\n' "${found[@]}" >.tools/proxies
