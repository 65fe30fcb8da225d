//! A Rust file as tidy sees it: code with comments and texts blanked, tests marked.
//!
//! This is a scanner, no parser: it must never be asked for more than spans of braces and words.

use proc_macro2::{Delimiter, Span, TokenStream, TokenTree};

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root.
    pub(crate) path: String,
    /// The file's content.
    pub(crate) text: String,
    /// The same length, with comments and literals blanked.
    pub(crate) code: String,
    /// Line by line: whether it belongs to tests.
    pub(crate) in_tests: Vec<bool>,
}

/// A function with a body.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Function {
    pub(crate) name: String,
    /// The first and last line, from 0.
    pub(crate) lines: (usize, usize),
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let code = blank(text);
        let lines = text.lines().count();
        let mut in_tests = vec![is_test_file(path); lines];
        for (from, to) in test_spans(&code) {
            let (from, to) = (line_of(&code, from), line_of(&code, to));
            in_tests.iter_mut().take(to + 1).skip(from).for_each(|line| *line = true);
        }
        Self { path: path.to_owned(), text: text.to_owned(), code, in_tests }
    }

    /// Returns the places of modules that this file declares for tests only: paths without `.rs`.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let (parent, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let folder = if matches!(name, "mod" | "lib" | "main") { parent } else { stem };
        let declared = |(from, to): (usize, usize)| {
            let item = self.code.get(from..to)?;
            let at = words(item, "mod").next()?;
            let name = item.get(at + 3..)?.trim();
            name.chars().all(is_word).then(|| format!("{folder}/{name}"))
        };
        test_spans(&self.code).into_iter().filter_map(declared).collect()
    }

    /// All of it belongs to tests.
    pub(crate) fn mark_as_test(&mut self) {
        self.in_tests.fill(true);
    }

    /// Lines of code that is not for tests.
    pub(crate) fn lines_without_tests(&self) -> usize {
        self.in_tests.iter().filter(|line| !**line).count()
    }

    /// Whether line `line` (from 0) belongs to tests.
    pub(crate) fn is_test_line(&self, line: usize) -> bool {
        self.in_tests.get(line).copied().unwrap_or(false)
    }

    /// Returns the lines (from 0) of code outside of tests that have the word `word`.
    pub(crate) fn lines_with(&self, word: &str) -> Vec<usize> {
        let lines = words(&self.code, word).map(|at| line_of(&self.code, at));
        lines.filter(|line| !self.is_test_line(*line)).collect()
    }

    /// Functions with a body outside of tests.
    pub(crate) fn functions(&self) -> Vec<Function> {
        let body = |at: usize| {
            let rest = self.code.get(at + 2..)?;
            let name: String = rest.trim_start().chars().take_while(|c| is_word(*c)).collect();
            let (_, end) = braces(&self.code, at).filter(|_| !name.is_empty())?;
            let lines = (line_of(&self.code, at), line_of(&self.code, end));
            Some(Function { name, lines })
        };
        let all = words(&self.code, "fn").filter_map(body);
        all.filter(|function| !self.is_test_line(function.lines.0)).collect()
    }
}

fn is_test_file(path: &str) -> bool {
    let folders: Vec<&str> = path.split('/').collect();
    let file = folders.last().copied().unwrap_or_default();
    let in_folder = folders.iter().rev().skip(1).rev().skip(1).any(|folder| *folder == "tests");
    in_folder || file == "tests.rs" || file.ends_with("_tests.rs")
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Returns the offsets at which `word` stands as a word of its own.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = code.get(..*at).and_then(|s| s.chars().next_back());
        let after = code.get(at + word.len()..).and_then(|s| s.chars().next());
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The line (from 0) of an offset.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count()
}

/// The braces of the item that begins at `from`: `None` where it ends with `;` before any.
fn braces(code: &str, from: usize) -> Option<(usize, usize)> {
    let mut nested = 0_usize;
    let mut open = None;
    for (at, byte) in code.bytes().enumerate().skip(from) {
        match (byte, open) {
            (b'(' | b'[', None) => nested += 1,
            (b')' | b']', None) => nested = nested.checked_sub(1)?,
            (b';', None) if nested == 0 => return None,
            (b'{', None) if nested == 0 => open = Some((at, 1_usize)),
            (b'{', Some((start, depth))) => open = Some((start, depth + 1)),
            (b'}', Some((start, 1))) => return Some((start, at)),
            (b'}', Some((start, depth))) => open = Some((start, depth - 1)),
            _ => {}
        }
    }
    None
}

