//! Splitting a text into words, whatever its encoding.

/// Returns the words of a line in their order, which are the non-empty runs of bytes between separators; none for a line of separators.
/// Separators are the bytes 09 to 0D and 20 (hexadecimal) and nothing else: in UTF-8 no byte of a multi-byte character has one of these
/// values, so a character is never cut. Case and punctuation stay as they are.
pub fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| matches!(byte, 0x09..=0x0d | 0x20)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::words;

    fn split(line: &str) -> Vec<&str> {
        words(line.as_bytes()).map(|word| str::from_utf8(word).unwrap()).collect()
    }

    #[test]
    fn six_bytes_are_space_and_nothing_else_is() {
        assert_eq!(split("a\tb\nc\x0bd\x0ce\rf g"), ["a", "b", "c", "d", "e", "f", "g"]);
        // A no-break space, an ideographic space and a next-line character belong to words.
        assert_eq!(split("a\u{a0}b c\u{3000}d e\u{85}f"), ["a\u{a0}b", "c\u{3000}d", "e\u{85}f"]);
        assert_eq!(split("  \t "), [""; 0]);
        assert_eq!(split("分布式 流处理"), ["分布式", "流处理"]);
    }
}
