//! Addresses of processes and of the endpoints in them. Parsing and printing only.

use derive_more::Display;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{str::FromStr, sync::Arc};
use thiserror::Error;

/// Maximum length of a node address, and of an endpoint's name, in bytes; longer ones do not parse.
pub const ADDRESS_BYTES_MAX: usize = 512;

/// The address by which a process is called over RPC: `host:port`; `local:<n>` for a service without a port, which only
/// its own process can reach; or `host:<pid>-<n>` for a child process that is reached over a socket it inherited. Cheap
/// to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Display, derive_more::Debug)]
#[display("{}", self.0)]
#[debug("{}", self.0)]
pub struct NodeAddress(Arc<str>);

impl NodeAddress {
    /// Makes an address from a text of one of the three forms without checking it; `FromStr`
    /// checks. A call to a wrong address fails as [`Unreachable`](crate::FabricError::Unreachable).
    pub fn new(text: impl AsRef<str>) -> Self {
        Self(Arc::from(text.as_ref()))
    }

    /// Makes the address of a host name (or IP address) and a port; an IPv6 address gets brackets
    /// unless it has some.
    pub fn of(host: &str, port: u16) -> Self {
        if host.contains(':') && !host.starts_with('[') {
            Self::new(format!("[{host}]:{port}"))
        } else {
            Self::new(format!("{host}:{port}"))
        }
    }

    /// Returns the address as the text that it was made from, such as `host:port`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the text before the last `:`, without the brackets of an IPv6 address; the whole
    /// text if it has no `:`.
    pub fn host(&self) -> &str {
        let host = self.0.rsplit_once(':').map_or(&*self.0, |(host, _)| host);
        host.strip_prefix('[').and_then(|h| h.strip_suffix(']')).unwrap_or(host)
    }

    /// Returns the number after the last `:`, which for `local:<n>` is `n`. `None` if no number
    /// from 0 to 65535 is there: such an address (a child's) can't be dialled.
    pub fn port(&self) -> Option<u16> {
        self.0.rsplit_once(':')?.1.parse().ok()
    }

    /// Returns true for the form `local:<n>`: a service without a port, which only services made from clones of the
    /// same `Platform` value, inside the same process, can call.
    pub fn is_local(&self) -> bool {
        self.0.starts_with("local:")
    }
}

impl Serialize for NodeAddress {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&self.0)
    }
}
impl<'de> Deserialize<'de> for NodeAddress {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The error of parsing a [`NodeAddress`] (longer than 512 bytes, not `host:port`, or with a slash, white space or a control character) or
/// an [`EndpointAddress`] (not `flott://NODE/NAME`, or a name that is empty or longer than 512 bytes). Holds at most 64 characters of the
/// text, and the fault. Whether a host or endpoint exists is not checked.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{0}' is not an address: {1}")]
pub struct ParseAddressError(String, &'static str);

impl FromStr for NodeAddress {
    type Err = ParseAddressError;
    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let wrong = |why| ParseAddressError(text.chars().take(64).collect(), why);
        if text.len() > ADDRESS_BYTES_MAX {
            return Err(wrong("it is too long"));
        }
        match text.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && !port.is_empty() => {
                if text.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control()) {
                    Err(wrong("it has a character that no host name has"))
                } else {
                    Ok(Self::new(text))
                }
            }
            _ => Err(wrong("a node is host:port")),
        }
    }
}

/// The address of an endpoint, which is an actor that a process serves under a name: the process and that name. Prints
/// as `flott://host:port/endpoint`, and is parsed from that.
#[derive(
    Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display, derive_more::Debug,
)]
#[display("flott://{}/{}", self.node, self.endpoint)]
#[debug("{}", self)]
pub struct EndpointAddress {
    /// Process that the endpoint belongs to.
    pub node: NodeAddress,
    /// The name that the process serves the endpoint under, e.g. `dispatcher` or `job_master/<job id>`.
    pub endpoint: String,
}

impl EndpointAddress {
    /// Makes the address of an endpoint of a process. Whether the process serves it is not checked.
    pub fn new(node: NodeAddress, endpoint: impl Into<String>) -> Self {
        Self { node, endpoint: endpoint.into() }
    }
}

impl FromStr for EndpointAddress {
    type Err = ParseAddressError;
    fn from_str(text: &str) -> Result<Self, ParseAddressError> {
        let wrong = || {
            ParseAddressError(
                text.chars().take(64).collect(),
                "an endpoint is flott://host:port/name",
            )
        };
        let rest = text.strip_prefix("flott://").ok_or_else(wrong)?;
        let (node, endpoint) = rest.split_once('/').ok_or_else(wrong)?;
        if endpoint.is_empty() || endpoint.len() > ADDRESS_BYTES_MAX {
            return Err(wrong());
        }
        Ok(Self { node: node.parse()?, endpoint: endpoint.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_address_prints_and_parses_back() {
        let address = EndpointAddress::new(NodeAddress::of("tm-1", 6122), "task_executor");
        assert_eq!(address.to_string(), "flott://tm-1:6122/task_executor");
        assert_eq!(address.to_string().parse(), Ok(address));
        let six = NodeAddress::of("::1", 80);
        assert_eq!((six.as_str(), six.host(), six.port()), ("[::1]:80", "::1", Some(80)));
        assert_eq!(NodeAddress::new("host:17-3").port(), None);
        assert!("flott://x/dispatcher".parse::<EndpointAddress>().is_err());
        assert!("http://x:1/dispatcher".parse::<EndpointAddress>().is_err());
        assert!("flott://x:1/".parse::<EndpointAddress>().is_err());
    }
}
