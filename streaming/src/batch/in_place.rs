//! Loops over the records of a vector that can be left early, as quick as loops over a slice: the records are moved by pointers,
//! without a look at a capacity or a drop flag for each.
//!
//! The callbacks are user code and may panic. Whatever they do, no record is dropped twice; the records of the part that was at
//! work, at most as many as [`Next`] said, are leaked then.

#![expect(
    unsafe_code,
    reason = "records are moved out of a vector and into another one by pointers"
)]

use std::{mem::MaybeUninit, ptr, slice};

/// The records of a vector that are taken from its front. What is left when the value is dropped stays in the vector.
struct Front<'a, T> {
    records: &'a mut Vec<T>,
    /// Records at the front that stay.
    kept: usize,
    /// The first record that was not taken.
    next: usize,
    /// Records that the vector had.
    len: usize,
}

impl<'a, T> Front<'a, T> {
    fn new(records: &'a mut Vec<T>) -> Self {
        let len = records.len();
        // SAFETY: 0 is at most the capacity. From here on `self` owns the records from `next` to `len`, and those before `kept`;
        // both lie inside the vector's memory.
        unsafe { records.set_len(0) };
        Self { records, kept: 0, next: 0, len }
    }

    /// Takes the next part of at most `most` records. Returns where it begins, and its length.
    fn part(&mut self, most: usize) -> (*mut T, usize) {
        let part = most.min(self.len - self.next);
        // SAFETY: `next` is at most `len`, which is inside the vector's memory or one behind it.
        let begin = unsafe { self.records.as_mut_ptr().add(self.next) };
        self.next += part;
        (begin, part)
    }
}

impl<T> Drop for Front<'_, T> {
    fn drop(&mut self) {
        let rest = self.len - self.next;
        // SAFETY: `kept <= next <= len <= capacity`. The records before `kept` and from `next` on are valid and owned by `self`,
        // those between were moved out; behind the copy the vector's first `kept + rest` records are valid, each once.
        unsafe {
            let begin = self.records.as_mut_ptr();
            if self.kept != self.next {
                ptr::copy(begin.add(self.next), begin.add(self.kept), rest);
            }
            self.records.set_len(self.kept + rest);
        }
    }
}

/// Moves records from the front of `from` through `map` to the end of `to`, part by part; `next` says how long the next part
/// may be, and ends the loop by 0. Returns how many were moved.
#[inline]
pub(super) fn map_into<In, T>(
    from: &mut Vec<In>,
    to: &mut Vec<T>,
    mut map: impl FnMut(In) -> T,
    mut next: impl FnMut() -> usize,
) -> usize {
    to.reserve(from.len());
    let mut front = Front::new(from);
    while front.next < front.len {
        let (begin, part) = front.part(next());
        if part == 0 {
            break;
        }
        let filled = to.len();
        // SAFETY: `part` records from `begin` on are valid, were given up by `front`, and each is read once. `to` has room for
        // them: it was reserved for all records of `from`, and no more are written. Its length grows when they are written.
        unsafe {
            let end = to.as_mut_ptr().add(filled);
            map_each(
                slice::from_raw_parts(begin.cast_const().cast(), part),
                slice::from_raw_parts_mut(end.cast(), part),
                &mut map,
            );
            to.set_len(filled + part);
        }
    }
    front.next
}

/// Writes `map` of each record of `from` to the same place of `to`. The two are known not to overlap because they are slices, so that
/// the compiler can use vector instructions.
///
/// # Safety
/// All of `from` must be valid records, which the caller gives up; the slices must have one length.
#[inline]
unsafe fn map_each<In, T>(
    from: &[MaybeUninit<In>],
    to: &mut [MaybeUninit<T>],
    map: &mut impl FnMut(In) -> T,
) {
    for (from, to) in from.iter().zip(to) {
        // SAFETY: the caller gives the record up, and it is read once.
        to.write(map(unsafe { from.assume_init_read() }));
    }
}

