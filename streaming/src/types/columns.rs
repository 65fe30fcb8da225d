//! The columns of an encoded batch: a column holds one part of every record; its numbers all have the same width.
//!
//! State and keys are encoded value by value ([`FlottType::encode`](super::FlottType::encode)). Batches are encoded by columns,
//! because numbers of one width are written and read some twenty times as quickly as varints, and because a column of texts is
//! checked for UTF-8 once. A column takes at least one byte per value, so that a count greater than the bytes left is refused
//! before memory is reserved.

use super::{CodecError, FlottType, Reader};

/// Appends a column of numbers: a width in bytes (0, 1, 2, 4 or 8), the smallest number, and every number's distance from the
/// smallest. If all numbers are equal, the width is `least`.
pub(super) fn write_numbers(
    values: impl Iterator<Item = u64> + Clone,
    least: u8,
    out: &mut Vec<u8>,
) {
    let (mut count, mut smallest, mut largest) = (0_usize, u64::MAX, 0);
    for value in values.clone() {
        count += 1;
        smallest = smallest.min(value);
        largest = largest.max(value);
    }
    let width = match largest.saturating_sub(smallest) {
        0 => least,
        1..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xffff_ffff => 4,
        _ => 8,
    };
    out.push(width);
    out.extend_from_slice(&smallest.to_le_bytes());
    // The width was chosen so that every distance fits, hence the casts below lose nothing.
    let distances = values.map(|value| value.wrapping_sub(smallest));
    match width {
        0 => {}
        1 => write_fixed(count, distances.map(|d| (d as u8).to_le_bytes()), out),
        2 => write_fixed(count, distances.map(|d| (d as u16).to_le_bytes()), out),
        4 => write_fixed(count, distances.map(|d| (d as u32).to_le_bytes()), out),
        _ => write_fixed(count, distances.map(u64::to_le_bytes), out),
    }
}

/// Reads a column of `count` numbers that [`write_numbers`] wrote with the same `least`.
///
/// # Errors
/// Fails when the bytes are not such a column.
pub(super) fn read_numbers<'a>(
    count: usize,
    least: u8,
    input: &mut Reader<'a>,
) -> Result<Numbers<'a>, CodecError> {
    let width = input.byte()?;
    let smallest = u64::from_le_bytes(input.array()?);
    if !matches!(width, 0 | 1 | 2 | 4 | 8) || width < least {
        return Err(CodecError::Invalid { what: "width of a column" });
    }
    let bytes = input.take(count.saturating_mul(usize::from(width)))?;
    Ok(Numbers { count, width, smallest, bytes })
}

/// A column of numbers, as read; its bytes are decoded when the numbers are used.
pub(super) struct Numbers<'a> {
    count: usize,
    width: u8,
    smallest: u64,
    bytes: &'a [u8],
}

impl Numbers<'_> {
    /// Returns whether all numbers fit, for a `fits` that is true for a range of numbers: it is called with the lower and the upper
    /// bound of the column only. If corrupt bytes stand for numbers beyond 64 bits, the upper bound is `u64::MAX`.
    #[inline]
    pub(super) fn all_fit(&self, fits: impl Fn(u64) -> bool) -> bool {
        self.count == 0 || (fits(self.smallest) && fits(self.largest()))
    }
    fn largest(&self) -> u64 {
        let distance = |widest: u64, bytes: [u8; 8]| widest.max(u64::from_le_bytes(bytes));
        let widest = match self.width {
            0 => 0,
            1 => self.bytes.iter().copied().max().map_or(0, u64::from),
            2 => fixed(self.bytes).map(u16::from_le_bytes).max().map_or(0, u64::from),
            4 => fixed(self.bytes).map(u32::from_le_bytes).max().map_or(0, u64::from),
            _ => fixed(self.bytes).fold(0, distance),
        };
        self.smallest.saturating_add(widest)
    }
    /// Converts each number to a value.
    pub(super) fn map<T>(&self, make: impl Fn(u64) -> T) -> Vec<T> {
        let value = |distance: u64| make(self.smallest.wrapping_add(distance));
        match self.width {
            0 => (0..self.count).map(|_| value(0)).collect(),
            1 => self.bytes.iter().map(|b| value(u64::from(*b))).collect(),
            2 => fixed(self.bytes).map(|b| value(u64::from(u16::from_le_bytes(b)))).collect(),
            4 => fixed(self.bytes).map(|b| value(u64::from(u32::from_le_bytes(b)))).collect(),
            _ => fixed(self.bytes).map(|b| value(u64::from_le_bytes(b))).collect(),
        }
    }
}

