#!/usr/bin/env bash
# Starts or stops the JobManager of one application on this host: it runs the program's job, then ends.
# TaskManagers are started beside it: taskmanager.sh start --program PATH. What the job collects goes to the
# JobManager's standard output: the .out file beside its log.
#
# usage: standalone-job.sh (start|start-foreground) --program PATH [--job-id ID] [--job NAME] [-p N]
#                          [-D key=value …] [--define-file FILE] [-- ARGS of the program]
#        standalone-job.sh (stop|stop-all)
# --define-file - reads options from standard input: arguments are visible to every user of the host.

set -u
source "$(dirname "${BASH_SOURCE[0]}")/config.sh"

check_action "${1:-}"
action="$1"
shift
if [ "$action" = start ] || [ "$action" = start-foreground ]; then
    case " $* " in
        *" --program "* | *" --program="*) ;;
        *) misuse "--program PATH is missing" ;;
    esac
    "$FLOTT_BINARY" make-secret >/dev/null || exit
fi
exec "$FLOTT_BIN_DIR/flott-daemon.sh" "$action" standalone-job "$@"
