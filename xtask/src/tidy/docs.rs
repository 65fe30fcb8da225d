//! Refuses doc comments of one or two words: they repeat the name of what they stand at.
//!
//! This must never judge style beyond that: a rule that a machine can't decide is for reviews.

use super::{Complaints, source::Source};

/// Fewest words of a doc comment.
const WORDS_MIN: usize = 3;

/// Adds a complaint for each doc comment of `source`, tests included, that has fewer than [`WORDS_MIN`] words.
pub(crate) fn check(source: &Source, complaints: &mut Complaints) {
    let mut lines = source.text.lines().map(mark_and_text).enumerate().peekable();
    while let Some((first, line)) = lines.next() {
        let Some((mark, text)) = line else { continue };
        let mut words = text.split_whitespace().count();
        while let Some((_, Some((_, text)))) =
            lines.next_if(|(_, next)| next.is_some_and(|(same, _)| same == mark))
        {
            words += text.split_whitespace().count();
        }
        if words < WORDS_MIN {
            complaints.push(format!(
                "{}:{}: a doc comment of fewer than {WORDS_MIN} words: say what the signature cannot, or delete it",
                source.path,
                first + 1
            ));
        }
    }
}

/// Splits a line of a doc comment into its mark (`///` or `//!`) and its text. Returns `None` for any other line.
fn mark_and_text(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_start();
    let (mark, text) = line.split_at_checked(3)?;
    let is_doc = mark == "//!" || (mark == "///" && !text.starts_with('/'));
    is_doc.then_some((mark, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(text: &str) -> Complaints {
        let mut complaints = Complaints::new();
        check(&Source::new("a/src/b.rs", text), &mut complaints);
        complaints
    }

    #[test]
    fn doc_comments_of_one_or_two_words_are_refused() {
        let text =
            "//! For this purpose.\n\n/// The id.\npub id: u32,\n    /// Which.\nfn f() {}\n";
        let found = complaints(text);
        let [id, which] = found.as_slice() else { panic!("{found:?}") };
        assert!(id.starts_with("a/src/b.rs:3: a doc comment of fewer than 3 words"), "{id}");
        assert!(which.starts_with("a/src/b.rs:5: "), "{which}");
        assert_eq!(complaints("//! Short.\n").len(), 1);
    }

    #[test]
    fn longer_doc_comments_and_other_comments_pass() {
        let text = "//! For this purpose.\n\n// Which.\n//// The id.\n/// Number of\n/// slots.\nfn f() {}\n";
        assert_eq!(complaints(text), Complaints::new());
    }
}
