//! The name of a host of which only the address is known, by the system's resolver: principals name hosts. What
//! it says is believed only where the name leads back to the address; who the host is, Kerberos has to prove.

use std::net::IpAddr;
use std::time::Duration;

/// How long the resolver may take.
const LOOK_UP_MAX: Duration = Duration::from_secs(10);

/// A host as principals name it: a name stays what it is, and an address becomes its host's name, as Java's
/// `getCanonicalHostName` has it; without one it stays.
pub(super) async fn canonical(host: &str) -> String {
    let Ok(address) = host.parse::<IpAddr>() else { return host.to_owned() };
    match tokio::time::timeout(LOOK_UP_MAX, named(address)).await {
        Ok(Some(name)) => name,
        outcome => {
            let late = outcome.is_err();
            tracing::debug!(%address, late, "no name of a host; principals get its address");
            host.to_owned()
        }
    }
}

/// Asks the system's resolver, on a thread that may wait for it.
async fn named(address: IpAddr) -> Option<String> {
    let asked = tokio::task::spawn_blocking(move || dns_lookup::lookup_addr(&address));
    let name = asked.await.ok()?.ok()?;
    let mut found = tokio::net::lookup_host((name.as_str(), 0)).await.ok()?;
    let is_its = found.any(|found| found.ip().to_canonical() == address.to_canonical());
    is_its.then(|| name.clone())
}
