#!/usr/bin/env bash
# Starts or stops a session's JobManager on this host.
#
# usage: jobmanager.sh (start|start-foreground) [host] [webui-port] [-D key=value …]
#        jobmanager.sh (stop|stop-all)

set -u
source "$(dirname "${BASH_SOURCE[0]}")/config.sh"

check_action "${1:-}"
action="$1"
shift
arguments=()
if [ $# -ge 1 ] && [ "${1#-}" = "$1" ]; then
    arguments+=(--host "$1")
    shift
    if [ $# -ge 1 ] && [ "${1#-}" = "$1" ]; then
        arguments+=(--webui-port "$1")
        shift
    fi
fi
exec "$FLOTT_BIN_DIR/flott-daemon.sh" "$action" jobmanager "${arguments[@]+"${arguments[@]}"}" "$@"
