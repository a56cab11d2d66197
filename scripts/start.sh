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
keep POSTGRES_PASSWORD "$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')"
# What a profile is good for only if mediamill knows of it. To leave it again, delete these lines of .env.
case ",${COMPOSE_PROFILES:-}," in *,postgres,*)
    keep MEDIAMILL_DATABASE_URL "postgresql://mediamill:$(sed -n 's/^POSTGRES_PASSWORD=//p' .env)@postgres/mediamill" ;;
esac
case ",${COMPOSE_PROFILES:-}," in *,redis,*)
    keep MEDIAMILL_QUEUE_MODE hybrid
    keep MEDIAMILL_REDIS_URL redis://redis:6379/0 ;;
esac
# Always anew: the folder may have come from another machine.
sed -i '/^CURRENT_[UG]ID=/d' .env
printf 'CURRENT_UID=%s\nCURRENT_GID=%s\n' "$(id -u)" "$(id -g)" >>.env
# Made here, because compose would make them as root.
mkdir -p data/pending_media data/bridges/whatsapp database

if ! command -v docker >/dev/null; then
    echo "error: docker is not installed" >&2
    echo "  fix: install Docker with its compose plugin, or run \`make up\`, which needs no containers" >&2
    exit 1
fi
case ",${COMPOSE_PROFILES:-}," in *,workers,*)
    if [ ! -s secrets/worker_token ]; then # the server makes it, so that workers need no secret of the server
        mkdir -p secrets
        docker compose up --build --detach mediamill
        docker compose exec -T mediamill .venv/bin/mediamill tokens create "workers of compose" --scope worker --json |
            sed -n 's/.*"token": "\([^"]*\)".*/\1/p' >secrets/worker_token
        test -s secrets/worker_token
    fi ;;
esac
echo "mediamill will be at http://127.0.0.1:8420; log in with MEDIAMILL_ADMIN_SECRET of deploy/.env" >&2
exec docker compose up --build "$@"
