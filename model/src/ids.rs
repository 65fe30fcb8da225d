//! Identities. Each is a type of its own, so that one can't stand where another is meant.
//!
//! 128-bit ids print and serialise for people as 32 lower-case hex digits, as Flink's do.

use derive_more::Display;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::str::FromStr;
use thiserror::Error;

/// The error of parsing a 128-bit id (job, trigger, instance, allocation, operator or job vertex id): the text is not exactly 32
/// hexadecimal digits, in upper or lower case. Reading an id from JSON fails with the text of this error.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("'{text}' is not a {what}: it takes 32 hexadecimal digits")]
pub struct ParseIdError {
    /// The kind of id that was expected, for the message: for instance `job id`.
    pub what: &'static str,
    /// The text that was given, cut after 64 characters.
    pub text: String,
}

fn parse_hex(what: &'static str, s: &str) -> Result<u128, ParseIdError> {
    let wrong = || ParseIdError { what, text: s.chars().take(64).collect() };
    if s.len() != 32 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(wrong());
    }
    u128::from_str_radix(s, 16).map_err(|_| wrong())
}

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, derive_more::Debug)]
        #[display("{_0:032x}")]
        #[debug("{_0:032x}")]
        pub struct $name(pub u128);

        impl FromStr for $name {
            type Err = ParseIdError;
            fn from_str(s: &str) -> Result<Self, ParseIdError> {
                parse_hex($what, s).map(Self)
            }
        }
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if s.is_human_readable() {
                    s.collect_str(self)
                } else {
                    // 16 big-endian bytes: half of the hex form on the wire.
                    s.serialize_bytes(&self.0.to_be_bytes())
                }
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                if d.is_human_readable() {
                    String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
                } else {
                    let bytes = serde_bytes::ByteArray::<16>::deserialize(d)?;
                    Ok(Self(u128::from_be_bytes(bytes.into_array())))
                }
            }
        }
    };
}

hex_id!(
    /// Identifies one submitted job: the client gives it, or it is drawn at random.
    JobId, "job id");
hex_id!(
    /// Identifies one asynchronous operation (a savepoint, for instance) that a client has triggered. The client asks for the
    /// outcome by this id.
    TriggerId, "trigger id");
hex_id!(
    /// Identifies one incarnation of a TaskExecutor. Drawn anew with every registration at a ResourceManager, so that reports
    /// of an earlier registration are recognised.
    InstanceId, "instance id");
hex_id!(
    /// Identifies one allocation of a slot to a job, from the request for the slot until the slot is freed. The slot's next
    /// allocation has another id.
    AllocationId, "allocation id");
hex_id!(
    /// Identifies an operator across versions of a program: the hash of its `uid`, or of its place in the graph if it has none.
    OperatorId, "operator id");
hex_id!(
    /// Identifies a job vertex (one chain): the number of its first operator's [`OperatorId`].
    JobVertexId, "job vertex id");

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[derive(Display, derive_more::Debug)]
        #[debug("{_0}")]
        #[serde(transparent)]
        pub struct $name(pub String);

        impl $name {
            /// Makes an id from the text as it is; checks nothing, so any text is accepted.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }
            /// Returns the id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    };
}

text_id!(
    /// Identifies a process as a resource: a TaskManager, or the process of a JobMaster or ResourceManager. A container id,
    /// `host:port-nonce`, or the configured id (`taskmanager.resource-id`), which a later process may bear again. It stays the same while
    /// the process lives, unlike its incarnation ([`InstanceId`]).
    ResourceId);
text_id!(
    /// Identifies the cluster that a process belongs to. The handshake of every connection compares it and refuses another
    /// cluster's.
    ClusterId);

/// Number of a node (operator before chaining) in a program's graph, in order of creation from 0; valid within one
/// [`crate::JobGraph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u32);

/// Number of an edge between two vertices, in order of creation from 0; valid within one [`crate::JobGraph`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EdgeId(pub u32);

/// The identity of one slot (share of resources) of one TaskExecutor. Displays as `RESOURCE_INDEX`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display)]
#[display("{}_{}", self.resource_id, self.index)]
pub struct SlotId {
    /// Resource id of the TaskManager process that has the slot.
    pub resource_id: ResourceId,
    /// Index of the slot in its TaskExecutor, from 0.
    pub index: u32,
}

/// The identity of one attempt to run one subtask. Of two attempts of a subtask with the same `graph`, the one with the
/// lower number is superseded. Displays as `GRAPH_VERTEX_SUBTASK_ATTEMPT`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Display,
)]
#[display("{:016x}_{}_{}_{}", self.graph, self.vertex, self.subtask, self.attempt)]
pub struct ExecutionAttemptId {
    /// The id of the execution graph (the job's run under one JobMaster): the process counter of the JobMaster's epoch
    /// mixed with its nonce, so that attempts of two JobMasters never have the same id.
    pub graph: u64,
    /// The vertex that the subtask belongs to.
    pub vertex: JobVertexId,
    /// Index of the subtask in its vertex, from 0.
    pub subtask: u32,
    /// Number of the attempt, from 0; grows by one with every restart of the subtask under the same JobMaster. The next JobMaster begins
    /// with 0 again.
    pub attempt: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_ids_print_32_digits_and_parse_back() {
        let id = JobId(0xab);
        assert_eq!(id.to_string(), "000000000000000000000000000000ab");
        assert_eq!(id.to_string().parse(), Ok(id));
    }

    #[test]
    fn a_text_that_is_no_id_is_refused_by_name() {
        let wrong = "xyz".parse::<JobId>().unwrap_err();
        assert_eq!(wrong.to_string(), "'xyz' is not a job id: it takes 32 hexadecimal digits");
        assert!("+0000000000000000000000000000000".parse::<JobId>().is_err());
    }
}