/// Keeps, in place, the records from the front of a vector for which `keep` returns true, part by part, with `next` as in
/// [`map_into`]. Returns how many were kept; those that were not looked at follow them.
#[inline]
pub(super) fn retain_front<T>(
    records: &mut Vec<T>,
    mut keep: impl FnMut(&T) -> bool,
    mut next: impl FnMut() -> usize,
) -> usize {
    let mut front = Front::new(records);
    while front.next < front.len {
        let (begin, part) = front.part(next());
        if part == 0 {
            break;
        }
        let to = front.records.as_mut_ptr();
        let mut kept = front.kept;
        for i in 0..part {
            // SAFETY: `part` records from `begin` on are valid and were given up by `front`; each is copied to a place at or before its
            // own that holds no record, and counts there or is dropped there.
            unsafe {
                let record = begin.add(i);
                let stays = keep(&*record);
                let place = to.add(kept);
                ptr::copy(record, place, 1);
                kept += usize::from(stays);
                if std::mem::needs_drop::<T>() && !stays {
                    ptr::drop_in_place(place);
                }
            }
        }
        front.kept = kept;
    }
    front.kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        panic::{AssertUnwindSafe, catch_unwind},
        rc::Rc,
    };

    /// Parts of those lengths.
    fn parts(lengths: &[usize]) -> impl FnMut() -> usize + '_ {
        let mut lengths = lengths.iter().copied();
        move || lengths.next().unwrap_or(0)
    }

    #[test]
    fn what_is_not_mapped_stays() {
        for lengths in [&[][..], &[1], &[2, 1], &[1, 4], &[9]] {
            let mut from: Vec<String> = (0..5).map(|n| n.to_string()).collect();
            let mut to = vec!["x".to_owned()];
            let moved = map_into(&mut from, &mut to, |text| text + "!", parts(lengths));
            assert_eq!(moved, lengths.iter().sum::<usize>().min(5));
            let mapped = (0..moved).map(|n| format!("{n}!"));
            assert_eq!(to, std::iter::once("x".to_owned()).chain(mapped).collect::<Vec<_>>());
            assert_eq!(from, (moved..5).map(|n| n.to_string()).collect::<Vec<_>>());
        }
    }

    #[test]
    fn what_is_not_looked_at_follows_what_is_kept() {
        for lengths in [&[][..], &[1], &[2, 1], &[1, 4], &[9]] {
            let mut records: Vec<String> = (0..5).map(|n| n.to_string()).collect();
            let odd = |text: &String| text.as_bytes()[0] % 2 == 1;
            let kept = retain_front(&mut records, odd, parts(lengths));
            let looked_at = lengths.iter().sum::<usize>().min(5);
            let stays = (0..looked_at).filter(|n| n % 2 == 1).chain(looked_at..5);
            assert_eq!(records, stays.map(|n| n.to_string()).collect::<Vec<_>>());
            assert_eq!(kept, (0..looked_at).filter(|n| n % 2 == 1).count());
        }
    }

    #[test]
    fn a_panic_drops_no_record_twice() {
        let alive = Rc::new(());
        let records = || -> Vec<(usize, Rc<()>)> { (0..8).map(|n| (n, alive.clone())).collect() };
        let (mut from, mut to) = (records(), Vec::new());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let fail =
                |record: (usize, Rc<()>)| if record.0 == 5 { panic!("five") } else { record };
            map_into(&mut from, &mut to, fail, parts(&[4, 2, 2]));
        }));
        assert!(panicked.is_err());
        let numbers =
            |records: &[(usize, Rc<()>)]| records.iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!((numbers(&to), numbers(&from)), (vec![0, 1, 2, 3], vec![6, 7]));
        let mut kept = records();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let fail = |record: &(usize, Rc<()>)| {
                if record.0 == 5 { panic!("five") } else { record.0.is_multiple_of(2) }
            };
            retain_front(&mut kept, fail, parts(&[4, 2, 2]));
        }));
        assert!(panicked.is_err());
        assert_eq!(numbers(&kept), [0, 2, 6, 7]);
        drop((from, to, kept));
        // Leaked: of the map, the record before the panic; of the filter, both records of the part.
        assert_eq!(Rc::strong_count(&alive), 1 + 1 + 2);
    }
}
