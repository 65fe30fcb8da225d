//! Limits per kind of connection, so that a client that opens many of one kind leaves the endpoint usable for others. The
//! kinds are connections without a request, long polls, bodies that are not there at once, and uploads. Their limits add
//! up to less than all connections; the rest is the reserve for short requests.
//!
//! In a full kind the oldest member gives way to a newcomer: a client that means well has done its short step long before
//! that many others come. Nothing here may read or write a connection.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Part of a kind that one address beyond this machine may take: a quarter.
const PER_ADDRESS: usize = 4;
/// Time without progress after which an upload may have to give way.
const UPLOAD_PATIENCE: Duration = Duration::from_secs(2);

/// The kinds of connections of an endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Kinds {
    /// Connections that have not sent a request's head yet.
    pub(crate) idle: Kind,
    /// Requests that wait for the end of a job.
    pub(crate) polls: Kind,
    /// Requests whose body is not whole yet.
    pub(crate) bodies: Kind,
    /// Uploads of programs.
    pub(crate) uploads: Kind,
}

impl Kinds {
    /// Returns the kinds of an endpoint with this many connections and uploads at once. A sixteenth of the connections is
    /// the reserve.
    pub(crate) fn new(connections_max: usize, uploads_max: usize) -> Self {
        let uploads = uploads_max.min(connections_max / 16);
        Self {
            idle: Kind::new(connections_max / 4, Duration::ZERO),
            polls: Kind::new(connections_max / 2, Duration::ZERO),
            bodies: Kind::new(connections_max / 8, Duration::ZERO),
            uploads: Kind::new(uploads, UPLOAD_PATIENCE),
        }
    }
}

/// Returns the address whose connections are counted together; `None` for this machine's, which have no limit of their
/// own.
pub(crate) fn counted(peer: Option<SocketAddr>) -> Option<IpAddr> {
    peer.map(|peer| peer.ip().to_canonical()).filter(|ip| !ip.is_loopback())
}

/// Connections of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Kind(Arc<Mutex<Members>>);

#[derive(Debug)]
struct Members {
    max: usize,
    patience: Duration,
    next: u64,
    /// By the order of their last progress.
    present: BTreeMap<u64, Member>,
}

struct Member {
    address: Option<IpAddr>,
    progressed: Instant,
    give_way: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Member({:?}, {:?})", self.address, self.progressed)
    }
}

impl Kind {
    /// Returns a kind of at most `max` members, at least one. A member that progressed within `patience` need not give
    /// way.
    fn new(max: usize, patience: Duration) -> Self {
        let members = Members { max: max.max(1), patience, next: 0, present: BTreeMap::new() };
        Self(Arc::new(Mutex::new(members)))
    }

    fn lock(&self) -> MutexGuard<'_, Members> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a place for a connection from `address`, until it is dropped. If there is none, the oldest member's
    /// `give_way` is called and its place is free; `None` if that member may stay.
    pub(crate) fn enter(
        &self,
        address: Option<IpAddr>,
        give_way: impl FnOnce() + Send + 'static,
    ) -> Option<Place> {
        let mut members = self.lock();
        let now = Instant::now();
        let leaving = match members.in_the_way(address) {
            Some(oldest) => {
                let member = members.present.get(&oldest)?;
                if now.duration_since(member.progressed) < members.patience {
                    return None;
                }
                members.present.remove(&oldest)
            }
            None => None,
        };
        let number = members.add(Member { address, progressed: now, give_way: Box::new(give_way) });
        drop(members);
        if let Some(member) = leaving {
            (member.give_way)();
        }
        Some(Place { kind: self.clone(), number })
    }

    /// Returns a place as [`Kind::enter`] does, and what resolves when it has to give way.
    pub(crate) fn wait(&self, address: Option<IpAddr>) -> Option<(Place, oneshot::Receiver<()>)> {
        let (give_way, gives_way) = oneshot::channel();
        // Dropping the sender resolves the receiver.
        Some((self.enter(address, || drop(give_way))?, gives_way))
    }
}

