//! A Rust file as tidy sees it: code with comments and texts blanked, tests marked.
//!
//! This is a scanner, no parser: it must never be asked for more than spans of braces and words.

/// One Rust file.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the root.
    pub(crate) path: String,
    /// As it stands.
    pub(crate) text: String,
    /// The same length, with comments, texts and characters blanked; ASCII.
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

    /// Where modules that are declared for tests only have their files: paths without `.rs`.
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

    /// Where the word `word` stands in code outside of tests: lines from 0.
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

/// Where `word` stands as a word of its own.
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

/// What the scanner is in.
enum In {
    Code,
    LineComment,
    BlockComment(usize),
    /// With the number of `#` that end it, if raw.
    Text(Option<usize>),
}

/// `text` with everything blanked that is no code, and every other line break kept.
fn blank(text: &str) -> String {
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mut code = Vec::with_capacity(bytes.len());
    let mut state = In::Code;
    let mut at = 0;
    while at < bytes.len() {
        let (next, length, keep) = match state {
            In::Code => in_code(bytes, at),
            In::LineComment if byte(at) == b'\n' => (In::Code, 1, true),
            In::LineComment => (In::LineComment, 1, false),
            In::BlockComment(depth) => match (byte(at), byte(at + 1)) {
                (b'*', b'/') if depth == 1 => (In::Code, 2, false),
                (b'*', b'/') => (In::BlockComment(depth - 1), 2, false),
                (b'/', b'*') => (In::BlockComment(depth + 1), 2, false),
                _ => (In::BlockComment(depth), 1, false),
            },
            In::Text(None) => match byte(at) {
                b'\\' => (In::Text(None), 2, false),
                b'"' => (In::Code, 1, true),
                _ => (In::Text(None), 1, false),
            },
            In::Text(Some(hashes)) => {
                let ends = byte(at) == b'"' && (1..=hashes).all(|i| byte(at + i) == b'#');
                match ends {
                    true => (In::Code, 1 + hashes, false),
                    false => (In::Text(Some(hashes)), 1, false),
                }
            }
        };
        for byte in bytes.iter().skip(at).take(length) {
            code.push(match byte {
                b'\n' => b'\n',
                byte if keep && byte.is_ascii() => *byte,
                _ if keep => b'x',
                _ => b' ',
            });
        }
        at += length;
        state = next;
    }
    String::from_utf8(code).unwrap_or_default()
}

/// What begins at `at`: the state after it, its length, and whether it is kept.
fn in_code(bytes: &[u8], at: usize) -> (In, usize, bool) {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let starts_word = at == 0 || !is_word(char::from(byte(at - 1)));
    match (byte(at), byte(at + 1)) {
        (b'/', b'/') => (In::LineComment, 2, false),
        (b'/', b'*') => (In::BlockComment(1), 2, false),
        (b'"', _) => (In::Text(None), 1, true),
        (b'b', b'r') | (b'c', b'r') if starts_word && raw(bytes, at + 2).is_some() => {
            let hashes = raw(bytes, at + 2).unwrap_or(0);
            (In::Text(Some(hashes)), 3 + hashes, false)
        }
        (b'r', _) if starts_word && raw(bytes, at + 1).is_some() => {
            let hashes = raw(bytes, at + 1).unwrap_or(0);
            (In::Text(Some(hashes)), 2 + hashes, false)
        }
        (b'\'', b'\\') => {
            let end = (at + 3..at + 14).find(|end| byte(*end) == b'\'');
            (In::Code, end.map_or(1, |end| end + 1 - at), false)
        }
        // A character, and not a lifetime: its closing quote is one character further.
        (b'\'', first) => {
            let width = match first {
                0xf0.. => 4,
                0xe0.. => 3,
                0xc0.. => 2,
                _ => 1,
            };
            match byte(at + 1 + width) == b'\'' {
                true => (In::Code, width + 2, false),
                false => (In::Code, 1, true),
            }
        }
        _ => (In::Code, 1, true),
    }
}

/// The number of `#` of a raw text whose `#`s or quote begin at `at`.
fn raw(bytes: &[u8], at: usize) -> Option<usize> {
    let hashes = bytes.iter().skip(at).take_while(|byte| **byte == b'#').count();
    (bytes.get(at + hashes) == Some(&b'"')).then_some(hashes)
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
