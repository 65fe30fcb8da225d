//! A struct of state without `#[derive(State)]`.

use streaming::operators::{BoxError, Collector, Context, KeyedProcessFunction};

struct Seen {
    records: Option<u64>,
}

#[derive(Clone)]
struct Count;

impl KeyedProcessFunction<u64, u64> for Count {
    type State = Seen;
    type Out = u64;
    fn process(
        &mut self,
        record: u64,
        seen: &mut Seen,
        _: &mut Context<'_, u64>,
        out: &mut Collector<u64>,
    ) -> Result<(), BoxError> {
        *seen.records.get_or_insert(0) += 1;
        out.collect(record);
        Ok(())
    }
}

fn main() {}
