//! Breaks valid inputs in the ways that find mistakes: lengths that lie, ends that are missing, parts
//! that are doubled, nesting without end.

use crate::rng::Rng;

/// Inputs do not grow beyond this.
const BYTES_MAX: usize = 64 << 10;

/// Bytes that formats give a meaning to: lengths at their ends, markers of MessagePack, JSON and YAML.
const TOKENS: &[&[u8]] = &[
    &[0xff; 8],
    &[0; 8],
    &[0x7f, 0xff, 0xff, 0xff],
    &[0x80, 0, 0, 0],
    // MessagePack: array32, map32, str32, bin32, ext32 with far too much announced.
    &[0xdd, 0xff, 0xff, 0xff, 0xff],
    &[0xdf, 0x7f, 0xff, 0xff, 0xff],
    &[0xdb, 0xff, 0xff, 0xff, 0xff],
    &[0xc6, 0x7f, 0xff, 0xff, 0xff],
    &[0xc9, 0xff, 0xff, 0xff, 0xff, 0],
    &[0xdc, 0xff, 0xff],
    &[0xc1],
    &[0xc0],
    &[0x80],
    &[0x90],
    &[0xcf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0],
    &[0xcb, 0x7f, 0xf8, 0, 0, 0, 0, 0, 0],
    // A varint without end.
    &[0x80; 11],
    b"null",
    b"true",
    b"-1",
    b"1e999",
    b"99999999999999999999999",
    b"\\u0000",
    b"\"",
    b"{",
    b"}",
    b"[",
    b"]",
    b": ",
    b"\n",
    b"\n  ",
    b"- ",
    b"&a ",
    b"*a",
    b"!!x ",
    b"|\n",
    b"'",
    b"#",
    b"%",
    b"\xf0\x9f",
    b"\xe2\x80\xae",
    b"..",
    b"/",
    b"\0",
];
/// Openings that nest.
const NESTING: &[&[u8]] = &[&[0x91], &[0x81, 0xa0], b"[", b"{\"a\":", b"a:\n ", b"- ", b"? ", &[1]];

/// Breaks `input` a few times; sometimes not at all, so that what is valid is tried too.
pub(crate) fn mutate(input: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..rng.below(5) {
        once(input, rng);
    }
    input.truncate(BYTES_MAX);
}

fn once(input: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(input.len() + 1);
    let to = (at + 1 + rng.below(32)).min(input.len());
    match rng.below(10) {
        0 => flip(input, rng),
        1 => input.truncate(at),
        2 => drop(input.drain(at.min(to)..to)),
        3 => insert(input, at, &rng.bytes(4)),
        4 | 5 => {
            let token = rng.pick(TOKENS).copied().unwrap_or_default();
            insert(input, at, token);
        }
        6 => {
            let token = rng.pick(TOKENS).copied().unwrap_or_default();
            overwrite(input, at, token);
        }
        7 => {
            // A part doubled, elsewhere.
            let part = input.get(at.min(to)..to).unwrap_or_default().to_vec();
            let place = rng.below(input.len() + 1);
            insert(input, place, &part);
        }
        8 => number(input, at, rng),
        _ if rng.one_in(8) => nest(input, at, rng),
        _ => flip(input, rng),
    }
}

fn flip(input: &mut [u8], rng: &mut Rng) {
    let at = rng.below(input.len());
    if let Some(byte) = input.get_mut(at) {
        *byte ^= 1 << rng.below(8);
    }
}

/// A length or count, as it is often encoded, a little or far off.
fn number(input: &mut [u8], at: usize, rng: &mut Rng) {
    let width = [1, 2, 4, 8].get(rng.below(4)).copied().unwrap_or(1);
    let value = match rng.below(3) {
        0 => rng.next(),
        1 => u64::MAX >> rng.below(64),
        _ => rng.below(300) as u64,
    };
    let bytes = if rng.one_in(2) { value.to_be_bytes() } else { value.to_le_bytes().map(|b| b) };
    let from = if rng.one_in(2) { 8 - width } else { 0 };
    overwrite(input, at, bytes.get(from..from + width).unwrap_or_default());
}

fn nest(input: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let opening = rng.pick(NESTING).copied().unwrap_or_default();
    let depth = [10, 200, 5_000].get(rng.below(3)).copied().unwrap_or(10);
    insert(input, at, &opening.repeat(depth));
}

fn insert(input: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let at = at.min(input.len());
    input.splice(at..at, bytes.iter().copied());
}

fn overwrite(input: &mut [u8], at: usize, bytes: &[u8]) {
    let places = input.iter_mut().skip(at);
    places.zip(bytes).for_each(|(place, byte)| *place = *byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_breaks_an_input_the_same_way_every_time_and_within_bounds() {
        for seed in 0..2_000 {
            let broken = |_| {
                let mut input = b"{\"a\": [1, 2, 3]}".to_vec();
                mutate(&mut input, &mut Rng::new(seed));
                input
            };
            assert_eq!(broken(0), broken(1));
            assert!(broken(0).len() <= BYTES_MAX);
        }
    }
}