impl Members {
    /// Returns the member whose place a newcomer needs; `None` if there is a free one.
    fn in_the_way(&self, address: Option<IpAddr>) -> Option<u64> {
        let own = self.present.iter().filter(|(_, m)| m.address.is_some() && m.address == address);
        if own.clone().count() >= (self.max / PER_ADDRESS).max(1) {
            return own.map(|(number, _)| *number).next();
        }
        let is_full = self.present.len() >= self.max;
        is_full.then(|| self.present.first_key_value().map(|(number, _)| *number)).flatten()
    }

    fn add(&mut self, member: Member) -> u64 {
        let number = self.next;
        self.next += 1;
        self.present.insert(number, member);
        number
    }
}

/// A connection's place in its kind.
#[derive(Debug)]
pub(crate) struct Place {
    kind: Kind,
    number: u64,
}

impl Place {
    /// Records that the connection got on: it is the last to give way now. Does nothing if it has given way.
    pub(crate) fn progressed(&mut self) {
        let mut members = self.kind.lock();
        if let Some(member) = members.present.remove(&self.number) {
            self.number = members.add(Member { progressed: Instant::now(), ..member });
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let gone = self.kind.lock().present.remove(&self.number);
        // Not under the lock: what a member holds may be dropped with it.
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn address(last: u8) -> Option<IpAddr> {
        counted(Some(SocketAddr::from(([10, 0, 0, last], 1))))
    }

    #[test]
    fn the_oldest_gives_way_to_a_newcomer() {
        let kind = Kind::new(2, Duration::ZERO);
        let mut all: Vec<_> = (0..4).map(|_| kind.wait(None).unwrap()).collect();
        let gave_way: Vec<bool> =
            all.iter_mut().map(|(_, gives_way)| gives_way.now_or_never().is_some()).collect();
        assert_eq!(gave_way, [true, true, false, false]);
        drop(all.remove(3));
        drop(all.remove(0));
        let (_next, _) = kind.wait(None).unwrap();
        assert!((&mut all[1].1).now_or_never().is_none(), "a place was free");
    }

    #[test]
    fn one_address_takes_a_quarter_and_this_machine_takes_all() {
        let kind = Kind::new(8, Duration::ZERO);
        let (_other, mut others) = kind.wait(address(1)).unwrap();
        let mut own: Vec<_> = (0..3).map(|_| kind.wait(address(2)).unwrap()).collect();
        assert!((&mut others).now_or_never().is_none());
        assert!((&mut own[0].1).now_or_never().is_some(), "its own oldest one");
        let local = counted(Some(SocketAddr::from(([127, 0, 0, 1], 1))));
        assert_eq!(local, None);
        let _local: Vec<_> = (0..5).map(|_| kind.wait(local).unwrap()).collect();
        assert!((&mut others).now_or_never().is_none(), "three and five are eight");
        let _last = kind.wait(local).unwrap();
        assert!((&mut others).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_gets_on_need_not_give_way() {
        let kind = Kind::new(2, UPLOAD_PATIENCE);
        let (mut moving, mut moved) = kind.wait(None).unwrap();
        let (_still, mut stalled) = kind.wait(None).unwrap();
        assert!(kind.wait(None).is_none(), "both have just come");
        tokio::time::sleep(UPLOAD_PATIENCE).await;
        moving.progressed();
        let (_third, _) = kind.wait(None).unwrap();
        assert!((&mut stalled).now_or_never().is_some() && (&mut moved).now_or_never().is_none());
        assert!(kind.wait(None).is_none());
    }

    #[test]
    fn all_kinds_together_leave_a_reserve() {
        for connections in [64, 1024] {
            let kinds = Kinds::new(connections, 64);
            let all = [&kinds.idle, &kinds.polls, &kinds.bodies, &kinds.uploads];
            let sum: usize = all.into_iter().map(|kind| kind.lock().max).sum();
            assert_eq!(connections - sum, connections / 16);
        }
    }
}
