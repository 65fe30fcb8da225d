//! Java's serialised objects, as far as a reader needs them that knows what it is looking for: classes,
//! objects with their fields and what their classes write besides, texts, lists, numbers. No class is loaded
//! and nothing runs; nesting is bounded, and so is what is kept, as a byte can spell what takes dozens here.

use super::LogError;
use super::cursor::{Cursor, modified_utf8};
use std::sync::Arc;

/// Objects inside objects, and classes above classes.
const DEPTH_MAX: usize = 64;
/// Superclasses of one class.
const CHAIN_MAX: usize = 16;
/// Bytes that are kept at most, as they are counted: lists that grow may have room for twice of that.
pub(super) const KEPT_MAX: usize = 20 << 20;
const MAGIC: u16 = 0xaced;
const VERSION: u16 = 5;
const WRITE_METHOD: u8 = 1;
const SERIALIZABLE: u8 = 2;
const EXTERNALIZABLE: u8 = 4;
const BLOCK_DATA: u8 = 8;

/// A value: a number of any width, nothing, or a place among the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Null,
    Number(i64),
    Node(usize),
}

#[derive(Debug)]
enum Node {
    Text(Arc<str>),
    Object {
        class: usize,
        fields: Vec<Value>,
        extra: Vec<Value>,
    },
    /// Arrays, enums, classes: nobody asks for them.
    Other,
}

#[derive(Debug)]
struct Class {
    name: Arc<str>,
    flags: u8,
    /// Type and name.
    fields: Vec<(u8, Arc<str>)>,
    parent: Option<usize>,
}

/// The object or class that a later reference in the stream means.
#[derive(Debug, Clone, Copy)]
enum Handle {
    Class(usize),
    Node(usize),
}

/// All objects of a stream.
#[derive(Debug, Default)]
pub(super) struct Objects {
    classes: Vec<Class>,
    nodes: Vec<Node>,
}

