//! The options of Flink's `run` that have no meaning here, declared, with what to use instead. No behaviour.

use clap::Args;

/// Options of Flink's command line that have no meaning here.
#[derive(Debug, Clone, Args)]
pub(crate) struct Refused {
    #[arg(short = 'C', long = "classpath", hide = true, value_name = "URL")]
    pub(crate) classpath: Option<String>,
    #[arg(
        long = "pyModule",
        aliases = [
            "python",
            "pyFiles",
            "pyRequirements",
            "pyArchives",
            "pyExecutable",
            "pyPythonPath",
            "pyClientExecutable",
        ],
        hide = true,
        value_name = "NAME"
    )]
    pub(crate) python: Vec<String>,
    #[arg(long = "yarnapplicationId", hide = true, value_name = "APPLICATION")]
    pub(crate) session: Option<String>,
}

impl Refused {
    /// Returns a sentence that names the replacement of an option that no longer means anything.
    pub(crate) fn complaint(&self) -> Option<&'static str> {
        if self.classpath.is_some() {
            return Some(
                "-C/--classpath: there is no classpath; everything a program needs is linked into it",
            );
        }
        if !self.python.is_empty() {
            return Some("--pyModule/--python: programs are native binaries with #[flott::main]");
        }
        self.session.is_some().then_some(
            "-yid/--yarnapplicationId: name the session with -t yarn-session -D yarn.application.id=APPLICATION",
        )
    }
}
