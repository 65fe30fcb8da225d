//! The handshake: two processes compare protocol version and cluster, and prove to each other that they
//! know a secret that never crosses the wire. Used on fabric, blob and data ports alike.
//!
//! It must never allocate for an unproved peer more than one bounded greeting, never answer one with
//! anything but its own greeting, and never accept a proof twice: both sides' fresh nonces are in it. Over TLS the
//! proofs also cover the connection's own keys, so that nobody in the middle can pass them on.

mod wire;

use crate::tls::TlsRefusal;
use hmac::{Hmac, Mac};
use model::{ClusterId, JobId};
use sha2::{Digest, Sha256};
use std::{io, sync::Arc};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use wire::{decode_as, read_greeting, write_greeting};

/// The protocol version of this process. A peer of another major version is refused, and by [`introduce`] also a user's program whose
/// minor version is higher.
pub const VERSION: Version = Version { major: 3, minor: 0 };

/// Length of the longest accepted greeting in bytes, without the two bytes of the length itself; a longer one is `Malformed`.
pub const GREETING_BYTES_MAX: usize = 600;
const MAGIC: [u8; 4] = *b"FLOT";
const FIXED_BYTES: usize = 4 + 1 + 2 + 1 + 16 + 32 + 16;
const PROOF_BYTES: usize = 32;

/// Version of the handshake protocol; displays as `MAJOR.MINOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, derive_more::Display)]
#[display("{}.{}", self.major, self.minor)]
pub struct Version {
    /// Major version: differs between versions that cannot talk to each other.
    pub major: u8,
    /// Minor version: grows when something is added that older versions skip.
    pub minor: u8,
}

/// The secret, of any length, of a cluster or of one job's program hosts. Its debug text shows no byte of it. Clones share the bytes.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Secret(…)")]
pub struct Secret(Arc<[u8]>);

impl Secret {
    /// Makes a secret from its bytes, which are used as they are; should be 32 random bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(bytes.into().into())
    }

    /// Returns the secret's bytes, for a file with mode 0600 or a child process; they must never be logged.
    pub fn expose(&self) -> &[u8] {
        &self.0
    }

    /// Derives the secret (32 bytes) of the program hosts of one job, always the same for equal secret and job, so that user code never
    /// learns the cluster's secret.
    #[must_use]
    pub fn for_job(&self, job: JobId) -> Self {
        let mut mac = self.mac(b"flott host key 1");
        mac.update(&job.0.to_be_bytes());
        Self(Arc::from(&mac.finalize().into_bytes()[..]))
    }

    fn mac(&self, label: &[u8]) -> Hmac<Sha256> {
        // HMAC takes keys of every length; the fallback can't be reached.
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0)
            .unwrap_or_else(|_| Hmac::<Sha256>::new(&Default::default()));
        mac.update(label);
        mac
    }
}

/// The identity that a process claims in the handshake, which decides about the secret it has to prove.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity {
    /// A JobManager, TaskManager or client: knows the cluster secret.
    Cluster,
    /// A program host of one job: knows [`Secret::for_job`] only.
    Host(JobId),
}

/// The data with which a process proves that it belongs to a cluster.
#[derive(Debug, Clone)]
pub struct Credentials {
    /// Id of the cluster that the process belongs to; a peer of another one is refused.
    pub cluster: ClusterId,
    /// The identity that the process claims, which decides the secret that it must prove.
    pub identity: Identity,
    /// The cluster's secret; for [`Identity::Host`] the job's secret ([`Secret::for_job`]).
    pub secret: Secret,
}

/// The identity of the connection under a handshake. Both proofs depend on it, so that with TLS a relay cannot pass them on to another.
#[derive(Clone, Copy, PartialEq, Eq, derive_more::Debug)]
pub enum Channel {
    /// A connection without TLS, which has no identity: proofs can be relayed from one to another.
    Plain,
    /// Keying material that TLS exports from this one connection. Both ends have the same; a relay that ends TLS on
    /// both sides has two connections, and two different values.
    #[debug("Tls(…)")]
    Tls([u8; 32]),
}

impl Channel {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain => &[],
            Self::Tls(exported) => exported,
        }
    }
}

/// The statements that a process makes about itself. The peer cannot check them, but the proofs cover them: a relay cannot change them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Introduction {
    /// Address for calls back to the process, `host:port`, cut after 255 bytes; empty if the process takes none.
    pub node: String,
    /// Number that is drawn once per process and tells a restarted process from its predecessor.
    pub incarnation: u128,
}

