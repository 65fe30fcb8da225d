//! The fuzz targets. A target makes an input from random numbers, and feeds it to decoders.

mod config;
mod exchange;
mod fabric;
mod graph;
mod hadoop_files;
mod hadoop_kerberos;
mod hadoop_logs;
mod hadoop_rpc;
mod messages;
mod program_file;
mod rest_access;
mod rest_bodies;
mod scratch;
mod stores;
mod texts;

use crate::rng::Rng;

/// One decoder, or a few that read the same bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target {
    pub(crate) name: &'static str,
    /// Makes an input: a valid one, broken or not.
    pub(crate) make: fn(&mut Rng) -> Vec<u8>,
    /// Decodes it: whether it was valid, or which law does not hold.
    pub(crate) check: fn(&[u8]) -> Result<bool, String>,
    /// Memory that it may hold whatever its input is, where the common bound is too low.
    pub(crate) memory_max: usize,
}

/// Lists every target, in the order in which they run.
pub(crate) fn all() -> Vec<Target> {
    [
        config::TARGETS,
        exchange::TARGETS,
        fabric::TARGETS,
        graph::TARGETS,
        hadoop_files::TARGETS,
        hadoop_kerberos::TARGETS,
        hadoop_logs::TARGETS,
        hadoop_rpc::TARGETS,
        messages::TARGETS,
        program_file::TARGETS,
        rest_access::TARGETS,
        rest_bodies::TARGETS,
        stores::TARGETS,
        texts::TARGETS,
    ]
    .concat()
}

/// A made-up value of any type, as `gateways` makes up messages.
pub(crate) fn sample<T: serde::de::DeserializeOwned>(rng: &mut Rng) -> Option<T> {
    gateways::sample::value(&mut || rng.next())
}

/// A law that must hold.
fn law(holds: bool, says: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(says()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_takes_some_of_its_inputs() {
        for target in all() {
            let taken = (0..3_000).any(|seed| {
                let input = (target.make)(&mut Rng::new(seed));
                (target.check)(&input).unwrap()
            });
            assert!(taken, "{}", target.name);
        }
    }
}
