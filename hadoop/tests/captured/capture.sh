#!/bin/sh
# Captures all exchanges anew: capture.sh DIR, with a directory for the cluster, which is removed afterwards.
set -eu
cd "$(dirname "$0")/../../.."
dir=$1

property() {
  sed -i "s#</configuration>#  <property><name>$2</name><value>$3</value></property>\n</configuration>#" "$dir/conf/$1.xml"
}

# Maven may leave something before the line when it has fetched jars.
up() {
  eval "$(cargo xtask yarn up "$@" --dir "$dir" | grep -o 'export HADOOP_CONF_DIR=.*')"
}

# Daemons read what was changed when they start.
again() {
  for daemon in "$@"; do
    "$dir/bin/daemon" kill "$daemon"
    "$dir/bin/daemon" start "$daemon"
  done
}

captured() {
  CAPTURE=$1 cargo test -p hadoop --test captured -- --ignored --exact capture
}

trap 'cargo xtask yarn down --dir "$dir"' EXIT

up
property core-site hadoop.rpc.protection authentication,integrity,privacy
property yarn-site yarn.node-labels.enabled true
# Hadoop looks for the node of a container that grows by its host alone. The other one is exclusively for those who
# name its label, and not in the way.
property yarn-site yarn.scheduler.include-port-in-node-name false
property yarn-site yarn.resourcemanager.reservation-system.enable true
property yarn-site yarn.resourcemanager.resource-profiles.enabled true
property yarn-site yarn.nodemanager.node-attributes.provider config
property yarn-site yarn.nodemanager.node-attributes.provider.configured-node-attributes os,STRING,linux
cat > "$dir/conf/resource-profiles.json" <<'END'
{ "default": {"memory-mb": 128, "vcores": 1}, "large": {"memory-mb": 1024, "vcores": 2} }
END
scheduler=yarn.scheduler.capacity.root
property capacity-scheduler $scheduler.queues default,small,plan
property capacity-scheduler $scheduler.default.capacity 50
property capacity-scheduler $scheduler.plan.capacity 25
property capacity-scheduler $scheduler.plan.reservable true
property capacity-scheduler $scheduler.accessible-node-labels.fast.capacity 100
property capacity-scheduler $scheduler.default.accessible-node-labels.fast.capacity 100
again resourcemanager nodemanager1 nodemanager2
"$dir/bin/yarn" rmadmin -addToClusterNodeLabels "fast(exclusive=true)"
node=$("$dir/bin/yarn" node -list | awk '/RUNNING/ { node = $1 } END { print node }')
"$dir/bin/yarn" rmadmin -replaceLabelsOnNode "$node=fast"
captured plain
cargo xtask yarn down --dir "$dir"

up --secure --ha
property core-site hadoop.rpc.protection privacy,integrity,authentication
again resourcemanager1 resourcemanager2 nodemanager1 nodemanager2
captured secure
cargo xtask yarn down --dir "$dir"

# Takes one call at a time and lets one wait, takes containers back for others, and knows soon that a node is lost.
up
port=$(sed -n 's#.*<name>yarn.resourcemanager.address</name><value>[^:]*:\([0-9]*\)<.*#\1#p' "$dir/conf/yarn-site.xml")
property core-site "ipc.$port.backoff.enable" true
property core-site ipc.server.handler.queue.size 1
property yarn-site yarn.resourcemanager.client.thread-count 1
preemption=yarn.resourcemanager.monitor.capacity.preemption
property yarn-site yarn.resourcemanager.scheduler.monitor.enable true
property yarn-site $preemption.monitoring_interval 100
property yarn-site $preemption.max_wait_before_kill 2000
property yarn-site $preemption.total_preemption_per_round 1.0
property yarn-site $preemption.natural_termination_factor 1.0
property yarn-site $preemption.max_ignored_over_capacity 0.0
property yarn-site yarn.nm.liveness-monitor.expiry-interval-ms 3000
# None is started.
property yarn-site yarn.resourcemanager.rm.container-allocation.expiry-interval-ms 60000
again resourcemanager
captured scarce