/// The process at the other end of a connection. The peer has proved its identity if [`connect`] or [`accept`] returned it, but
/// not if [`introduce`] did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Peer {
    /// The identity that the peer claimed, and proved unless [`introduce`] returned the peer.
    pub identity: Identity,
    /// Address for calls back to the peer, `host:port`; `None` if the peer takes none.
    pub node: Option<String>,
    /// Number that the peer's process has drawn at its start; another one at the same address means that the peer was restarted.
    pub incarnation: u128,
    /// The protocol version that the peer speaks; its major version is this process's.
    pub version: Version,
}

/// The reason why [`connect`], [`accept`], [`introduce`] or a method of `auth::Party` failed: the stream or TLS, or the peer is of another
/// protocol, version, cluster or job, or proves no secret. The connection cannot be used any more; the other side may see another error.
#[derive(Debug, Error)]
pub enum HandshakeError {
    /// The stream failed or ended early. The peer may have closed it: overloaded, refusing this side, or without the TLS that was dialled.
    #[error("the connection was lost during the handshake: {0}")]
    Io(#[source] io::Error),
    /// TLS failed: one side refuses the other's certificate, the peer of an accepted connection does not use TLS, or it breaks TLS.
    #[error("TLS: {0}")]
    Tls(#[from] TlsRefusal),
    /// The peer's bytes are no greeting of this protocol, or one of the wrong [`Role`], or only the peer uses TLS; the text says which.
    #[error("the peer does not speak this protocol: {0}")]
    Malformed(&'static str),
    /// The peer speaks another major version, or is a program with a newer minor version (refused by [`introduce`] only).
    #[error("the peer speaks protocol {theirs}, this process {ours}")]
    Version {
        /// Protocol version of the peer.
        theirs: Version,
        /// Protocol version of this process.
        ours: Version,
    },
    /// The peer belongs to another cluster; both sides find this.
    #[error("the peer belongs to cluster {theirs:?}, this process to {ours:?}")]
    Cluster {
        /// Cluster id of the peer.
        theirs: String,
        /// Cluster id of this process.
        ours: String,
    },
    /// The peer's proof is wrong: it does not know the secret of its cluster or job, or a third party relays the TLS connection.
    #[error(
        "the peer does not know this cluster's secret (or this process has another one, or a third party relays the TLS connection)"
    )]
    WrongSecret,
    /// The peer of an accepted connection closed it instead of proving itself: it has ended, or found this process's proof wrong.
    #[error(
        "the peer left where it should have proved itself: it has another secret, or has ended"
    )]
    Unproved,
    /// Both sides are program hosts, of different jobs, which share no secret. The accepting side finds it and closes; the other gets `Io`.
    #[error("the peer is a program host of another job")]
    OtherJob,
}

impl From<io::Error> for HandshakeError {
    fn from(error: io::Error) -> Self {
        // A TLS peer may refuse this process's certificate as late as at the first read.
        match TlsRefusal::of(&error) {
            Some(refusal) => Self::Tls(refusal),
            None => Self::Io(error),
        }
    }
}

/// The first message of each side in a handshake, as it is on the wire; made and read by [`connect`], [`accept`] and [`introduce`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// The side that sends this greeting; a greeting of the wrong side is refused.
    pub role: Role,
    /// The protocol version that the sender of the greeting speaks.
    pub version: Version,
    /// The identity that the sender claims; not proved by the greeting.
    pub identity: Identity,
    /// Random bytes that the sender draws anew for each handshake, so that no proof can be used twice.
    pub nonce: [u8; 32],
    /// Number that the sender's process has drawn at its start; a restarted process has another one.
    pub incarnation: u128,
    /// Id of the sender's cluster; cut after 255 bytes when it is encoded.
    pub cluster: String,
    /// Address for calls back to the sender, `host:port`; empty if it takes none.
    pub node: String,
}

/// The side of a connection that a greeting or a proof comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The side that opened the connection.
    Client,
    /// The side that accepted the connection.
    Server,
    /// Either side of a stream that a common parent process gave to both: nothing has to be proved.
    Trusted,
}

