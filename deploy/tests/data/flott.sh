#!/usr/bin/env bash
# Stands in for the binary where only the scripts are looked at: says what it was called with in
# $FAKE_FOLDER/called, and in a role does what $FAKE_ROLE says.
echo "$*" >>"$FAKE_FOLDER/called"
if [ "$FAKE_ROLE" = misconfigured ]; then
    echo "error: flott.yaml line 1" >&2
    exit 64
fi
case "$1" in
    get-option)
        [ "$2" != env.log.max ] || echo 2
        [ "$2" != rest.port ] || echo "${FAKE_REST_PORT:-}"
        exit 0
        ;;
    make-secret) exit 0 ;;
esac
case " $* " in
    *" --define-file - "*) cat >"$FAKE_FOLDER/read" ;;
esac
up="JobManager is up: REST http://h:1, RPC h:2"
submitted="job 0123456789abcdef0123456789abcdef 'a job' is submitted"
run() {
    exec 8<> <(:)
    read -r -t 60 -u 8
}
case "$FAKE_ROLE" in
    session) echo "$up" >&2 && run ;;
    application) sleep 0.2 && echo "$up" >&2 && sleep 0.2 && echo "$submitted" >&2 && run ;;
    refuses) echo "$up" >&2 && sleep 0.5 && echo "error: the path 'x' is relative" >&2 && exit 3 ;;
    over) echo "$up" >&2 && exit 0 ;;
    portless) echo "error: no port" >&2 && exit 3 ;;
esac
