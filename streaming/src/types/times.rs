//! The column of event times in an encoded batch.
//!
//! Times of one batch are near each other, so that most columns take one or two bytes per record. Decoding must never reserve
//! more memory than a batch of `records` records needs.

use super::{
    CodecError, Reader,
    columns::{read_numbers, write_numbers},
    numbers::{ordered, signed},
    write_len,
};

/// Appends the number of times, then the times as a column of numbers. If all times are equal, a time takes no bytes.
pub(super) fn encode(times: &[i64], out: &mut Vec<u8>) {
    write_len(times.len(), out);
    write_numbers(times.iter().map(|time| ordered(*time)), 0, out);
}

/// Reads the times of a batch of `records` records; there may be fewer times than records.
///
/// # Errors
/// Fails when the bytes are not such a column, or when there are more times than records.
pub(super) fn decode(records: usize, input: &mut Reader<'_>) -> Result<Vec<i64>, CodecError> {
    let count = usize::try_from(input.varint()?).map_err(|_| CodecError::Truncated)?;
    if count > records {
        return Err(CodecError::Invalid { what: "count of times" });
    }
    Ok(read_numbers(count, 0, input)?.map(signed))
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
