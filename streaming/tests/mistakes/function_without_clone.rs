//! A process function that is not cloned for each subtask.

use streaming::{
    Environment,
    operators::{BoxError, Collector, ProcessFunction},
};

struct Twice;

impl ProcessFunction<u64> for Twice {
    type Out = u64;
    fn process(&mut self, n: u64, out: &mut Collector<u64>) -> Result<(), BoxError> {
        out.collect(n * 2);
        Ok(())
    }
}

fn program(env: &Environment) {
    env.sequence(0..10).process(Twice).print();
}

fn main() {}
