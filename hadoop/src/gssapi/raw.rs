//! The calls into the C library: types, functions and the handles that own what the library allocates. This
//! is the only module with `unsafe`; nothing here decides anything about protocols.
#![expect(unsafe_code, reason = "the library is C")]

mod cache;

use super::{CredentialSource, GssContext, GssError, GssTarget, Inner, Opened};
use cache::MemoryCache;
use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::{self, null_mut};
use std::sync::Arc;
use std::time::Duration;

type Handle = *mut c_void;

/// `gss_OID_desc` of the C library.
#[repr(C)]
struct Oid {
    length: u32,
    elements: *const u8,
}
// SAFETY: the pointers below lead to constants that live as long as the program and never change.
unsafe impl Sync for Oid {}

const fn oid(bytes: &'static [u8]) -> Oid {
    // The lengths below are 9 to 10.
    #[expect(clippy::cast_possible_truncation, reason = "constants of ten bytes at most")]
    let length = bytes.len() as u32;
    Oid { length, elements: bytes.as_ptr() }
}

/// Kerberos 5: 1.2.840.113554.1.2.2.
static KRB5: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02");
/// Names spelled `service@host`: 1.2.840.113554.1.2.1.4.
static NAME_SERVICE: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04");
/// A principal as Kerberos spells it: 1.2.840.113554.1.2.2.1.
static NAME_PRINCIPAL: Oid = oid(b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01");

/// `gss_buffer_desc` of the C library.
#[repr(C)]
struct Buffer {
    length: usize,
    value: *mut c_void,
}

impl Buffer {
    const fn empty() -> Self {
        Self { length: 0, value: null_mut() }
    }

    /// A buffer that the library only reads. It must not outlive `bytes`.
    fn of(bytes: &[u8]) -> Self {
        Self { length: bytes.len(), value: bytes.as_ptr().cast_mut().cast() }
    }
}

/// `gss_key_value_element_desc` of the C library.
#[repr(C)]
struct Element {
    key: *const c_char,
    value: *const c_char,
}

/// `gss_key_value_set_desc` of the C library.
#[repr(C)]
struct Elements {
    count: u32,
    elements: *const Element,
}

const COMPLETE: u32 = 0;
const CONTINUE_NEEDED: u32 = 1;
/// The bits of a major status that mean failure; the others only inform.
const FAILED: u32 = 0xffff_0000;
/// Bits that inform of messages repeated, old, out of order, missing.
const DUPLICATE_TO_GAP: u32 = 0b1_1110;
const FLAG_MUTUAL: u32 = 2;
const FLAG_REPLAY: u32 = 4;
const FLAG_SEQUENCE: u32 = 8;
const FLAG_CONF: u32 = 16;
const FLAG_INTEG: u32 = 32;
const USAGE_INITIATE: c_int = 1;
const FOREVER: u32 = u32::MAX;
/// Kinds of status for texts.
const STATUS_GSS: c_int = 1;
const STATUS_MECHANISM: c_int = 2;
/// Texts of one status at most.
const TEXTS_MAX: usize = 8;

/// Returns the loader's error as text, followed by its cause, which `libloading` keeps apart.
fn told(name: &str, error: &libloading::Error) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{name}: {error}: {cause}"),
        None => format!("{name}: {error}"),
    }
}

