//! Every message by its name, for tools and tests that feed bytes to all decoders.

use crate::{call::Call, codec, error::FabricError};
use serde::de::DeserializeOwned;

/// Decodes bytes as a call's message, its reply and its error, each from memory and from a reader, for tests that feed
/// bytes to all decoders. Returns the failure of decoding the message from memory; failures of the reply and the error
/// are dropped.
///
/// # Panics
/// Panics if memory and reader disagree on whether the bytes are a value.
#[doc(hidden)]
pub fn decode_all<C: Call>(bytes: &[u8]) -> Result<(), FabricError> {
    let _ = decode_both::<C::Reply>(C::NAME, bytes);
    let _ = decode_both::<C::Error>(C::NAME, bytes);
    decode_both::<C>(C::NAME, bytes)
}

fn decode_both<T: DeserializeOwned>(name: &str, bytes: &[u8]) -> Result<(), FabricError> {
    let decoded = codec::decode::<T>(name, bytes).map(|_| ());
    let read = codec::decode_read::<T>(name, bytes).map(|_| ());
    assert_eq!(decoded.is_ok(), read.is_ok(), "{name}: {decoded:?} in memory, {read:?} read");
    decoded
}

macro_rules! gateways {
    ($($module:ident::$gateway:ident),+ $(,)?) => {
        /// Returns the names of all calls of all gateways, such as `dispatcher.SubmitJob`.
        pub fn names() -> impl Iterator<Item = &'static str> {
            [$(<crate::$module::$gateway as crate::Gateway>::CALLS),+]
                .into_iter()
                .flatten()
                .copied()
        }

        /// Decodes bytes as the message of the call of this name, such as `dispatcher.SubmitJob` (and tries its reply
        /// and error), for tests that feed bytes to all decoders. `None`: no gateway has such a call; `Some(Err)`: the
        /// bytes are not its message.
        ///
        /// # Panics
        /// Panics as [`decode_all`] does.
        pub fn decode_by_name(name: &str, bytes: &[u8]) -> Option<Result<(), FabricError>> {
            None$(.or_else(|| crate::$module::$gateway::decode_by_name(name, bytes)))+
        }

        /// Makes up a message of the call of this name from the random numbers of `draw`, and encodes it; for tests.
        /// `None` if there is no such call, or no made-up value is a valid message.
        #[cfg(any(test, feature = "testing"))]
        #[doc(hidden)]
        pub fn sample_by_name(name: &str, draw: crate::sample::Draw<'_>) -> Option<Vec<u8>> {
            $(if <crate::$module::$gateway as crate::Gateway>::CALLS.contains(&name) {
                return crate::$module::$gateway::sample_by_name(name, draw);
            })+
            None
        }
    };
}

gateways! {
    blob_server::BlobServerGateway,
    dispatcher::DispatcherGateway,
    heartbeat::HeartbeatGateway,
    job_master::JobMasterGateway,
    job_services::JobManagerRunnerGateway,
    job_services::JobLeaderServiceGateway,
    job_services::ProgramHostsGateway,
    leader_election::LeaderElectionGateway,
    leader_election::LeaderRetrievalGateway,
    metric_query::MetricQueryGateway,
    program_host::ProgramHostGateway,
    resource_manager::ResourceManagerGateway,
    slot_manager::SlotManagerGateway,
    task_executor::TaskExecutorGateway,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::call_id;
    use std::collections::BTreeMap;

    #[test]
    fn no_two_calls_share_an_id() {
        let mut ids = BTreeMap::new();
        for name in names() {
            let other = ids.insert(call_id(name), name);
            assert_eq!(other, None, "{name} has the id of another call");
        }
        assert!(ids.len() > 60);
    }

    /// Bytes in a file are decoded by a reader, which lends no strings.
    #[test]
    fn every_message_decodes_from_a_reader_like_from_memory() {
        let mut seed = 1_u64;
        let mut draw = || {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            seed >> 16
        };
        let mut decoded = 0;
        for name in names() {
            if let Some(body) = sample_by_name(name, &mut draw) {
                assert_eq!(decode_by_name(name, &body), Some(Ok(())), "{name}");
                decoded += 1;
            }
        }
        assert!(decoded > 60, "{decoded}");
    }

    #[test]
    fn every_call_is_found_by_its_name_and_refuses_garbage() {
        for name in names() {
            let decoded = decode_by_name(name, &[0xc1]);
            assert!(matches!(decoded, Some(Err(_))), "{name}");
        }
        assert!(decode_by_name("nobody.Nothing", &[]).is_none());
    }
}
