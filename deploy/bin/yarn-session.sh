#!/usr/bin/env bash
# Starts a session on YARN: a JobManager in a container, which asks for TaskManagers as jobs need them.
#
# usage: yarn-session.sh [-d] [-qu QUEUE] [-jm MEMORY] [-tm MEMORY] [-s SLOTS] [-nm NAME] [-t PATH …] [-nl LABEL]
#                        [-at TYPE] [-sae] [-D key=value …]
#        yarn-session.sh -id APPLICATION    attaches to a session that runs
#        yarn-session.sh --stop             ends the session that was started last, or that of -id
#        yarn-session.sh -q                 shows nodes and queues of the cluster
# HADOOP_CONF_DIR names the directory with the cluster's configuration. All options: flott yarn-session --help

set -u
source "$(dirname "${BASH_SOURCE[0]}")/config.sh"

exec "$FLOTT_BINARY" yarn-session "$@"
