//! The sessions of one key, as a function of its records and of time: which sessions merge and which one has ended.
//!
//! Sessions of a key never overlap or touch: two that do are merged. Nothing here may know operators, queues or clocks.

use super::{TimeWindow, WindowFolding, key_rule::KeyWindows};
use crate::{
    state::{Kept, MapState, RowReader, RowWriter, StateDeclaration, StateField},
    types::{CodecError, FlottType, Record},
};
use std::{collections::VecDeque, ops::Range};

/// One session, and the kept value of its records.
#[derive(Debug)]
struct Session<A> {
    window: TimeWindow,
    kept: A,
}

/// The session windows of one key with the kept values of their records, ordered by time; no two of them overlap or touch. The state of one
/// key in the backend. Sessions that have fired are in it as long as the allowed lateness keeps them.
#[derive(Debug)]
pub struct Sessions<A> {
    sessions: VecDeque<Session<A>>,
    /// The moment in milliseconds at which the key is looked at next: no session ends, or is discarded, before it. Not part of
    /// the written state: `None` for sessions that were read.
    looked_at: Option<i64>,
}

impl<A> Default for Sessions<A> {
    fn default() -> Self {
        Self { sessions: VecDeque::new(), looked_at: None }
    }
}

impl<A> Sessions<A> {
    /// Returns the indices of the sessions that overlap `window` or touch it without a gap.
    pub(super) fn touching(&self, window: TimeWindow) -> Range<usize> {
        let first = self.sessions.partition_point(|it| it.window.end() < window.start());
        let later = self.sessions.range(first..);
        first..first + later.take_while(|it| it.window.start() <= window.end()).count()
    }

    /// Adds a record whose own window is `window`. The sessions at the indices `touching` and the record become one session, at
    /// the first of these indices; if there are none, the record becomes a session of its own. Returns the window of the
    /// session.
    pub(super) fn add<K, T, F: WindowFolding<K, T, Kept = A>>(
        &mut self,
        touching: Range<usize>,
        window: TimeWindow,
        record: T,
        folding: &mut F,
    ) -> TimeWindow {
        let later: Vec<_> = match touching.len() {
            0 | 1 => Vec::new(),
            _ => self.sessions.drain(touching.start + 1..touching.end).collect(),
        };
        match self.sessions.get_mut(touching.start).filter(|_| !touching.is_empty()) {
            Some(session) => {
                session.window = session.window.with(window);
                for Session { window, kept } in later {
                    session.window = session.window.with(window);
                    folding.merge(&mut session.kept, kept);
                }
                folding.add(&mut session.kept, record);
                session.window
            }
            None => {
                let session = Session { window, kept: folding.first(record) };
                if self.sessions.capacity() == 0 {
                    // Reserves a single place, because most keys never have a second session.
                    self.sessions.reserve_exact(1);
                }
                self.sessions.insert(touching.start, session);
                window
            }
        }
    }

    /// Returns the kept value of the session at an index.
    pub(super) fn kept(&self, place: usize) -> Option<&A> {
        self.sessions.get(place).map(|session| &session.kept)
    }

    /// Advances time to `moment`: returns the session whose last millisecond it is, and discards the sessions that ended
    /// `lateness` milliseconds before it or earlier. `moment` must not be greater than the one that [`Sessions::next`]
    /// returned.
    pub(super) fn pass(&mut self, moment: i64, lateness: i64) -> Option<(TimeWindow, A)>
    where
        A: Clone,
    {
        let is_given_up = |it: &Session<A>| it.window.last().saturating_add(lateness) <= moment;
        let mut ended = None;
        while let Some(first) = self.sessions.pop_front_if(|it| is_given_up(it)) {
            if first.window.last() == moment {
                ended = Some((first.window, first.kept));
            }
        }
        if ended.is_none() {
            let place = self.sessions.partition_point(|it| it.window.last() < moment);
            let at_moment = self.sessions.get(place).filter(|it| it.window.last() == moment);
            ended = at_moment.map(|it| (it.window, it.kept.clone()));
        }
        ended
    }

