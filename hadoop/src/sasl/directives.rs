//! Lists of `name=value, name="quoted value"` as DIGEST-MD5 writes them. Only syntax: what a directive means
//! is for its reader.

use super::SaslError;

/// Bytes of a list. The standard bounds challenges at 2048 and responses at 4096.
const BYTES_MAX: usize = 4096;

/// The directives of a list in order, names in lower case, quotes taken off.
pub(super) fn parse(list: &[u8]) -> Result<Vec<(String, String)>, SaslError> {
    let wrong = |what: &str| SaslError::Challenge(what.to_owned());
    if list.len() > BYTES_MAX {
        return Err(wrong("it is too long"));
    }
    let text = std::str::from_utf8(list).map_err(|_| wrong("it is not UTF-8"))?;
    let mut rest = text;
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches([',', ' ', '\t', '\r', '\n']);
        if rest.is_empty() {
            return Ok(found);
        }
        let (name, after) =
            rest.split_once('=').ok_or_else(|| wrong("a directive has no value"))?;
        let name = name.trim().to_ascii_lowercase();
        let after = after.trim_start();
        let value;
        (value, rest) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted).ok_or_else(|| wrong("a quote is not closed"))?,
            None => {
                let end = after.find(',').unwrap_or(after.len());
                let (value, rest) = after.split_at_checked(end).unwrap_or((after, ""));
                (value.trim().to_owned(), rest)
            }
        };
        if !rest.trim_start().is_empty() && !rest.trim_start().starts_with(',') {
            return Err(wrong("directives are not separated by commas"));
        }
        found.push((name, value));
    }
}

/// The text up to the closing quote, and what follows it.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = quoted.chars();
    loop {
        match chars.next()? {
            '"' => return Some((value, chars.as_str())),
            '\\' => value.push(chars.next()?),
            c => value.push(c),
        }
    }
}

/// The text in quotes.
pub(super) fn quote(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// The one value of a directive.
pub(super) fn once<'a>(
    list: &'a [(String, String)],
    name: &'static str,
) -> Result<Option<&'a str>, SaslError> {
    let mut values = list.iter().filter(|(other, _)| other == name);
    let value = values.next();
    match values.next() {
        Some(_) => Err(SaslError::Challenge(format!("{name} stands twice"))),
        None => Ok(value.map(|(_, value)| value.as_str())),
    }
}
