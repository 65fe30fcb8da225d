//! The structure of a type as text, and its fingerprint. Equal fingerprints mean that values are encoded alike.

use super::FlottType;
use sha2::{Digest, Sha256};
use std::any::TypeId;

/// Collects the structure of a type as text, from which [`fingerprint`] is made: `Order{id:u64,items:list<Item{name:string,}>,}`.
///
/// A label that is a primitive of its own, and is written as its colour and a text:
///
/// ```
/// use streaming::types::*;
///
/// #[derive(Debug, PartialEq)]
/// struct Label {
///     is_red: bool,
///     text: String,
/// }
///
/// impl FlottType for Label {
///     fn type_name() -> String {
///         "label".to_owned()
///     }
///     fn describe(schema: &mut Schema) {
///         schema.word("label");
///     }
///     fn encode(&self, out: &mut Vec<u8>) {
///         out.push(u8::from(self.is_red));
///         self.text.encode(out);
///     }
///     fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
///         let is_red = match input.byte()? {
///             colour @ (0 | 1) => colour == 1,
///             _ => return Err(CodecError::Invalid { what: "colour" }),
///         };
///         Ok(Self { is_red, text: input.text()?.to_owned() })
///     }
///     fn hash_key(&self, hasher: &mut KeyHasher) {
///         self.is_red.hash_key(hasher);
///         self.text.hash_key(hasher);
///     }
/// }
///
/// assert_eq!(Schema::of::<Vec<Label>>(), "list<label>");
/// let label = Label { is_red: true, text: "urgent".to_owned() };
/// assert_eq!(decode_one(&encode_one(&label)), Ok(label));
/// assert_eq!(decode_one::<Label>(&[2]), Err(CodecError::Invalid { what: "colour" }));
/// ```
#[derive(Debug, Default)]
pub struct Schema {
    text: String,
    /// Named types that are being described. Inside of its own description a type is written by its name only.
    open: Vec<TypeId>,
}

impl Schema {
    /// Returns the structure of type `T` as text, of which [`fingerprint`] is the hash.
    pub fn of<T: FlottType>() -> String {
        let mut schema = Self::default();
        T::describe(&mut schema);
        schema.text
    }

    /// Appends `word` to the text as it is: a primitive's name or punctuation.
    pub fn word(&mut self, word: &str) {
        self.text.push_str(word);
    }

    /// Appends a generic structure such as `map<string,u64>`: `name`, then between angle brackets what each function of `parts` appends,
    /// separated by commas.
    ///
    /// A list whose first value is the one that is used next:
    ///
    /// ```
    /// use std::collections::VecDeque;
    /// use streaming::types::*;
    ///
    /// #[derive(Debug, Clone, PartialEq, Eq)]
    /// struct Ring<T>(VecDeque<T>);
    ///
    /// impl<T: FlottType> FlottType for Ring<T> {
    ///     fn type_name() -> String {
    ///         format!("ring<{}>", T::type_name())
    ///     }
    ///     fn describe(schema: &mut Schema) {
    ///         schema.generic("ring", &[T::describe]);
    ///     }
    ///     fn encode(&self, out: &mut Vec<u8>) {
    ///         write_len(self.0.len(), out);
    ///         self.0.iter().for_each(|value| value.encode(out));
    ///     }
    ///     fn decode(input: &mut Reader<'_>) -> Result<Self, CodecError> {
    ///         input.nested(|input| {
    ///             let count = input.count()?;
    ///             (0..count).map(|_| T::decode(input)).collect::<Result<_, _>>().map(Self)
    ///         })
    ///     }
    ///     fn hash_key(&self, hasher: &mut KeyHasher) {
    ///         self.0.len().hash_key(hasher);
    ///         self.0.iter().for_each(|value| value.hash_key(hasher));
    ///     }
    /// }
    ///
    /// let ring = Ring(VecDeque::from([1_u8, 2, 3]));
    /// assert_eq!(decode_one::<Ring<u8>>(&encode_one(&ring)), Ok(ring));
    /// assert_eq!(Schema::of::<Ring<u8>>(), "ring<u8>");
    /// assert_ne!(fingerprint::<Ring<u8>>(), fingerprint::<Ring<i8>>());
    /// ```
    pub fn generic(&mut self, name: &str, parts: &[fn(&mut Schema)]) {
        self.word(name);
        self.word("<");
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                self.word(",");
            }
            part(self);
        }
        self.word(">");
    }

    /// Appends a named type: `name`, then in braces what `body` appends. If `T` is being described already, because it contains itself,
    /// appends only `name` and does not call `body`.
    pub fn named<T: 'static>(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.word(name);
        let id = TypeId::of::<T>();
        if self.open.contains(&id) {
            return;
        }
        self.open.push(id);
        self.word("{");
        body(self);
        self.word("}");
        self.open.pop();
    }

    /// Adds `name:` and the type of a field, then a comma.
    pub fn field<T: FlottType>(&mut self, name: &str) {
        self.word(name);
        self.word(":");
        T::describe(self);
        self.word(",");
    }
}

/// The most characters of a type's structure in a message, which go into every checkpoint's metadata.
const SHOWN_MAX: usize = 200;

/// Returns the structure of a type for messages: the text of [`Schema::of`], cut to its first 200 characters.
pub(crate) fn structure<T: FlottType>() -> String {
    shown(Schema::of::<T>())
}

fn shown(whole: String) -> String {
    match whole.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", whole.get(..end).unwrap_or_default()),
        None => whole,
    }
}

/// Returns the fingerprint of a type's structure: the first 8 bytes of the SHA-256 of [`Schema::of`], as 16 lower-case hex digits.
pub fn fingerprint<T: FlottType>() -> String {
    digest(&Schema::of::<T>())
}

fn digest(schema: &str) -> String {
    let digest = Sha256::digest(schema.as_bytes());
    digest.iter().take(8).map(|b| format!("{b:02x}")).collect()
}
