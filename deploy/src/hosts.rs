//! Names and addresses of this machine, as others reach it.

use conf::{Options, jobmanager, taskmanager};
use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};

/// Returns the host name or address that a TaskManager publishes: as configured, else the one of
/// the interface that leads to the JobManager.
pub(crate) fn of_taskmanager(options: &Options) -> String {
    if let Some(host) = options.get(&taskmanager::HOST) {
        return host;
    }
    let bind = options.get(&taskmanager::BIND_HOST);
    if !["0.0.0.0", "::", "[::]"].contains(&&*bind) {
        return bind;
    }
    let jobmanager = options.get(&jobmanager::RPC_ADDRESS);
    let port = options.get(&jobmanager::RPC_PORT).first();
    route_to(&jobmanager, port).map_or_else(name, |ip| ip.to_string())
}

/// Returns the name of this machine.
pub(crate) fn name() -> String {
    nix::unistd::gethostname()
        .ok()
        .and_then(|name| name.into_string().ok())
        .filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// Returns the local address of the interface that leads to `host`. Sends nothing.
fn route_to(host: &str, port: u16) -> Option<IpAddr> {
    let target = (host, port.max(1)).to_socket_addrs().ok()?.next()?;
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    Some(socket.local_addr().ok()?.ip())
}

/// Returns true if a host's name or address, an IPv6 one with or without brackets, is that of the machine for itself alone. Resolves nothing.
pub(crate) fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Resolves the address that a bind option names.
pub(crate) fn bind_address(host: &str) -> std::io::Result<IpAddr> {
    let host = host.strip_prefix('[').and_then(|v6| v6.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = host.parse() {
        return Ok(ip);
    }
    let mut found = (host, 0).to_socket_addrs()?.map(|address| address.ip());
    let first = found.next();
    // A name with addresses of both families is bound on the older one, as everyone reaches that.
    let v4 = first.into_iter().chain(found).find(IpAddr::is_ipv4).or(first);
    Ok(v4.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taskmanager_is_called_as_configured_else_as_it_is_reached() {
        let of = |pairs: &[(&str, &str)]| {
            of_taskmanager(&Options::from_map(pairs.iter().copied()).unwrap())
        };
        assert_eq!(of(&[("taskmanager.host", "node-7")]), "node-7");
        assert_eq!(of(&[]), "localhost");
        assert_eq!(of(&[("taskmanager.bind-host", "0.0.0.0")]), "127.0.0.1");
        assert!(bind_address("localhost").unwrap().is_loopback());
        assert_eq!(bind_address("[::1]").unwrap(), bind_address("::1").unwrap());
        assert_eq!(of(&[("taskmanager.bind-host", "[::]")]), "127.0.0.1");
        assert!(!name().is_empty());
    }
}
