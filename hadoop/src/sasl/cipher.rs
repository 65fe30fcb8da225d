//! The ciphers of DIGEST-MD5's `auth-conf`: old ones, because Hadoop's Java side has no others. They are
//! for DIGEST-MD5 alone and must not be used for anything else.

use cbc::cipher::generic_array::GenericArray;
use cbc::cipher::{BlockDecryptMut as _, BlockEncryptMut as _, KeyIvInit as _};

/// A cipher by which DIGEST-MD5, the SASL mechanism for Hadoop's tokens, can encrypt a stream (the protection
/// `privacy`). All are old, because Hadoop's Java side has no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Cipher {
    /// DES applied three times with two keys, 112 bits of key together; `3des` in DIGEST-MD5.
    TripleDes,
    /// RC4 with a key of 128 bits; not among the breakable ones here.
    Rc4,
    /// DES with one key of 56 bits: breakable.
    Des,
    /// RC4 with 56 bits: breakable.
    Rc4With56,
    /// RC4 with 40 bits: breakable at once.
    Rc4With40,
}

impl Cipher {
    /// Every cipher, the strongest first, as Java's side prefers them.
    pub const ALL: [Self; 5] =
        [Self::TripleDes, Self::Rc4, Self::Des, Self::Rc4With56, Self::Rc4With40];
    /// The ciphers with keys of 112 bits and more, the strongest first; the default of
    /// [`SaslConfig`](super::SaslConfig).
    pub const STRONG: [Self; 2] = [Self::TripleDes, Self::Rc4];

    /// Returns the cipher's name in DIGEST-MD5, such as `3des`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::TripleDes => "3des",
            Self::Rc4 => "rc4",
            Self::Des => "des",
            Self::Rc4With56 => "rc4-56",
            Self::Rc4With40 => "rc4-40",
        }
    }

    /// Bytes of H(A1) that go into its key.
    pub(super) fn key_part(self) -> usize {
        match self {
            Self::Rc4With40 => 5,
            Self::Rc4With56 => 7,
            _ => 16,
        }
    }

    /// Bytes of a block; 1 for a stream.
    pub(super) fn block(self) -> usize {
        match self {
            Self::TripleDes | Self::Des => 8,
            _ => 1,
        }
    }
}

/// One direction of a stream, either way. Its state goes on from message to message.
pub(super) enum Stream {
    Rc4(Box<Rc4>),
    SealDes(Box<cbc::Encryptor<des::Des>>),
    OpenDes(Box<cbc::Decryptor<des::Des>>),
    SealTripleDes(Box<cbc::Encryptor<des::TdesEde2>>),
    OpenTripleDes(Box<cbc::Decryptor<des::TdesEde2>>),
}

impl Stream {
    pub(super) fn new(cipher: Cipher, key: &[u8; 16], seal: bool) -> Self {
        let [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, ka, kb, kc, kd, ke, kf] = *key;
        let first = des_key([k0, k1, k2, k3, k4, k5, k6]);
        let second = des_key([k7, k8, k9, ka, kb, kc, kd]);
        let iv = GenericArray::from([k8, k9, ka, kb, kc, kd, ke, kf]);
        let mut both = [0; 16];
        both.iter_mut().zip(first.iter().chain(&second)).for_each(|(to, from)| *to = *from);
        let (one, two) = (GenericArray::from(first), GenericArray::from(both));
        match (cipher, seal) {
            (Cipher::Des, true) => Self::SealDes(Box::new(cbc::Encryptor::new(&one, &iv))),
            (Cipher::Des, false) => Self::OpenDes(Box::new(cbc::Decryptor::new(&one, &iv))),
            (Cipher::TripleDes, true) => {
                Self::SealTripleDes(Box::new(cbc::Encryptor::new(&two, &iv)))
            }
            (Cipher::TripleDes, false) => {
                Self::OpenTripleDes(Box::new(cbc::Decryptor::new(&two, &iv)))
            }
            (Cipher::Rc4 | Cipher::Rc4With56 | Cipher::Rc4With40, _) => {
                Self::Rc4(Box::new(Rc4::new(key)))
            }
        }
    }

    /// Seals or opens in place. What is left of a last block that is not whole stays as it is: callers
    /// check lengths before.
    pub(super) fn apply(&mut self, data: &mut [u8]) {
        match self {
            Self::Rc4(rc4) => rc4.apply(data),
            Self::SealDes(cipher) => blocks(data, |block| cipher.encrypt_block_mut(block)),
            Self::OpenDes(cipher) => blocks(data, |block| cipher.decrypt_block_mut(block)),
            Self::SealTripleDes(cipher) => blocks(data, |block| cipher.encrypt_block_mut(block)),
            Self::OpenTripleDes(cipher) => blocks(data, |block| cipher.decrypt_block_mut(block)),
        }
    }
}

type Block = GenericArray<u8, cbc::cipher::consts::U8>;

fn blocks(data: &mut [u8], mut each: impl FnMut(&mut Block)) {
    data.chunks_exact_mut(8).for_each(|block| each(GenericArray::from_mut_slice(block)));
}

/// Spreads 56 bits over eight bytes, seven to a byte; the parity bits are not looked at by the cipher.
fn des_key(bits: [u8; 7]) -> [u8; 8] {
    let [a, b, c, d, e, f, g] = bits;
    let all = u64::from_be_bytes([0, a, b, c, d, e, f, g]);
    let seven = |shift: u32| u8::try_from((all >> shift) & 0x7f).unwrap_or(0) << 1;
    [seven(49), seven(42), seven(35), seven(28), seven(21), seven(14), seven(7), seven(0)]
}

/// The stream cipher RC4.
pub(super) struct Rc4 {
    state: [u8; 256],
    i: u8,
    j: u8,
}

impl Rc4 {
    fn new(key: &[u8]) -> Self {
        let mut state = [0; 256];
        state.iter_mut().zip(0..=255).for_each(|(place, value)| *place = value);
        let mut rc4 = Self { state, i: 0, j: 0 };
        for (i, key) in (0..=255).zip(key.iter().cycle()) {
            rc4.j = rc4.j.wrapping_add(rc4.at(i)).wrapping_add(*key);
            rc4.swap(i, rc4.j);
        }
        rc4.j = 0;
        rc4
    }

    fn at(&self, place: u8) -> u8 {
        self.state.get(usize::from(place)).copied().unwrap_or(0)
    }

    fn swap(&mut self, a: u8, b: u8) {
        self.state.swap(usize::from(a), usize::from(b));
    }

    fn apply(&mut self, data: &mut [u8]) {
        for byte in data {
            self.i = self.i.wrapping_add(1);
            self.j = self.j.wrapping_add(self.at(self.i));
            self.swap(self.i, self.j);
            *byte ^= self.at(self.at(self.i).wrapping_add(self.at(self.j)));
        }
    }
}
