#!/usr/bin/env bash
# Starts, stops and lists the background processes of one role on this host.
#
# usage: flott-daemon.sh (start|start-foreground) (jobmanager|standalone-job|taskmanager) [arguments]
#        flott-daemon.sh stop (jobmanager|standalone-job|taskmanager) [pid]
#        flott-daemon.sh stop-all (jobmanager|standalone-job|taskmanager)

set -u
source "$(dirname "${BASH_SOURCE[0]}")/config.sh"

check_action "${1:-}"
[ $# -ge 2 ] || misuse "say which role"
action="$1"
daemon="$2"
shift 2

case "$daemon" in
    jobmanager) role=(jobmanager --mode session) ;;
    standalone-job) role=(jobmanager --mode application) ;;
    taskmanager) role=(taskmanager) ;;
    *) misuse "unknown role '$daemon'" ;;
esac

load_options
pid_file="$FLOTT_PID_DIR/flott-$FLOTT_IDENT_STRING-$daemon.pid"

# Whether a process lives. One that has ended and that nobody has waited for yet does not.
is_alive() {
    kill -0 "$1" 2>/dev/null && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status" 2>/dev/null
}

# A pid counts as ours only while that process runs in this role: numbers are used again.
is_ours() {
    local pid="$1" line
    is_alive "$pid" || return 1
    line="$(tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null)" || return 0
    case " $line " in
        *" ${role[0]} "*) return 0 ;;
        *) return 1 ;;
    esac
}

running() {
    local pid
    [ -f "$pid_file" ] || return 0
    while read -r pid; do
        if [ -n "$pid" ] && is_ours "$pid"; then
            echo "$pid"
        fi
    done <"$pid_file"
}

# One script at a time changes a pid file.
lock() {
    mkdir -p "$FLOTT_PID_DIR" || die "cannot make $FLOTT_PID_DIR"
    exec 9>"$pid_file.lock" || die "cannot write $pid_file.lock"
    await_lock
}

# Nobody holds it for longer than a process takes to end. Whoever else may write here may also hold it for ever.
await_lock() {
    flock -w 120 9 || die "$pid_file.lock has been held by another process for 120 s; set env.pid.dir to a folder of your own"
}

rotate() {
    local file="$1" max i
    [ -f "$file" ] || return 0
    max="$(option env.log.max)" || max=10
    i="$max"
    while [ "$i" -gt 1 ]; do
        [ -f "$file.$((i - 1))" ] && mv -f "$file.$((i - 1))" "$file.$i"
        i=$((i - 1))
    done
    [ "$max" -gt 0 ] && mv -f "$file" "$file.1"
}

# Ends the script unless the folder takes what a process writes there: not where it is read-only or the disk is full.
check_writable() {
    local folder="$1" setting="$2" probe why
    mkdir -p "$folder" || die "cannot make $folder; set $setting to a folder of your own"
    probe="$folder/.flott-$FLOTT_IDENT_STRING-$daemon-$$"
    why="$(export LC_ALL=C; { head -c 65536 /dev/zero >"$probe"; } 2>&1)" && rm -f "$probe" && return
    rm -f "$probe" 2>/dev/null
    die "cannot write in $folder: ${why##*: }; make room there, or set $setting to another folder"
}

# Writes the pid file anew with those that live, and one more.
note_pids() {
    { running; [ -z "${1:-}" ] || echo "$1"; } >"$pid_file.new"
    if [ -s "$pid_file.new" ]; then mv -f "$pid_file.new" "$pid_file"; else rm -f "$pid_file.new" "$pid_file"; fi
}

# Whether a process has said that it is up; one that is there for a job, that the job is submitted.
is_up() {
    local out="$1"
    grep -sqE '^(JobManager is up: |TaskManager is up: |\{"(rest|rpc)":)' "$out" || return 1
    [ "$daemon" != standalone-job ] || grep -qE "^job [0-9a-f]{32} '.*' is submitted$" "$out"
}

# Longest wait for a process to be up, in seconds. A large program takes its time: it is read through first.
readonly up_within=30

# Waits until the process is up or has ended: a wrong configuration, a port in use or a program without a job
# is better said here than in a log that nobody reads.
await_up() {
    local pid="$1" base="$2" code text until=$((SECONDS + up_within))
    while is_alive "$pid"; do
        if is_up "$base.out"; then
            say "started $daemon on $(hostname)" "$pid" "$base"
            return 0
        fi
        if [ "$SECONDS" -ge "$until" ]; then
            say "$daemon on $(hostname) is still starting" "$pid" "$base"
            return 0
        fi
        sleep 0.05
    done
    wait "$pid"
    code=$?
    await_lock
    note_pids
    # An application can be over before one looks.
    if [ "$code" -eq 0 ]; then
        say "$daemon on $(hostname) ended already" "$pid" "$base"
        return 0
    fi
    echo "error: $daemon on $(hostname) ended with code $code (log $base.log):" >&2
    text="$(grep -v '^JobManager is up: ' "$base.out" | tail -n 20)"
    [ -n "$text" ] || text="$(grep -s ' ERROR ' "$base.log" | tail -n 3)"
    echo "$text" >&2
    return "$code"
}

