//! Every declared option is read by somebody: an option that does nothing is a lie to its user.

use super::{
    Complaints,
    source::{Source, words},
};

/// `scripts` is the text of all shell scripts: they read options by key, as `$(option KEY)`.
pub(crate) fn check(sources: &[Source], scripts: &str, complaints: &mut Complaints) {
    let declared = sources.iter().filter(|source| source.path.starts_with("conf/src/declared/"));
    for source in declared {
        let module = source.path.rsplit('/').next().and_then(|file| file.strip_suffix(".rs"));
        for (line, name, key) in declared_in(source) {
            if scripts.contains(&format!("$(option {key})")) {
                continue;
            }
            let quoted = format!("\"{key}\"");
            let read = sources.iter().any(|other| {
                let elsewhere = !other.path.starts_with("conf/");
                let by_name = words(&other.code, name).any(|at| !is_test(other, at));
                // What travels to a program host travels by key.
                let mut by_key = other.text.match_indices(&quoted);
                by_name && !other.path.starts_with("conf/src/declared/")
                    || elsewhere && by_key.any(|(at, _)| !is_test(other, at))
            });
            if !read {
                let module = module.unwrap_or_default();
                complaints.push(format!(
                    "{}:{}: nobody reads {module}::{name}",
                    source.path,
                    line + 1
                ));
            }
        }
    }
}

fn is_test(source: &Source, at: usize) -> bool {
    source.is_test_line(super::source::line_of(&source.code, at))
}

/// Line, name and key of each `NAME: Type = "key" …` inside the macro.
fn declared_in(source: &Source) -> Vec<(usize, &str, &str)> {
    let declaration = |(line, text): (usize, &'_ str)| {
        let (name, rest) = text.trim().split_once(": ")?;
        let upper = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let is_one = upper && !name.is_empty() && rest.contains('=');
        let start = source.text.lines().take(line).map(|l| l.len() + 1).sum::<usize>();
        let at = start + text.find(name)?;
        let from_name = source.text.get(at..).filter(|_| is_one)?;
        let key = from_name.split('"').nth(1)?;
        Some((line, from_name.get(..name.len())?, key))
    };
    source.text.lines().enumerate().filter_map(declaration).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_that_nobody_reads_is_named() {
        let declared = Source::new(
            "conf/src/declared/a.rs",
            "options! {\n    LOG: u32 = \"a.log\" => 1;\n    /// X.\n    READ: u32 = \"a.read\" => 1;\n    IDLE: u32 =\n        \"a.idle\" => 1;\n}\n",
        );
        let reader = Source::new(
            "b/src/lib.rs",
            "fn f() { options.get(&a::READ) }\n#[cfg(test)]\nmod t { use a::IDLE; }\n",
        );
        let mut complaints = Complaints::new();
        check(&[declared, reader], "max=$(option a.log)\n", &mut complaints);
        assert_eq!(complaints, ["conf/src/declared/a.rs:5: nobody reads a::IDLE"]);
    }
}
