//! Hadoop's own values of the properties that this library reads, as `core-default.xml`,
//! `hdfs-default.xml` and `yarn-default.xml` of Hadoop 3.4 have them. Only properties that some code
//! here reads or that others refer to belong in the table: those of these, and those of site files to
//! `hadoop.tmp.dir`. Of properties that Hadoop's own clients replace by others before they look at them -
//! `ipc.client.connect.max.retries` - only what a site file says counts, so they are not here.

/// (name, value), by name.
pub(super) const DEFAULTS: &[(&str, &str)] = &[
    ("fs.defaultFS", "file:///"),
    ("hadoop.kerberos.kinit.command", "kinit"),
    ("hadoop.kerberos.min.seconds.before.relogin", "60"),
    ("hadoop.rpc.protection", "authentication"),
    ("hadoop.security.authentication", "simple"),
    ("hadoop.security.token.service.use_ip", "true"),
    ("hadoop.tmp.dir", "/tmp/hadoop-${user.name}"),
    ("ipc.client.connect.timeout", "20000"),
    ("ipc.client.connection.maxidletime", "10000"),
    ("ipc.client.fallback-to-simple-auth-allowed", "false"),
    ("ipc.client.ping", "true"),
    ("ipc.client.rpc-timeout.ms", "120000"),
    ("ipc.maximum.data.length", "134217728"),
    ("ipc.maximum.response.length", "134217728"),
    ("ipc.ping.interval", "60000"),
    ("yarn.client.failover-max-attempts", "-1"),
    ("yarn.client.failover-retries", "0"),
    ("yarn.client.nodemanager-connect.max-wait-ms", "180000"),
    ("yarn.client.nodemanager-connect.retry-interval-ms", "10000"),
    ("yarn.nodemanager.remote-app-log-dir", "/tmp/logs"),
    ("yarn.nodemanager.remote-app-log-dir-suffix", "logs"),
    ("yarn.resourcemanager.address", "${yarn.resourcemanager.hostname}:8032"),
    ("yarn.resourcemanager.connect.max-wait.ms", "900000"),
    ("yarn.resourcemanager.connect.retry-interval.ms", "30000"),
    ("yarn.resourcemanager.ha.enabled", "false"),
    ("yarn.resourcemanager.hostname", "0.0.0.0"),
    ("yarn.resourcemanager.scheduler.address", "${yarn.resourcemanager.hostname}:8030"),
];

/// (old name, new name): names that Hadoop still takes for properties of the table.
pub(super) const RENAMED: &[(&str, &str)] =
    &[("fs.default.name", "fs.defaultFS"), ("dfs.federation.nameservices", "dfs.nameservices")];
