#!/usr/bin/env bash
# Finds the browser that the page tests drive and writes its path to .tools/browser; installs Debian's where it may.
# Preferred is Chromium without windows: it needs less than half of the processor time, drawing no toolbars for anybody.
# CHROMIUM=/path/to/it names one that lies elsewhere.
set -euo pipefail
cd "$(dirname "$0")/.."

find_browser() {
    local name
    for name in "${CHROMIUM:-chromium-headless-shell}" chromium chromium-browser google-chrome google-chrome-stable; do
        command -v "$name" && return
    done
    return 1
}

if ! find_browser >/dev/null && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "installing chromium for the page tests (apt-get)" >&2
    export DEBIAN_FRONTEND=noninteractive
    install="apt-get install -qq -y --no-install-recommends"
    { apt-get update -qq && { $install chromium-headless-shell || $install chromium; }; } >&2 ||
        echo "apt-get could not install chromium" >&2
fi

if ! browser=$(find_browser); then
    cat >&2 <<'TEXT'
The page tests need a Chromium or Chrome browser, and it is not on PATH. Please install one, then run make again:
  Debian, Ubuntu:  sudo apt-get install chromium      (on Ubuntu also: chromium-browser)
  Fedora:          sudo dnf install chromium
  elsewhere:       any Chrome or Chromium, and  make test CHROMIUM=/path/to/the/executable
TEXT
    exit 1
fi
mkdir -p .tools
printf '%s\n' "$browser" >.tools/browser
