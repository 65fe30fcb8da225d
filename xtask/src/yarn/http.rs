//! Just enough HTTP to ask daemons on this machine how they are: one request per connection, answers in JSON.

use crate::run::Result;
use serde_json::Value;
use std::{
    io::{Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpStream},
    time::Duration,
};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Answers are a few kilobytes.
const MOST: u64 = 4 << 20;

/// Sends a request without a body; gives the answer's, where it is a success.
pub(super) fn ask(method: &str, port: u16, path: &str) -> Result<Value> {
    let mut stream =
        TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    // HTTP/1.0: the answer is not chunked and ends with the connection.
    let request = format!(
        "{method} {path} HTTP/1.0\r\nHost: localhost:{port}\r\nAccept: application/json\r\n\
         Content-Length: 0\r\n\r\n"
    );
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MOST).read_to_end(&mut answer)?;
    body(&String::from_utf8_lossy(&answer))
}

fn body(answer: &str) -> Result<Value> {
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer in HTTP")?;
    let line = head.lines().next().unwrap_or_default();
    match line.split(' ').nth(1) {
        Some("200") if body.trim().is_empty() => Ok(Value::Null),
        Some("200") => Ok(serde_json::from_str(body)?),
        _ => Err(format!("{line}: {}", body.trim()).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_success_is_an_answer() {
        let ok = "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n{\"boolean\":true}";
        assert_eq!(body(ok).unwrap()["boolean"], true);
        assert_eq!(body("HTTP/1.1 200 OK\r\n\r\n").unwrap(), Value::Null);
        let refused = body("HTTP/1.1 403 Forbidden\r\n\r\nsafe mode").unwrap_err();
        assert_eq!(refused.to_string(), "HTTP/1.1 403 Forbidden: safe mode");
        assert!(body("").is_err());
    }
}
