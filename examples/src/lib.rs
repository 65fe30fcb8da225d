//! Example programs: each binary under `src/bin` is a whole program that runs embedded, in a session cluster and in
//! application mode. This library holds the code that several of them and their tests share. It must never depend on
//! any crate of this repository but the facade `flott`.

pub mod text;
