//! Example programs: each binary under `src/bin` is a whole program that runs embedded, in a session and in application
//! mode. What they have in common, and what tests of them need, is here. It must never depend on anything but the
//! facade.

pub mod text;
