//! Declares protocol buffers' messages in the notation of Hadoop's `.proto` files. It must never know a protocol.

/// Declares messages. After a message's name stand the traits it derives besides `Clone`, `PartialEq` and
/// [`prost::Message`]. A field is `LABEL KIND name = TAG;`, where `LABEL` is `optional`, `required` or `repeated` and
/// `KIND` is a scalar of protocol buffers, `message<Type>`, or `enumeration(Type)`, which is an `i32` in Rust. Options of
/// prost, such as `default = "…"`, follow in brackets.
///
/// Messages are not `#[non_exhaustive]`, or nobody could write them as literals. Requests end with `..Default::default()`, which
/// a new field does not break.
macro_rules! messages {
    ($(
        $(#[$about:meta])*
        pub struct $message:ident ($($derived:ident),*) {$(
            $(#[$doc:meta])*
            $label:ident $kind:ident $(<$of:ty>)? $(($set:ident))? $field:ident = $tag:tt $([$($option:tt)+])?;
        )*}
    )*) => {$(
        #[derive(Clone, PartialEq, $($derived,)* prost::Message)]
        $(#[$about])*
        pub struct $message {$(
            $(#[$doc])*
            #[prost($kind $(($set))?, $label, tag = $tag $(, $($option)+)?)]
            pub $field: $crate::proto::field!($label $kind $($of)?),
        )*}
    )*};
}

/// Names the Rust type of a field.
macro_rules! field {
    (optional $($kind:tt)+) => { Option<$crate::proto::value!($($kind)+)> };
    (repeated $($kind:tt)+) => { Vec<$crate::proto::value!($($kind)+)> };
    (required $($kind:tt)+) => { $crate::proto::value!($($kind)+) };
}

/// Names the Rust type of a field's value.
macro_rules! value {
    (message $of:ty) => { $of };
    (string) => { String };
    (bytes) => { Vec<u8> };
    (bool) => { bool };
    (float) => { f32 };
    (uint32) => { u32 };
    (uint64) => { u64 };
    (int32) => { i32 };
    (sint32) => { i32 };
    (enumeration) => { i32 };
    (int64) => { i64 };
}

/// Declares enumerations, which messages carry as `i32`: a value that a later Hadoop adds is kept. They are
/// `#[non_exhaustive]`, because Hadoop adds variants in minor releases.
macro_rules! enumerations {
    ($($(#[$about:meta])* pub enum $name:ident { $($variants:tt)* })*) => {$(
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
        #[repr(i32)]
        #[non_exhaustive]
        pub enum $name { $($variants)* }
    )*};
}

pub(crate) use {enumerations, field, messages, value};
