#!/usr/bin/env bash
# Starts mediamill and its WhatsApp bridge in containers as the user who calls this: writes who that is, and secrets that
# are made once, into deploy/.env before compose reads it. Arguments go to `docker compose up`.
set -euo pipefail
cd "$(dirname "$0")/../deploy"

keep() { # NAME VALUE: as it was, or with this value from now on
    grep -q "^$1=" .env 2>/dev/null || printf '%s=%s\n' "$1" "$2" >>.env
}

umask 077
touch .env
keep MEDIAMILL_ADMIN_SECRET "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')"
keep MEDIAMILL_BRIDGE_SECRET "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')"
# Always anew: the folder may have come from another machine.
sed -i '/^CURRENT_[UG]ID=/d' .env
printf 'CURRENT_UID=%s\nCURRENT_GID=%s\n' "$(id -u)" "$(id -g)" >>.env
# Made here, because compose would make them as root.
mkdir -p data/pending_media data/bridges/whatsapp

if ! command -v docker >/dev/null; then
    echo "error: docker is not installed" >&2
    echo "  fix: install Docker with its compose plugin, or run \`make up\`, which needs no containers" >&2
    exit 1
fi
echo "mediamill will be at http://127.0.0.1:8420; log in with MEDIAMILL_ADMIN_SECRET of deploy/.env" >&2
exec docker compose up --build "$@"
