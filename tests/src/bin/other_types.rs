//! `other_types key|value`: the program `sequence_sum` after a change of the type of its keys, or of its sums, for the test that such a
//! program is not restored from a savepoint of the former one.

use flott::prelude::*;

#[flott::main]
fn other_types(env: &Environment, args: Args) -> Result<()> {
    let numbers = env.sequence(0..1_000_u64).uid("numbers");
    let add = |count: &mut u64, sum: &mut u64, number: u64| {
        *count += 1;
        *sum = sum.wrapping_add(number);
    };
    match args.get(0) {
        Some("key") => {
            let keyed = numbers.key_by_value(|number| (number % 100).to_string()).at_end();
            let sums = keyed.fold((0, 0), move |(count, sum), n| add(count, sum, n)).uid("sums");
            sums.collect().uid("results");
        }
        _ => {
            let keyed = numbers.key_by_value(|number| number % 100).at_end();
            let sums = keyed.fold((0, 0, String::new()), move |(count, sum, _), n| {
                add(count, sum, n);
            });
            sums.uid("sums").collect().uid("results");
        }
    }
    Ok(())
}