/// Appends a column with one number per enum value of a batch: the number of the value's variant. The code that `#[derive(FlottType)]`
/// writes for enums calls it; [`read_variants`] reads the column.
#[doc(hidden)]
pub fn write_variants(variants: impl Iterator<Item = u64> + Clone, out: &mut Vec<u8>) {
    write_numbers(variants, 1, out);
}

/// Reads a column of `count` variant numbers that [`write_variants`] wrote. Does not check that the enum has these variants.
///
/// # Errors
/// Fails with [`CodecError::Truncated`] or [`CodecError::Invalid`] when the bytes are not such a column.
#[doc(hidden)]
pub fn read_variants(count: usize, input: &mut Reader<'_>) -> Result<Vec<u64>, CodecError> {
    Ok(read_numbers(count, 1, input)?.map(|variant| variant))
}

/// Appends `count` values of `N` bytes each.
pub(super) fn write_fixed<const N: usize>(
    count: usize,
    values: impl Iterator<Item = [u8; N]>,
    out: &mut Vec<u8>,
) {
    let begin = out.len();
    out.resize(begin + count * N, 0);
    let places = out.get_mut(begin..).unwrap_or_default().as_chunks_mut::<N>().0;
    for (place, value) in places.iter_mut().zip(values) {
        *place = value;
    }
}

/// Splits bytes into values of `N` bytes each; bytes left over at the end are ignored.
pub(super) fn fixed<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks::<N>().0.iter().copied()
}

/// Reads a column of `count` lengths, at least one byte each. Returns them and their sum; what does not fit is `usize::MAX`, which no
/// input has.
fn read_lengths(count: usize, input: &mut Reader<'_>) -> Result<(Vec<usize>, usize), CodecError> {
    let lengths = read_numbers(count, 1, input)?;
    let lengths = lengths.map(|length| usize::try_from(length).unwrap_or(usize::MAX));
    let whole = lengths.iter().fold(0_usize, |sum, length| sum.saturating_add(*length));
    Ok((lengths, whole))
}

/// Appends a column of lists of numbers: their lengths as numbers, then one column of all numbers.
pub(super) fn write_lists<'a, T: FlottType>(
    lists: impl Iterator<Item = &'a Vec<T>> + Clone,
    out: &mut Vec<u8>,
) {
    write_numbers(lists.clone().map(|list| list.len() as u64), 1, out);
    T::encode_column(lists.flatten(), out);
}

/// Reads a column of `count` lists that [`write_lists`] wrote.
///
/// # Errors
/// Fails when the bytes are not such a column.
pub(super) fn read_lists<T: FlottType>(
    count: usize,
    input: &mut Reader<'_>,
) -> Result<Vec<Vec<T>>, CodecError> {
    let (lengths, whole) = read_lengths(count, input)?;
    let mut numbers = T::decode_column(whole, input)?.into_iter();
    Ok(lengths.into_iter().map(|length| numbers.by_ref().take(length).collect()).collect())
}

/// Appends a column of texts, as [`write_bytes`] does.
pub(super) fn write_texts<'a>(values: impl Iterator<Item = &'a str> + Clone, out: &mut Vec<u8>) {
    write_bytes(values.map(str::as_bytes), out);
}

/// Appends a column of lists of bytes: their lengths as numbers, then all bytes.
pub(super) fn write_bytes<'a>(values: impl Iterator<Item = &'a [u8]> + Clone, out: &mut Vec<u8>) {
    write_numbers(values.clone().map(|bytes| bytes.len() as u64), 1, out);
    values.for_each(|bytes| out.extend_from_slice(bytes));
}

/// Reads a column of `count` lists of bytes that [`write_bytes`] wrote.
///
/// # Errors
/// Fails when the bytes are not such a column.
pub(super) fn read_bytes(count: usize, input: &mut Reader<'_>) -> Result<Vec<Vec<u8>>, CodecError> {
    let (lengths, _) = read_lengths(count, input)?;
    lengths.into_iter().map(|length| input.take(length).map(<[u8]>::to_vec)).collect()
}

/// Reads a column of `count` texts that [`write_texts`] wrote, and converts each text to a value.
///
/// # Errors
/// Fails when the bytes are not such a column, or not UTF-8.
pub(super) fn read_texts<T>(
    count: usize,
    input: &mut Reader<'_>,
    make: impl Fn(&str) -> T,
) -> Result<Vec<T>, CodecError> {
    let (lengths, whole) = read_lengths(count, input)?;
    let wrong = CodecError::Invalid { what: "UTF-8" };
    let mut rest = str::from_utf8(input.take(whole)?).map_err(|_| wrong)?;
    let mut values = Vec::with_capacity(lengths.len());
    for length in lengths {
        let (text, behind) = rest.split_at_checked(length).ok_or(wrong)?;
        values.push(make(text));
        rest = behind;
    }
    Ok(values)
}
