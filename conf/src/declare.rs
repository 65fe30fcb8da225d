//! The types of an option, and the macro that declares options.
//!
//! A declaration is the only place where an option's key, type, default and documentation stand.

use crate::value::OptionValue;

/// Declares one option whose value has type `T`: key, default, check and description, all fixed at compile time.
/// Holds no value of a process: `Options::get` returns that.
#[derive(Debug)]
pub struct Opt<T: 'static> {
    pub(crate) key: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) default: fn() -> T,
    pub(crate) other_names: &'static [&'static str],
    pub(crate) falls_back: Option<&'static str>,
    pub(crate) complaint: fn(&T) -> Option<&'static str>,
    pub(crate) secret: bool,
}

impl<T> Opt<T> {
    /// Returns the option's own key in `flott.yaml`, such as `rest.port`; never one of its other accepted names.
    pub fn key(&self) -> &'static str {
        self.key
    }
}

/// Declares a family of options with values of type `T`, whose keys differ in a name that the user chooses, such as
/// `external-resource.<name>.amount`. `Options::get_family` returns the values that are set; there are no defaults.
#[derive(Debug)]
pub struct Family<T: 'static> {
    pub(crate) prefix: &'static str,
    pub(crate) suffix: &'static str,
    pub(crate) key: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) value: std::marker::PhantomData<fn() -> T>,
}

impl<T> Family<T> {
    /// Returns the name inside `key`, `None` if `key` does not belong to this family.
    pub(crate) fn name_in<'k>(&self, key: &'k str) -> Option<&'k str> {
        key.strip_prefix(self.prefix)?.strip_suffix(self.suffix).filter(|name| !name.is_empty())
    }
}

/// The properties of one declared option or family of options that do not depend on the type of its values. By them
/// keys and values of a configuration are checked, and the reference page `conf/REFERENCE.md` is written.
pub trait Declaration: Sync {
    /// Returns the option's own key in `flott.yaml`, such as `rest.port`; that of a family contains `<name>` in the
    /// place of the name that the user chooses.
    fn key(&self) -> &'static str;
    /// Returns the description of the option as it stands in `conf/REFERENCE.md`.
    fn doc(&self) -> &'static str;
    /// Returns the values that the type of the option takes, as a phrase that completes "it takes …". Bounds of the
    /// single option are not in it.
    fn kind(&self) -> String;
    /// Returns the default as text that the option would accept. `None` if the option has none and is "not set" then;
    /// always `None` for a family.
    fn default_text(&self) -> Option<String>;
    /// Returns the other keys that set this option as well as its own one: those of Flink or of older versions. Empty
    /// for most options and for every family.
    fn other_names(&self) -> &'static [&'static str];
    /// Returns the key of another option whose setting counts if this one is not set. `None` if this option's default
    /// counts then; always for a family.
    fn falls_back(&self) -> Option<&'static str>;
    /// Returns true if the option is declared as a secret, so that logs, REST and errors show `******` in the place
    /// of its value. False for every family; `Options::to_masked_map` masks its members by their names.
    fn is_secret(&self) -> bool;
    /// Checks `text` as a value of the option. Returns `None` if it is accepted, otherwise the values that the option
    /// takes instead, as a phrase that completes "it takes …".
    fn complaint(&self, text: &str) -> Option<String>;
    /// Returns the text in which the value `text` is kept if the option takes truth values or numbers, also if that is `text` itself.
    /// `None` for other types, and if `text` is no value: then it is kept as it is (see `OptionValue::normal`).
    fn normal(&self, text: &str) -> Option<String>;
    /// Returns true if `key` is this option's own key, or for a family a key with a name in the place of `<name>`.
    /// Other accepted names count as false.
    fn owns(&self, key: &str) -> bool {
        self.key() == key
    }
    /// Returns true for a family, whose declaration stands for many keys (`external-resource.<name>.amount`).
    fn is_family(&self) -> bool {
        false
    }
}

impl<T: OptionValue> Declaration for Opt<T> {
    fn key(&self) -> &'static str {
        self.key
    }
    fn doc(&self) -> &'static str {
        self.doc
    }
    fn kind(&self) -> String {
        T::kind()
    }
    fn default_text(&self) -> Option<String> {
        (self.default)().show()
    }
    fn other_names(&self) -> &'static [&'static str] {
        self.other_names
    }
    fn falls_back(&self) -> Option<&'static str> {
        self.falls_back
    }
    fn is_secret(&self) -> bool {
        self.secret
    }
    fn complaint(&self, text: &str) -> Option<String> {
        match T::parse(text) {
            None => Some(T::kind()),
            Some(value) => (self.complaint)(&value).map(str::to_owned),
        }
    }
    fn normal(&self, text: &str) -> Option<String> {
        T::normal(text)
    }
}

