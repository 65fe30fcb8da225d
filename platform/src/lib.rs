//! The one value through which the rim takes time, threads, entropy and sockets, plus authenticated
//! streams. It must never know actors or gateways, and never decide anything.

pub mod auth;
pub mod blocking;
pub mod content;
mod disks;
mod entropy;
pub mod handshake;
pub mod inproc;
mod lanes;
pub mod messagepack;
pub mod net;
mod strangers;
mod tcp;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod tls;
#[cfg(feature = "simulation")]
pub mod turmoil_net;
pub mod watch;

pub use blocking::{NotDone, blocking};
pub use disks::Disks;
pub use handshake::{Credentials, HandshakeError, Identity, Introduction, Secret};
pub use lanes::{Lane, LaneEnded, LaneHandle, after_this_turn};
pub use model::{ParsePortsError, PortSpec};
pub use net::{BoxListener, BoxStream, Listener, Network};
pub use strangers::Strangers;
pub use tls::{Tls, TlsError, TlsPem, TlsRefusal};

use entropy::Entropy;
use inproc::InProcessNetwork;
use lanes::Lanes;
use std::{fmt, sync::Arc, time::Duration};
use tokio::time::Instant;

/// The wall-clock time at which a simulation starts unless it sets another one, in Unix milliseconds: 2023-11-14T22:13:20Z.
/// Real platforms show the machine's time.
pub const SIMULATION_EPOCH_MS: u64 = 1_700_000_000_000;

/// The time, lanes (threads), entropy and sockets of one process, or of one simulated host. A cheap handle: clones share everything, while
/// two values that were made separately share nothing, not even lanes or in-process pipes (except a simulated network that both were
/// given). Code that takes time, threads, random numbers and sockets from it alone runs the same in production and in a simulation.
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
    /// Makes the platform of a real process: the machine's clocks, TCP, random numbers keyed by the system, and one thread per
    /// lane (started with its first task).
    pub fn production() -> Self {
        Self::production_on(Arc::new(tcp::TcpNetwork))
    }

    /// Makes the platform of a real process (the machine's clocks, random numbers keyed by the system, one thread per lane) that
    /// reaches others by `network` instead of TCP, for instance in-process pipes for embedded use.
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

    /// Makes the platform of one simulated host that starts at [`SIMULATION_EPOCH_MS`]: time is tokio's clock, which the caller
    /// must have paused, lanes are tasks of the current `LocalSet`, and entropy comes from `seed` alone. Everything that it starts
    /// runs on the calling thread; starting a task outside of a `LocalSet` panics.
    pub fn simulated(seed: u64, network: Arc<dyn Network>) -> Self {
        Self::simulated_at(seed, network, SIMULATION_EPOCH_MS)
    }

    /// Makes the platform of one simulated host, as [`Platform::simulated`] does (tokio's paused clock, lanes as tasks of the
    /// current `LocalSet`, entropy from `seed` alone), whose wall clock shows `unix_ms` (Unix milliseconds) now: for a host that
    /// starts later than the simulation.
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

    /// Returns true if this platform's time, entropy and threads are simulated, so that nothing depends on the real
    /// machine.
    pub fn is_simulated(&self) -> bool {
        self.0.simulated
    }

    /// Returns the monotonic time since this platform was made (not since its clone was), so that times of two processes, or of two
    /// platforms, cannot be compared. All deadlines count on this clock.
    pub fn now(&self) -> Duration {
        Instant::now().saturating_duration_since(self.0.origin)
    }

    /// Returns the instant of tokio's clock at which [`Platform::now`] is zero.
    pub fn origin(&self) -> Instant {
        self.0.origin
    }

    /// Returns the wall-clock time in Unix milliseconds. In production it follows the machine's clock, which may be set back:
    /// use it for users and for ordering process starts, never for measuring. In simulation it grows with [`Platform::now`]. A clock
    /// before 1970 gives 0.
    pub fn unix_millis(&self) -> u64 {
        if self.0.simulated {
            let age_ms = u64::try_from(self.now().as_millis()).unwrap_or(u64::MAX);
            self.0.unix_origin_ms.saturating_add(age_ms)
        } else {
            wall_clock_ms()
        }
    }

    /// Draws 64 random bits: seeded in simulation, otherwise from a generator keyed by the system.
    pub fn random_u64(&self) -> u64 {
        self.0.entropy.u64()
    }

    /// Draws 128 random bits from the same generator as [`Platform::random_u64`].
    pub fn random_u128(&self) -> u128 {
        (u128::from(self.random_u64()) << 64) | u128::from(self.random_u64())
    }

    /// Draws `N` random bytes, in production good enough for nonces and secrets.
    pub fn random_bytes<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.entropy.fill(&mut bytes);
        bytes
    }

    /// Returns the network by which this process reaches others: TCP for [`Platform::production`], else the one that was given.
    pub fn net(&self) -> &Arc<dyn Network> {
        &self.0.network
    }

    /// Returns the network of in-process pipes by which RPC services that share this platform and bind no port (their addresses
    /// are `local:<n>`) reach each other; nothing leaves the process.
    pub fn local_net(&self) -> &Arc<dyn Network> {
        &self.0.local
    }

    /// Returns a handle on the lane for tasks of this kind. Starts nothing: the lane's thread starts with its first task.
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