/// Declares the table of functions and how it is filled.
macro_rules! functions {
    ($($(#[$when:meta])* $name:ident: fn($($arg:ty),*);)*) => {
        /// The library and its functions, which stay valid as long as it is loaded.
        pub(super) struct Functions {
            // SAFETY: a type only; each call says why it holds.
            $($(#[$when])* $name: unsafe extern "C" fn($($arg),*) -> u32,)*
            /// The functions of Kerberos itself for ticket caches in memory.
            caches: cache::Functions,
            /// Last, so that it goes last.
            _library: libloading::Library,
        }

        impl Functions {
            pub(super) fn load(name: &str) -> Result<Self, String> {
                // SAFETY: the initialisers of a GSSAPI library only set up its own tables.
                let library = unsafe { libloading::Library::new(name) }.map_err(|e| told(name, &e))?;
                $(
                    // SAFETY: the type is that of this function in RFC 2744 and MIT's gssapi_ext.h.
                    $(#[$when])*
                    let $name = unsafe {
                        library.get::<unsafe extern "C" fn($($arg),*) -> u32>(stringify!($name))
                    };
                    $(#[$when])*
                    let $name = *$name.map_err(|e| told(name, &e))?;
                )*
                let caches = cache::Functions::of(&library)?;
                Ok(Self { $($(#[$when])* $name,)* caches, _library: library })
            }
        }
    };
}

functions! {
    gss_import_name: fn(*mut u32, *const Buffer, *const Oid, *mut Handle);
    gss_release_name: fn(*mut u32, *mut Handle);
    gss_display_name: fn(*mut u32, Handle, *mut Buffer, *mut *const Oid);
    gss_acquire_cred_from: fn(*mut u32, Handle, u32, *const c_void, c_int, *const Elements, *mut Handle, *mut Handle, *mut u32);
    gss_inquire_cred: fn(*mut u32, Handle, *mut Handle, *mut u32, *mut c_int, *mut Handle);
    gss_release_cred: fn(*mut u32, *mut Handle);
    gss_init_sec_context: fn(*mut u32, Handle, *mut Handle, Handle, *const Oid, u32, u32, *const c_void, *const Buffer, *mut *const Oid, *mut Buffer, *mut u32, *mut u32);
    #[cfg(test)]
    gss_accept_sec_context: fn(*mut u32, *mut Handle, Handle, *const Buffer, *const c_void, *mut Handle, *mut *const Oid, *mut Buffer, *mut u32, *mut u32, *mut Handle);
    gss_delete_sec_context: fn(*mut u32, *mut Handle, *mut Buffer);
    gss_wrap: fn(*mut u32, Handle, c_int, u32, *const Buffer, *mut c_int, *mut Buffer);
    gss_unwrap: fn(*mut u32, Handle, *const Buffer, *mut Buffer, *mut c_int, *mut u32);
    gss_wrap_size_limit: fn(*mut u32, Handle, c_int, u32, u32, *mut u32);
    gss_release_buffer: fn(*mut u32, *mut Buffer);
    gss_display_status: fn(*mut u32, u32, c_int, *const Oid, *mut u32, *mut Buffer);
}

impl Functions {
    /// Copies what the library allocated, and frees it.
    fn take(&self, buffer: &mut Buffer) -> Vec<u8> {
        let mut bytes = Vec::new();
        if !buffer.value.is_null() {
            // SAFETY: the library filled the buffer: `value` leads to `length` bytes until it is released.
            let held =
                unsafe { std::slice::from_raw_parts(buffer.value.cast::<u8>(), buffer.length) };
            bytes.extend_from_slice(held);
            // SAFETY: the buffer is the library's own and is not used again.
            unsafe { (self.gss_release_buffer)(&mut 0, buffer) };
        }
        bytes
    }

    /// Returns the library's words for a status, at most [`TEXTS_MAX`] texts.
    fn texts(&self, status: u32, kind: c_int) -> Vec<String> {
        let (mut texts, mut more) = (Vec::new(), 0);
        for _ in 0..TEXTS_MAX {
            let mut buffer = Buffer::empty();
            // SAFETY: every pointer leads to a live value of its type.
            let major = unsafe {
                (self.gss_display_status)(
                    &mut 0,
                    status,
                    kind,
                    &raw const KRB5,
                    &mut more,
                    &mut buffer,
                )
            };
            let text = self.take(&mut buffer);
            if major & FAILED != 0 {
                break;
            }
            texts.push(String::from_utf8_lossy(&text).into_owned());
            if more == 0 {
                break;
            }
        }
        texts
    }

    fn check(&self, call: &'static str, major: u32, minor: u32) -> Result<(), GssError> {
        if major & FAILED == 0 {
            return Ok(());
        }
        let mut texts = self.texts(major, STATUS_GSS);
        if minor != 0 {
            texts.extend(self.texts(minor, STATUS_MECHANISM));
        }
        Err(GssError::Refused { call, reason: texts.join(": ") })
    }
}

/// A name that the library owns.
struct Name {
    functions: Arc<Functions>,
    handle: Handle,
}

impl Name {
    fn import(
        functions: &Arc<Functions>,
        name: &str,
        kind: &'static Oid,
    ) -> Result<Self, GssError> {
        if name.contains('\0') {
            return Err(GssError::Name);
        }
        let (mut minor, mut handle) = (0, null_mut());
        let text = Buffer::of(name.as_bytes());
        // SAFETY: `text` leads to the bytes of `name`, which live past the call; the rest are live values.
        let major =
            unsafe { (functions.gss_import_name)(&mut minor, &raw const text, kind, &mut handle) };
        let name = Self { functions: Arc::clone(functions), handle };
        functions.check("the name of a principal", major, minor)?;
        Ok(name)
    }

    fn text(&self) -> Result<String, GssError> {
        let (mut minor, mut buffer, mut kind) = (0, Buffer::empty(), ptr::null());
        // SAFETY: the handle is a name until it is dropped; the rest are live values.
        let major = unsafe {
            (self.functions.gss_display_name)(&mut minor, self.handle, &mut buffer, &mut kind)
        };
        let text = self.functions.take(&mut buffer);
        self.functions.check("the name of a credential", major, minor)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is this value's own and is not used again.
            unsafe { (self.functions.gss_release_name)(&mut 0, &mut self.handle) };
        }
    }
}

/// A credential that the library owns.
pub(super) struct Credential {
    functions: Arc<Functions>,
    handle: Handle,
    /// The cache in memory that holds a keytab's tickets; `None` for a credential from a ticket cache.
    cache: Option<MemoryCache>,
}
// SAFETY: MIT's library guards credentials by locks of its own and ties none to a thread.
unsafe impl Send for Credential {}
// SAFETY: as above; several contexts may use one credential at the same time.
unsafe impl Sync for Credential {}

impl Credential {
    pub(super) fn acquire(
        functions: &Arc<Functions>,
        source: &CredentialSource,
    ) -> Result<Self, GssError> {
        let text = |text: &str| CString::new(text).map_err(|_| GssError::Name);
        let mut pairs = Vec::new();
        let (mut name, mut cache) = (None, None);
        match source {
            CredentialSource::TicketCache(None) => {}
            CredentialSource::TicketCache(Some(from)) => pairs.push((c"ccache", text(from)?)),
            CredentialSource::Keytab { principal, keytab } => {
                // Each login has a cache of its own: two users, or two logins of one, never mix.
                let own = cache.insert(MemoryCache::new(functions));
                let keytab = keytab.to_str().ok_or(GssError::Name)?;
                pairs.push((c"client_keytab", text(&format!("FILE:{keytab}"))?));
                pairs.push((c"ccache", own.name().to_owned()));
                name = Some(Name::import(functions, principal, &NAME_PRINCIPAL)?);
            }
        }
        let elements: Vec<Element> = pairs
            .iter()
            .map(|(key, value)| Element { key: key.as_ptr(), value: value.as_ptr() })
            .collect();
        let count = u32::try_from(elements.len()).unwrap_or(0);
        let store = Elements { count, elements: elements.as_ptr() };
        let store = if count == 0 { ptr::null() } else { &raw const store };
        let wanted = name.as_ref().map_or(null_mut(), |name| name.handle);
        let (mut minor, mut handle) = (0, null_mut());
        // SAFETY: names, texts and elements live past the call; null stands for defaults where it is passed.
        let major = unsafe {
            (functions.gss_acquire_cred_from)(
                &mut minor,
                wanted,
                FOREVER,
                ptr::null(),
                USAGE_INITIATE,
                store,
                &mut handle,
                null_mut(),
                null_mut(),
            )
        };
        let credential = Self { functions: Arc::clone(functions), handle, cache };
        functions.check("Kerberos credentials", major, minor)?;
        Ok(credential)
    }

    /// Returns the name of the cache in memory that holds a keytab's tickets.
    #[cfg(test)]
    pub(super) fn cache(&self) -> Option<String> {
        Some(self.cache.as_ref()?.name().to_str().unwrap().to_owned())
    }

    /// The principal and how long its tickets last. This is where tickets for a keytab are fetched.
    pub(super) fn inquire(&self) -> Result<(String, Option<Duration>), GssError> {
        let (mut minor, mut handle, mut lifetime) = (0, null_mut(), 0);
        // SAFETY: the handle is a credential until it is dropped; null means that an answer is not wanted.
        let major = unsafe {
            (self.functions.gss_inquire_cred)(
                &mut minor,
                self.handle,
                &mut handle,
                &mut lifetime,
                null_mut(),
                null_mut(),
            )
        };
        let name = Name { functions: Arc::clone(&self.functions), handle };
        self.functions.check("Kerberos tickets", major, minor)?;
        let lifetime = (lifetime != FOREVER).then(|| Duration::from_secs(u64::from(lifetime)));
        Ok((name.text()?, lifetime))
    }
}

impl Drop for Credential {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is this value's own and is not used again.
            unsafe { (self.functions.gss_release_cred)(&mut 0, &mut self.handle) };
        }
        // Not before: the credential had it open.
        drop(self.cache.take());
    }
}

/// The side of the exchange that a context stands for.
enum Role {
    /// With the credential and the server's name, which the library reads at every step.
    Initiator(Arc<Inner>, Name),
    /// For tests against a real KDC: the keytab is the process's.
    #[cfg(test)]
    Acceptor,
}

/// A context that the library owns.
pub(super) struct Context {
    functions: Arc<Functions>,
    handle: Handle,
    role: Role,
}
// SAFETY: a context is used by one thread at a time, as `&mut self` has it, and MIT's library ties none to the
// thread that made it; the same holds for the name that it keeps.
unsafe impl Send for Context {}

impl Context {
    pub(super) fn new(credential: Arc<Inner>, target: &GssTarget) -> Result<Self, GssError> {
        let functions = Arc::clone(&credential.raw.functions);
        let name = match target {
            GssTarget::Principal(name) => Name::import(&functions, name, &NAME_PRINCIPAL)?,
            GssTarget::Service { service, host } => {
                Name::import(&functions, &format!("{service}@{host}"), &NAME_SERVICE)?
            }
        };
        Ok(Self { functions, handle: null_mut(), role: Role::Initiator(credential, name) })
    }

    #[cfg(test)]
    pub(super) fn acceptor(library: &super::Library) -> Self {
        Self { functions: Arc::clone(&library.0), handle: null_mut(), role: Role::Acceptor }
    }
}

impl GssContext for Context {
    fn step(&mut self, token: &[u8]) -> Result<(Vec<u8>, bool), GssError> {
        let functions = Arc::clone(&self.functions);
        let input = Buffer::of(token);
        let (mut minor, mut output, mut flags) = (0, Buffer::empty(), 0);
        let major = match &self.role {
            Role::Initiator(credential, name) => {
                let wanted = FLAG_MUTUAL | FLAG_REPLAY | FLAG_SEQUENCE | FLAG_CONF | FLAG_INTEG;
                // SAFETY: the handles are live or null as the call wants them; `input` leads to `token`.
                unsafe {
                    (functions.gss_init_sec_context)(
                        &mut minor,
                        credential.raw.handle,
                        &mut self.handle,
                        name.handle,
                        &raw const KRB5,
                        wanted,
                        0,
                        ptr::null(),
                        &raw const input,
                        null_mut(),
                        &mut output,
                        &mut flags,
                        null_mut(),
                    )
                }
            }
            #[cfg(test)]
            // SAFETY: as above; a null credential is the process's keytab.
            Role::Acceptor => unsafe {
                (functions.gss_accept_sec_context)(
                    &mut minor,
                    &mut self.handle,
                    null_mut(),
                    &raw const input,
                    ptr::null(),
                    null_mut(),
                    null_mut(),
                    &mut output,
                    &mut flags,
                    null_mut(),
                    null_mut(),
                )
            },
        };
        let token = functions.take(&mut output);
        functions.check("Kerberos authentication", major, minor)?;
        let complete = major & CONTINUE_NEEDED == COMPLETE;
        if complete && flags & FLAG_MUTUAL == 0 {
            return Err(GssError::NotMutual);
        }
        Ok((token, complete))
    }

    fn wrap(&mut self, encrypt: bool, plain: &[u8]) -> Result<Vec<u8>, GssError> {
        let input = Buffer::of(plain);
        let (mut minor, mut output, mut encrypted) = (0, Buffer::empty(), 0);
        // SAFETY: the handle is a context, or null, which the library refuses; `input` leads to `plain`.
        let major = unsafe {
            (self.functions.gss_wrap)(
                &mut minor,
                self.handle,
                c_int::from(encrypt),
                0,
                &raw const input,
                &mut encrypted,
                &mut output,
            )
        };
        let wrapped = self.functions.take(&mut output);
        self.functions.check("protecting a message", major, minor)?;
        if encrypt && encrypted == 0 {
            let reason = "this context cannot encrypt".to_owned();
            return Err(GssError::Refused { call: "protecting a message", reason });
        }
        Ok(wrapped)
    }

    fn unwrap(&mut self, wrapped: &[u8]) -> Result<Opened, GssError> {
        // MIT's library turns back in place what its peer has rotated: the memory must be ours.
        let mut own = wrapped.to_vec();
        let input = Buffer { length: own.len(), value: own.as_mut_ptr().cast() };
        let (mut minor, mut output, mut encrypted) = (0, Buffer::empty(), 0);
        // SAFETY: the handle is a context, or null, which the library refuses; `input` leads to `own`.
        let major = unsafe {
            (self.functions.gss_unwrap)(
                &mut minor,
                self.handle,
                &raw const input,
                &mut output,
                &mut encrypted,
                null_mut(),
            )
        };
        let plain = self.functions.take(&mut output);
        self.functions.check("checking a message", major, minor)?;
        if major & DUPLICATE_TO_GAP != 0 {
            let reason = "it was repeated or is out of order".to_owned();
            return Err(GssError::Refused { call: "checking a message", reason });
        }
        Ok(Opened { plain, encrypted: encrypted != 0 })
    }

    fn plain_max(&self, encrypt: bool, raw_max: u32) -> Result<usize, GssError> {
        let (mut minor, mut max) = (0, 0);
        // SAFETY: the handle is a context, or null, which the library refuses; the rest are live values.
        let major = unsafe {
            (self.functions.gss_wrap_size_limit)(
                &mut minor,
                self.handle,
                c_int::from(encrypt),
                0,
                raw_max,
                &mut max,
            )
        };
        self.functions.check("the bound of messages", major, minor)?;
        Ok(usize::try_from(max).unwrap_or(0))
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            // SAFETY: the handle is this value's own and is not used again; no last token is wanted.
            unsafe {
                (self.functions.gss_delete_sec_context)(&mut 0, &mut self.handle, null_mut())
            };
        }
    }
}