# What became of a start, and where to look further: flott run-application reads the lines of an application.
say() {
    local what="$1" pid="$2" base="$3" where
    if [ "$daemon" = standalone-job ]; then
        echo "$what (pid $pid)"
        grep -E "^job [0-9a-f]{32} '.*' is submitted$" "$base.out" | head -n 1
        sed -n 's/^JobManager is up: REST \([^,]*\),.*/rest: \1/p' "$base.out" | head -n 1
        echo "log: $base.log"
        echo "results: $base.out"
        return
    fi
    where="$(sed -n 's/^JobManager is up: /, /p' "$base.out" | head -n 1)"
    echo "$what (pid $pid, log $base.log$where)"
}

log_base() {
    echo "$FLOTT_LOG_DIR/flott-$FLOTT_IDENT_STRING-$daemon-$1-$(hostname)"
}

# Whether one that runs writes to these files.
logs_there() {
    local pid
    for pid in $(running); do
        tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qxF "FLOTT_LOG_FILE=$1.log" && return 0
    done
    return 1
}

# Whether the role reads options from standard input: --define-file -, before the program's own words.
reads_input() {
    local last=""
    for word in "$@"; do
        case "$last $word" in
            "-- "* | *" --") return 1 ;;
            "--define-file -") return 0 ;;
        esac
        [ "$word" != "--define-file=-" ] || return 0
        last="$word"
    done
    return 1
}

start() {
    # Only the role may read what the caller sends: secrets must not be in its arguments.
    if reads_input "$@"; then exec 8<&0; else exec 8</dev/null; fi
    exec 0</dev/null
    check_writable "$FLOTT_LOG_DIR" env.log.dir
    check_writable "$FLOTT_PID_DIR" env.pid.dir
    lock
    local alive number base pid
    alive="$(running | paste -sd, -)"
    if [ -n "$alive" ] && [ "$daemon" != taskmanager ]; then
        die "$daemon is running already on $(hostname) (pid $alive); stop it first, or set FLOTT_IDENT_STRING"
    fi
    number=0
    base="$(log_base "$number")"
    while logs_there "$base"; do
        number=$((number + 1))
        base="$(log_base "$number")"
    done
    rotate "$base.log"
    rotate "$base.out"
    # One that ends by itself takes its pid out of the file.
    FLOTT_LOG_FILE="$base.log" FLOTT_PID_FILE="$pid_file" nohup "$FLOTT_BINARY" "${role[@]}" "$@" \
        >"$base.out" 2>&1 <&8 8<&- 9>&- &
    pid=$!
    exec 8<&-
    # Known from now on: it can be stopped, and others started, while this waits.
    note_pids "$pid"
    flock -u 9
    await_up "$pid" "$base"
}

end() {
    local pid="$1" i
    echo "stopping $daemon on $(hostname) (pid $pid)"
    kill "$pid" 2>/dev/null || return 0
    for ((i = 0; i < 600; i++)); do
        is_alive "$pid" || return 0
        sleep 0.05
    done
    echo "$daemon (pid $pid) has not ended within 30 s: killing it" >&2
    kill -9 "$pid" 2>/dev/null
}

stop() {
    lock
    local alive last
    alive="$(running)"
    if [ -z "$alive" ]; then
        echo "no $daemon to stop on $(hostname)"
        rm -f "$pid_file"
        return
    fi
    if [ "$1" = all ]; then
        local pid
        for pid in $alive; do end "$pid"; done
        rm -f "$pid_file"
        return
    fi
    last="$1"
    if [ "$last" = last ]; then
        last="$(echo "$alive" | tail -n 1)"
    elif ! grep -qxF -- "$last" <<<"$alive"; then
        echo "no $daemon with pid $last to stop on $(hostname)"
        return
    fi
    end "$last"
    alive="$(running)"
    if [ -n "$alive" ]; then echo "$alive" >"$pid_file"; else rm -f "$pid_file"; fi
}

case "$action" in
    start) start "$@" ;;
    start-foreground) exec "$FLOTT_BINARY" "${role[@]}" "$@" ;;
    stop) stop "${1:-last}" ;;
    stop-all) stop all ;;
esac
