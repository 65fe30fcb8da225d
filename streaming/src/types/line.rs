//! Records as lines of text: for files that are written or read, and for results that are printed.

use super::{CompactString, Record};
use std::io::Write;

/// A record that can be written as one line of text, as the sinks of text files and of printed results do. The parts of a tuple are
/// separated by tabs, bytes are written as they are, `None` is an empty text, and numbers, `bool` and `char` are as `Display` shows them.
///
/// ```
/// use streaming::types::ToLine;
///
/// /// A point, as the line `x y`.
/// #[derive(Clone, derive::FlottType)]
/// # #[flott(crate = streaming)]
/// struct Point {
///     x: i64,
///     y: i64,
/// }
///
/// impl ToLine for Point {
///     fn write_line(&self, out: &mut Vec<u8>) {
///         out.extend_from_slice(format!("{} {}", self.x, self.y).as_bytes());
///     }
/// }
///
/// let mut line = Vec::new();
/// Point { x: 1, y: -2 }.write_line(&mut line);
/// assert_eq!(line, b"1 -2");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be written as a line",
    note = "`map` it to a string, a number, bytes or a tuple of these, or implement `ToLine`"
)]
pub trait ToLine {
    /// Appends the record as text, without the line's end. The text must not contain a line end: readers would see two records.
    fn write_line(&self, out: &mut Vec<u8>);
}

impl ToLine for String {
    fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl ToLine for CompactString {
    fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl ToLine for Vec<u8> {
    fn write_line(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
}

macro_rules! displayed {
    ($($type:ty),*) => {$(
        impl ToLine for $type {
            fn write_line(&self, out: &mut Vec<u8>) {
                // Writing to a `Vec` never fails.
                let _ = write!(out, "{self}");
            }
        }
    )*};
}
displayed!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64, bool, char);

impl<T: ToLine> ToLine for Option<T> {
    fn write_line(&self, out: &mut Vec<u8>) {
        if let Some(value) = self {
            value.write_line(out);
        }
    }
}

macro_rules! tuples {
    ($(($first:ident $first_index:tt $(, $name:ident $index:tt)*))*) => {$(
        impl<$first: ToLine $(, $name: ToLine)*> ToLine for ($first, $($name,)*) {
            fn write_line(&self, out: &mut Vec<u8>) {
                self.$first_index.write_line(out);
                $(
                    out.push(b'\t');
                    self.$index.write_line(out);
                )*
            }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
}

/// A type of record that the sources of text lines can produce, one record from each line. Implemented for `Vec<u8>` (the line's bytes)
/// and `String` (its text, which must be UTF-8); the constructors of the built-in sources are for these two types only.
pub trait FromLine: Record {
    /// Reads a record from a line's bytes, without the line's end.
    ///
    /// # Errors
    /// Returns why the line is not such a record; the source's task fails with `TaskError::Io`, whose text has the reason and the place.
    fn from_line(line: &[u8]) -> Result<Self, String>;
}

impl FromLine for Vec<u8> {
    fn from_line(line: &[u8]) -> Result<Self, String> {
        Ok(line.to_vec())
    }
}

impl FromLine for String {
    fn from_line(line: &[u8]) -> Result<Self, String> {
        let text = str::from_utf8(line).map_err(|error| {
            format!("the line is not UTF-8 ({error}); read it as bytes instead")
        })?;
        Ok(text.to_owned())
    }
}
