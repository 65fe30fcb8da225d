//! `flott.yaml`: nested and flat keys, each with the line that it stands on.
//!
//! It reads events, not trees: depth and size are bounded, aliases (which can blow up a small file)
//! are refused, and scalars stay the text that the user wrote.

use crate::error::ConfError;
use yaml_rust2::parser::{Event, Parser};
use yaml_rust2::scanner::{Marker, TScalarStyle};

/// A longer file is a mistake.
pub(crate) const BYTES_MAX: usize = 1 << 20;
/// Deeper nesting is a mistake.
const DEPTH_MAX: usize = 32;
/// Longer keys are mistakes; bounds what repeated prefixes of nested keys can take.
const KEY_BYTES_MAX: usize = 1 << 10;

/// One setting of a file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// Dotted key, such as `jobmanager.rpc.port`.
    pub(crate) key: String,
    /// The scalar, or a JSON array of a sequence's scalars.
    pub(crate) text: String,
    /// File and line.
    pub(crate) place: String,
}

/// Returns the settings of the YAML text `text`, in their order; `name` is the file's name.
///
/// A key without a value (`key:`) is not set.
pub(crate) fn parse(name: &str, text: &str) -> Result<Vec<Setting>, ConfError> {
    let wrong = |place: String, why: &str| ConfError::Yaml { place, why: why.to_owned() };
    if text.len() > BYTES_MAX {
        return Err(wrong(name.to_owned(), "the file is larger than 1 MiB"));
    }
    let mut reader = Reader::new(name);
    let mut events = Parser::new_from_str(text);
    loop {
        let (event, mark) = events.next_token().map_err(|e| {
            let place =
                format!("{name} line {} column {}", e.marker().line(), e.marker().col() + 1);
            wrong(place, e.info())
        })?;
        if event == Event::StreamEnd {
            return Ok(reader.settings);
        }
        reader.take(event, mark).map_err(|why| wrong(reader.place(mark), &why))?;
    }
}

/// Returns the text of a `flott.yaml` that sets these options, given as key and value, one on a line: `"rest.port":
/// "8081"`. Reading it gives back every key and value as it is, whatever characters are in it. Values of secrets are
/// in clear text.
pub fn to_yaml<'a>(settings: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut text = String::new();
    for (key, value) in settings {
        put_quoted(key, &mut text);
        text.push_str(": ");
        put_quoted(value, &mut text);
        text.push('\n');
    }
    text
}

/// Appends a double-quoted scalar; characters that YAML or a terminal could misread are escaped.
fn put_quoted(scalar: &str, text: &mut String) {
    text.push('"');
    for letter in scalar.chars() {
        match letter {
            '"' | '\\' => text.extend(['\\', letter]),
            ' '..='~' => text.push(letter),
            letter if letter.is_alphanumeric() => text.push(letter),
            letter => text.push_str(&format!("\\U{:08x}", u32::from(letter))),
        }
    }
    text.push('"');
}

/// A container that the reader is in.
enum Level {
    /// A mapping, with the key whose value comes next.
    Mapping { key: Option<String> },
    /// The sequence of scalars that is the value of `key`.
    Sequence { key: String, items: Vec<String>, line: Marker },
}

struct Reader<'a> {
    name: &'a str,
    documents: usize,
    levels: Vec<Level>,
    settings: Vec<Setting>,
}

impl<'a> Reader<'a> {
    fn new(name: &'a str) -> Self {
        Self { name, documents: 0, levels: Vec::new(), settings: Vec::new() }
    }

    fn place(&self, mark: Marker) -> String {
        format!("{} line {}", self.name, mark.line())
    }

