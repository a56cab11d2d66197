#!/usr/bin/env bash
# Runs a command with no network but loopback, in a network namespace of its own: what it needs must be there already.
# Where this machine allows none, it says so and runs the command with the network.
set -euo pipefail

# Root needs nothing else. Others get a user namespace in which they may set up loopback, but stay who they are.
if [ "$(id -u)" = 0 ]; then
    inside=(unshare --net)
    as_before=()
else
    inside=(unshare --user --map-current-user --keep-caps --net)
    as_before=(setpriv --ambient-caps=-all --inh-caps=-all)
fi

if ! why=$("${inside[@]}" ip link set lo up 2>&1); then
    echo "NOT OFFLINE: no network namespace can be made here (${why//$'\n'/ }); the network stays on" >&2
    exec "$@"
fi
# shellcheck disable=SC2016 # the inner shell expands it
exec "${inside[@]}" bash -c 'ip link set lo up && exec "$@"' bash "${as_before[@]}" "$@"
