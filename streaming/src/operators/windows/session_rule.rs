//! The rule of session windows, the same for both clocks: it merges the sessions of each key, emits them when time has passed their
//! end, and keeps them for the allowed lateness.

use super::{
    SessionGap, TimeWindow, WindowFolding,
    key_core::{KeyCore, Taking},
    key_rule::KeyRule,
    sessions::Sessions,
};
use crate::{
    operators::{KeySelector, Keyed, OperatorContext, keyed::failed},
    seam::TaskError,
    state::{Free, KeyAddress, Place, StateBackend, Table, Taken},
    types::{Key, Record},
};

/// The [`KeyRule`] of session windows: a session ends when the gap that `G` computes after each of its records has passed.
pub struct SessionRule<G>(pub(super) G);

/// The sessions of one key, with the values that the folding `F` keeps.
type SessionsOf<T, S, F> = Sessions<<F as WindowFolding<<S as KeySelector<T>>::Key, T>>::Kept>;

/// Sessions of all keys of one subtask.
pub(super) type SessionCore<
    T,
    S,
    F,
    G,
    B = Table<<S as KeySelector<T>>::Key, SessionsOf<T, S, F>>,
> = KeyCore<T, S, F, SessionRule<G>, B>;

impl<T, S, F, G> KeyRule<T, S, F> for SessionRule<G>
where
    T: Record,
    S: KeySelector<T>,
    F: WindowFolding<S::Key, T>,
    G: SessionGap<T>,
{
    type Windows = Sessions<F::Kept>;
    const VERSION: u8 = 2;

    fn next(&self, sessions: &Sessions<F::Kept>, passed: i64, lateness: i64) -> Option<i64> {
        sessions.next(passed, lateness)
    }

    fn give_up(&self, sessions: &mut Sessions<F::Kept>, moment: i64, lateness: i64) {
        sessions.give_up(moment, lateness);
    }

    /// Adds a record to its session, joining the sessions that it connects. A record is late if it touches no session that is kept.
    #[inline(always)]
    fn record<B: StateBackend<S::Key, Sessions<F::Kept>>>(
        taking: &mut Taking<'_, T, S::Key, F, Self, F::Out>,
        backend: &mut B,
        at: KeyAddress,
        record: Keyed<'_, T, S>,
    ) -> Result<bool, TaskError> {
        let time = taking.time;
        let gap = taking.timing.rule.0.gap_ms(record.record());
        if gap < 1 {
            return Err(no_gap(gap, time, taking.context));
        }
        let window = TimeWindow::new(time, time.saturating_add(gap - 1));
        let passed = taking.passed(at);
        let is_late = taking.timing.lateness.end(window.last()) <= passed;
        let place = backend.place(at, |key| key == record.key());
        match place.map_err(|error| failed(taking.context, error))? {
            Place::Taken(mut place) => {
                let (key, sessions) = place.entry();
                taking.recall::<S>((at, key), sessions, passed);
                let touching = sessions.touching(window);
                if is_late && touching.is_empty() {
                    taking.timing.lateness.take_late(
                        record.into_record(),
                        time,
                        passed,
                        taking.out,
                    );
                    return Ok(taking.out.should_continue());
                }
                let number = touching.start;
                let session = sessions.add(
                    touching,
                    window,
                    record.into_record(),
                    &mut taking.timing.folding,
                );
                grown(taking, (at, key), sessions, (number, session), passed)?;
            }
            Place::Free(_) if is_late => {
                taking.timing.lateness.take_late(record.into_record(), time, passed, taking.out);
            }
            Place::Free(place) => {
                let both = record.into_new(at).map_err(|error| failed(taking.context, error));
                let (key, record) = both?;
                let mut sessions = Sessions::default();
                let session = sessions.add(0..0, window, record, &mut taking.timing.folding);
                grown(taking, (at, &key), &mut sessions, (0, session), passed)?;
                place.insert(key, sessions);
            }
        }
        Ok(taking.out.should_continue())
    }

    fn pass(
        taking: &mut Taking<'_, T, S::Key, F, Self, F::Out>,
        _key: &S::Key,
        sessions: &mut Sessions<F::Kept>,
        moment: i64,
        passed: i64,
    ) -> Result<Option<(TimeWindow, F::Kept)>, TaskError> {
        let ended = sessions.pass(moment, taking.timing.lateness.ms);
        // A session that had ended by `passed` was emitted before. Keys that were restored are looked at once for that moment.
        Ok(ended.filter(|_| moment > passed))
    }
}

/// Emits the key's session of that number if it was fired already, and queues the key if it has to be looked at earlier than before.
#[inline]
fn grown<T, K: Key, F: WindowFolding<K, T>, G>(
    taking: &mut Taking<'_, T, K, F, SessionRule<G>, F::Out>,
    (at, key): (KeyAddress, &K),
    sessions: &mut Sessions<F::Kept>,
    (number, session): (usize, TimeWindow),
    passed: i64,
) -> Result<(), TaskError> {
    let mut moment = session.last();
    if moment <= passed {
        moment = taking.timing.lateness.end(moment);
        if let Some(kept) = sessions.kept(number).cloned() {
            taking.emit(key.clone(), session, kept)?;
        }
    }
    taking.look_at((at, key), sessions, moment);
    Ok(())
}

/// Returns the failure of the task for a gap below 1 ms after a record with this event time.
#[cold]
fn no_gap(gap: i64, time: i64, context: &OperatorContext) -> TaskError {
    let why = format!(
        "the session gap of a record with the time {time} is {gap} ms; the function given to 'with_dynamic_gap' must return at least 1 ms"
    );
    context.user_error(why.into())
}