    fn take(&mut self, event: Event, mark: Marker) -> Result<(), String> {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart => {
                self.documents += 1;
                match self.documents {
                    1 => Ok(()),
                    _ => Err("a configuration is one document; there is a second '---'".to_owned()),
                }
            }
            Event::Alias(_) => Err("aliases (*name) are not supported".to_owned()),
            Event::MappingStart(..) => self.open_mapping(),
            Event::SequenceStart(..) => self.open_sequence(mark),
            Event::MappingEnd => {
                self.levels.pop();
                self.clear_key();
                Ok(())
            }
            Event::SequenceEnd => self.close_sequence(),
            Event::Scalar(text, style, ..) => self.scalar(text, style, mark),
        }
    }

    /// Returns the full key that waits for a value.
    fn pending(&mut self) -> Result<String, String> {
        match self.levels.last_mut() {
            Some(Level::Mapping { key }) => {
                key.take().ok_or_else(|| "a key must be a plain text".to_owned())
            }
            Some(Level::Sequence { .. }) => Err("a list holds plain values only".to_owned()),
            None => Err("a configuration is 'key: value' lines".to_owned()),
        }
    }

    fn open_mapping(&mut self) -> Result<(), String> {
        if !self.levels.is_empty() {
            let prefix = self.pending()?;
            self.push(Level::Mapping { key: None }, prefix)
        } else {
            self.push(Level::Mapping { key: None }, String::new())
        }
    }

    /// Enters a level; the key of the mapping that it stands in is kept there as the prefix.
    fn push(&mut self, level: Level, prefix: String) -> Result<(), String> {
        if self.levels.len() >= DEPTH_MAX {
            return Err(format!("nested deeper than {DEPTH_MAX} levels"));
        }
        if let Some(Level::Mapping { key }) = self.levels.last_mut() {
            *key = Some(prefix);
        }
        self.levels.push(level);
        Ok(())
    }

    fn open_sequence(&mut self, line: Marker) -> Result<(), String> {
        let key = self.pending()?;
        let level = Level::Sequence { key: self.full(&key), items: Vec::new(), line };
        self.push(level, key)
    }

    fn close_sequence(&mut self) -> Result<(), String> {
        let Some(Level::Sequence { key, items, line }) = self.levels.pop() else {
            return Err("a list ends that did not begin".to_owned());
        };
        self.clear_key();
        let text = serde_json::to_string(&items).map_err(|e| e.to_string())?;
        let place = self.place(line);
        self.settings.push(Setting { key, text, place });
        Ok(())
    }

    /// Returns the dotted key of the innermost mapping's `key`.
    fn full(&self, key: &str) -> String {
        let mut full = String::new();
        for level in self.levels.iter().rev().skip(1).rev() {
            if let Level::Mapping { key: Some(prefix) } = level {
                full.push_str(prefix);
                full.push('.');
            }
        }
        full.push_str(key);
        full
    }

    fn clear_key(&mut self) {
        if let Some(Level::Mapping { key }) = self.levels.last_mut() {
            *key = None;
        }
    }

    fn scalar(&mut self, text: String, style: TScalarStyle, mark: Marker) -> Result<(), String> {
        let absent = style == TScalarStyle::Plain && matches!(text.as_str(), "" | "~" | "null");
        match self.levels.last_mut() {
            Some(Level::Sequence { items, .. }) => {
                items.push(text);
                return Ok(());
            }
            Some(Level::Mapping { key: key @ None }) => {
                if text.is_empty() || text.len() > KEY_BYTES_MAX {
                    return Err(format!("a key has 1 to {KEY_BYTES_MAX} bytes"));
                }
                *key = Some(text);
                return Ok(());
            }
            // An empty file is a document with one empty scalar.
            None if absent => return Ok(()),
            Some(Level::Mapping { key: Some(_) }) | None => {}
        }
        let key = self.pending()?;
        if !absent {
            let (key, place) = (self.full(&key), self.place(mark));
            self.settings.push(Setting { key, text, place });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn settings(text: &str) -> Vec<(String, String, String)> {
        let settings = parse("flott.yaml", text).unwrap();
        let tuple = |s: Setting| (s.key, s.text, s.place);
        settings.into_iter().map(tuple).collect()
    }

    #[test]
    fn nested_and_flat_keys_mean_the_same_and_keep_their_lines() {
        let text = "jobmanager:\n  rpc:\n    port: 6123 # the port\n  rpc.address: \"a: b\"\nrest.port: 0\nempty:\n";
        let expected = [
            ("jobmanager.rpc.port", "6123", "flott.yaml line 3"),
            ("jobmanager.rpc.address", "a: b", "flott.yaml line 4"),
            ("rest.port", "0", "flott.yaml line 5"),
        ];
        assert_eq!(
            settings(text),
            expected.map(|(k, t, p)| (k.to_owned(), t.to_owned(), p.to_owned()))
        );
    }

    #[test]
    fn sequences_become_json_arrays_and_scalars_stay_text() {
        let text = "io:\n  tmp.dirs:\n    - /a,b\n    - /c\n  x: 010\nargs: [--in, 1.10]\n";
        let values: Vec<_> = settings(text).into_iter().map(|(k, t, _)| (k, t)).collect();
        let expected =
            [("io.tmp.dirs", r#"["/a,b","/c"]"#), ("io.x", "010"), ("args", r#"["--in","1.10"]"#)];
        assert_eq!(values, expected.map(|(k, t)| (k.to_owned(), t.to_owned())));
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# only a comment\n", "---\n"] {
            assert_eq!(settings(text), []);
        }
    }

    #[test]
    fn what_is_no_configuration_is_refused_with_its_line() {
        let deep = "[".repeat(2_000);
        let nested: String = (0..40).map(|i| format!("{}k{i}:\n", " ".repeat(i))).collect();
        for (text, message) in [
            ("- a\n", "flott.yaml line 1: a configuration is 'key: value' lines"),
            ("just text", "flott.yaml line 1: a configuration is 'key: value' lines"),
            ("a: &x 1\nb: *x\n", "flott.yaml line 2: aliases (*name) are not supported"),
            ("a: 1\n---\nb: 2\n", "flott.yaml line 2: a configuration is one document"),
            ("a:\n  - b: 1\n", "flott.yaml line 2: a list holds plain values only"),
            ("? {a: b}\n: c\n", "a key must be a plain text"),
            ("a: \"unclosed\n", "flott.yaml line"),
            (&deep, "recursion limit exceeded"),
            (&nested, "nested deeper than 32 levels"),
        ] {
            let error = parse("flott.yaml", text).unwrap_err().to_string();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            settings in proptest::collection::vec((".{1,20}", "(.|\\n){0,40}"), 0..5),
        ) {
            let pairs = settings.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let read = parse("written", &to_yaml(pairs)).unwrap();
            let read: Vec<_> = read.into_iter().map(|s| (s.key, s.text)).collect();
            prop_assert_eq!(read, settings);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in r#"([a-c:\-\[\]{}*&!|>'"?%@, \n#0\t~]|\PC){0,60}"#) {
            let _ = parse("flott.yaml", &text);
        }
    }
}
