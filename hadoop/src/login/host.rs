//! The name of a host of which only the address is known, by the system's resolver: principals name hosts. What
//! it says is believed only where the name leads back to the address; who the host is, Kerberos has to prove.
#![expect(unsafe_code, reason = "the standard library asks for addresses only")]

use nix::libc;
use socket2::SockAddr;
use std::ffi::{CStr, c_char};
use std::net::{IpAddr, SocketAddr};
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

async fn named(address: IpAddr) -> Option<String> {
    let name = tokio::task::spawn_blocking(move || reverse(address)).await.ok()??;
    let mut found = tokio::net::lookup_host((name.as_str(), 0)).await.ok()?;
    let is_its = found.any(|found| found.ip().to_canonical() == address.to_canonical());
    is_its.then(|| name.clone())
}

/// Asks the system's resolver, and waits for it.
fn reverse(address: IpAddr) -> Option<String> {
    let address = SockAddr::from(SocketAddr::new(address, 0));
    // As long as any name is, with the zero behind it.
    let mut name = [0; libc::NI_MAXHOST as usize];
    let length = libc::NI_MAXHOST;
    // SAFETY: the address is valid for as many bytes as it says it has, and the name for the bytes that it is
    // given out for; no service is asked for. Both outlive the call.
    let failed = unsafe {
        libc::getnameinfo(
            address.as_ptr().cast(),
            address.len(),
            name.as_mut_ptr().cast::<c_char>(),
            length,
            std::ptr::null_mut(),
            0,
            libc::NI_NAMEREQD,
        )
    };
    let name = CStr::from_bytes_until_nul(&name).ok()?.to_str().ok()?;
    (failed == 0 && !name.is_empty()).then(|| name.to_owned())
}