impl<T: OptionValue> Declaration for Family<T> {
    fn key(&self) -> &'static str {
        self.key
    }
    fn doc(&self) -> &'static str {
        self.doc
    }
    fn kind(&self) -> String {
        T::kind()
    }
    fn default_text(&self) -> Option<String> {
        None
    }
    fn other_names(&self) -> &'static [&'static str] {
        &[]
    }
    fn falls_back(&self) -> Option<&'static str> {
        None
    }
    fn is_secret(&self) -> bool {
        false
    }
    fn complaint(&self, text: &str) -> Option<String> {
        T::parse(text).is_none().then(T::kind)
    }
    fn normal(&self, text: &str) -> Option<String> {
        T::normal(text)
    }
    fn owns(&self, key: &str) -> bool {
        self.name_in(key).is_some()
    }
    fn is_family(&self) -> bool {
        true
    }
}

/// Complaints shared by declarations: what a value must be beyond its type.
pub(crate) mod must {
    use std::time::Duration;

    pub(crate) fn be_longer_than_zero(value: &Duration) -> Option<&'static str> {
        value.is_zero().then_some("a duration above zero")
    }
    pub(crate) fn be_longer_than_zero_if_set(value: &Option<Duration>) -> Option<&'static str> {
        value.is_some_and(|value| value.is_zero()).then_some("a duration above zero")
    }
    /// A relative path would mean another directory in each process.
    pub(crate) fn be_absolute_if_set(value: &Option<String>) -> Option<&'static str> {
        let is_absolute = |text: &String| text.starts_with('/') || text.contains(":/");
        value.as_ref().is_some_and(|text| !is_absolute(text)).then_some("an absolute path or a URI")
    }
    /// Flink counts `yarn.heartbeat.interval` in seconds; a bare number here is milliseconds.
    pub(crate) fn be_a_heartbeat(value: &Duration) -> Option<&'static str> {
        (*value < Duration::from_millis(100)).then_some("a duration from 100 ms, with its unit")
    }
    pub(crate) fn be_a_count(value: &Option<u32>) -> Option<&'static str> {
        (*value == Some(0)).then_some("a whole number from 1")
    }
    pub(crate) fn be_a_fraction(value: &f64) -> Option<&'static str> {
        (!(0.0..1.0).contains(value)).then_some("a fraction: from 0.0 to below 1.0")
    }
    pub(crate) fn be_a_share(value: &f64) -> Option<&'static str> {
        (!(0.0..=1.0).contains(value)).then_some("a number from 0.0 to 1.0")
    }
    pub(crate) fn be_at_least_one(value: &f64) -> Option<&'static str> {
        (*value < 1.0).then_some("a number from 1.0")
    }
    pub(crate) fn be_at_least_two(value: &u32) -> Option<&'static str> {
        (*value < 2).then_some("a whole number from 2")
    }
    pub(crate) fn be_a_log_size(value: &model::MemorySize) -> Option<&'static str> {
        (value.0 < 64 << 10).then_some("a size from 64 kb")
    }
    pub(crate) fn be_a_frame_size(value: &model::MemorySize) -> Option<&'static str> {
        (value.0 < 1 << 20).then_some("a size from 1 mb")
    }
    pub(crate) fn be_above_zero(value: &f64) -> Option<&'static str> {
        (*value <= 0.0).then_some("a number above 0.0")
    }
    pub(crate) fn be_a_job_id(value: &Option<String>) -> Option<&'static str> {
        let wrong = value.as_ref().is_some_and(|text| text.parse::<model::JobId>().is_err());
        wrong.then_some("32 hexadecimal digits")
    }
    pub(crate) fn be_cores(value: &Option<f64>) -> Option<&'static str> {
        value
            .is_some_and(|cores| !(0.001..=1_000_000.0).contains(&cores))
            .then_some("a number of cores above 0.0")
    }
}

/// Declares options as statics of their type, and `ALL` of the module's.
///
/// ```text
/// /// What it does, for the user.
/// NAME: Type = "key" => default, other ["old.key"], falls_back "other.option", must check, secret;
/// ```
/// The clauses stand in this order, each may be left out.
macro_rules! options {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $key:literal => $default:expr
       $(, other [$($other:literal),* $(,)?])?
       $(, falls_back $falls_back:literal)?
       $(, must $must:ident)?
       $(, secret $secret:literal)?;)*) => {
        $(
            $(#[doc = $doc])*
            #[doc = concat!("\n\n`", $key, "`")]
            pub static $name: $crate::Opt<$type> = $crate::Opt {
                key: $key,
                doc: concat!($($doc, "\n"),*),
                default: || $default,
                other_names: &[$($($other),*)?],
                falls_back: $crate::declare::first(&[$(Some($falls_back),)? None]),
                complaint: $crate::declare::first_check(&[$($crate::declare::must::$must,)? |_| None]),
                secret: $crate::declare::any(&[$($secret)?]),
            };
        )*
        pub(crate) static ALL: &[&dyn $crate::Declaration] = &[$(&$name),*];
    };
}
pub(crate) use options;

pub(crate) const fn first(of: &[Option<&'static str>]) -> Option<&'static str> {
    match of {
        [first, ..] => *first,
        [] => None,
    }
}
pub(crate) const fn any(of: &[bool]) -> bool {
    matches!(of, [true, ..])
}
/// The first of some checks.
pub(crate) const fn first_check<T>(
    of: &[fn(&T) -> Option<&'static str>],
) -> fn(&T) -> Option<&'static str> {
    match of {
        [first, ..] => *first,
        [] => |_| None,
    }
}
