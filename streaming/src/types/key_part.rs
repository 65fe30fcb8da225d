//! Types that can be keys or parts of keys: equal values always have equal hashes. [`KeyPart`] must never be implemented for a
//! type whose bytes depend on more than its value, such as a hash set in [`Serde`](super::Serde).

use super::{CompactString, FlottType};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

/// A type whose equal values always have equal hashes, in every process: it can be a key or a part of one.
///
/// `#[derive(FlottType)]` implements this trait for a type whose fields all have it. The standard library's types have it, also
/// floats: the two zeros are equal and hash alike, and NaN is equal to nothing. [`Serde`](super::Serde) does not have it: a hash
/// set is written in another order in every process, and equal floats may have different bytes.
///
/// A type that compares values by an `Eq` of its own must implement `FlottType` by hand too, so that equal values hash alike:
///
/// ```
/// use streaming::types::{
///     CodecError, FlottType, Key, KeyHasher, KeyPart, Reader, Schema, key_hash,
/// };
///
/// /// A text whose upper and lower case are equal.
/// #[derive(Clone)]
/// struct AnyCase(String);
///
/// impl PartialEq for AnyCase {
///     fn eq(&self, other: &Self) -> bool {
///         self.0.eq_ignore_ascii_case(&other.0)
///     }
/// }
/// impl Eq for AnyCase {}
///
/// impl FlottType for AnyCase {
///     fn type_name() -> String {
///         "AnyCase".to_owned()
///     }
///     fn describe(schema: &mut Schema) {
///         schema.named::<Self>("AnyCase", |schema| schema.field::<String>("text"));
///     }
///     fn encode(&self, out: &mut Vec<u8>) {
///         self.0.encode(out);
///     }
///     fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
///         String::decode(input).map(Self)
///     }
///     fn hash_key(&self, hasher: &mut KeyHasher) {
///         self.0.to_ascii_lowercase().hash_key(hasher);
///     }
///     fn weight(&self) -> usize {
///         self.0.weight()
///     }
/// }
/// impl KeyPart for AnyCase {}
///
/// fn hash<K: Key>(key: K) -> u64 {
///     key_hash(&key)
/// }
/// assert_eq!(hash(AnyCase("Ann".to_owned())), hash(AnyCase("ANN".to_owned())));
/// ```
///
/// A record may hold values that a key may not. To key by them does not compile:
///
/// ```compile_fail,E0277
/// use derive::FlottType;
/// use std::collections::HashSet;
/// use streaming::types::{Key, Serde};
///
/// #[derive(Clone, PartialEq, Eq, FlottType)]
/// #[flott(crate = streaming)]
/// struct Tagged {
///     tags: Serde<HashSet<String>>,
/// }
/// fn key<K: Key>() {}
/// key::<Tagged>();
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key or a part of one",
    label = "nothing guarantees that equal values of this type have equal hashes",
    note = "records of one key must meet in one subtask, which the key's hash decides; key by a field of it or by a computed value: `key_by_value(|record| …)`",
    note = "a type with `#[derive(FlottType)]` can be a key if all of its fields can and it has `Eq`; `Serde<…>` cannot"
)]
pub trait KeyPart: FlottType {}

/// The bound of `#[derive(FlottType)]` for each field of a [`KeyPart`]; all of these types have it. The compiler's error for two types
/// that contain each other (E0275, overflow) names this trait, and so the option that is missing: `#[flott(recursive)]`.
#[doc(hidden)]
pub trait KeyPartUnlessFlottRecursive {}
impl<T: KeyPart> KeyPartUnlessFlottRecursive for T {}

/// A type that a stream can be keyed by: a [`KeyPart`] with `Eq` and `Clone`, implemented for all such types.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key",
    label = "not a type whose values are equal to themselves and hash alike",
    note = "add `#[derive(Clone, PartialEq, Eq, FlottType)]`; for a float key by something computed, such as its `to_bits()` or a rounded number; for a set or a map, also in `Serde`, by a sorted `Vec`"
)]
pub trait Key: KeyPart + Eq + Clone {}
impl<T: KeyPart + Eq + Clone> Key for T {}

macro_rules! parts {
    ($($type:ty),*) => {$( impl KeyPart for $type {} )*};
}
parts!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64);
parts!(bool, char, (), String, CompactString, Duration);

impl<T: KeyPart> KeyPart for Option<T> {}
impl<T: KeyPart, E: KeyPart> KeyPart for Result<T, E> {}
impl<T: KeyPart> KeyPart for Box<T> {}
impl<T: KeyPart + Sync> KeyPart for Arc<T> {}
impl<T: KeyPart> KeyPart for Vec<T> {}
impl<T: KeyPart> KeyPart for VecDeque<T> {}
impl<T: KeyPart, const N: usize> KeyPart for [T; N] {}
// Equal ordered sets and maps are always written in the same order.
impl<T: KeyPart + Ord> KeyPart for BTreeSet<T> {}
impl<K: KeyPart + Ord, V: KeyPart> KeyPart for BTreeMap<K, V> {}

macro_rules! tuples {
    ($(($($name:ident),+))*) => {$( impl<$($name: KeyPart),+> KeyPart for ($($name,)+) {} )*};
}
tuples! { (A) (A, B) (A, B, C) (A, B, C, D) (A, B, C, D, E) (A, B, C, D, E, F) (A, B, C, D, E, F, G) (A, B, C, D, E, F, G, H) }