impl Greeting {
    /// Encodes the greeting: its length in two bytes (big-endian), then its content. Cluster and node are cut after 255 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let cluster = clip(&self.cluster);
        let node = clip(&self.node);
        let length = FIXED_BYTES + 2 + cluster.len() + node.len();
        let mut out = Vec::with_capacity(2 + length);
        out.extend_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
        out.extend_from_slice(&MAGIC);
        out.push(match self.role {
            Role::Client => 1,
            Role::Server => 2,
            Role::Trusted => 3,
        });
        out.extend_from_slice(&[self.version.major, self.version.minor]);
        let (kind, job) = match self.identity {
            Identity::Cluster => (0, JobId(0)),
            Identity::Host(job) => (1, job),
        };
        out.push(kind);
        out.extend_from_slice(&job.0.to_be_bytes());
        out.extend_from_slice(&self.nonce);
        out.extend_from_slice(&self.incarnation.to_be_bytes());
        for text in [cluster, node] {
            out.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
            out.extend_from_slice(text);
        }
        out
    }

    /// Decodes a greeting from the bytes after its length; bytes that a newer minor version appends are skipped. Errors:
    /// [`HandshakeError::Malformed`] if the bytes are no greeting, [`HandshakeError::Version`] for another major version.
    pub fn decode(bytes: &[u8]) -> Result<Self, HandshakeError> {
        let mut rest = Bytes(bytes);
        if rest.take::<4>()? != MAGIC {
            return Err(HandshakeError::Malformed("it does not begin with FLOT"));
        }
        let [role] = rest.take()?;
        let [major, minor] = rest.take()?;
        let version = Version { major, minor };
        if major != VERSION.major {
            // Another major version may lay out the rest in another way.
            return Err(HandshakeError::Version { theirs: version, ours: VERSION });
        }
        let role = match role {
            1 => Role::Client,
            2 => Role::Server,
            3 => Role::Trusted,
            _ => return Err(HandshakeError::Malformed("unknown kind of greeting")),
        };
        let [kind] = rest.take()?;
        let job = JobId(u128::from_be_bytes(rest.take()?));
        let identity = match kind {
            0 => Identity::Cluster,
            1 => Identity::Host(job),
            _ => return Err(HandshakeError::Malformed("unknown principal")),
        };
        Ok(Self {
            role,
            version,
            identity,
            nonce: rest.take()?,
            incarnation: u128::from_be_bytes(rest.take()?),
            cluster: rest.text()?,
            node: rest.text()?,
        })
    }
}

/// Returns the longest beginning of at most 255 bytes, which one byte can count, that ends between two characters.
fn clip(text: &str) -> &[u8] {
    text.as_bytes().get(..text.floor_char_boundary(255)).unwrap_or_default()
}

struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], HandshakeError> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or(HandshakeError::Malformed("the greeting is too short"))?;
        self.0 = rest;
        Ok(*head)
    }

    fn text(&mut self) -> Result<String, HandshakeError> {
        let [length] = self.take()?;
        let (text, rest) = self
            .0
            .split_at_checked(usize::from(length))
            .ok_or(HandshakeError::Malformed("the greeting is too short"))?;
        self.0 = rest;
        String::from_utf8(text.to_vec())
            .map_err(|_| HandshakeError::Malformed("a name is not UTF-8"))
    }
}

/// Returns the digest that both proofs are over: that of both greetings, byte by byte, and of the channel.
fn transcript(client: &[u8], server: &[u8], channel: Channel) -> [u8; 32] {
    Sha256::new()
        .chain_update(b"flott handshake 2")
        .chain_update(client)
        .chain_update(server)
        .chain_update(channel.bytes())
        .finalize()
        .into()
}

/// Computes the proof by which the side `role` shows that it knows `secret`: an HMAC-SHA256 over both greetings and the channel. `client`
/// and `server` are the greetings as sent, each with the two bytes of its length.
pub fn proof(
    secret: &Secret,
    role: Role,
    client: &[u8],
    server: &[u8],
    channel: Channel,
) -> [u8; 32] {
    proving(secret, role, client, server, channel).finalize().into_bytes().into()
}

fn proving(
    secret: &Secret,
    role: Role,
    client: &[u8],
    server: &[u8],
    channel: Channel,
) -> Hmac<Sha256> {
    let mut mac = secret.mac(match role {
        Role::Client => b"flott client proof",
        Role::Server => b"flott server proof",
        Role::Trusted => b"flott no proof",
    });
    mac.update(&transcript(client, server, channel));
    mac
}

impl Credentials {
    /// Returns the secret that this process shares with a peer of that identity.
    fn shared_with(&self, theirs: Identity) -> Result<Secret, HandshakeError> {
        match (self.identity, theirs) {
            (Identity::Cluster, Identity::Host(job)) => Ok(self.secret.for_job(job)),
            (Identity::Cluster | Identity::Host(_), Identity::Cluster) => Ok(self.secret.clone()),
            (Identity::Host(mine), Identity::Host(job)) if mine == job => Ok(self.secret.clone()),
            (Identity::Host(_), Identity::Host(_)) => Err(HandshakeError::OtherJob),
        }
    }

    fn greeting(&self, role: Role, me: &Introduction, nonce: [u8; 32]) -> Greeting {
        Greeting {
            role,
            version: VERSION,
            identity: self.identity,
            nonce,
            incarnation: me.incarnation,
            cluster: self.cluster.as_str().to_owned(),
            node: me.node.clone(),
        }
    }

