//! Options of security.

use crate::declare::options;
use std::path::PathBuf;

options! {
    /// A 0600 file that holds the cluster's secret, which every process of the cluster proves (it is never sent).
    /// Made by `start-cluster.sh`.
    CLUSTER_SECRET_FILE: Option<PathBuf> = "security.cluster-secret-file" => None;
    /// Whether RPC, blob and data connections use TLS, each side showing a certificate. Must be the same on all processes.
    /// On YARN the client ships the three files to the containers of its application, from where these options name them
    /// on the client's host or from `yarn.ship-files` (`ship/…`); the certificate has to name every node.
    SSL_INTERNAL_ENABLED: bool = "security.ssl.internal.enabled" => false;
    /// The certificate chain of this process and its program hosts, PEM. Names the host under which others reach it.
    SSL_INTERNAL_CERT: Option<PathBuf> = "security.ssl.internal.cert" => None;
    /// Private key of that certificate, PEM.
    SSL_INTERNAL_KEY: Option<PathBuf> = "security.ssl.internal.key" => None;
    /// The certificates of the authority that signed the other processes' certificates, PEM.
    SSL_INTERNAL_CA: Option<PathBuf> = "security.ssl.internal.ca" => None;
}
