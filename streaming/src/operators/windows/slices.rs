//! Arithmetic of tumbling and sliding windows: which windows a moment belongs to, and the panes that windows share.
//!
//! Windows are numbered: window `k` begins at `offset + k * slide` and has `size` milliseconds. A pane has as many milliseconds
//! as the greatest common divisor of size and slide, so that every window consists of whole panes. Window numbers and bounds
//! are computed in 128 bits: nothing here may overflow for any `i64`.

use std::ops::Range;

/// The time range of a window, in milliseconds since 1970. The window operators pass it to [`WindowFunction`](super::WindowFunction) with
/// the records. A window by count has all of time: `i64::MIN` to `i64::MAX`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeWindow {
    start: i64,
    last: i64,
}

impl TimeWindow {
    /// All of time, from `i64::MIN` to `i64::MAX`.
    pub(super) const ALL: Self = Self { start: i64::MIN, last: i64::MAX };
    /// Makes the window from its first to its last millisecond, both inclusive.
    pub(super) fn new(start: i64, last: i64) -> Self {
        Self { start, last }
    }
    /// Returns the smallest window that covers both.
    pub(super) fn with(self, other: Self) -> Self {
        Self { start: self.start.min(other.start), last: self.last.max(other.last) }
    }
    /// Returns the first millisecond of the window, in milliseconds since 1970.
    pub fn start(&self) -> i64 {
        self.start
    }
    /// Returns the end of the window, exclusive, in milliseconds since 1970; `i64::MAX` if the window's last millisecond is `i64::MAX`.
    pub fn end(&self) -> i64 {
        self.last.saturating_add(1)
    }
    /// Returns the last millisecond of the window, inclusive, in milliseconds since 1970. For a window of time it is also the event time
    /// of the records that the window emits.
    pub fn last(&self) -> i64 {
        self.last
    }
}

/// The division of time into windows, by size, slide and offset in milliseconds, and into panes: parts of time, as long as the
/// greatest common divisor of size and slide, that no window's begin or end divides. Tumbling and sliding windows make it; it has no
/// public methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slices {
    size: i64,
    slide: i64,
    offset: i64,
    pane: i64,
}

/// A pane, and the numbers of the windows that contain it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pane {
    pub(super) number: i64,
    /// First millisecond of the pane; `last` is its last one, inclusive.
    pub(super) first: i64,
    pub(super) last: i64,
    /// Numbers of the windows that contain the pane; empty if the pane lies between two windows.
    pub(super) windows: Range<i128>,
}