    /// Discards the sessions that ended `lateness` milliseconds before `moment` or earlier.
    pub(super) fn give_up(&mut self, moment: i64, lateness: i64) {
        self.sessions.retain(|it| it.window.last().saturating_add(lateness) > moment);
    }

    /// Returns the first moment after `passed` at which a session ends or is to be discarded; `None` if there are no sessions, or
    /// none that [`Sessions::give_up`] would leave.
    pub(super) fn next(&self, passed: i64, lateness: i64) -> Option<i64> {
        let ended = self.sessions.partition_point(|it| it.window.last() <= passed);
        let mut kept =
            self.sessions.range(..ended).map(|it| it.window.last().saturating_add(lateness));
        let given_up = kept.find(|moment| *moment > passed);
        let over = self.sessions.get(ended).map(|it| it.window.last());
        given_up.into_iter().chain(over).min()
    }
}

impl<A: Record> KeyWindows for Sessions<A> {
    /// Returns the declaration of the state: a map from a session's first millisecond to its last one and the kept value.
    fn declare() -> Vec<StateDeclaration> {
        vec![MapState::<i64, (i64, A)>::declare("sessions")]
    }
    #[inline]
    fn looked_at(&mut self) -> &mut Option<i64> {
        &mut self.looked_at
    }
    /// Takes the sessions of `more`: a snapshot has all sessions of a key.
    fn join(&mut self, more: Self) {
        *self = more;
    }
}

impl<A: Record> Kept for Sessions<A> {
    fn holds_nothing(&self) -> bool {
        self.sessions.is_empty()
    }
    fn write(&self, rows: &mut RowWriter) {
        for Session { window, kept } in &self.sessions {
            let value = |out: &mut Vec<u8>| {
                window.last().encode(out);
                kept.encode(out);
            };
            rows.fields(0).row(|entry| window.start().encode(entry), value);
        }
    }
    fn read(rows: &mut RowReader<'_, '_>) -> Result<Self, CodecError> {
        let mut read = Self::default();
        while let Some((_, row)) = rows.next()? {
            let (start, (last, kept)) = (row.entry::<i64>()?, row.value::<(i64, A)>()?);
            let apart = read.sessions.back().is_none_or(|it| it.window.end() < start);
            if last < start || !apart {
                return Err(CodecError::Invalid { what: "order of sessions" });
            }
            read.sessions.push_back(Session { window: TimeWindow::new(start, last), kept });
        }
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operators::Count, types::Reader};

    /// The bytes of sessions between these milliseconds, in that order.
    fn bytes(windows: &[(i64, i64)]) -> Vec<u8> {
        let mut out = Vec::new();
        RowWriter::default().write(&mut out, |rows| {
            for (start, last) in windows {
                let mut one = Sessions::default();
                let window = TimeWindow::new(*start, *last);
                let add = Sessions::add::<u8, u8, Count>;
                assert_eq!(add(&mut one, 0..0, window, 1, &mut Count), window);
                one.write(rows);
            }
        });
        out
    }

    #[test]
    fn sessions_that_are_written_lie_apart_and_in_order_or_are_refused() {
        let read = |windows: &[(i64, i64)]| {
            let bytes = bytes(windows);
            let mut input = Reader::new(&bytes);
            Sessions::<u64>::read(&mut RowReader::new(&mut input, &[Some(0)]).unwrap())
        };
        assert_eq!(read(&[(0, 9), (11, 20), (i64::MAX, i64::MAX)]).unwrap().sessions.len(), 3);
        let refused: [&[(i64, i64)]; 4] =
            [&[(5, 4)], &[(0, 9), (10, 20)], &[(11, 20), (0, 9)], &[(0, i64::MAX), (1, 2)]];
        for windows in refused {
            let invalid = CodecError::Invalid { what: "order of sessions" };
            assert_eq!(read(windows).unwrap_err(), invalid, "{windows:?}");
        }
    }
}
