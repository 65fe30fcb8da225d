//! One connection as it was captured: every frame in both directions, as text, so that a change can be reviewed.
//! It knows neither sockets nor protocols.

use std::fmt::Write as _;
use std::path::PathBuf;

/// Hexadecimal digits of one line.
const WIDTH: usize = 100;

/// One event on the wire, or a remark on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Line {
    /// A remark for people, not sent.
    Note(String),
    /// A frame of the client, or its first seven bytes.
    Out(Vec<u8>),
    /// A frame of the server.
    In(Vec<u8>),
    /// The server closed the connection.
    Closed,
}

/// A call of GSSAPI and its answer. They are recorded because the tests do not have the keys to compute the answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Gss {
    Step { token: Vec<u8>, answer: Vec<u8>, stands: bool },
    Wrap { encrypt: bool, plain: Vec<u8>, wrapped: Vec<u8> },
    Unwrap { wrapped: Vec<u8>, plain: Vec<u8>, encrypted: bool },
    Max { encrypt: bool, raw: u32, plain: usize },
}

/// A captured connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fixture {
    /// The client's name for itself.
    pub(super) client: [u8; 16],
    /// The random seed of the client.
    pub(super) entropy: [u8; 16],
    pub(super) lines: Vec<Line>,
    pub(super) gss: Vec<Gss>,
}

/// Returns the folder of the captured connections.
pub(super) fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/captured/data")
}

impl Fixture {
    pub(super) fn load(name: &str) -> Self {
        let path = directory().join(format!("{name}.txt"));
        let text = std::fs::read_to_string(&path);
        Self::parse(&text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    pub(super) fn save(&self, name: &str) {
        let path = directory().join(format!("{name}.txt"));
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, self.text()).unwrap();
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        put(&mut text, "client", &[&hex(&self.client)]);
        put(&mut text, "entropy", &[&hex(&self.entropy)]);
        for line in &self.lines {
            match line {
                Line::Note(note) => put(&mut text, "#", &[note]),
                Line::Out(frame) => put(&mut text, ">", &[&hex(frame)]),
                Line::In(frame) => put(&mut text, "<", &[&hex(frame)]),
                Line::Closed => put(&mut text, "closed", &[]),
            }
        }
        for call in &self.gss {
            match call {
                Gss::Step { token, answer, stands } => {
                    put(&mut text, "gss-step", &[&hex(token), &hex(answer), &stands.to_string()]);
                }
                Gss::Wrap { encrypt, plain, wrapped } => {
                    let encrypt = encrypt.to_string();
                    put(&mut text, "gss-wrap", &[&encrypt, &hex(plain), &hex(wrapped)]);
                }
                Gss::Unwrap { wrapped, plain, encrypted } => {
                    let encrypted = encrypted.to_string();
                    put(&mut text, "gss-unwrap", &[&hex(wrapped), &hex(plain), &encrypted]);
                }
                Gss::Max { encrypt, raw, plain } => {
                    let (encrypt, raw) = (encrypt.to_string(), raw.to_string());
                    put(&mut text, "gss-max", &[&encrypt, &raw, &plain.to_string()]);
                }
            }
        }
        text
    }

    pub(super) fn parse(text: &str) -> Self {
        let mut fixture = Self::default();
        for (word, parts) in statements(text) {
            let part = |at: usize| parts[at].as_str();
            let bytes = |at: usize| unhex(part(at));
            let line = match word.as_str() {
                "client" => {
                    fixture.client = bytes(0).try_into().unwrap();
                    continue;
                }
                "entropy" => {
                    fixture.entropy = bytes(0).try_into().unwrap();
                    continue;
                }
                "#" => Line::Note(parts.join(" ")),
                ">" => Line::Out(bytes(0)),
                "<" => Line::In(bytes(0)),
                "closed" => Line::Closed,
                word => {
                    fixture.gss.push(match word {
                        "gss-step" => {
                            let stands = part(2) == "true";
                            Gss::Step { token: bytes(0), answer: bytes(1), stands }
                        }
                        "gss-wrap" => {
                            let encrypt = part(0) == "true";
                            Gss::Wrap { encrypt, plain: bytes(1), wrapped: bytes(2) }
                        }
                        "gss-unwrap" => {
                            let encrypted = part(2) == "true";
                            Gss::Unwrap { wrapped: bytes(0), plain: bytes(1), encrypted }
                        }
                        "gss-max" => {
                            let (raw, plain) = (part(1).parse(), part(2).parse());
                            let encrypt = part(0) == "true";
                            Gss::Max { encrypt, raw: raw.unwrap(), plain: plain.unwrap() }
                        }
                        other => panic!("'{other}' is no line of a captured connection"),
                    });
                    continue;
                }
            };
            fixture.lines.push(line);
        }
        fixture
    }
}

/// A word and what belongs to it, folded where it is long. Nothing at all is a dash.
fn put(text: &mut String, word: &str, parts: &[&str]) {
    text.push_str(word);
    for part in parts {
        let part = if part.is_empty() { "-" } else { part };
        if word == "#" || part.len() <= WIDTH {
            write!(text, " {part}").unwrap();
            continue;
        }
        for (at, digits) in part.as_bytes().chunks(WIDTH).enumerate() {
            // A further part of the same line begins with a plus.
            let folds = if at == 0 { "\n  + " } else { "\n  " };
            write!(text, "{folds}{}", std::str::from_utf8(digits).unwrap()).unwrap();
        }
    }
    text.push('\n');
}

fn statements(text: &str) -> Vec<(String, Vec<String>)> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for line in text.lines() {
        if let Some(part) = line.strip_prefix("  + ") {
            all.last_mut().unwrap().1.push(part.to_owned());
            continue;
        }
        let mut words = line.split_whitespace().map(str::to_owned);
        match line.strip_prefix("  ") {
            Some(digits) if digits.contains(' ') => {
                // The rest of a long part, and short ones behind it.
                let last = &mut all.last_mut().unwrap().1;
                last.last_mut().unwrap().push_str(&words.next().unwrap());
                last.extend(words);
            }
            Some(digits) => all.last_mut().unwrap().1.last_mut().unwrap().push_str(digits),
            None => {
                let word = words.next().unwrap();
                all.push((word, words.collect()));
            }
        }
    }
    all
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    let digits: Vec<u32> = text.chars().map(|digit| digit.to_digit(16).unwrap()).collect();
    let (pairs, rest) = digits.as_chunks::<2>();
    assert!(rest.is_empty(), "half a byte: {text}");
    pairs.iter().map(|[high, low]| u8::try_from(high << 4 | low).unwrap()).collect()
}

#[test]
fn what_is_written_is_read() {
    let long = vec![0xab; 3 * WIDTH];
    let fixture = Fixture {
        client: [1; 16],
        entropy: [2; 16],
        lines: vec![
            Line::Note("calls getQueueInfo, 3".to_owned()),
            Line::Out(b"hrpc\x09\x00\x00".to_vec()),
            Line::In(long.clone()),
            Line::Closed,
        ],
        gss: vec![
            Gss::Step { token: vec![], answer: long.clone(), stands: false },
            Gss::Wrap { encrypt: true, plain: long.clone(), wrapped: long.clone() },
            Gss::Unwrap { wrapped: long.clone(), plain: vec![1], encrypted: true },
            Gss::Max { encrypt: false, raw: 7, plain: 6 },
        ],
    };
    assert_eq!(Fixture::parse(&fixture.text()), fixture);
    assert!(fixture.text().lines().all(|line| line.len() <= WIDTH + 20));
}
