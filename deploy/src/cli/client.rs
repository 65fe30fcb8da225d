//! Which endpoint a command talks to.

use super::args::ClusterArgs;
use super::{Context, Failure};
use conf::{execution, rest as rest_options};
use rest::client::{ClientTimeouts, RestClient};
use std::time::Duration;

/// A client of the endpoint that `-m` names, or the options.
pub(super) fn connect(context: &Context, cluster: &ClusterArgs) -> Result<RestClient, Failure> {
    let options = &context.options;
    let default_port = options.get(&rest_options::PORT).first();
    let (host, port) = match &cluster.jobmanager {
        Some(text) => host_and_port(text, default_port)?,
        None => (options.get(&rest_options::ADDRESS), default_port),
    };
    if port == 0 {
        return Err(Failure::usage(
            "rest.port is 0: say with -m HOST:PORT where the JobManager's REST endpoint is",
        ));
    }
    let answer = options.get(&execution::CLIENT_TIMEOUT);
    Ok(RestClient::new(
        &host,
        port,
        ClientTimeouts {
            connect: options.get(&rest_options::CONNECT_TIMEOUT),
            answer,
            build: answer + Duration::from_secs(120),
        },
    ))
}

fn host_and_port(text: &str, default_port: u16) -> Result<(String, u16), Failure> {
    let text = text.trim_start_matches("http://").trim_end_matches('/');
    let wrong = || Failure::usage(format!("'{text}' is not HOST:PORT"));
    if text.is_empty() || text.starts_with("https://") {
        return Err(wrong());
    }
    let (host, port) = match text.rsplit_once(':') {
        // An IPv6 address in brackets, without a port.
        Some((_, after)) if after.ends_with(']') => (text, None),
        Some((host, port)) => (host, Some(port)),
        None => (text, None),
    };
    let port = match port {
        Some(port) => port.parse().map_err(|_| wrong())?,
        None => default_port,
    };
    if host.is_empty() || (host.contains(':') && !host.starts_with('[')) {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let read = |text: &str| host_and_port(text, 8081).ok();
        assert_eq!(read("jm:9000"), Some(("jm".to_owned(), 9000)));
        assert_eq!(read("http://jm:9000/"), Some(("jm".to_owned(), 9000)));
        assert_eq!(read("jm"), Some(("jm".to_owned(), 8081)));
        assert_eq!(read("[::1]:5"), Some(("[::1]".to_owned(), 5)));
        assert_eq!(read("[::1]"), Some(("[::1]".to_owned(), 8081)));
        for wrong in ["", "jm:", "jm:x", ":1", "jm:70000", "https://jm:1", "a:b:1"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
