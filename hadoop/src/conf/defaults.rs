//! Hadoop's own values of the properties that this library reads, as `core-default.xml`,
//! `hdfs-default.xml` and `yarn-default.xml` of Hadoop 3.4 have them. Only properties that some code
//! here uses or that others of these refer to belong in the table.

/// (name, value), by name.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("fs.defaultFS", "file:///"),
    ("hadoop.kerberos.kinit.command", "kinit"),
    ("hadoop.kerberos.min.seconds.before.relogin", "60"),
    ("hadoop.rpc.protection", "authentication"),
    ("hadoop.security.auth_to_local", "DEFAULT"),
    ("hadoop.security.authentication", "simple"),
    ("hadoop.security.authorization", "false"),
    ("hadoop.security.token.service.use_ip", "true"),
    ("hadoop.tmp.dir", "/tmp/hadoop-${user.name}"),
    ("ipc.client.connect.max.retries", "10"),
    ("ipc.client.connect.max.retries.on.timeouts", "45"),
    ("ipc.client.connect.retry.interval", "1000"),
    ("ipc.client.connect.timeout", "20000"),
    ("ipc.client.connection.maxidletime", "10000"),
    ("ipc.client.fallback-to-simple-auth-allowed", "false"),
    ("ipc.client.ping", "true"),
    ("ipc.client.rpc-timeout.ms", "120000"),
    ("ipc.client.tcpnodelay", "true"),
    ("ipc.maximum.data.length", "134217728"),
    ("ipc.maximum.response.length", "134217728"),
    ("ipc.ping.interval", "60000"),
    ("yarn.am.liveness-monitor.expiry-interval-ms", "600000"),
    ("yarn.client.application-client-protocol.poll-interval-ms", "200"),
    ("yarn.client.failover-max-attempts", "-1"),
    ("yarn.client.failover-retries", "0"),
    ("yarn.client.failover-retries-on-socket-timeouts", "0"),
    ("yarn.client.nodemanager-connect.max-wait-ms", "180000"),
    ("yarn.client.nodemanager-connect.retry-interval-ms", "10000"),
    ("yarn.nodemanager.remote-app-log-dir", "/tmp/logs"),
    ("yarn.nodemanager.remote-app-log-dir-suffix", "logs"),
    ("yarn.resourcemanager.address", "${yarn.resourcemanager.hostname}:8032"),
    ("yarn.resourcemanager.admin.address", "${yarn.resourcemanager.hostname}:8033"),
    ("yarn.resourcemanager.am.max-attempts", "2"),
    ("yarn.resourcemanager.connect.max-wait.ms", "900000"),
    ("yarn.resourcemanager.connect.retry-interval.ms", "30000"),
    ("yarn.resourcemanager.delegation.token.renew-interval", "86400000"),
    ("yarn.resourcemanager.ha.enabled", "false"),
    ("yarn.resourcemanager.hostname", "0.0.0.0"),
    ("yarn.resourcemanager.scheduler.address", "${yarn.resourcemanager.hostname}:8030"),
    ("yarn.resourcemanager.webapp.address", "${yarn.resourcemanager.hostname}:8088"),
];

/// (old name, new name): names that Hadoop still takes for properties of the table.
pub(super) const RENAMED: &[(&str, &str)] =
    &[("fs.default.name", "fs.defaultFS"), ("dfs.federation.nameservices", "dfs.nameservices")];
