#!/usr/bin/env bash
# Starts a session: a JobManager on every line of conf/masters, a TaskManager on every line of conf/workers.
#
# The cluster's id and secret are made once and copied to the other hosts; they outlive the cluster.
#
# usage: start-cluster.sh [-D key=value …]

set -u
source "$(dirname "${BASH_SOURCE[0]}")/config.sh"

# Both roles get the arguments: a bare word would be a host to one and nothing to the other.
value=0
for word in "$@"; do
    case "$value:$word" in
        1:*) value=0 ;;
        0:-D) value=1 ;;
        0:-D*=* | 0:--config-dir=*) ;;
        *) misuse "unexpected argument '$word'" ;;
    esac
done
[ "$value" -eq 0 ] || misuse "-D needs key=value"
load_options

files="$("$FLOTT_BINARY" make-secret)" || exit

copy_files() {
    local host="$1" file folder
    while read -r file; do
        folder="$(dirname "$file")"
        # shellcheck disable=SC2029,SC2086
        ssh $FLOTT_SSH_OPTS "$host" -- "umask 077 && mkdir -p $(quote "$folder") && cat > $(quote "$file")" <"$file" ||
            die "the cluster's files could not be copied to $host"
    done <<<"$files"
}

others="$({ hosts_of masters | sed 's/:[0-9]*$//'; hosts_of workers; } | sort -u)"
for host in $others; do
    is_local "$host" || copy_files "$host"
done

masters="$(hosts_of masters)"
[ -n "$masters" ] || die "$FLOTT_CONF_DIR/masters names no host"
rest_port="$("$FLOTT_BINARY" get-option rest.port "$@")" || exit
bound=()
for master in $masters; do
    host="${master%%:*}"
    # The port that conf/masters names counts, unless flott.yaml or the command line says another one: clients dial rest.port.
    named=""
    if [ "$master" != "$host" ] && [ "$rest_port" = 8081 ]; then
        named="${master#*:}"
    fi
    arguments=()
    if [ -n "$named" ] || [ "$(echo "$masters" | wc -l)" -gt 1 ] || ! is_local "$host"; then
        arguments+=("$host" ${named:+"$named"})
    fi
    if [ -n "$named" ] && [ "$named" != "$rest_port" ]; then
        echo "REST of $host is on port $named, as conf/masters says: set rest.port to it, or give clients -m $host:$named"
    fi
    said="$(on_host "$host" jobmanager.sh start "${arguments[@]+"${arguments[@]}"}" "$@")" || failed $?
    [ -z "$said" ] || echo "$said"
    port="$(sed -n 's/.*, RPC .*:\([0-9]*\))$/\1/p' <<<"$said")"
    [ -z "$port" ] || bound+=("$port")
done
[ "$failed" -eq 0 ] || exit "$failed"

# Of a range, TaskManagers would dial the first port; with several JobManagers they ask who leads.
known=()
port="$("$FLOTT_BINARY" get-option jobmanager.rpc.port "$@")" || exit
if [ "$(echo "$masters" | wc -l)" -eq 1 ] && [ "${#bound[@]}" -eq 1 ] && [ "$port" != "${bound[0]}" ]; then
    known=(-D "jobmanager.rpc.port=${bound[0]}")
fi
for host in $(hosts_of workers); do
    on_host "$host" taskmanager.sh start "$@" "${known[@]+"${known[@]}"}" || failed $?
done
exit "$failed"
