//! Random numbers: seeded in simulation, keyed by the system otherwise. It must never be asked for in
//! an order that depends on anything but the program's own steps.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha12Rng;
use std::sync::{Mutex, PoisonError};

/// A generator that any thread may draw from.
#[derive(Debug)]
pub(crate) struct Entropy(Mutex<ChaCha12Rng>);

impl Entropy {
    pub(crate) fn from_os() -> Self {
        Self(Mutex::new(ChaCha12Rng::from_os_rng()))
    }

    pub(crate) fn from_seed(seed: u64) -> Self {
        Self(Mutex::new(ChaCha12Rng::seed_from_u64(seed)))
    }

    pub(crate) fn u64(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).next_u64()
    }

    pub(crate) fn fill(&self, bytes: &mut [u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).fill_bytes(bytes);
    }
}
