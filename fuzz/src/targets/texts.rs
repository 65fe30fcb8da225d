//! Small texts that users, files and peers write: ids, addresses, amounts, names.

use super::Target;
use crate::{mutate::mutate, rng::Rng};
use conf::{List, OptionValue};
use model::PortSpec;

pub(crate) const TARGETS: &[Target] = &[Target { name: "texts", make, check, memory_max: 8 << 20 }];

const TEXTS: &[&str] = &[
    "000000000000000000000000000000ab",
    "00000000000000000000000000000000000000000000000000000000000000ff",
    "flott://host:6123/job_master/000000000000000000000000000000ab",
    "localhost:6123",
    "[::1]:6123",
    "local:7",
    "1728m",
    "500 ms",
    "50100-50200,50300",
    "[\"a\", \"b\"]",
    "file:///tmp/ha",
    "a=b&c=%41%zz",
    "--input \"a b\" 'c'",
];

fn make(rng: &mut Rng) -> Vec<u8> {
    let mut bytes = rng.text(TEXTS).as_bytes().to_vec();
    mutate(&mut bytes, rng);
    bytes
}

fn check(input: &[u8]) -> Result<bool, String> {
    let text = &*String::from_utf8_lossy(input);
    let _ = List::parse(text);
    let taken = [
        text.parse::<model::JobId>().is_ok(),
        text.parse::<model::OperatorId>().is_ok(),
        text.parse::<model::ContentHash>().is_ok(),
        text.parse::<model::MemorySize>().is_ok(),
        text.parse::<gateways::EndpointAddress>().is_ok(),
        text.parse::<gateways::NodeAddress>().is_ok(),
        conf::parse_duration(text).is_some(),
        // A range is a few bytes and many ports: they are never all held.
        PortSpec::parse(text).is_some_and(|ports| ports.iter().take(10).count() > 0),
        storage::objects::local_path(text).is_ok(),
        rest::decode::split_args(text).is_ok(),
        rest::decode::query_pairs(text).is_ok(),
        rest::decode::upload_name(text).is_ok(),
        rest::decode::plain_file_name(text).is_ok(),
    ];
    Ok(taken.contains(&true))
}