    fn check_cluster(&self, theirs: &Greeting) -> Result<(), HandshakeError> {
        if theirs.cluster.as_bytes() == clip(self.cluster.as_str()) {
            return Ok(());
        }
        Err(HandshakeError::Cluster {
            theirs: theirs.cluster.clone(),
            ours: self.cluster.as_str().to_owned(),
        })
    }
}

/// Does the handshake as the side that opened the connection. `nonce` must be fresh random bytes; `channel` is what `stream` runs over.
/// The returned peer has proved itself, but may yet refuse this side's proof by closing the stream. Never times out by itself.
///
/// # Errors
/// Returns `Io` (`Tls` if TLS broke) if the stream fails or a host of another job closes; `Malformed`, `Version`, `Cluster`, `WrongSecret`.
pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    mine: &Credentials,
    me: &Introduction,
    nonce: [u8; 32],
    channel: Channel,
) -> Result<Peer, HandshakeError> {
    let client = mine.greeting(Role::Client, me, nonce).encode();
    stream.write_all(&client).await?;
    stream.flush().await?;
    let server = read_greeting(stream).await?;
    let theirs = decode_as(&server, Role::Server)?;
    mine.check_cluster(&theirs)?;
    let secret = mine.shared_with(theirs.identity)?;
    let mut claimed = [0; PROOF_BYTES];
    stream.read_exact(&mut claimed).await?;
    proving(&secret, Role::Server, &client, &server, channel)
        .verify_slice(&claimed)
        .map_err(|_| HandshakeError::WrongSecret)?;
    stream.write_all(&proof(&secret, Role::Client, &client, &server, channel)).await?;
    stream.flush().await?;
    Ok(theirs.into_peer())
}

/// Does the handshake as the side that accepted the connection: answers with its own greeting and proof, then checks the peer's (one of
/// another version or cluster gets the greeting alone). `nonce` must be fresh random bytes, `channel` what `stream` runs over. Errors: the
/// stream fails, another protocol, version, cluster or job, a wrong proof, or none (`HandshakeError::Unproved`). Never times out itself.
pub async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    mine: &Credentials,
    me: &Introduction,
    nonce: [u8; 32],
    channel: Channel,
) -> Result<Peer, HandshakeError> {
    let client = read_greeting(stream).await?;
    let theirs = decode_as(&client, Role::Client);
    let server = mine.greeting(Role::Server, me, nonce).encode();
    // The greeting goes out also where the peer's was of another version or cluster: so that it can
    // say what is wrong. It holds nothing that a port scan must not see.
    let wanted = match theirs {
        Err(error @ HandshakeError::Version { .. }) => {
            write_greeting(stream, &server).await?;
            return Err(error);
        }
        other => other?,
    };
    if let Err(error) = mine.check_cluster(&wanted) {
        write_greeting(stream, &server).await?;
        return Err(error);
    }
    let secret = mine.shared_with(wanted.identity)?;
    let mut answer = server.clone();
    answer.extend_from_slice(&proof(&secret, Role::Server, &client, &server, channel));
    write_greeting(stream, &answer).await?;
    let mut claimed = [0; PROOF_BYTES];
    // It checks first, and closes without a word.
    stream.read_exact(&mut claimed).await.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => HandshakeError::Unproved,
        _ => HandshakeError::from(error),
    })?;
    proving(&secret, Role::Client, &client, &server, channel)
        .verify_slice(&claimed)
        .map_err(|_| HandshakeError::WrongSecret)?;
    Ok(wanted.into_peer())
}

/// Exchanges greetings over a stream that a common parent process gave to both sides; both sides call this. Only versions are compared;
/// nothing is proved. With `of_program` (the peer is a user's program) a higher minor version than this process's is refused too.
/// Errors: `HandshakeError::Io`, `Malformed` or `Version`. Never times out by itself.
pub async fn introduce<S: AsyncRead + AsyncWrite + Unpin>(
    stream: &mut S,
    me: &Introduction,
    of_program: bool,
) -> Result<Peer, HandshakeError> {
    let mine = Greeting {
        role: Role::Trusted,
        version: VERSION,
        identity: Identity::Cluster,
        nonce: [0; 32],
        incarnation: me.incarnation,
        cluster: String::new(),
        node: me.node.clone(),
    };
    write_greeting(stream, &mine.encode()).await?;
    let theirs = decode_as(&read_greeting(stream).await?, Role::Trusted)?;
    if of_program && theirs.version.minor > VERSION.minor {
        return Err(HandshakeError::Version { theirs: theirs.version, ours: VERSION });
    }
    Ok(theirs.into_peer())
}

impl Greeting {
    fn into_peer(self) -> Peer {
        Peer {
            identity: self.identity,
            node: Some(self.node).filter(|n| !n.is_empty()),
            incarnation: self.incarnation,
            version: self.version,
        }
    }
}

#[cfg(test)]
#[path = "handshake_tests.rs"]
mod tests;
