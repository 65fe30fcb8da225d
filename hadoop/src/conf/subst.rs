//! `${…}`: references to other properties, to the process's own properties and to the environment. Only
//! texts are worked on here; nothing is looked up but through [`Lookup`].

/// Replacements in one value. Hadoop's bound.
const STEPS_MAX: usize = 20;
/// Characters of an expanded value: twenty steps can double it twenty times.
const LENGTH_MAX: usize = 1 << 20;

/// Resolves the references in a value.
pub(crate) trait Lookup {
    /// Returns a property with its references unresolved; `None` if it is not set.
    fn property(&self, name: &str) -> Option<String>;
    /// Returns the value of an environment variable; `None` if it is not set.
    fn variable(&self, name: &str) -> Option<String>;
}

/// The value with its references replaced, the innermost first; those that lead nowhere stay as they are.
/// `None` when it never stops expanding.
pub(crate) fn expand(value: &str, lookup: &dyn Lookup) -> Option<String> {
    let mut value = value.to_owned();
    // What comes before this holds only references that lead nowhere.
    let mut from = 0;
    let mut steps = 0;
    while let Some((start, end)) = next_reference(&value, from) {
        let Some(inner) = value.get(start + 2..end) else { break };
        let Some(found) = resolve(inner, lookup) else {
            // The rest is still looked at: Hadoop gives up on the whole value here, which leaves
            // `${user.name}` unexpanded only because another reference is unknown.
            from = end + 1;
            continue;
        };
        steps += 1;
        if steps > STEPS_MAX || value.len() + found.len() > LENGTH_MAX {
            return None;
        }
        value.replace_range(start..=end, &found);
        // The replacement may complete a reference that began earlier.
        from = 0;
    }
    Some(value)
}

/// The next `${name}` at or after `from` that holds no other reference: its start and the place of its `}`.
fn next_reference(value: &str, from: usize) -> Option<(usize, usize)> {
    let mut start = None;
    let bytes = value.as_bytes();
    let mut at = from;
    while let Some(byte) = bytes.get(at) {
        match (byte, start) {
            (b'$', _) if bytes.get(at + 1) == Some(&b'{') => {
                start = Some(at);
                at += 1;
            }
            // Hadoop takes neither a blank nor a dollar into a name.
            (b' ' | b'$', Some(_)) => start = None,
            (b'}', Some(begin)) if at > begin + 2 => return Some((begin, at)),
            (b'}', Some(_)) => start = None,
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the value of a reference: `name`, `env.NAME`, `env.NAME-default` (if unset) or `env.NAME:-default` (if unset
/// or empty). `None` if it leads nowhere.
fn resolve(inner: &str, lookup: &dyn Lookup) -> Option<String> {
    let Some(variable) = inner.strip_prefix("env.") else { return lookup.property(inner) };
    match variable.find('-') {
        None => lookup.variable(variable),
        Some(dash) => {
            let (name, default) = (variable.get(..dash)?, variable.get(dash + 1..)?);
            match name.strip_suffix(':') {
                Some(name) => {
                    let set = lookup.variable(name).filter(|value| !value.is_empty());
                    Some(set.unwrap_or_else(|| default.to_owned()))
                }
                None => Some(lookup.variable(name).unwrap_or_else(|| default.to_owned())),
            }
        }
    }
}
