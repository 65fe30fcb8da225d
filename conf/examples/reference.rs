//! Prints `conf/REFERENCE.md`; `cargo xtask fix` writes it, `cargo xtask verify` compares it.
#![expect(clippy::print_stdout, reason = "it is what this program is for")]

fn main() {
    print!("{}", conf::reference());
}
