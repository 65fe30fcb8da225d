//! Authenticated streams where both ends hold one key and nothing else is to be said: data ports.
//! Time-outs are the caller's.

use crate::{
    BoxStream, Platform,
    handshake::{self, Credentials, HandshakeError, Identity, Introduction},
};
use model::{ClusterId, JobId};

pub use crate::handshake::Secret;

/// The reason why the peer is not trusted.
pub type AuthError = HandshakeError;

fn parties(key: &Secret) -> (Credentials, Introduction) {
    let credentials = Credentials {
        cluster: ClusterId::new("data"),
        // The key is the job's already; the job's name adds nothing to the proof.
        identity: Identity::Host(JobId(0)),
        secret: key.clone(),
    };
    let introduction = Introduction { node: String::new(), incarnation: 0 };
    (credentials, introduction)
}

/// Authenticates the stream as the side that connected. The returned stream leads to a process that
/// knows the key.
pub async fn dial(
    platform: &Platform,
    mut stream: BoxStream,
    key: &Secret,
) -> Result<BoxStream, AuthError> {
    let (mine, me) = parties(key);
    handshake::connect(&mut stream, &mine, &me, platform.random_bytes()).await?;
    Ok(stream)
}

/// Authenticates the stream as the side that accepted.
pub async fn accept(
    platform: &Platform,
    mut stream: BoxStream,
    key: &Secret,
) -> Result<BoxStream, AuthError> {
    let (mine, me) = parties(key);
    handshake::accept(&mut stream, &mine, &me, platform.random_bytes()).await?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn equal_keys_open_a_stream_and_others_do_not() {
        let platform = Platform::production();
        let right = Secret::new([1; 32]);
        let wrong = Secret::new([2; 32]);
        for (key, opens) in [(&right, true), (&wrong, false)] {
            let (a, b) = tokio::io::duplex(4096);
            let (a, b) =
                tokio::join!(async { dial(&platform, BoxStream::new(a), key).await }, async {
                    accept(&platform, BoxStream::new(b), &right).await
                },);
            assert_eq!((a.is_ok(), b.is_ok()), (opens, opens));
            if let (Ok(mut a), Ok(mut b)) = (a, b) {
                a.write_all(b"x").await.unwrap();
                assert_eq!(b.read_u8().await.unwrap(), b'x');
            }
        }
    }
}
