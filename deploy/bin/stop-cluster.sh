#!/usr/bin/env bash
# Stops what start-cluster.sh started: the TaskManagers of conf/workers, then the JobManagers of conf/masters.
# Jobs of a cluster with high availability are kept and go on with its next start.
#
# usage: stop-cluster.sh

set -u
source "$(dirname "${BASH_SOURCE[0]}")/config.sh"
[ $# -eq 0 ] || misuse "unexpected argument '$1'"
load_options

for host in $(hosts_of workers | sort -u); do
    on_host "$host" taskmanager.sh stop-all || failed $?
done
for master in $(hosts_of masters); do
    on_host "${master%%:*}" jobmanager.sh stop-all || failed $?
done
exit "$failed"
