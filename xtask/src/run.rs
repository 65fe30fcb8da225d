//! Runs other programs, with one line of progress each.

use std::{
    error::Error,
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

/// An error is a message for the person at the terminal.
pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Seconds since `start`, as they are shown.
pub(crate) struct Watch(std::time::Instant);

impl Watch {
    #[expect(clippy::disallowed_methods, reason = "it measures commands for people to see")]
    pub(crate) fn start() -> Self {
        Self(std::time::Instant::now())
    }
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The cargo that runs this.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(args).current_dir(crate::workspace::root());
    command
}

/// Runs `command` with this terminal; an unsuccessful end is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = shown(command);
    eprintln!("   $ {shown}");
    let status = command.status().map_err(|e| format!("{shown}: {e}"))?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("`{shown}` ended with {status}").into()),
    }
}

/// A command that runs with the lowest priority beside others. It is killed if it is dropped before its end.
pub(crate) struct Beside {
    shown: String,
    child: Child,
    output: PathBuf,
}

impl Beside {
    /// Starts `wanted` by `nice`, in the workspace's root; what it prints goes to the file `output`.
    pub(crate) fn start(wanted: &Command, output: PathBuf) -> Result<Self> {
        let mut command = Command::new("nice");
        command.args(["-n", "19"]).arg(wanted.get_program()).args(wanted.get_args());
        command.current_dir(crate::workspace::root());
        let shown = shown(&command);
        eprintln!("   $ {shown}   (beside what follows; it prints to {})", output.display());
        let file = File::create(&output)?;
        command.stdin(Stdio::null()).stderr(file.try_clone()?).stdout(file);
        let child = command.spawn().map_err(|e| format!("{shown}: {e}"))?;
        Ok(Self { shown, child, output })
    }

    /// Waits for the end and prints what the command has printed; an unsuccessful end is an error.
    pub(crate) fn end(mut self) -> Result<()> {
        eprintln!("   $ {}   (its end)", self.shown);
        let status = self.child.wait()?;
        show(&self.output)?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("`{}` ended with {status}", self.shown).into()),
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Both fail only if the child has ended, and has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies what a command has printed to a file to this terminal.
pub(crate) fn show(file: &Path) -> Result<()> {
    eprint!("{}", String::from_utf8_lossy(&fs::read(file)?));
    Ok(())
}

/// Runs `command` and takes its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = shown(command);
    let output = command.stderr(Stdio::inherit()).output().map_err(|e| format!("{shown}: {e}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8(output.stdout)?),
        false => Err(format!("`{shown}` ended with {}", output.status).into()),
    }
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words.map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
}