impl Objects {
    /// The stream's first object, and all that hangs on it.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, Value), LogError> {
        let mut reader = Reader {
            input: Cursor::new(bytes),
            objects: Self::default(),
            handles: Vec::new(),
            depth: 0,
            kept: 0,
        };
        if (reader.input.u16()?, reader.input.u16()?) != (MAGIC, VERSION) {
            return Err(wrong("it is no stream of Java's objects"));
        }
        let first = reader.content()?.ok_or(wrong("it has no object"))?;
        Ok((reader.objects, first))
    }

    pub(super) fn text(&self, value: Value) -> Option<&Arc<str>> {
        match value {
            Value::Node(at) => match self.nodes.get(at)? {
                Node::Text(text) => Some(text),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn class(&self, value: Value) -> Option<&str> {
        match value {
            Value::Node(at) => match self.nodes.get(at)? {
                Node::Object { class, .. } => self.classes.get(*class).map(|class| &*class.name),
                _ => None,
            },
            _ => None,
        }
    }

    /// A field of an object, of its class or one above.
    pub(super) fn field(&self, value: Value, name: &str) -> Option<Value> {
        let Value::Node(at) = value else { return None };
        let Node::Object { class, fields, .. } = self.nodes.get(at)? else { return None };
        let names = self.chain(*class).into_iter().filter_map(|class| self.classes.get(class));
        let names = names.flat_map(|class| &class.fields);
        names.zip(fields).find(|((_, field), _)| &**field == name).map(|(_, value)| *value)
    }

    /// Returns what an object's class writes besides its fields: the elements of a list, or the keys and values of a
    /// map in turn. Empty for any other value.
    pub(super) fn extra(&self, value: Value) -> &[Value] {
        match value {
            Value::Node(at) => match self.nodes.get(at) {
                Some(Node::Object { extra, .. }) => extra,
                _ => &[],
            },
            _ => &[],
        }
    }

    /// A class and those above it, the highest first: so are their objects written.
    fn chain(&self, class: usize) -> Vec<usize> {
        let mut chain = vec![class];
        let parent = |class: usize| self.classes.get(class).and_then(|class| class.parent);
        let mut next = parent(class);
        while let Some(class) = next.filter(|_| chain.len() <= CHAIN_MAX) {
            chain.push(class);
            next = parent(class);
        }
        chain.reverse();
        chain
    }
}

fn wrong(what: &'static str) -> LogError {
    LogError::Malformed(what)
}

struct Reader<'a> {
    input: Cursor<'a>,
    objects: Objects,
    handles: Vec<Handle>,
    depth: usize,
    /// Bytes that are kept so far.
    kept: usize,
}

impl Reader<'_> {
    fn deeper<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, LogError>,
    ) -> Result<T, LogError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(wrong("its objects are nested too deeply"));
        }
        let result = work(self);
        self.depth -= 1;
        result
    }

    /// Counts what is about to be kept.
    fn keep<T>(&mut self, besides: usize) -> Result<(), LogError> {
        self.kept = self.kept.saturating_add(size_of::<T>()).saturating_add(besides);
        if self.kept > KEPT_MAX {
            let (bytes, max) = (self.kept as u64, KEPT_MAX as u64);
            return Err(LogError::TooLarge { what: "content of an index of logs", bytes, max });
        }
        Ok(())
    }

    /// Keeps a node that later references can mean.
    fn named(&mut self, node: Node) -> Result<usize, LogError> {
        self.keep::<(Node, Handle)>(0)?;
        let at = self.objects.nodes.len();
        self.objects.nodes.push(node);
        self.handles.push(Handle::Node(at));
        Ok(at)
    }

    fn reference(&mut self) -> Result<Handle, LogError> {
        const FIRST: i32 = 0x7e_0000;
        let at = self.input.i32()?.checked_sub(FIRST).and_then(|at| usize::try_from(at).ok());
        let handle = at.and_then(|at| self.handles.get(at)).copied();
        handle.ok_or(wrong("a reference leads nowhere"))
    }

    /// The next thing of the stream; `None` for bytes that a class writes for itself, and for an end.
    fn content(&mut self) -> Result<Option<Value>, LogError> {
        let tag = self.input.u8()?;
        self.tagged(tag)
    }

    fn tagged(&mut self, tag: u8) -> Result<Option<Value>, LogError> {
        self.deeper(|reader| match tag {
            0x70 => Ok(Some(Value::Null)),
            0x71 => match reader.reference()? {
                Handle::Node(at) => Ok(Some(Value::Node(at))),
                Handle::Class(_) => Ok(Some(Value::Null)),
            },
            0x72 | 0x7d => {
                reader.class(tag)?;
                Ok(Some(Value::Null))
            }
            0x73 => Ok(Some(Value::Node(reader.object()?))),
            0x74 | 0x7c => Ok(Some(Value::Node(reader.text(tag)?))),
            0x75 => Ok(Some(Value::Node(reader.array()?))),
            0x76 => {
                reader.class_or_none()?;
                Ok(Some(Value::Node(reader.named(Node::Other)?)))
            }
            0x77 => {
                let length = reader.input.u8()?;
                reader.input.take(usize::from(length))?;
                Ok(None)
            }
            0x7a => {
                let length = reader.input.count()?;
                reader.input.take(length)?;
                Ok(None)
            }
            0x7e => {
                reader.class_or_none()?;
                let at = reader.named(Node::Other)?;
                let name = reader.content()?;
                name.filter(|name| reader.objects.text(*name).is_some())
                    .ok_or(wrong("an enum has no name"))?;
                Ok(Some(Value::Node(at)))
            }
            _ => Err(wrong("it holds something that no list of logs does")),
        })
    }

    fn text(&mut self, tag: u8) -> Result<usize, LogError> {
        let text = match tag {
            0x74 => self.input.utf()?,
            _ => {
                let length = usize::try_from(self.input.i64()?);
                let length = length.map_err(|_| wrong("a length is negative"))?;
                modified_utf8(self.input.take(length)?)?
            }
        };
        // With the two counts beside it.
        self.keep::<[usize; 2]>(text.len())?;
        self.named(Node::Text(text.into()))
    }

    fn class_or_none(&mut self) -> Result<Option<usize>, LogError> {
        match self.input.u8()? {
            0x70 => Ok(None),
            0x71 => match self.reference()? {
                Handle::Class(at) => Ok(Some(at)),
                Handle::Node(_) => Err(wrong("a reference leads to no class")),
            },
            tag @ (0x72 | 0x7d) => self.deeper(|reader| reader.class(tag)).map(Some),
            _ => Err(wrong("it has no class where one is needed")),
        }
    }

    fn class(&mut self, tag: u8) -> Result<usize, LogError> {
        let at = self.objects.classes.len();
        let mut class = Class { name: Arc::from(""), flags: 0, fields: Vec::new(), parent: None };
        if tag == 0x7d {
            // A proxy: the names of its interfaces.
            self.keep::<(Class, Handle)>(0)?;
            self.handles.push(Handle::Class(at));
            self.objects.classes.push(class);
            for _ in 0..self.input.count()? {
                self.input.utf()?;
            }
        } else {
            class.name = self.input.utf()?.into();
            self.keep::<(Class, Handle)>(class.name.len())?;
            self.input.i64()?;
            self.handles.push(Handle::Class(at));
            class.flags = self.input.u8()?;
            // Fields of it may refer to it: it has its place before they are read.
            self.objects.classes.push(class);
            let fields = self.fields()?;
            if let Some(class) = self.objects.classes.get_mut(at) {
                class.fields = fields;
            }
        }
        self.extra()?;
        let parent = self.class_or_none()?;
        if parent.is_some_and(|parent| self.objects.chain(parent).len() > CHAIN_MAX) {
            return Err(wrong("a class has too many above it"));
        }
        if let Some(class) = self.objects.classes.get_mut(at) {
            class.parent = parent.filter(|parent| *parent != at);
        }
        Ok(at)
    }

    fn fields(&mut self) -> Result<Vec<(u8, Arc<str>)>, LogError> {
        let count = self.input.u16()?;
        let mut fields = Vec::new();
        for _ in 0..count {
            let (kind, name) = (self.input.u8()?, self.input.utf()?);
            if matches!(kind, b'L' | b'[') {
                let name = self.content()?;
                name.filter(|name| self.objects.text(*name).is_some())
                    .ok_or(wrong("a field has no type"))?;
            }
            // With the two counts beside the name.
            self.keep::<(u8, Arc<str>, [usize; 2])>(name.len())?;
            fields.push((kind, name.into()));
        }
        Ok(fields)
    }

    /// Reads what a class writes besides its fields, including the mark of its end.
    fn extra(&mut self) -> Result<Vec<Value>, LogError> {
        let mut extra = Vec::new();
        loop {
            match self.input.u8()? {
                0x78 => return Ok(extra),
                tag => {
                    let value = self.tagged(tag)?;
                    if value.is_some() {
                        self.keep::<Value>(0)?;
                    }
                    extra.extend(value);
                }
            }
        }
    }

    fn object(&mut self) -> Result<usize, LogError> {
        let class = self.class_or_none()?.ok_or(wrong("an object has no class"))?;
        let at = self.named(Node::Object { class, fields: Vec::new(), extra: Vec::new() })?;
        let (mut all, mut besides) = (Vec::new(), Vec::new());
        for class in self.objects.chain(class) {
            let Some(known) = self.objects.classes.get(class) else { continue };
            let (flags, count) = (known.flags, known.fields.len());
            if flags & SERIALIZABLE != 0 {
                for field in 0..count {
                    let known = self.objects.classes.get(class);
                    let kind = known.and_then(|known| known.fields.get(field)).map(|field| field.0);
                    self.keep::<Value>(0)?;
                    all.push(self.field(kind.unwrap_or_default())?);
                }
                if flags & WRITE_METHOD != 0 {
                    besides.extend(self.extra()?);
                }
            } else if flags & EXTERNALIZABLE != 0 && flags & BLOCK_DATA != 0 {
                besides.extend(self.extra()?);
            } else if flags & EXTERNALIZABLE != 0 {
                return Err(wrong("an object writes itself in its own way"));
            }
        }
        if let Some(node) = self.objects.nodes.get_mut(at) {
            *node = Node::Object { class, fields: all, extra: besides };
        }
        Ok(at)
    }

    fn field(&mut self, kind: u8) -> Result<Value, LogError> {
        let number = |bytes: &[u8]| bytes.iter().fold(0, |all, byte| (all << 8) | i64::from(*byte));
        Ok(match kind {
            b'I' => Value::Number(i64::from(self.input.i32()?)),
            b'J' => Value::Number(self.input.i64()?),
            b'B' | b'Z' => Value::Number(number(self.input.take(1)?)),
            b'C' | b'S' => Value::Number(number(self.input.take(2)?)),
            b'F' => Value::Number(number(self.input.take(4)?)),
            b'D' => Value::Number(number(self.input.take(8)?)),
            b'L' | b'[' => self.content()?.ok_or(wrong("a field has no value"))?,
            _ => return Err(wrong("a field is of no type")),
        })
    }

    fn array(&mut self) -> Result<usize, LogError> {
        let class = self.class_or_none()?.ok_or(wrong("an array has no class"))?;
        let kind = self.objects.classes.get(class).and_then(|class| class.name.bytes().nth(1));
        let kind = kind.ok_or(wrong("an array is of no type"))?;
        let at = self.named(Node::Other)?;
        for _ in 0..self.input.count()? {
            self.field(kind)?;
        }
        Ok(at)
    }
}
