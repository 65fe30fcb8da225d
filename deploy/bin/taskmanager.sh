#!/usr/bin/env bash
# Starts or stops a TaskManager on this host; several may run.
#
# usage: taskmanager.sh (start|start-foreground) [--program PATH] [-D key=value …] [--define-file FILE]
#        taskmanager.sh stop [pid]         the one that was started last, or this one
#        taskmanager.sh stop-all

set -u
source "$(dirname "${BASH_SOURCE[0]}")/config.sh"

check_action "${1:-}"
action="$1"
shift
exec "$FLOTT_BIN_DIR/flott-daemon.sh" "$action" taskmanager "$@"
