#!/usr/bin/env bash
# What the other scripts share: where things are, and how hosts are listed. Sourced, not run.
#
# FLOTT_CONF_DIR     folder with flott.yaml, masters, workers   (conf beside bin, or of the source tree)
# FLOTT_BINARY       the flott binary                            (found beside bin, or in target/)
# FLOTT_LOG_DIR      folder of log files                         (env.log.dir, else log beside bin)
# FLOTT_PID_DIR      folder of pid files                         (env.pid.dir)
# FLOTT_IDENT_STRING part of pid and log file names              (the user)
# FLOTT_SSH_OPTS     options for ssh                             (env.ssh.opts)

FLOTT_BIN_DIR="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)"
export FLOTT_BIN_DIR

# A distribution has bin/ and conf/ side by side; the source tree has deploy/bin/ and conf/.
FLOTT_HOME="$(cd "$FLOTT_BIN_DIR/.." && pwd -P)"
if [ ! -f "$FLOTT_HOME/conf/flott.yaml" ] && [ -f "$FLOTT_HOME/../conf/flott.yaml" ]; then
    FLOTT_HOME="$(cd "$FLOTT_HOME/.." && pwd -P)"
fi
export FLOTT_HOME
export FLOTT_CONF_DIR="${FLOTT_CONF_DIR:-$FLOTT_HOME/conf}"

die() {
    echo "error: $*" >&2
    exit 1
}

# The exit code of a script that does something on several hosts: the first that is not 0.
failed=0
failed() {
    [ "$failed" -ne 0 ] || failed="$1"
}

# The usage at the head of the script that runs.
usage() {
    awk '/^# usage:/ { on = 1 } !/^#/ { on = 0 } on { sub(/^# ?/, ""); print }' "$0"
}

# Wrong usage, with the exit code that the binary has for it.
misuse() {
    echo "error: $*" >&2
    usage >&2
    exit 64
}

# What a role's script can do.
check_action() {
    case "${1:-}" in
        start | start-foreground | stop | stop-all) ;;
        "") misuse "say what to do" ;;
        *) misuse "unknown action '$1'" ;;
    esac
}

# Whoever asks for help wants nothing started or stopped. The words behind -- are a program's own, those of
# the command line (flott) are the binary's.
case "${0##*/}" in
    *.sh)
        for word in "$@"; do
            case "$word" in
                --) break ;;
                -h | --help)
                    usage
                    exit 0
                    ;;
            esac
        done
        ;;
esac

find_binary() {
    local candidate
    for candidate in "${FLOTT_BINARY:-}" \
        "$FLOTT_HOME/lib/flott" \
        ${CARGO_TARGET_DIR:+"$CARGO_TARGET_DIR/release/flott"} \
        "$FLOTT_HOME/target/release/flott" \
        ${CARGO_TARGET_DIR:+"$CARGO_TARGET_DIR/debug/flott"} \
        "$FLOTT_HOME/target/debug/flott"; do
        if [ -n "$candidate" ] && [ -x "$candidate" ] && [ ! -d "$candidate" ]; then
            echo "$candidate"
            return
        fi
    done
    die "the flott binary is not found: build it with 'cargo build --release -p deploy --bin flott', or set FLOTT_BINARY"
}

FLOTT_BINARY="$(find_binary)" || exit
export FLOTT_BINARY

option() {
    "$FLOTT_BINARY" get-option "$1"
}

FLOTT_IDENT_STRING="${FLOTT_IDENT_STRING:-$(id -un)}"

# Reads the options that the scripts themselves need; a wrong flott.yaml ends the script here, with the exit code
# that the binary has for it.
load_options() {
    if [ -z "${FLOTT_PID_DIR:-}" ]; then
        FLOTT_PID_DIR="$(option env.pid.dir)" || exit
    fi
    if [ -z "${FLOTT_LOG_DIR:-}" ]; then
        FLOTT_LOG_DIR="$(option env.log.dir)" || exit
        FLOTT_LOG_DIR="${FLOTT_LOG_DIR:-$FLOTT_HOME/log}"
    fi
    if [ -z "${FLOTT_SSH_OPTS:-}" ]; then
        FLOTT_SSH_OPTS="$(option env.ssh.opts)" || exit
    fi
}

# Lines of conf/masters or conf/workers, without comments.
hosts_of() {
    local file="$FLOTT_CONF_DIR/$1"
    if [ ! -f "$file" ]; then
        echo localhost
        return
    fi
    sed -e 's/#.*//' -e 's/[[:space:]]*$//' -e 's/^[[:space:]]*//' -e '/^$/d' "$file"
}

is_local() {
    case "$1" in
        localhost | 127.0.0.1 | ::1 | "$(hostname)" | "$(hostname -f 2>/dev/null)") return 0 ;;
        *) return 1 ;;
    esac
}

# A word as a remote shell takes it literally.
quote() {
    printf "'%s'" "${1//\'/\'\\\'\'}"
}

# Runs one of these scripts on a host: here, or by ssh.
on_host() {
    local host="$1" script="$2"
    shift 2
    if is_local "$host"; then
        "$FLOTT_BIN_DIR/$script" "$@"
        return
    fi
    local words word
    words="FLOTT_CONF_DIR=$(quote "$FLOTT_CONF_DIR") $(quote "$FLOTT_BIN_DIR/$script")"
    for word in "$@"; do
        words="$words $(quote "$word")"
    done
    # shellcheck disable=SC2086
    ssh -n $FLOTT_SSH_OPTS "$host" -- "nohup /usr/bin/env bash -l -c $(quote "$words")"
}
