//! The text of the word count benchmark, the same on both sides: line i has ten words, word j of it is
//! `w{splitmix64(10 i + j) mod 10000}`.

use std::fmt::Write;

/// Number of words of a line.
pub const WORDS_PER_LINE: u64 = 10;
/// Number of distinct words in the generated text.
const DISTINCT: u64 = 10_000;

/// Mixes a number's bits (the function splitmix64), one to one: different numbers give different results that look random.
#[inline]
pub fn splitmix64(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the line of that number: [`WORDS_PER_LINE`] words out of 10,000, with blanks between them and without a line feed.
pub fn line(number: u64) -> String {
    let mut line = String::with_capacity(64);
    for word in 0..WORDS_PER_LINE {
        if word > 0 {
            line.push(' ');
        }
        // Writing to memory does not fail.
        let _ = write!(line, "w{}", splitmix64(WORDS_PER_LINE * number + word) % DISTINCT);
    }
    line
}
