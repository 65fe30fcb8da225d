//! The column of event times in an encoded batch: differences to the smallest time, all of the same width.
//!
//! Times of one batch are near each other, so that most columns take one or two bytes a record. Decoding must never
//! reserve more than the bytes given can fill.

use super::{CodecError, Reader, write_len};

/// Appends a column: its length, its width in bytes (0: all times are equal), its smallest time, and the differences to it.
pub(super) fn encode(times: &[i64], out: &mut Vec<u8>) {
    let smallest = times.iter().copied().min().unwrap_or(0);
    let largest = times.iter().copied().max().unwrap_or(0);
    // The difference of two `i64` fits a `u64`, whatever their signs.
    let widest = largest.wrapping_sub(smallest) as u64;
    let width: u8 = match widest {
        0 => 0,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    write_len(times.len(), out);
    out.push(width);
    out.extend_from_slice(&smallest.to_le_bytes());
    let differences = times.iter().map(|time| time.wrapping_sub(smallest) as u64);
    // Every difference fits its width: that is how the width was chosen.
    match width {
        0 => {}
        1 => out.extend(differences.map(|d| d as u8)),
        2 => differences.for_each(|d| out.extend_from_slice(&(d as u16).to_le_bytes())),
        4 => differences.for_each(|d| out.extend_from_slice(&(d as u32).to_le_bytes())),
        _ => differences.for_each(|d| out.extend_from_slice(&d.to_le_bytes())),
    }
}

/// Reads the column of a batch of `records` records.
///
/// # Errors
/// When the bytes are no column, or one of more times than there are records.
pub(super) fn decode(records: usize, input: &mut Reader<'_>) -> Result<Vec<i64>, CodecError> {
    let count = usize::try_from(input.varint()?).map_err(|_| CodecError::Truncated)?;
    if count > records {
        return Err(CodecError::Invalid { what: "count of times" });
    }
    let width = input.byte()?;
    let smallest = i64::from_le_bytes(input.array()?);
    let bytes = input.take(count.saturating_mul(usize::from(width)))?;
    let time = |difference: u64| smallest.wrapping_add(difference as i64);
    Ok(match width {
        0 => vec![smallest; count],
        1 => bytes.iter().map(|b| time(u64::from(*b))).collect(),
        2 => widths(bytes).map(|b| time(u64::from(u16::from_le_bytes(b)))).collect(),
        4 => widths(bytes).map(|b| time(u64::from(u32::from_le_bytes(b)))).collect(),
        8 => widths(bytes).map(|b| time(u64::from_le_bytes(b))).collect(),
        _ => return Err(CodecError::Invalid { what: "width of times" }),
    })
}

/// Bytes as numbers of `N` bytes each.
fn widths<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn through(times: &[i64]) -> (Vec<i64>, usize) {
        let mut bytes = Vec::new();
        encode(times, &mut bytes);
        let mut input = Reader::new(&bytes);
        let decoded = decode(times.len(), &mut input).unwrap();
        input.finish().unwrap();
        (decoded, bytes.len())
    }

    proptest! {
        #[test]
        fn a_column_comes_back_as_it_was(
            times in prop_oneof![
                prop::collection::vec(0_i64..100, 1..50),
                prop::collection::vec(-70_000_i64..70_000, 1..50),
                prop::collection::vec(any::<i64>(), 1..50),
            ],
        ) {
            prop_assert_eq!(through(&times).0, times);
        }

        #[test]
        fn any_bytes_are_a_column_or_an_error(bytes: Vec<u8>, records in 0_usize..100) {
            if let Ok(times) = decode(records, &mut Reader::new(&bytes)) {
                prop_assert!(times.len() <= records);
            }
        }
    }

    #[test]
    fn times_that_are_near_each_other_are_small() {
        let base = 1_750_000_000_000;
        let column =
            |step: i64| through(&(0..1_000).map(|i| base + i * step).collect::<Vec<_>>()).1;
        assert_eq!(through(&[base; 1_000]).1, 11);
        assert_eq!((column(1), column(65), column(1_000_000)), (2_011, 2_011, 4_011));
        assert_eq!(through(&[base, base + 255]).1, 12);
        assert_eq!(through(&[i64::MIN, i64::MAX]).0, [i64::MIN, i64::MAX]);
    }
}
