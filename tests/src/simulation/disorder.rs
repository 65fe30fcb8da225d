//! Draws how late the calls and answers of one process arrive: most at once, some after later ones.
//!
//! The fabric keeps the order that it promises, whatever is drawn here.

use super::observer::Observer;
use gateways::disorder::Disorder;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Maximum time in milliseconds for which a call or an answer is held back. It is far below [`super::observed::SLOW`],
/// so that this disorder is not mistaken for another fault.
const LONGEST_MS: u64 = 400;

/// The disorder of one process's calls and answers: holds some back for up to 400 ms, most of them for up to 40 ms.
#[derive(derive_more::Debug)]
#[debug("Late({} per mille)", self.per_mille)]
pub struct Late {
    rng: Mutex<ChaCha8Rng>,
    /// Number of calls out of a thousand that are held back.
    per_mille: u32,
    observer: Observer,
}

impl Late {
    /// Returns a disorder that holds back `per_mille` (at most 1,000) of a thousand calls and answers, drawn from `seed` alone. Calls that
    /// were overtaken are counted at `observer`.
    pub fn new(seed: u64, per_mille: u32, observer: Observer) -> Self {
        Self { rng: Mutex::new(ChaCha8Rng::seed_from_u64(seed)), per_mille, observer }
    }
}

impl Disorder for Late {
    fn hold(&self) -> Duration {
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        if !rng.random_ratio(self.per_mille, 1_000) {
            return Duration::ZERO;
        }
        // Most calls that are held back miss only the next few calls.
        let longest = if rng.random_bool(0.8) { 40 } else { LONGEST_MS };
        Duration::from_millis(rng.random_range(1..=longest))
    }

    fn overtaken(&self, _: &str) {
        self.observer.count("calls overtaken", 1);
    }
}
