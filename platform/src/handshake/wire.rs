//! Greetings on a stream. This module must never read a byte beyond a greeting, nor allocate more than the longest one may have.

use super::{FIXED_BYTES, GREETING_BYTES_MAX, Greeting, HandshakeError, Role};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub(super) async fn write_greeting<S: AsyncWrite + Unpin>(
    stream: &mut S,
    bytes: &[u8],
) -> Result<(), HandshakeError> {
    stream.write_all(bytes).await?;
    stream.flush().await?;
    Ok(())
}

/// The first bytes of TLS records: the type, and the first half of the version.
const TLS_ALERT: [u8; 2] = [0x15, 3];
const TLS_HANDSHAKE: [u8; 2] = [0x16, 3];

/// Reads a greeting with its length, and not one byte more: the next bytes belong to another
/// reader.
pub(super) async fn read_greeting<S: AsyncRead + Unpin>(
    stream: &mut S,
) -> Result<Vec<u8>, HandshakeError> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    if matches!(length, TLS_ALERT | TLS_HANDSHAKE) {
        return Err(HandshakeError::Malformed(
            "it speaks TLS, and this process does not (security.ssl.internal.enabled)",
        ));
    }
    let bytes = usize::from(u16::from_be_bytes(length));
    if !(FIXED_BYTES..=GREETING_BYTES_MAX).contains(&bytes) {
        return Err(HandshakeError::Malformed("a greeting can't have this length"));
    }
    let mut greeting = vec![0; 2 + bytes];
    let (head, body) = greeting.split_at_mut(2);
    head.copy_from_slice(&length);
    stream.read_exact(body).await?;
    Ok(greeting)
}

pub(super) fn decode_as(greeting: &[u8], role: Role) -> Result<Greeting, HandshakeError> {
    let theirs = Greeting::decode(greeting.get(2..).unwrap_or_default())?;
    if theirs.role == role {
        Ok(theirs)
    } else {
        Err(HandshakeError::Malformed("a greeting out of turn"))
    }
}