/// Spans of items under `#[cfg(test)]`.
fn test_spans(code: &str) -> Vec<(usize, usize)> {
    let attribute = "#[cfg(test)]";
    let item = |from: usize| {
        let mut at = from + attribute.len();
        // Other attributes may stand between.
        while let Some(rest) = code.get(at..).filter(|rest| rest.trim_start().starts_with("#[")) {
            at += rest.find(']')? + 1;
        }
        let end = braces(code, at).map(|(_, end)| end);
        Some((from, end.or_else(|| Some(at + code.get(at..)?.find(';')?))?))
    };
    code.match_indices(attribute).filter_map(|(from, _)| item(from)).collect()
}

/// Returns `text` with every byte blanked that is neither an identifier nor punctuation. Line breaks stay where they are.
fn blank(text: &str) -> String {
    let mut code: Vec<u8> =
        text.bytes().map(|byte| if byte == b'\n' { byte } else { b' ' }).collect();
    keep(text.parse().unwrap_or_default(), text, &mut code);
    // Without this every file makes the look-up of a span slower.
    proc_macro2::extra::invalidate_current_thread_spans();
    String::from_utf8(code).unwrap_or_default()
}

/// Copies identifiers and punctuation from `text` to the same places in `code`. A documentation comment is an attribute
/// whose tokens do not stand in the text, and is left out.
fn keep(tokens: TokenStream, text: &str, code: &mut [u8]) {
    for token in tokens {
        let (span, word) = match token {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ("(", ")"),
                    Delimiter::Brace => ("{", "}"),
                    Delimiter::Bracket => ("[", "]"),
                    Delimiter::None => continue,
                };
                if copy(group.span_open(), open, text, code) {
                    keep(group.stream(), text, code);
                    copy(group.span_close(), close, text, code);
                }
                continue;
            }
            TokenTree::Literal(_) => continue,
            TokenTree::Punct(punct) => {
                copy(punct.span(), punct.as_char().encode_utf8(&mut [0; 4]), text, code);
                continue;
            }
            TokenTree::Ident(ident) => (ident.span(), ident.to_string()),
        };
        copy(span, &word, text, code);
    }
}

/// Copies `word` if it stands at `span`. Returns whether it does.
fn copy(span: Span, word: &str, text: &str, code: &mut [u8]) -> bool {
    let at = span.byte_range();
    let stands = text.get(at.clone()) == Some(word);
    if let Some(place) = code.get_mut(at).filter(|_| stands) {
        place.copy_from_slice(word.as_bytes());
    }
    stands
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_texts_and_characters_are_blanked() {
        let text = "let a = \"fn { \\\" é\"; // fn {\n/* { /* } */ */ let b = ('{', '\\'', b'\"', r#\"}\"#, 'é');";
        let code = blank(text);
        assert_eq!(code.len(), text.len());
        assert!(!code.contains(['{', '}']) && !code.contains("fn"), "{code}");
        assert!(code.contains("let b") && code.lines().count() == 2);
        assert_eq!(blank("fn f<'a>(x: &'a str) {}"), "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn functions_have_their_lines_and_tests_are_left_out() {
        let text = "fn a(x: [u8; 2]) -> u8 {\n  if x { y } else { z }\n}\ntrait T { fn b(); }\ntype F = fn(u8);\n\
                    #[cfg(test)]\n#[expect(x)]\nmod tests {\n  fn c() {\n  }\n}\nfn d() {}\n";
        let source = Source::new("x/src/a.rs", text);
        let found: Vec<_> = source.functions().into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("a".to_owned(), (0, 2)), ("d".to_owned(), (11, 11))]);
        assert_eq!(source.lines_without_tests(), 6);
    }

    #[test]
    fn a_test_module_in_another_file_is_one_line() {
        let source = Source::new("x/src/a.rs", "#[cfg(test)]\nmod tests;\nfn a() {}\n");
        assert_eq!(source.in_tests, [true, true, false]);
    }

    #[test]
    fn modules_for_tests_only_are_known_by_their_declarations() {
        let text = "#[cfg(test)]\npub(crate) mod kit;\n#[cfg(test)]\nmod tests {}\nmod real;\n";
        assert_eq!(Source::new("a/src/lib.rs", text).test_modules(), ["a/src/kit"]);
        assert_eq!(Source::new("a/src/b.rs", text).test_modules(), ["a/src/b/kit"]);
    }

    #[test]
    fn files_of_tests_are_known_by_their_names() {
        assert!(
            is_test_file("a/src/tests.rs")
                && is_test_file("a/src/b_tests.rs")
                && is_test_file("a/tests/b.rs")
        );
        assert!(!is_test_file("tests/src/lib.rs") && !is_test_file("a/src/b.rs"));
    }
}
