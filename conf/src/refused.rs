//! Options of Flink that have no meaning here, and what to use instead.
//!
//! An option that does carry over is declared, if need be under another name; it must not stand here.

/// Keys (a trailing `*` stands for any end) and what to use instead.
const REFUSED: &[(&str, &str)] = &[
    (
        "env.java.*",
        "there is no JVM; memory is one number, taskmanager.memory.process.size, and environment variables are ordinary ones",
    ),
    ("env.hadoop.conf.dir", "set the environment variable HADOOP_CONF_DIR"),
    ("env.yarn.conf.dir", "set the environment variable YARN_CONF_DIR"),
    ("env.log.level", "use log.level"),
    ("rootLogger.*", "use log.level"),
    (
        "taskmanager.heap.*",
        "use taskmanager.memory.process.size, the one number for the whole process",
    ),
    (
        "jobmanager.heap.*",
        "use jobmanager.memory.process.size, the one number for the whole process",
    ),
    ("taskmanager.memory.jvm-metaspace.size", "there is no JVM and so no metaspace; drop it"),
    ("jobmanager.memory.jvm-metaspace.size", "there is no JVM and so no metaspace; drop it"),
    ("jobmanager.memory.enable-jvm-direct-memory-limit", "there is no JVM; drop it"),
    ("taskmanager.memory.off-heap*", "there is no heap apart; drop it"),
    ("taskmanager.memory.preallocate", "memory is taken when it is needed; drop it"),
    (
        "taskmanager.memory.managed.consumer-weights",
        "state backends and operators share managed memory by need; drop it",
    ),
    (
        "taskmanager.memory.framework.off-heap.batch-shuffle.size",
        "there is no batch shuffle; drop it",
    ),
    (
        "taskmanager.network.numberOfBuffers",
        "use taskmanager.memory.network.min, .max and .fraction",
    ),
    ("taskmanager.network.netty.*", "the exchange has no Netty in it; drop it"),
    (
        "taskmanager.network.memory.buffer-debloat.period",
        "a subtask's rate is measured while it works; drop it",
    ),
    (
        "taskmanager.network.memory.buffer-debloat.samples",
        "a subtask's rate is measured while it works; drop it",
    ),
    (
        "taskmanager.network.memory.buffer-debloat.threshold-percentages",
        "producers in other processes hear of changes by a fourth; drop it",
    ),
    ("taskmanager.network.memory.max-*", "buffers are granted on first data; drop it"),
    (
        "taskmanager.network.request-backoff.*",
        "a task resolves its producers when it is deployed; see taskmanager.network.connect-timeout",
    ),
    ("taskmanager.debug.memory.*", "use the metrics"),
    ("taskmanager.jvm-exit-on-oom", "at its limit the largest task fails by name; drop it"),
    ("taskmanager.exit-on-fatal-akka-error", "a process never stays half alive; drop it"),
    ("taskmanager.network.bind-policy", "set taskmanager.host"),
    ("classloader.*", "each program is a process of its own, there are no class loaders; drop it"),
    ("pipeline.jars", "a program is one executable: use pipeline.program"),
    ("pipeline.classpaths", "a program is one executable: use pipeline.program"),
    ("pipeline.object-reuse", "records are always handed on by value; drop it"),
    ("pipeline.*serializ*", "records are FlottType, with a codec of their own; drop it"),
    ("pipeline.*kryo*", "records are FlottType, with a codec of their own; drop it"),
    ("pipeline.*types", "records are FlottType, with a codec of their own; drop it"),
    ("pipeline.closure-cleaner-level", "functions are never serialised; drop it"),
    (
        "pipeline.operator-chaining*",
        "chain ends are decided by the program: disable_chaining on the operator",
    ),
    (
        "execution.runtime-mode",
        "sources say whether they are bounded, and .at_end() gives final values; drop it",
    ),
    ("execution.checkpointing.mode", "checkpoints are always exactly once; drop it"),
    (
        "execution.checkpointing.max-concurrent-checkpoints",
        "one checkpoint runs at a time, as Flink's default says; drop it",
    ),
    (
        "execution.checkpointing.unaligned*",
        "barriers are aligned; data on its way is bounded by time, see taskmanager.network.memory.buffer-debloat.target; drop it",
    ),
    (
        "execution.checkpointing.aligned-checkpoint-timeout",
        "barriers are aligned; data on its way is bounded by time, see taskmanager.network.memory.buffer-debloat.target; drop it",
    ),
    (
        "execution.checkpointing.checkpoints-after-tasks-finish*",
        "checkpoints go on after tasks have finished, as Flink's default says; drop it",
    ),
    ("execution.checkpointing.create-subdir", "each job has a folder of its own; drop it"),
    (
        "execution.checkpointing.file-merging.*",
        "small state is in the metadata: see execution.checkpointing.data-inline-threshold",
    ),
    ("execution.checkpointing.interval-during-backlog", "use execution.checkpointing.interval"),
    (
        "execution.checkpointing.local-backup.*",
        "state is restored from the checkpoint directory; drop it",
    ),
    ("state.backend.local-recovery", "state is restored from the checkpoint directory; drop it"),
    ("state.backend", "keyed state is in memory; drop it"),
    ("state.backend.type", "keyed state is in memory; drop it"),
    ("state.backend.rocksdb.*", "keyed state is in memory; drop it"),
    ("state.backend.forst.*", "keyed state is in memory; drop it"),
    ("state.changelog.*", "checkpoints store changes: see execution.checkpointing.incremental"),
    (
        "state.backend.changelog.*",
        "checkpoints store changes: see execution.checkpointing.incremental",
    ),
    ("$internal.application.main", "use pipeline.entry, the name of one of the program's jobs"),
    ("internal.cluster.execution-mode", "use flott jobmanager --mode"),
    ("blob.server.port", "blobs travel on the RPC connection: see jobmanager.rpc.port"),
    ("blob.server.bind-port", "blobs travel on the RPC connection: see jobmanager.rpc.port"),
    ("blob.offload.minsize", "calls may be of any size; drop it"),
    ("akka.framesize", "calls may be of any size; drop it"),
    ("pekko.framesize", "calls may be of any size; drop it"),
    (
        "blob.fetch.num-concurrent",
        "blobs travel on the RPC connection, bounded by rpc.connections-max; drop it",
    ),
    ("blob.fetch.backlog", "blobs travel on the RPC connection; drop it"),
    ("blob.client.*", "use rpc.connect-timeout and rpc.ask-timeout"),
    ("blob.service.*", "use security.ssl.internal.enabled"),
    ("query.server.*", "there is no queryable state"),
    ("queryable-state.*", "there is no queryable state"),
    ("metrics.internal.query-service.port", "metrics travel on the RPC connection; drop it"),
    (
        "metrics.internal.query-service.thread-priority",
        "metrics travel on the RPC connection; drop it",
    ),
    ("akka.*", "there is no Akka: see the rpc.* options"),
    ("pekko.*", "there is no Pekko: see the rpc.* options"),
    ("security.ssl.internal.keystore*", "use security.ssl.internal.cert and .key, PEM files"),
    (
        "security.ssl.internal.key-password",
        "use an unencrypted security.ssl.internal.key with mode 0600",
    ),
    ("security.ssl.internal.truststore*", "use security.ssl.internal.ca, a PEM file"),
    ("security.ssl.algorithms", "TLS 1.3 with the strong suites only; drop it"),
    ("security.ssl.protocol", "TLS 1.3; drop it"),
    ("security.ssl.provider", "TLS is built in (rustls); drop it"),
    ("security.module.*", "nothing is loaded at run time; drop it"),
    ("security.context.*", "nothing is loaded at run time; drop it"),
    (
        "plugin.*",
        "nothing is loaded at run time; file systems and connectors are cargo features of the program",
    ),
    ("cluster.thread-dump.*", "stacks are sampled by signal; drop it"),
    ("cluster.uncaught-exception-handling", "panics are always answered and handled; drop it"),
    ("cluster.processes.halt-on-fatal-error", "a process always ends on a fatal error; drop it"),
    ("cluster.io-pool.size", "blocking I/O has its own bounded threads; drop it"),
    (
        "cluster.fine-grained-resource-management.enabled",
        "resource specs of slot sharing groups are always honoured; drop it",
    ),
    ("slotmanager.*memory*", "bound the slots: slotmanager.number-of-slots.max"),
    ("slotmanager.*cpu*", "bound the slots: slotmanager.number-of-slots.max"),
    ("jobmanager.scheduler", "there is one scheduler, of pipelined regions; drop it"),
    ("jobmanager.execution.failover-strategy", "pipelined regions are restarted; drop it"),
    ("jobmanager.execution.attempts-history-size", "use web.exception-history-size"),
    ("jobmanager.future-pool.size", "there are no thread pools to size; drop it"),
    ("jobmanager.io-pool.size", "there are no thread pools to size; drop it"),
    ("job.autoscaler.*", "there is no autoscaler"),
    ("scheduler-mode", "there is one scheduler; drop it"),
    ("mesos.*", "there is no Mesos"),
    ("python.*", "programs are Rust binaries"),
    ("table.*", "there is no table API"),
    ("sql-gateway.*", "there is no SQL gateway"),
    ("fs.default-scheme", "write the scheme with the path"),
    ("parallelism.max", "use pipeline.max-parallelism"),
    ("high-availability.jobmanager.port", "use jobmanager.rpc.port; it takes a range"),
    ("high-availability.use-old-ha-services", "drop it"),
    ("historyserver.*", "there is no history server"),
    ("web.address", "use rest.address"),
    ("web.port", "use rest.port"),
    ("web.timeout", "use rpc.ask-timeout"),
    ("web.history", "use jobstore.max-capacity"),
    ("web.log.path", "use log.dir"),
    (
        "web.access-control-allow-origin",
        "cross-origin requests are not allowed; put a proxy in front",
    ),
    ("jobmanager.web.*", "use the web.* and rest.* options"),
    (
        "heartbeat.rpc-failure-threshold",
        "a closed connection is confirmed at once: see heartbeat.confirm-within",
    ),
];

/// Returns the advice for `key` if it is one of Flink's options that have no meaning here;
/// otherwise `None`.
pub(crate) fn instead_of(key: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(pattern, _)| matches(pattern, key)).map(|(_, instead)| *instead)
}

/// Returns true if `key` is of the form `pattern`, in which each `*` stands for any text.
fn matches(pattern: &str, key: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| key.strip_prefix(first)) else {
        return false;
    };
    let mut open_end = false;
    for part in parts {
        open_end = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = rest.get(at + part.len()..).unwrap_or(""),
            None => return false,
        }
    }
    open_end || rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_text() {
        assert!(matches("a.*", "a.b.c") && matches("a.*x*", "a.bxc") && matches("a*c", "abc"));
        assert!(!matches("a.b", "a.b.c") && !matches("a.*x*", "a.b") && !matches("a*c", "abcd"));
    }
}
