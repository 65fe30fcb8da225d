//! Key selectors: how the key of a record is found, and how it is moved out of a record that nothing else needs.

use crate::{
    state::{KeyAddress, StateError},
    types::{Key, key_hash},
};
use std::{any::Any, marker::PhantomData, ptr};

/// Finds the key of a record. A key that has to be computed is held beside the record, so that it is computed at most once where the record
/// is sent and mostly once where it arrives, see [`ByValue`]. Equal records must have equal keys at all times, because the key decides the
/// subtask and the state.
pub trait KeySelector<T>: Clone + Send + 'static {
    /// The type of the keys.
    type Key: Key;
    #[doc(hidden)]
    /// The value held beside a record: the computed key, or `()` if the key is a part of the record.
    type Held;
    #[doc(hidden)]
    /// True if keys are computed by a function of the program, which may take long; false if finding a key is a mere look into its record.
    const COMPUTES: bool;
    #[doc(hidden)]
    /// True if the hash of a key goes with its record to the consumer in the same process: reading it must cost less than computing it
    /// again, as for texts.
    const HASH_TRAVELS: bool = std::mem::needs_drop::<Self::Key>();
    #[doc(hidden)]
    /// Makes the value that is held beside the record: a computed key, by a call of the program's function; `()` if the key is a part of
    /// the record. [`EitherKey`](crate::operators::EitherKey) holds a clone of such a key.
    fn hold(&self, record: &T) -> Self::Held;
    #[doc(hidden)]
    /// Returns the record's key, which is a part of the record or of `held`.
    fn key<'a>(&self, record: &'a T, held: &'a Self::Held) -> &'a Self::Key;
    #[doc(hidden)]
    /// Returns the key of a record that is still needed; a key that is a part of the record is cloned.
    fn own(&self, record: &T, held: Self::Held) -> Self::Key;
    #[doc(hidden)]
    /// Returns the key of a record that nothing else needs: moved if the record is its own key, otherwise as
    /// [`KeySelector::own`] does.
    fn take(&self, record: T, held: Self::Held) -> Self::Key;
    #[doc(hidden)]
    /// Calls `look` once with a reference to the record's key, which is computed for this call if [`KeySelector::COMPUTES`], and
    /// returns the result of `look`. Called where a record is sent, to choose the subtask.
    #[inline]
    fn with<R>(&self, record: &T, look: impl FnOnce(&Self::Key) -> R) -> R {
        look(self.key(record, &self.hold(record)))
    }
}

/// A record, the value held beside it (its computed key, or nothing), and the selector that finds the key in the two.
pub struct Keyed<'s, T, S: KeySelector<T>> {
    selector: &'s S,
    record: T,
    held: S::Held,
}

impl<'s, T, S: KeySelector<T>> Keyed<'s, T, S> {
    /// Joins a record with the value that `selector` holds beside it, which is computed now.
    #[inline]
    pub fn new(selector: &'s S, record: T) -> Self {
        let held = selector.hold(&record);
        Self { selector, record, held }
    }
    /// Joins a record with the value that `selector` has computed for it before.
    #[inline]
    pub(in crate::operators) fn with_held(selector: &'s S, record: T, held: S::Held) -> Self {
        Self { selector, record, held }
    }
    /// Returns the record's key, without a call of the program's function if the key is held.
    #[inline]
    pub fn key(&self) -> &S::Key {
        self.selector.key(&self.record, &self.held)
    }
    /// Returns a reference to the record.
    #[inline]
    pub fn record(&self) -> &T {
        &self.record
    }
    /// Returns the record and drops the held key.
    #[inline]
    pub fn into_record(self) -> T {
        self.record
    }
    /// Returns the key and drops the record; a key that is a part of the record is cloned, unless it is the whole record.
    #[inline]
    pub fn into_key(self) -> S::Key {
        self.selector.take(self.record, self.held)
    }
    /// Returns key and record, for a key that has no state at `at`; a key that is a part of the record is cloned.
    ///
    /// # Errors
    /// Fails with [`StateError::OtherKey`] if the record came with the hash of another key. Only here that has to be looked at: a key is
    /// not found by the hash of another one.
    #[inline]
    pub(in crate::operators) fn into_new(self, at: KeyAddress) -> Result<(S::Key, T), StateError> {
        let (key, record) = self.into_both();
        match S::HASH_TRAVELS && at.hash != key_hash(&key) {
            true => Err(StateError::OtherKey),
            false => Ok((key, record)),
        }
    }
    /// Returns key and record; a key that is a part of the record is cloned.
    #[inline]
    pub fn into_both(self) -> (S::Key, T) {
        (self.selector.own(&self.record, self.held), self.record)
    }
}

