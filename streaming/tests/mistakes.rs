//! Checks the compiler's messages for the mistakes that programs make most: each file below
//! `mistakes` has one, and beside it is the message.
//!
//! After a change of the texts: `TRYBUILD=overwrite cargo test -p streaming --test mistakes`.

#[test]
fn the_compiler_says_what_to_do() {
    trybuild::TestCases::new().compile_fail("tests/mistakes/*.rs");
}
