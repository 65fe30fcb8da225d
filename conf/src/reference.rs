//! The reference page of all options, made from their declarations.

use crate::declared::SECTIONS;
use std::fmt::Write as _;

const HEAD: &str = "# Options of Flott

<!-- Made from the declarations in conf/src/declared by `cargo xtask fix`; edit those. -->

Options are layered: defaults < `flott.yaml` < environment (`FLOTT_REST_PORT` sets `rest.port`: upper case, every
other character an underscore) < `-D key=value` and `-p`. In YAML keys may be nested or flat. An option that does not
exist is an error. Keys under `program.` are the user's own. Amounts of memory are written `1728m` or `2g`, durations
`500 ms`, `10 s` or `5 min`, ports as a number, `0` (any free one), a range `50100-50200` or a list of these.
";

/// Returns the text of `conf/REFERENCE.md`: a table of all options, from their declarations. Writes no file.
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    for (title, lists) in SECTIONS {
        let _ =
            write!(page, "\n## {title}\n\n| option | default | what it does |\n|---|---|---|\n");
        for option in lists.iter().flat_map(|list| list.iter()) {
            let default = match (option.falls_back(), option.default_text()) {
                (Some(other), Some(text)) => format!("that of `{other}` (`{text}`)"),
                (Some(other), None) => format!("that of `{other}`"),
                (None, Some(text)) if text.is_empty() => "empty".to_owned(),
                (None, Some(text)) => format!("`{text}`"),
                (None, None) => "not set".to_owned(),
            };
            let doc = option.doc().split_whitespace().collect::<Vec<_>>().join(" ");
            let mut what = format!("{doc} Takes {}.", option.kind());
            let others: Vec<_> = option.other_names().iter().map(|n| format!("`{n}`")).collect();
            if !others.is_empty() {
                let _ = write!(what, " Also: {}.", others.join(", "));
            }
            let _ =
                writeln!(page, "| `{}` | {default} | {} |", option.key(), what.replace('|', "\\|"));
        }
    }
    page
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_reference_page_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/REFERENCE.md");
        let written = std::fs::read_to_string(path).unwrap();
        assert!(written == super::reference(), "run `cargo xtask fix`");
    }
}
