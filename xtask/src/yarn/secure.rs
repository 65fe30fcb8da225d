//! The configuration of a cluster with Kerberos: every service proves who it is, and everything that goes over a wire
//! is encrypted.

use super::{
    kerberos,
    layout::Layout,
    site::{Properties, pairs},
};

/// Users' tokens must be renewed this often: so soon that tests see it.
const RENEW_MS: &str = "20000";

pub(super) fn core() -> Properties {
    pairs(
        "",
        &[
            ("hadoop.security.authentication", "kerberos"),
            ("hadoop.security.authorization", "true"),
            ("hadoop.rpc.protection", "privacy"),
        ],
    )
}

pub(super) fn hdfs(layout: &Layout) -> Properties {
    let (principal, keytab) = kerberos::service(layout, "hdfs", "hdfs.keytab");
    let (web, _) = kerberos::service(layout, "HTTP", "hdfs.keytab");
    pairs(
        "",
        &[
            ("dfs.block.access.token.enable", "true"),
            ("dfs.data.transfer.protection", "privacy"),
            // Else with triple DES, which takes seconds for a program.
            ("dfs.encrypt.data.transfer.cipher.suites", "AES/CTR/NoPadding"),
            // Data go over SASL; only root could take the ports that DataNodes want else.
            ("ignore.secure.ports.for.testing", "true"),
            ("dfs.namenode.kerberos.principal", &principal),
            ("dfs.namenode.keytab.file", &keytab),
            ("dfs.datanode.kerberos.principal", &principal),
            ("dfs.datanode.keytab.file", &keytab),
            ("dfs.web.authentication.kerberos.principal", &web),
            ("dfs.web.authentication.kerberos.keytab", &keytab),
            ("dfs.namenode.delegation.token.renew-interval", RENEW_MS),
        ],
    )
}

pub(super) fn yarn(layout: &Layout) -> Properties {
    let mut all = Vec::new();
    for (service, name) in [("resourcemanager", "rm"), ("nodemanager", "nm")] {
        let (principal, keytab) = kerberos::service(layout, name, &format!("{name}.keytab"));
        all.push((format!("yarn.{service}.principal"), principal));
        all.push((format!("yarn.{service}.keytab"), keytab));
    }
    all.extend(pairs(
        "",
        &[
            ("yarn.resourcemanager.delegation.token.renew-interval", RENEW_MS),
            // Web pages are for everybody: they tell when the cluster is ready.
            ("yarn.resourcemanager.webapp.delegation-token-auth-filter.enabled", "false"),
        ],
    ));
    all
}