/// Returns the nearest value that fits into an `i64`.
pub(super) fn clamp(ms: i128) -> i64 {
    // The cast keeps the value, which is within the range of `i64` here.
    ms.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

fn greatest_common_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Slices {
    /// Cuts time into windows of `size` milliseconds, one every `slide`, shifted by `offset` modulo `slide`. Sizes and slides
    /// below 1 count as 1.
    pub(super) fn new(size: i64, slide: i64, offset: i64) -> Self {
        let (size, slide) = (size.max(1), slide.max(1));
        let pane = greatest_common_divisor(size, slide);
        Self { size, slide, offset: offset.rem_euclid(slide), pane }
    }

    /// Returns size, slide and offset, in milliseconds.
    pub(super) fn parts(&self) -> [i64; 3] {
        [self.size, self.slide, self.offset]
    }

    /// Returns the text for people of windows with these [`Slices::parts`]. Windows with other parts, which cannot read their state, have
    /// another text.
    pub(super) fn text([size, slide, offset]: [i64; 3]) -> String {
        format!("size {size} ms, slide {slide} ms and offset {offset} ms")
    }

    /// Returns the pane that contains a moment.
    pub(super) fn pane_at(&self, ms: i64) -> Pane {
        let shift = self.offset % self.pane;
        // Cannot overflow: panes of 1 ms have no shift, and with longer panes the quotient is greater than `i64::MIN`.
        let number = ms.div_euclid(self.pane) - i64::from(ms.rem_euclid(self.pane) < shift);
        self.pane(number)
    }

    /// Returns the pane with a number.
    pub(super) fn pane(&self, number: i64) -> Pane {
        let pane = i128::from(self.pane);
        let first = i128::from(number) * pane + i128::from(self.offset % self.pane);
        let last = first + pane - 1;
        let windows = self.first_behind(last - 1)..self.first_from(first);
        Pane { number, first: clamp(first), last: clamp(last), windows }
    }

    /// Returns the number of the first window that begins after `ms`.
    fn first_from(&self, ms: i128) -> i128 {
        (ms - i128::from(self.offset)).div_euclid(i128::from(self.slide)) + 1
    }

    /// Returns the number of the first window whose last millisecond is after `ms`.
    fn first_behind(&self, ms: i128) -> i128 {
        // The last millisecond is `size - 1` after the beginning.
        self.first_from(ms - i128::from(self.size) + 1)
    }

    /// Returns the number of the first window that is still open when time has reached `watermark` and windows are kept for
    /// `lateness` milliseconds after their last one. At `i64::MAX`, the final watermark, no window is open; at `i64::MIN` all
    /// are.
    pub(super) fn first_open(&self, watermark: i64, lateness: i64) -> i128 {
        match watermark {
            // The final watermark ends every window; before the first watermark none has ended.
            i64::MAX => i128::MAX,
            i64::MIN => i128::MIN,
            ms => self.first_behind(i128::from(ms) - i128::from(lateness)),
        }
    }

    /// Returns the time range of the window with a number, clamped to the range of `i64`.
    pub(super) fn window(&self, number: i128) -> TimeWindow {
        let start = number * i128::from(self.slide) + i128::from(self.offset);
        TimeWindow { start: clamp(start), last: clamp(start + i128::from(self.size) - 1) }
    }

    /// Returns the range of the numbers of a window's panes.
    pub(super) fn panes_of(&self, window: i128) -> Range<i128> {
        // Saturates at `i128::MAX` and `i128::MIN`, which say that all windows are over, or none is.
        let start = window.saturating_mul(i128::from(self.slide));
        let first = start.saturating_add(i128::from(self.offset)).div_euclid(i128::from(self.pane));
        first..first.saturating_add(i128::from(self.size / self.pane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Moments, many of them at the ends of the range.
    fn moments() -> impl Strategy<Value = i64> {
        let end = prop_oneof![Just(i64::MAX), Just(i64::MIN + 1), Just(0)];
        let any = any::<i64>();
        let moment =
            prop_oneof![any, (end, -50_i64..50).prop_map(|(end, by)| end.saturating_add(by))];
        // The smallest number is no moment.
        moment.prop_map(|ms| ms.max(i64::MIN + 1))
    }

    fn lengths() -> impl Strategy<Value = i64> {
        prop_oneof![4 => 1_i64..40, 1 => (i64::MAX - 40)..=i64::MAX]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        /// A moment's pane holds it, and the pane's windows are exactly those that hold the moment.
        #[test]
        fn panes_and_windows_agree_for_every_moment(
            ms in moments(), size in lengths(), slide in lengths(), offset in 0_i64..100, lateness in 0_i64..50,
        ) {
            let slices = Slices::new(size, slide, offset);
            let pane = slices.pane_at(ms);
            prop_assert!(pane.first <= ms && ms <= pane.last);
            prop_assert_eq!(&slices.pane(pane.number), &pane);
            let holds = |k: i128| {
                let start = k * i128::from(slide) + i128::from(offset.rem_euclid(slide));
                (start..start + i128::from(size)).contains(&i128::from(ms))
            };
            let Range { start, end } = pane.windows;
            prop_assert!(start <= end);
            prop_assert!(!holds(start - 1) && !holds(end));
            for k in [start, end - 1] {
                let number = i128::from(pane.number);
                let inside = (start..end).contains(&k);
                prop_assert_eq!(holds(k), inside);
                prop_assert_eq!(slices.panes_of(k).contains(&number), inside);
                if inside {
                    let window = slices.window(k);
                    prop_assert!(window.start() <= ms && ms <= window.last());
                }
                // A window is open until the watermark is at its last millisecond.
                let last = k * i128::from(slide) + i128::from(offset.rem_euclid(slide)) + i128::from(size) - 1;
                let open = ms == i64::MAX || last + i128::from(lateness) <= i128::from(ms);
                prop_assert_eq!(k < slices.first_open(ms, lateness), open);
            }
        }
    }

    #[test]
    fn windows_begin_at_multiples_of_the_slide_and_the_offset() {
        let slices = Slices::new(10, 4, 1);
        let windows: Vec<_> = slices.pane_at(-2).windows.map(|k| slices.window(k)).collect();
        let expected = [(-11, -1), (-7, 3), (-3, 7)];
        assert_eq!(windows.iter().map(|w| (w.start(), w.end())).collect::<Vec<_>>(), expected);
        assert_eq!(slices.pane_at(-2).first, -3);
    }

    #[test]
    fn a_moment_between_windows_has_none() {
        let slices = Slices::new(2, 5, 0);
        assert!(slices.pane_at(2).windows.is_empty() && !slices.pane_at(6).windows.is_empty());
    }
}
