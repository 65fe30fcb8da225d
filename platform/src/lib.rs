//! The one value through which the rim takes time, threads, entropy and sockets, plus authenticated
//! streams. It must never know actors or gateways, and never decide anything.

pub mod auth;
mod entropy;
pub mod handshake;
pub mod inproc;
mod lanes;
pub mod net;
mod ports;
mod tcp;
pub mod tls;
#[cfg(feature = "simulation")]
pub mod turmoil_net;
pub mod watch;

pub use handshake::{Credentials, HandshakeError, Identity, Introduction, Secret};
pub use lanes::{Lane, LaneEnded, LaneHandle, after_this_turn};
pub use net::{BoxListener, BoxStream, Listener, Network};
pub use ports::{ParsePortsError, PortSpec};
pub use tls::{Tls, TlsError};

use entropy::Entropy;
use inproc::InProcessNetwork;
use lanes::Lanes;
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// Unix milliseconds at which every simulation starts, unless told otherwise: 2023-11-14T22:13:20Z.
pub const SIMULATION_EPOCH_MS: u64 = 1_700_000_000_000;

/// Time, threads, entropy and sockets of one process (or of one simulated host). A cheap handle.
#[derive(Clone)]
pub struct Platform(Arc<Inner>);

struct Inner {
    origin: Instant,
    unix_origin_ms: u64,
    entropy: Entropy,
    network: Arc<dyn Network>,
    local: Arc<dyn Network>,
    lanes: Lanes,
    simulated: bool,
}

impl fmt::Debug for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.0.simulated { "simulated" } else { "production" };
        write!(f, "Platform({kind}, {:?} old)", self.now())
    }
}

impl Platform {
    /// The real thing: the machine's clocks, TCP, one thread per lane (started with its first task).
    pub fn production() -> Self {
        Self::production_on(Arc::new(tcp::TcpNetwork))
    }

    /// The machine's clocks and threads over another network (in-process pipes, for embedded use).
    pub fn production_on(network: Arc<dyn Network>) -> Self {
        Self(Arc::new(Inner {
            origin: Instant::now(),
            unix_origin_ms: wall_clock_ms(),
            entropy: Entropy::from_os(),
            network,
            local: Arc::new(InProcessNetwork::new()),
            lanes: Lanes::threads(),
            simulated: false,
        }))
    }

    /// One simulated host: tokio's (paused) clock, lanes as tasks of the current `LocalSet`, entropy from
    /// `seed` alone. Everything it starts runs on the calling thread.
    pub fn simulated(seed: u64, network: Arc<dyn Network>) -> Self {
        Self::simulated_at(seed, network, SIMULATION_EPOCH_MS)
    }

    /// Like [`Platform::simulated`] for a host that starts later than the simulation did: `unix_ms` is
    /// its wall clock at this moment.
    pub fn simulated_at(seed: u64, network: Arc<dyn Network>, unix_ms: u64) -> Self {
        Self(Arc::new(Inner {
            origin: Instant::now(),
            unix_origin_ms: unix_ms,
            entropy: Entropy::from_seed(seed),
            network,
            local: Arc::new(InProcessNetwork::new()),
            lanes: Lanes::tasks(),
            simulated: true,
        }))
    }

    /// Time since this value was made; never goes back.
    pub fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.0.origin)
    }

    /// The moment that [`Platform::now`] counts from.
    pub fn origin(&self) -> Instant {
        self.0.origin
    }

    /// Wall clock, milliseconds since 1970. In production it follows the machine's clock, which may be
    /// set back; for people and for ordering process starts, not for measuring.
    pub fn unix_millis(&self) -> u64 {
        if self.0.simulated {
            let age_ms = u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX);
            self.0.unix_origin_ms.saturating_add(age_ms)
        } else {
            wall_clock_ms()
        }
    }

    /// 64 random bits: seeded in simulation, from a generator keyed by the system otherwise.
    pub fn random_u64(&self) -> u64 {
        self.0.entropy.u64()
    }

    /// 128 random bits.
    pub fn random_u128(&self) -> u128 {
        (u128::from(self.random_u64()) << 64) | u128::from(self.random_u64())
    }

    /// `N` random bytes, good enough for nonces and secrets in production.
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.entropy.fill(&mut bytes);
        bytes
    }

    /// The network of this process.
    pub fn net(&self) -> &Arc<dyn Network> {
        &self.0.network
    }

    /// Pipes between services that share this value; addresses are `local:<n>`.
    pub fn local_net(&self) -> &Arc<dyn Network> {
        &self.0.local
    }

    /// Where tasks of a kind run.
    pub fn lane(&self, lane: Lane) -> LaneHandle {
        self.0.lanes.handle(lane)
    }
}

#[expect(clippy::disallowed_methods, reason = "the one place where the wall clock is read")]
fn wall_clock_ms() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulated(seed: u64) -> Platform {
        Platform::simulated(seed, Arc::new(InProcessNetwork::new()))
    }

    #[tokio::test(start_paused = true)]
    async fn a_simulated_clock_moves_with_tokios_and_only_with_it() {
        let platform = simulated(1);
        assert_eq!(platform.now(), Duration::ZERO);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(platform.now(), Duration::from_secs(3));
        assert_eq!(platform.unix_millis(), SIMULATION_EPOCH_MS + 3_000);
    }

    #[tokio::test]
    async fn the_same_seed_gives_the_same_numbers() {
        let draw = |p: Platform| (p.random_u64(), p.random_u128(), p.random_bytes::<7>());
        assert_eq!(draw(simulated(7)), draw(simulated(7)));
        assert_ne!(draw(simulated(7)), draw(simulated(8)));
        assert_ne!(Platform::production().random_u128(), Platform::production().random_u128());
    }
}
