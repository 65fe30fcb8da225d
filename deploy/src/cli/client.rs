//! Finds the endpoint that a command talks to, and explains what to do if there is no answer from
//! it.

use super::args::ClusterArgs;
use super::{Context, Failure};
use crate::settings;
use conf::{Options, execution, rest as rest_options};
use gateways::TraceContext;
use platform::Platform;
use rest::client::{ClientError, ClientTimeouts, RestClient};
use std::path::Path;
use std::time::Duration;

/// Makes a client of the endpoint that `-m` or the options name.
pub(crate) fn connect(context: &Context, cluster: &ClusterArgs) -> Result<RestClient, Failure> {
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
    Ok(at(options, &host, port))
}

/// Returns a client of the endpoint at this address, with the waits of the options. Its requests are one trace.
pub(crate) fn at(options: &Options, host: &str, port: u16) -> RestClient {
    let answer = options.get(&execution::CLIENT_TIMEOUT);
    let timeouts = ClientTimeouts {
        connect: options.get(&rest_options::CONNECT_TIMEOUT),
        answer,
        build: answer + Duration::from_secs(120),
    };
    RestClient::new(host, port, timeouts).with_trace(TraceContext::draw(&Platform::production()))
}

/// Makes the failure of a command from that of a request. If the endpoint is unreachable, adds
/// where its address comes from and what to do.
pub(crate) fn failure(context: &Context, client: &RestClient, error: ClientError) -> Failure {
    match error {
        ClientError::Unreachable { .. } => {
            let folder = settings::config_folder(context.common.config_dir.clone());
            let hint = hint(folder.as_deref(), client.authority());
            Failure::start(format!("{error}\n{hint}"))
        }
        other => Failure::start(other),
    }
}

fn hint(folder: Option<&Path>, authority: &str) -> String {
    let configuration = match folder {
        Some(folder) => format!("configuration: {}", folder.join("flott.yaml").display()),
        None => {
            "configuration: none (--config-dir DIR or FLOTT_CONF_DIR names its folder; the script \
                 bin/flott uses that of start-cluster.sh)"
                .to_owned()
        }
    };
    format!(
        "{configuration}\nis a cluster running? start one with start-cluster.sh, or name it with -m HOST:PORT (now {authority})"
    )
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
    let in_brackets = host.strip_prefix('[').map(|host| host.strip_suffix(']'));
    let is_host = match in_brackets {
        Some(address) => address.is_some_and(|it| !it.is_empty() && !it.contains(['[', ']'])),
        None => !host.is_empty() && !host.contains([':', ']']),
    };
    if !is_host {
        return Err(wrong());
    }
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    /// Answers one request, and returns the trace that the request names.
    async fn answer(listener: &TcpListener) -> u128 {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await.unwrap());
        }
        let head =
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
        stream.write_all(head.as_bytes()).await.unwrap();
        let request = String::from_utf8(request).unwrap();
        let mut lines = request.lines();
        let named = lines.find_map(|line| line.strip_prefix("traceparent: ")).unwrap();
        TraceContext::from_traceparent(named).unwrap().trace
    }

    #[tokio::test]
    async fn all_requests_of_a_command_are_one_trace_and_those_of_another_command_another() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let [one, other] = [(); 2].map(|()| at(&Options::default(), "127.0.0.1", port));
        let mut traces = Vec::new();
        for client in [&one, &one, &other] {
            let asked = client.get::<serde_json::Value>("/overview");
            let (asked, trace) = tokio::join!(asked, answer(&listener));
            asked.unwrap();
            traces.push(trace);
        }
        assert_eq!(traces[0], traces[1]);
        assert_ne!(traces[0], traces[2]);
    }

    #[test]
    fn who_finds_no_cluster_is_told_which_configuration_was_used() {
        let with = hint(Some(Path::new("/etc/flott")), "localhost:8081");
        assert!(with.contains("configuration: /etc/flott/flott.yaml\n"), "{with}");
        let without = hint(None, "localhost:8081");
        assert!(without.contains("configuration: none"), "{without}");
        assert!(without.contains("bin/flott"), "{without}");
        for hint in [with, without] {
            assert!(hint.contains("-m HOST:PORT (now localhost:8081)"), "{hint}");
        }
    }

    #[test]
    fn endpoints_are_read() {
        let read = |text: &str| host_and_port(text, 8081).ok();
        assert_eq!(read("jm:9000"), Some(("jm".to_owned(), 9000)));
        assert_eq!(read("http://jm:9000/"), Some(("jm".to_owned(), 9000)));
        assert_eq!(read("jm"), Some(("jm".to_owned(), 8081)));
        assert_eq!(read("[::1]:5"), Some(("[::1]".to_owned(), 5)));
        assert_eq!(read("[::1]"), Some(("[::1]".to_owned(), 8081)));
        for wrong in [
            "",
            "jm:",
            "jm:x",
            ":1",
            "jm:70000",
            "https://jm:1",
            "a:b:1",
            "[::1",
            "[]",
            "::1]",
            "[a]b:1",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}