/// A selector of a key that is a part of the record, or the whole of it (`key_by`). Nothing is held beside the record; a key that is needed
/// without its record is cloned, unless it is the whole record.
#[derive(Debug, Clone)]
pub struct ByReference<F, K> {
    function: F,
    key: PhantomData<fn() -> K>,
}

/// A selector of a key that is computed from the record (`key_by_value`). The key is held beside the record: the function is called once
/// where the record is sent, unless the record can only go to one subtask, and once where it arrives; there again if the step is
/// interrupted or the key's state has to be fetched.
#[derive(Debug, Clone)]
pub struct ByValue<F, K> {
    function: F,
    key: PhantomData<fn() -> K>,
}

impl<F, K> ByReference<F, K> {
    /// Makes the selector of a function that returns a reference to the key in its record.
    pub fn new(function: F) -> Self {
        Self { function, key: PhantomData }
    }
}
impl<F, K> ByValue<F, K> {
    /// Makes the selector of a function that computes the key.
    pub fn new(function: F) -> Self {
        Self { function, key: PhantomData }
    }
}

impl<T, K, F> KeySelector<T> for ByReference<F, K>
where
    T: 'static,
    K: Key,
    F: Fn(&T) -> &K + Clone + Send + 'static,
{
    type Key = K;
    type Held = ();
    const COMPUTES: bool = false;
    #[inline]
    fn hold(&self, _record: &T) {}
    #[inline]
    fn key<'a>(&self, record: &'a T, (): &'a ()) -> &'a K {
        (self.function)(record)
    }
    #[inline]
    fn own(&self, record: &T, (): ()) -> K {
        (self.function)(record).clone()
    }
    #[inline]
    fn take(&self, record: T, (): ()) -> K {
        let key = (self.function)(&record);
        // The record is its own key if both have the same type, which the compiler knows, and the same address.
        match same_type::<T, K>() {
            Some(same) if ptr::addr_eq(key, &raw const record) => same(record),
            _ => key.clone(),
        }
    }
}

/// Returns the function that turns a `T` into a `K` if both are the same type, `None` otherwise.
#[inline]
fn same_type<T: 'static, K: 'static>() -> Option<fn(T) -> K> {
    let same: fn(K) -> K = |key| key;
    (&same as &dyn Any).downcast_ref::<fn(T) -> K>().copied()
}

impl<T, K: Key, F: Fn(&T) -> K + Clone + Send + 'static> KeySelector<T> for ByValue<F, K> {
    type Key = K;
    type Held = K;
    const COMPUTES: bool = true;
    #[inline]
    fn hold(&self, record: &T) -> K {
        (self.function)(record)
    }
    #[inline]
    fn key<'a>(&self, _record: &'a T, held: &'a K) -> &'a K {
        held
    }
    #[inline]
    fn own(&self, _record: &T, held: K) -> K {
        held
    }
    #[inline]
    fn take(&self, _record: T, held: K) -> K {
        held
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the address of the text's bytes, which stays the same when the text is moved.
    fn bytes(text: &str) -> *const u8 {
        text.as_ptr()
    }

    fn by<T, K>(function: fn(&T) -> &K) -> ByReference<fn(&T) -> &K, K> {
        ByReference::new(function)
    }

    #[test]
    fn a_record_that_is_its_own_key_is_moved() {
        let selector = by(|word: &String| word);
        let word = "flott".to_owned();
        let before = bytes(&word);
        let key = Keyed::new(&selector, word).into_key();
        assert_eq!((key.as_str(), bytes(&key)), ("flott", before));
    }

    #[test]
    fn a_key_of_the_same_type_that_is_elsewhere_is_cloned() {
        static ALL: String = String::new();
        let selector = by(|_: &String| &ALL);
        assert_eq!(Keyed::new(&selector, "flott".to_owned()).into_key(), "");
    }

    #[test]
    fn the_first_part_of_a_record_is_not_the_record() {
        let selector = by(|pair: &(String, u64)| &pair.0);
        assert_eq!(Keyed::new(&selector, ("a".to_owned(), 1)).into_key(), "a");
        let keyed = Keyed::new(&selector, ("b".to_owned(), 2));
        assert_eq!(keyed.into_both(), ("b".to_owned(), ("b".to_owned(), 2)));
    }

    #[test]
    fn a_computed_key_is_computed_once() {
        use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
        static CALLS: AtomicU32 = AtomicU32::new(0);
        let selector = ByValue::new(|n: &u64| {
            CALLS.fetch_add(1, Relaxed);
            n % 10
        });
        let keyed = Keyed::new(&selector, 17);
        assert_eq!((*keyed.key(), keyed.into_both()), (7, (7, 17)));
        assert_eq!(CALLS.load(Relaxed), 1);
    }
}
