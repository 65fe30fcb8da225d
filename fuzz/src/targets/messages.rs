//! Every message of every gateway, its reply and its error, by the call's name.

use super::Target;
use crate::{mutate::mutate, rng::Rng};

pub(crate) const TARGETS: &[Target] = &[Target { name: "messages", make, check, memory_max: 0 }];

/// The call's number in two bytes, then a message of it.
fn make(rng: &mut Rng) -> Vec<u8> {
    let count = gateways::messages::names().count();
    let chosen = rng.below(count);
    let name = gateways::messages::names().nth(chosen).unwrap_or_default();
    let mut body = gateways::messages::sample_by_name(name, &mut || rng.next()).unwrap_or_default();
    mutate(&mut body, rng);
    // Sometimes another call gets it: replies and errors look like messages of others.
    let receiver = if rng.one_in(4) { rng.below(count) } else { chosen };
    let mut input = (receiver as u16).to_le_bytes().to_vec();
    input.extend(body);
    input
}

fn check(input: &[u8]) -> Result<bool, String> {
    let Some((number, body)) = input.split_first_chunk::<2>() else { return Ok(false) };
    let number = usize::from(u16::from_le_bytes(*number));
    let Some(name) = gateways::messages::names().nth(number) else { return Ok(false) };
    match gateways::messages::decode_by_name(name, body) {
        Some(decoded) => Ok(decoded.is_ok()),
        None => Err(format!("{name} is listed, but nobody decodes it")),
    }
}
