//! Every declared option is read by somebody: an option that does nothing is a lie to its user.

use super::{
    Complaints,
    source::{Source, words},
};

pub(crate) fn check(sources: &[Source], complaints: &mut Complaints) {
    let declared = sources.iter().filter(|source| source.path.starts_with("conf/src/declared/"));
    for source in declared {
        let module = source.path.rsplit('/').next().and_then(|file| file.strip_suffix(".rs"));
        for (line, name) in declared_in(source) {
            let read = sources.iter().any(|other| {
                !other.path.starts_with("conf/src/declared/")
                    && words(&other.code, name).any(|at| !is_test(other, at))
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

/// `NAME: Type = "key" …` inside the macro.
fn declared_in(source: &Source) -> Vec<(usize, &str)> {
    let declaration = |(line, text): (usize, &'_ str)| {
        let (name, rest) = text.trim().split_once(": ")?;
        let upper = name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let is_one = upper && !name.is_empty() && rest.contains('=');
        let start = source.text.lines().take(line).map(|l| l.len() + 1).sum::<usize>();
        let at = start + text.find(name)?;
        is_one.then(|| source.text.get(at..at + name.len())).flatten().map(|name| (line, name))
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
            "options! {\n    /// X.\n    READ: u32 = \"a.read\" => 1;\n    IDLE: u32 =\n        \"a.idle\" => 1;\n}\n",
        );
        let reader = Source::new(
            "b/src/lib.rs",
            "fn f() { options.get(&a::READ) }\n#[cfg(test)]\nmod t { use a::IDLE; }\n",
        );
        let mut complaints = Complaints::new();
        check(&[declared, reader], &mut complaints);
        assert_eq!(complaints, ["conf/src/declared/a.rs:4: nobody reads a::IDLE"]);
    }
}
