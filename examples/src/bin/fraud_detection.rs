//! Finds payments that look like fraud: a large one within a minute of event time after a small one of the same
//! account.
//!
//! `fraud_detection --input PATH` reads lines `MILLISECONDS ACCOUNT CENTS` and prints `account<TAB>milliseconds<TAB>cents` of
//! each such payment. Lines may be out of order by up to `--out-of-order` milliseconds (5000).

use clap::Parser;
use flott::prelude::*;
use std::{path::PathBuf, time::Duration};

/// Payments below this many cents are small: a thief tests the account.
const SMALL: u64 = 100;
/// Payments above this many cents are large: a thief empties the account.
const LARGE: u64 = 50_000;
/// The time after a small payment in which a large one is suspicious, in milliseconds.
const MINUTE: i64 = 60_000;

/// Finds large payments soon after small ones.
#[derive(Parser)]
struct Cli {
    /// The payments: a file, or a folder of files.
    #[arg(long)]
    input: PathBuf,
    /// Milliseconds by which a line's time may be below the greatest time read before it.
    #[arg(long, default_value_t = 5_000)]
    out_of_order: u64,
}

#[derive(Clone, FlottType)]
struct Payment {
    at_ms: i64,
    account: String,
    cents: u64,
}

impl Payment {
    fn parse(line: &str) -> Result<Self> {
        let wrong = || format!("'{line}' is not MILLISECONDS ACCOUNT CENTS");
        let [at_ms, account, cents] = line.split_ascii_whitespace().collect::<Vec<_>>()[..] else {
            return Err(wrong().into());
        };
        Ok(Self {
            at_ms: at_ms.parse().map_err(|_| wrong())?,
            account: account.to_owned(),
            cents: cents.parse().map_err(|_| wrong())?,
        })
    }
}

/// The state of one account.
#[derive(State)]
struct Account {
    /// The time of the last small payment (milliseconds since 1970); empty when it is more than a minute ago.
    small_at: Option<i64>,
}

/// Emits suspicious payments and counts them in the metric `alerts`.
#[derive(Clone, Default)]
struct Suspicious {
    alerts: Counter,
}

impl KeyedProcessFunction<String, Payment> for Suspicious {
    type State = Account;
    type Out = (String, i64, u64);

    fn open(&mut self, ctx: &OperatorContext) -> Result<()> {
        self.alerts = ctx.metrics().counter("alerts")?;
        Ok(())
    }

    fn process(
        &mut self,
        payment: Payment,
        account: &mut Account,
        ctx: &mut Context<'_, String>,
        out: &mut Collector<Self::Out>,
    ) -> Result<()> {
        // The timer fires when the watermark passes the minute. Before that, a payment that is more than a minute later
        // than the small one still finds `small_at`.
        let within = |small_at: i64| (0..MINUTE).contains(&(payment.at_ms - small_at));
        if payment.cents > LARGE && account.small_at.is_some_and(within) {
            self.alerts.inc();
            out.collect((payment.account, payment.at_ms, payment.cents));
        } else if payment.cents < SMALL && account.small_at < Some(payment.at_ms) {
            account.small_at = Some(payment.at_ms);
            ctx.timers().event_time(payment.at_ms.saturating_add(MINUTE));
        }
        Ok(())
    }

    fn on_timer(
        &mut self,
        timer: Timer,
        account: &mut Account,
        _: &mut Context<'_, String>,
        _: &mut Collector<Self::Out>,
    ) -> Result<()> {
        // A later small payment has a timer of its own.
        if account
            .small_at
            .is_some_and(|small_at| small_at.saturating_add(MINUTE) <= timer.timestamp)
        {
            account.small_at = None;
        }
        Ok(())
    }
}

#[flott::main]
fn fraud_detection(env: &Environment, args: Args) -> Result<()> {
    let cli: Cli = args.parse()?;
    let strategy = WatermarkStrategy::for_bounded_out_of_orderness(
        Duration::from_millis(cli.out_of_order),
        |payment: &Payment| payment.at_ms,
    );
    env.read_text_file(cli.input)
        .uid("payments")
        .try_map(|line| Payment::parse(&line))
        .assign_timestamps_and_watermarks(strategy)
        .uid("times")
        .key_by(|payment| &payment.account)
        .process(Suspicious::default())
        .uid("suspicious")
        .collect()
        .uid("results");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use flott::{Result, testing};

    fn payment(account: &str, cents: u64, at_ms: i64) -> (Payment, i64) {
        (Payment { at_ms, account: account.to_owned(), cents }, at_ms)
    }

    fn account(payment: &Payment) -> &String {
        &payment.account
    }

    #[test]
    fn a_small_payment_is_forgotten_after_a_minute() -> Result<()> {
        let mut test = testing::keyed(account, Suspicious::default()).open()?;
        test.push_batch([payment("ann", 50, 1_000), payment("bob", 70_000, 2_000)])?;
        assert_eq!(test.state(&"ann".to_owned()).and_then(|ann| ann.small_at), Some(1_000));
        assert_eq!(test.timers().len(), 1);

        test.push_batch([payment("ann", 60_000, 30_000)])?;
        assert_eq!(test.output(), [("ann".to_owned(), 30_000, 60_000)]);

        test.watermark(61_000)?;
        assert!(test.state(&"ann".to_owned()).is_none());
        test.push_batch([payment("ann", 60_000, 62_000)])?;
        assert!(test.output().is_empty());
        Ok(())
    }

    #[test]
    fn what_was_seen_before_a_failure_is_known_after_it() -> Result<()> {
        let mut test = testing::keyed(account, Suspicious::default()).open()?;
        test.push_batch([payment("ann", 50, 1_000)])?;
        let mut restored =
            testing::keyed(account, Suspicious::default()).restore(test.snapshot()?).open()?;
        restored.push_batch([payment("ann", 60_000, 5_000)])?;
        assert_eq!(restored.output(), [("ann".to_owned(), 5_000, 60_000)]);
        Ok(())
    }
}
