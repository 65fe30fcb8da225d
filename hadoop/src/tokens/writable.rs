//! Hadoop's Writable encoding, as far as tokens need it: variable-length integers, byte strings, texts.
//! A length from the input is checked against what is left before anything is allocated.

use super::TokenError;

/// Appends an integer: one byte for -112 ..= 127, else a length byte and up to eight bytes, big endian.
pub(super) fn put_vint(value: i64, out: &mut Vec<u8>) {
    if let Ok(small) = i8::try_from(value)
        && small >= -112
    {
        out.push(small.to_be_bytes()[0]);
        return;
    }
    let (mark, bits) = match value < 0 {
        true => (-120_i8, !value),
        false => (-112, value),
    };
    let bytes = bits.to_be_bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count().min(7);
    let length = i8::try_from(8 - zeros).unwrap_or(8);
    out.push((mark - length).to_be_bytes()[0]);
    out.extend(bytes.iter().skip(zeros));
}

/// Appends a length and the bytes.
pub(super) fn put_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    put_vint(i64::try_from(bytes.len()).unwrap_or(i64::MAX), out);
    out.extend_from_slice(bytes);
}

/// Takes a byte off the front.
pub(super) fn take_byte(input: &mut &[u8]) -> Result<u8, TokenError> {
    let (first, rest) = input.split_first().ok_or(ENDS)?;
    *input = rest;
    Ok(*first)
}

const ENDS: TokenError = TokenError::Malformed("it ends too early");

/// Takes an integer off the front.
pub(super) fn take_vint(input: &mut &[u8]) -> Result<i64, TokenError> {
    let first = i8::from_be_bytes([take_byte(input)?]);
    if first >= -112 {
        return Ok(i64::from(first));
    }
    let (length, negative) = match first < -120 {
        true => (-120 - i32::from(first), true),
        false => (-112 - i32::from(first), false),
    };
    let mut bits = 0_i64;
    for _ in 0..length {
        bits = (bits << 8) | i64::from(take_byte(input)?);
    }
    Ok(if negative { !bits } else { bits })
}

/// Takes a count of things off the front, each of which takes at least one byte.
pub(super) fn take_count(input: &mut &[u8]) -> Result<usize, TokenError> {
    let count = usize::try_from(take_vint(input)?)
        .map_err(|_| TokenError::Malformed("a length is negative"))?;
    if count > input.len() {
        return Err(ENDS);
    }
    Ok(count)
}

/// Takes a length and as many bytes off the front.
pub(super) fn take_bytes<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], TokenError> {
    let length = take_count(input)?;
    let (bytes, rest) = input.split_at_checked(length).ok_or(ENDS)?;
    *input = rest;
    Ok(bytes)
}

/// Takes a text off the front.
pub(super) fn take_text(input: &mut &[u8]) -> Result<String, TokenError> {
    let bytes = take_bytes(input)?.to_vec();
    String::from_utf8(bytes).map_err(|_| TokenError::Malformed("a text is not UTF-8"))
}
