//! Hadoop's XML: properties in order, inclusions followed. It reads what it is given and opens files only
//! through the [`Includes`] that it is handed; documents with a DTD are refused, so no entity can expand.

use super::ConfError;
use std::path::{Path, PathBuf};

/// How many files may include each other.
const DEPTH_MAX: usize = 16;
/// Bytes of one resource.
pub(crate) const BYTES_MAX: usize = 16 << 20;
/// XML nodes of one resource.
const NODES_MAX: u32 = 1 << 20;

/// One `<property>` as a configuration resource declares it, before `${…}` are expanded. `Debug` shows its name, never its value, which may
/// be a password. Made by [`parse`]; `Configuration::add_xml` decides which of several counts.
#[derive(Clone, PartialEq, Eq)]
pub struct Declared {
    /// Name of the property, such as `dfs.nameservices`, as the resource spells it, without white space around it; never
    /// empty.
    pub name: String,
    /// The value as written, with references `${…}` unexpanded; `None` if the property has neither a `<value>` nor an
    /// attribute `value`.
    pub value: Option<String>,
    /// True if the property is marked `<final>`: later resources must not change it.
    pub is_final: bool,
    /// Name of the resource that declares the property, for messages: a file's path; of an included resource its own
    /// name.
    pub resource: String,
}

impl std::fmt::Debug for Declared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Declared")
            .field("name", &self.name)
            .field("is_final", &self.is_final)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

/// Opens the resources that a configuration includes by `<include href="…">`; [`parse`] calls it for each, also for those inside included
/// ones. Given by the caller of `Configuration::add_xml`; files of a configuration directory are read with [`FileIncludes`].
pub trait Includes {
    /// Returns the name and the text of the resource that `href` means inside the resource named `from`.
    ///
    /// # Errors
    /// Fails with any error if it cannot be read; the inclusion's fallback is taken then, or, if it has none, [`parse`]
    /// fails with the error.
    fn open(&mut self, from: &str, href: &str) -> Result<(String, String), ConfError>;
}

/// Opens included files of this machine, at most 16 MiB each; a relative path starts at the directory of the file that
/// includes. Blocks on the file system.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileIncludes;

impl Includes for FileIncludes {
    fn open(&mut self, from: &str, href: &str) -> Result<(String, String), ConfError> {
        let path = PathBuf::from(href.strip_prefix("file://").unwrap_or(href));
        let path = match Path::new(from).parent() {
            Some(folder) if path.is_relative() => folder.join(path),
            _ => path,
        };
        Ok((path.display().to_string(), read(&path)?))
    }
}

/// Opens nothing: an inclusion's fallback is taken, and an inclusion without one is an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoIncludes;

impl Includes for NoIncludes {
    fn open(&mut self, from: &str, href: &str) -> Result<(String, String), ConfError> {
        let reason = format!("includes {href}, and inclusion is off here");
        Err(ConfError::Xml { resource: from.to_owned(), reason })
    }
}

/// The text of a file that holds a configuration.
pub(crate) fn read(path: &Path) -> Result<String, ConfError> {
    use std::io::Read as _;
    let failed = |source| ConfError::Read { path: path.to_owned(), source };
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    let read = file.take(BYTES_MAX as u64 + 1).read_to_string(&mut text).map_err(failed)?;
    if read > BYTES_MAX {
        return Err(ConfError::TooLong { resource: path.display().to_string(), max: BYTES_MAX });
    }
    Ok(text)
}

/// Returns the properties that a configuration's XML text declares, in order, with those of included resources in their
/// place. `resource` names the text in errors; `includes` opens what it includes. Properties without a name and unknown
/// elements are skipped.
///
/// # Errors
/// Fails with [`ConfError::Xml`] for a text, included or not, that is no configuration, has a DTD or more than 1,048,576
/// XML nodes; [`ConfError::TooLong`] above 16 MiB with all inclusions; [`ConfError::Includes`] above 16 levels; the
/// error of an inclusion that cannot be opened and has no fallback.
pub fn parse(
    resource: &str,
    text: &str,
    includes: &mut dyn Includes,
) -> Result<Vec<Declared>, ConfError> {
    let mut reader = Reader { includes, declared: Vec::new(), bytes: 0 };
    reader.document(resource, text, 0)?;
    Ok(reader.declared)
}

