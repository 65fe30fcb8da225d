//! The command `flott`: the command line, and the cluster roles that are no program.

fn main() -> std::process::ExitCode {
    deploy::flott_main()
}
