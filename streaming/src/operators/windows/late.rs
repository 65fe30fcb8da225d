//! Records that come too late: how long windows are kept, and the one place where a record is dropped.

/// The allowed lateness of one operator's windows, and how many records came later still.
#[derive(Debug)]
pub(super) struct Lateness {
    /// Milliseconds that a window is kept after its last one.
    pub(super) ms: i64,
    /// Records that were dropped since the start.
    pub(super) dropped: u64,
}

impl Lateness {
    /// Keeps windows for `ms` milliseconds.
    pub(super) fn of(ms: i64) -> Self {
        Self { ms, dropped: 0 }
    }

    /// Returns the moment at which a window with that last millisecond is given up, in milliseconds since 1970.
    #[inline]
    pub(super) fn end(&self, last: i64) -> i64 {
        last.saturating_add(self.ms)
    }

    /// Takes a record that no window takes. It is counted if it came too late when event time was at `watermark`; a record
    /// between two windows is not.
    pub(super) fn no_window<T>(&mut self, record: T, time: i64, watermark: i64) {
        self.dropped += u64::from(self.end(time) <= watermark);
        drop(record);
    }
}