struct Reader<'a> {
    includes: &'a mut dyn Includes,
    declared: Vec<Declared>,
    /// The number of bytes of all resources together, which is bounded so that inclusions cannot multiply.
    bytes: usize,
}

impl Reader<'_> {
    fn document(&mut self, resource: &str, text: &str, depth: usize) -> Result<(), ConfError> {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > BYTES_MAX {
            return Err(ConfError::TooLong { resource: resource.to_owned(), max: BYTES_MAX });
        }
        let wrong = |reason: String| ConfError::Xml { resource: resource.to_owned(), reason };
        let options = roxmltree::ParsingOptions {
            allow_dtd: false,
            nodes_limit: NODES_MAX,
            ..Default::default()
        };
        // The mark is legal before XML and common in files that came from elsewhere.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_start();
        let document = roxmltree::Document::parse_with_options(text, options)
            .map_err(|error| wrong(error.to_string()))?;
        let root = document.root_element();
        match root.tag_name().name() {
            "configuration" => self.configuration(resource, root, depth),
            "include" => self.include(resource, root, depth),
            other => Err(wrong(format!("the root is <{other}>, not <configuration>"))),
        }
    }

    fn configuration(
        &mut self,
        resource: &str,
        at: roxmltree::Node<'_, '_>,
        depth: usize,
    ) -> Result<(), ConfError> {
        // Nested <configuration> elements come from inclusion by other tools; a list of open ones instead
        // of recursion keeps the stack flat.
        let mut open = vec![at.children()];
        while let Some(children) = open.last_mut() {
            let Some(child) = children.next() else {
                open.pop();
                continue;
            };
            match child.tag_name().name() {
                "property" => self.property(resource, child),
                "configuration" | "fallback" => open.push(child.children()),
                "include" => self.include(resource, child, depth)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn property(&mut self, resource: &str, at: roxmltree::Node<'_, '_>) {
        // Trimmed in both spellings, so that what is written out has the names that were read.
        let mut name = at.attribute("name").map(|name| name.trim().to_owned());
        let mut value = at.attribute("value").map(str::to_owned);
        let mut is_final = at.attribute("final") == Some("true");
        for child in at.children().filter(roxmltree::Node::is_element) {
            match child.tag_name().name() {
                "name" => name = Some(text_of(child).trim().to_owned()),
                "value" => value = Some(text_of(child)),
                "final" => is_final = text_of(child).trim() == "true",
                _ => {}
            }
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            let resource = resource.to_owned();
            self.declared.push(Declared { name, value, is_final, resource });
        }
    }

    fn include(
        &mut self,
        resource: &str,
        at: roxmltree::Node<'_, '_>,
        depth: usize,
    ) -> Result<(), ConfError> {
        let Some(href) = at.attribute("href") else {
            let reason = "an inclusion without href".to_owned();
            return Err(ConfError::Xml { resource: resource.to_owned(), reason });
        };
        if depth >= DEPTH_MAX {
            return Err(ConfError::Includes { resource: href.to_owned(), max: DEPTH_MAX });
        }
        match self.includes.open(resource, href) {
            Ok((name, text)) => self.document(&name, &text, depth + 1),
            Err(error) => {
                let fallback = at.children().find(|child| child.tag_name().name() == "fallback");
                match fallback {
                    Some(fallback) => self.configuration(resource, fallback, depth + 1),
                    None => Err(error),
                }
            }
        }
    }
}

/// All text below an element; comments inside a value are no part of it.
fn text_of(at: roxmltree::Node<'_, '_>) -> String {
    at.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

/// The document that says the same as these (name, value, final) triples.
pub(crate) fn write<'a>(properties: impl Iterator<Item = (&'a str, String, bool)>) -> String {
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<configuration>\n");
    for (name, value, is_final) in properties {
        out.push_str("  <property><name>");
        escape(name, &mut out);
        out.push_str("</name><value>");
        escape(&value, &mut out);
        out.push_str("</value>");
        if is_final {
            out.push_str("<final>true</final>");
        }
        out.push_str("</property>\n");
    }
    out.push_str("</configuration>\n");
    out
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            // A bare carriage return would be read back as a line feed.
            '\r' => out.push_str("&#13;"),
            // Characters that XML cannot hold in any spelling.
            '\u{0}'..='\u{8}'
            | '\u{b}'
            | '\u{c}'
            | '\u{e}'..='\u{1f}'
            | '\u{fffe}'
            | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            c => out.push(c),
        }
    }
}
