//! Catches panics of user code, with their message and place. No panic may be swallowed: each becomes a `TaskError` or a text
//! that is reported.

use futures::{FutureExt, future::BoxFuture};
use model::shortened;
use std::{
    any::Any,
    cell::RefCell,
    future,
    panic::{self, AssertUnwindSafe, PanicHookInfo},
    sync::Once,
    task::{Context, Poll},
};

thread_local! {
    /// Source location of this thread's latest panic.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs user code and catches its panic. The first call in the process installs a panic hook, which records the place and calls the
/// previous hook, so that panics are still printed. An abort, such as that of a stack overflow, cannot be caught.
///
/// # Errors
/// Returns the panic's message and place, as `message (at file:line:column)`. A long message is cut, see [`model::shortened`]. For a panic
/// with a value that is not text, the message says so.
pub fn catch<T>(run: impl FnOnce() -> T) -> Result<T, String> {
    forget_place();
    panic::catch_unwind(AssertUnwindSafe(run)).map_err(told)
}

/// Installs the panic hook and forgets the place of an earlier panic.
fn forget_place() {
    remember_places();
    PLACE.with(|place| place.borrow_mut().take());
}

/// Returns the message and the place of a caught panic.
fn told(payload: Box<dyn Any + Send>) -> String {
    let said = said(payload.as_ref());
    // The payload is the user's value: its drop may panic as well.
    let _ = panic::catch_unwind(AssertUnwindSafe(move || drop(payload)));
    match PLACE.with(|place| place.borrow_mut().take()) {
        Some(place) => format!("{said} (at {place})"),
        None => said,
    }
}

/// Awaits a future of user code. A panic of one of its polls ends the wait with the text that [`catch`] returns; the future is not polled
/// again then.
pub(super) async fn catch_in<T>(mut work: BoxFuture<'static, T>) -> Result<T, String> {
    let poll = move |cx: &mut Context<'_>| match catch(|| work.poll_unpin(cx)) {
        Ok(poll) => poll.map(Ok),
        Err(said) => Poll::Ready(Err(said)),
    };
    future::poll_fn(poll).await
}

fn said(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        return shortened(*text);
    }
    match payload.downcast_ref::<String>() {
        Some(text) => shortened(text.as_str()),
        None => "a panic with a value that is not text".to_owned(),
    }
}

/// Installs, once, a panic hook that records the place of a panic, which only hooks can see. The previous hook is still called.
fn remember_places() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
            let place = info.location().map(ToString::to_string);
            // While the thread's locals are being destroyed, the place cannot be recorded.
            let _ = PLACE.try_with(|slot| {
                if let Ok(mut slot) = slot.try_borrow_mut() {
                    *slot = place;
                }
            });
            before(info);
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_comes_back_with_its_text_and_place() {
        let said = catch(|| -> u8 { panic!("boom {}", 7) }).unwrap_err();
        assert!(said.starts_with("boom 7 (at "), "{said}");
        assert!(said.contains("panics.rs:"), "{said}");
        assert_eq!(catch(|| 3), Ok(3));
    }

    #[test]
    fn a_panic_or_an_error_with_a_message_of_megabytes_comes_back_shortened() {
        let long = "ü".repeat(4 << 20);
        let text = long.clone();
        // Without the hook: the whole message would be on standard error.
        for said in [
            catch(|| -> u8 { panic::resume_unwind(Box::new(text)) }).unwrap_err(),
            crate::operators::text_of(&long.into()),
        ] {
            assert!(said.len() < 20 << 10, "{} bytes", said.len());
            assert!(said.contains("… (8388608 bytes, shortened)"));
        }
    }

    #[test]
    fn a_panic_value_that_panics_when_dropped_is_survived() {
        struct Mean;
        impl Drop for Mean {
            fn drop(&mut self) {
                if !std::thread::panicking() {
                    panic!("again");
                }
            }
        }
        let said = catch(|| panic::panic_any(Mean)).unwrap_err();
        assert!(said.contains("not text"), "{said}");
    }
}
