//! Ticket caches in this process's memory. GSSAPI makes them by their names and never takes them away: they have to
//! be destroyed by the library beneath it. Nothing here reads what is in them.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Either `krb5_context` or `krb5_ccache`: pointers that only the library follows.
type Handle = *mut c_void;

// SAFETY: types only; each call says why it holds.
type InitContext = unsafe extern "C" fn(*mut Handle) -> i32;
type FreeContext = unsafe extern "C" fn(Handle);
type Resolve = unsafe extern "C" fn(Handle, *const c_char, *mut Handle) -> i32;
type Destroy = unsafe extern "C" fn(Handle, Handle) -> i32;

/// Functions of libkrb5, which MIT's GSSAPI library needs and so has loaded.
pub(super) struct Functions {
    init_context: InitContext,
    free_context: FreeContext,
    resolve: Resolve,
    destroy: Destroy,
}

impl Functions {
    /// They are valid as long as the library is loaded.
    pub(super) fn of(library: &libloading::Library) -> Result<Self, String> {
        let told = |error: libloading::Error| super::told("libkrb5", &error);
        // SAFETY: the type is that of this function in MIT's krb5.h.
        let init_context = unsafe { library.get::<InitContext>("krb5_init_context") };
        // SAFETY: as above.
        let free_context = unsafe { library.get::<FreeContext>("krb5_free_context") };
        // SAFETY: as above.
        let resolve = unsafe { library.get::<Resolve>("krb5_cc_resolve") };
        // SAFETY: as above.
        let destroy = unsafe { library.get::<Destroy>("krb5_cc_destroy") };
        Ok(Self {
            init_context: *init_context.map_err(told)?,
            free_context: *free_context.map_err(told)?,
            resolve: *resolve.map_err(told)?,
            destroy: *destroy.map_err(told)?,
        })
    }
}

/// A cache that nobody else names, which ends with this value. Whoever has it open must be gone by then.
pub(super) struct MemoryCache {
    functions: Arc<super::Functions>,
    name: CString,
}

impl MemoryCache {
    /// Each login has a cache of its own: two users, or two logins of one, never mix.
    pub(super) fn new(functions: &Arc<super::Functions>) -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("MEMORY:hadoop-{}-{number}", std::process::id());
        // Digits hold no zero byte.
        let name = CString::new(name).unwrap_or_default();
        Self { functions: Arc::clone(functions), name }
    }

    pub(super) fn name(&self) -> &CStr {
        &self.name
    }
}

impl Drop for MemoryCache {
    fn drop(&mut self) {
        let krb5 = &self.functions.caches;
        let (mut context, mut cache) = (null_mut(), null_mut());
        // SAFETY: `context` is a live value, filled where the call succeeds.
        if unsafe { (krb5.init_context)(&mut context) } != 0 {
            return;
        }
        // SAFETY: the context is live; the name ends with a zero byte and lives past the call.
        if unsafe { (krb5.resolve)(context, self.name.as_ptr(), &mut cache) } == 0 {
            // SAFETY: the cache was resolved just now in this context, and its handle is not used again. Nobody else
            // has it open: the credential was released before, and contexts hold the credential.
            unsafe { (krb5.destroy)(context, cache) };
        }
        // SAFETY: the context is this function's own and is not used again.
        unsafe { (krb5.free_context)(context) };
    }
}
