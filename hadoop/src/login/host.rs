//! The name of a host of which only the address is known, by the system's resolver: principals name hosts. What
//! it says is believed only where the name leads back to the address; who the host is, Kerberos has to prove.

use std::net::IpAddr;
use std::time::Duration;

/// How long the resolver may take.
const LOOK_UP_MAX: Duration = Duration::from_secs(10);

/// A host as principals name it: a name stays what it is, and an address becomes its host's name, as Java's
/// `getCanonicalHostName` has it; `None` where it has none.
pub(super) async fn canonical(host: &str) -> Option<String> {
    let Ok(address) = host.parse::<IpAddr>() else { return Some(host.to_owned()) };
    let found = tokio::time::timeout(LOOK_UP_MAX, named(address)).await;
    if !matches!(found, Ok(Some(_))) {
        let late = found.is_err();
        // Whoever uses the principal keeps it, and what Kerberos says of it then does not tell why.
        tracing::warn!(%address, late, "no name of a host that principals should name");
    }
    found.ok().flatten()
}

/// Asks the system's resolver, on a thread that may wait for it.
async fn named(address: IpAddr) -> Option<String> {
    let asked = tokio::task::spawn_blocking(move || dns_lookup::lookup_addr(&address));
    let name = asked.await.ok()?.ok()?;
    let mut found = tokio::net::lookup_host((name.as_str(), 0)).await.ok()?;
    let is_its = found.any(|found| found.ip().to_canonical() == address.to_canonical());
    is_its.then(|| name.clone())
}
