//! DIGEST-MD5's protection of a stream: numbered messages with a keyed digest, for `auth-conf` encrypted
//! too. A message that is not exactly the next one is refused, and nothing of it is handed out.

use super::cipher::Stream;
use super::{Cipher, SaslError, SecurityLayer};
use hmac::{Hmac, Mac as _};
use md5::{Digest as _, Md5};

/// Bytes of the digest that are sent.
const MAC: usize = 10;
/// Digest, message type, sequence number.
const TRAILER: usize = MAC + 2 + 4;
/// The only message type there is.
const TYPE: [u8; 2] = [0, 1];

const SIGN_TO_SERVER: &[u8] = b"Digest session key to client-to-server signing key magic constant";
const SIGN_TO_CLIENT: &[u8] = b"Digest session key to server-to-client signing key magic constant";
const SEAL_TO_SERVER: &[u8] = b"Digest H(A1) to client-to-server sealing key magic constant";
const SEAL_TO_CLIENT: &[u8] = b"Digest H(A1) to server-to-client sealing key magic constant";

/// The side of the connection that a layer protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    #[cfg(test)]
    Server,
}

/// Keys and state for messages in one direction; `stream` is absent where they are only signed.
struct Direction {
    sign: [u8; 16],
    stream: Option<Stream>,
    sequence: u32,
}

/// Protection after DIGEST-MD5.
pub(super) struct DigestLayer {
    send: Direction,
    receive: Direction,
    block: usize,
    plain_max: usize,
}

impl DigestLayer {
    /// Keys from H(A1). `raw_max` is how long a wrapped message may be for the peer; without a cipher the
    /// messages are signed only.
    pub(super) fn new(side: Side, h_a1: &[u8; 16], cipher: Option<Cipher>, raw_max: usize) -> Self {
        let md5 = |part: &[u8], constant: &[u8]| -> [u8; 16] {
            Md5::new().chain_update(part).chain_update(constant).finalize().into()
        };
        let direction = |sign: &[u8], seal: &[u8], sending: bool| Direction {
            sign: md5(h_a1, sign),
            stream: cipher.map(|cipher| {
                let part = h_a1.get(..cipher.key_part()).unwrap_or(h_a1);
                Stream::new(cipher, &md5(part, seal), sending)
            }),
            sequence: 0,
        };
        let (send, receive) = match side {
            Side::Client => (
                direction(SIGN_TO_SERVER, SEAL_TO_SERVER, true),
                direction(SIGN_TO_CLIENT, SEAL_TO_CLIENT, false),
            ),
            #[cfg(test)]
            Side::Server => (
                direction(SIGN_TO_CLIENT, SEAL_TO_CLIENT, true),
                direction(SIGN_TO_SERVER, SEAL_TO_SERVER, false),
            ),
        };
        let block = cipher.map_or(1, Cipher::block);
        // What Java's side subtracts: digest, type and number, and the longest padding there is.
        let overhead = if cipher.is_some() { TRAILER + 10 } else { TRAILER };
        Self { send, receive, block, plain_max: raw_max.saturating_sub(overhead).max(1) }
    }
}

impl Direction {
    fn mac(&self, message: &[u8]) -> [u8; MAC] {
        let mut short = [0; MAC];
        // A key of any length is taken: this cannot fail.
        if let Ok(mut hmac) = <Hmac<Md5> as hmac::Mac>::new_from_slice(&self.sign) {
            hmac.update(&self.sequence.to_be_bytes());
            hmac.update(message);
            let whole = hmac.finalize().into_bytes();
            short.iter_mut().zip(whole).for_each(|(to, from)| *to = from);
        }
        short
    }
}

impl SecurityLayer for DigestLayer {
    fn plain_max(&self) -> usize {
        self.plain_max
    }

    fn wrap(&mut self, plain: &[u8]) -> Result<Vec<u8>, SaslError> {
        let mac = self.send.mac(plain);
        let mut wrapped = Vec::with_capacity(plain.len() + TRAILER + self.block);
        wrapped.extend_from_slice(plain);
        if let Some(stream) = &mut self.send.stream {
            if self.block > 1 {
                let padding = self.block - (plain.len() + MAC) % self.block;
                let byte = u8::try_from(padding).unwrap_or(0);
                wrapped.extend(std::iter::repeat_n(byte, padding));
            }
            wrapped.extend(mac);
            stream.apply(&mut wrapped);
        } else {
            wrapped.extend(mac);
        }
        wrapped.extend(TYPE);
        wrapped.extend(self.send.sequence.to_be_bytes());
        self.send.sequence = self.send.sequence.wrapping_add(1);
        Ok(wrapped)
    }

    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Vec<u8>, SaslError> {
        let short = SaslError::Integrity("it is too short");
        let Some((body, trailer)) =
            wrapped.len().checked_sub(6).and_then(|at| wrapped.split_at_checked(at))
        else {
            return Err(short);
        };
        let mut expected = TYPE.to_vec();
        expected.extend(self.receive.sequence.to_be_bytes());
        if trailer != expected {
            return Err(SaslError::Integrity("its type or number is not the next one"));
        }
        if body.len() < MAC || body.len() % self.block != 0 {
            return Err(short);
        }
        let mut body = body.to_vec();
        if let Some(stream) = &mut self.receive.stream {
            stream.apply(&mut body);
        }
        let mac = body.split_off(body.len().saturating_sub(MAC));
        if self.block > 1 {
            let padding = body.last().copied().map_or(0, usize::from);
            if padding == 0 || padding > self.block || padding > body.len() {
                return Err(SaslError::Integrity("its padding is wrong"));
            }
            body.truncate(body.len() - padding);
        }
        let differ = self.receive.mac(&body).iter().zip(&mac).fold(0, |all, (a, b)| all | (a ^ b));
        if differ != 0 {
            return Err(SaslError::Integrity("its digest is wrong"));
        }
        self.receive.sequence = self.receive.sequence.wrapping_add(1);
        Ok(body)
    }
}
