//! Samples the stacks of this process's threads and writes them to the log, for the watchdog. A signal interrupts one thread after
//! the other; its handler notes return addresses, and names are looked up afterwards on the calling thread. The handler must never
//! allocate, lock, log or panic: the thread that it interrupts may be inside of any function.

#![allow(
    unsafe_code,
    reason = "a signal handler that walks the stack of the thread that it interrupts"
)]

use nix::errno::Errno;
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::unistd::{gettid, pipe2, read};
use std::fmt::Write as _;
use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Ignored by default, so that a late one does no harm.
const SIGNAL: Signal = Signal::SIGURG;
/// Maximum number of noted return addresses per thread; callers beyond that are left out.
const FRAMES_MAX: usize = 128;
/// Maximum number of sampled threads.
const THREADS_MAX: usize = 256;
/// Milliseconds within which a thread must have noted its stack. One in an uninterruptible call does not.
const ANSWER_WITHIN_MS: u16 = 200;

/// The thread that is to note its stack; 0 if there is none, `BUSY` while it does.
static WANTED: AtomicI32 = AtomicI32::new(0);
const BUSY: i32 = -1;
/// The file descriptor to which the signal handler writes a byte when it has noted a stack; -1 while no sample is taken.
static DONE: AtomicI32 = AtomicI32::new(-1);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static FRAMES: [AtomicUsize; FRAMES_MAX] = [const { AtomicUsize::new(0) }; FRAMES_MAX];
/// One sample at a time.
static SAMPLING: Mutex<()> = Mutex::new(());

/// The stack of one thread.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Name of the thread, as the system knows it (at most 15 bytes).
    pub(crate) thread: String,
    /// The system's id of the thread.
    pub(crate) tid: i32,
    /// Names of the functions, innermost first; an address where no name is known.
    pub(crate) functions: Vec<String>,
}

/// Maximum time that all threads' stacks may take together. Their names are read from the executable, on a disk that may hang.
const LOG_WITHIN: Duration = Duration::from_secs(2);

/// Writes the stacks of all threads to the log, one event each. Returns after 2 s at the latest; stacks that were not
/// written by then may be missing from the log.
pub(crate) fn log() {
    if !within(LOG_WITHIN, log_all) {
        tracing::error!(
            "the stacks of this process's threads could not all be logged within {LOG_WITHIN:?}"
        );
    }
}

/// Does `work` on a thread of its own and waits for its end, at most `limit`. Returns whether the work is done; work that
/// is not goes on.
fn within(limit: Duration, work: impl FnOnce() + Send + 'static) -> bool {
    let (end, ended) = std::sync::mpsc::channel();
    let thread = std::thread::Builder::new().name("stack-log".to_owned());
    let started = thread.spawn(move || {
        work();
        // Nobody waits any more if this comes late.
        let _ = end.send(());
    });
    started.is_ok() && ended.recv_timeout(limit).is_ok()
}

fn log_all() {
    match sample() {
        Ok(stacks) => {
            tracing::error!(threads = stacks.len(), "the stacks of this process's threads follow");
            for Stack { thread, tid, functions } in stacks {
                let mut text = String::new();
                for (depth, function) in functions.iter().enumerate() {
                    // Writing to a string does not fail.
                    let _ = write!(text, "\n  {depth:3}: {function}");
                }
                tracing::error!("stack of thread {tid}, '{thread}':{text}");
            }
        }
        Err(error) => {
            tracing::error!(%error, "the stacks of this process's threads cannot be sampled")
        }
    }
}

/// Returns the stacks of all threads but the calling one. A thread that ends meanwhile, or does not answer in time, is left out.
///
/// # Errors
/// Returns the system's error if the signal or a pipe cannot be set up, or the threads cannot be listed.
pub(crate) fn sample() -> std::io::Result<Vec<Stack>> {
    let _alone = SAMPLING.lock().unwrap_or_else(PoisonError::into_inner);
    let (answers, done) = pipe2(nix::fcntl::OFlag::O_CLOEXEC | nix::fcntl::OFlag::O_NONBLOCK)?;
    DONE.store(done.as_raw_fd(), Ordering::SeqCst);
    let handler = SigHandler::Handler(note);
    let action = SigAction::new(handler, SaFlags::SA_RESTART, SigSet::empty());
    // SAFETY: `note` does only what is allowed in a signal handler, see there.
    unsafe { sigaction(SIGNAL, &action) }?;
    let mut stacks = Vec::new();
    for entry in std::fs::read_dir("/proc/self/task")?.take(THREADS_MAX) {
        let entry = entry?;
        let Ok(tid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
        if tid == gettid().as_raw() {
            continue;
        }
        let name = std::fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        match addresses(tid, &answers) {
            Sampled::Frames(frames) => stacks.push(Stack {
                thread: name.trim_end().to_owned(),
                tid,
                functions: names(&frames),
            }),
            Sampled::Nothing => {}
            // Its handler may write at any time: no other thread can be sampled, and the pipe must stay open.
            Sampled::Stuck => {
                let _open = done.into_raw_fd();
                return Ok(stacks);
            }
        }
    }
    DONE.store(-1, Ordering::SeqCst);
    Ok(stacks)
}

enum Sampled {
    Frames(Vec<usize>),
    Nothing,
    /// The handler has begun and does not end.
    Stuck,
}

/// Interrupts a thread and returns its return addresses, innermost first.
fn addresses(tid: i32, answers: &OwnedFd) -> Sampled {
    WANTED.store(tid, Ordering::SeqCst);
    // SAFETY: the call passes numbers alone. An id that is no thread of this process any more is refused by the system.
    let sent =
        unsafe { libc::syscall(libc::SYS_tgkill, std::process::id(), tid, SIGNAL as libc::c_int) };
    if sent != 0 {
        WANTED.store(0, Ordering::SeqCst);
        return Sampled::Nothing;
    }
    if !answered(answers) {
        // The thread has not begun, and will find that it is not wanted; or it is at it.
        let taken_back = WANTED.compare_exchange(tid, 0, Ordering::SeqCst, Ordering::SeqCst);
        if taken_back.is_ok() {
            return Sampled::Nothing;
        }
        if !answered(answers) {
            return Sampled::Stuck;
        }
    }
    let length = LENGTH.load(Ordering::SeqCst);
    Sampled::Frames(FRAMES.iter().take(length).map(|at| at.load(Ordering::SeqCst)).collect())
}

/// Waits for a handler's byte.
fn answered(answers: &OwnedFd) -> bool {
    let mut waiting = [PollFd::new(answers.as_fd(), PollFlags::POLLIN)];
    let ready = poll(&mut waiting, PollTimeout::from(ANSWER_WITHIN_MS));
    ready.is_ok_and(|ready| ready > 0) && read(answers, &mut [0]).is_ok_and(|bytes| bytes == 1)
}

/// The handler: notes the return addresses of the thread that it interrupts, if that is the wanted one.
extern "C" fn note(_: libc::c_int) {
    let errno = Errno::last_raw();
    let me = gettid().as_raw();
    if WANTED.compare_exchange(me, BUSY, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        let mut length = 0;
        // SAFETY: the other users of the unwinder in this process take a lock that would deadlock here; without it this walk
        // reads the tables of loaded objects alone, which the system's unwinder does without allocating. The closure
        // stores numbers in atomics.
        unsafe {
            backtrace::trace_unsynchronized(|frame| {
                if let Some(place) = FRAMES.get(length) {
                    place.store(frame.ip().addr(), Ordering::SeqCst);
                    length += 1;
                }
                length < FRAMES_MAX
            });
        }
        LENGTH.store(length, Ordering::SeqCst);
        WANTED.store(0, Ordering::SeqCst);
        // SAFETY: `write` is async-signal-safe, and the byte lives for the call. A closed descriptor is an error without effect.
        unsafe { libc::write(DONE.load(Ordering::SeqCst), [1_u8].as_ptr().cast(), 1) };
    }
    Errno::set_raw(errno);
}

/// Looks up the names of functions, from the one that was interrupted on.
fn names(frames: &[usize]) -> Vec<String> {
    let mut names = Vec::new();
    for address in frames {
        let before = names.len();
        backtrace::resolve(std::ptr::without_provenance_mut(*address), |symbol| {
            names.extend(symbol.name().map(|name| format!("{name:#}")));
        });
        if names.len() == before {
            names.push(format!("{address:#x}"));
        }
    }
    // The innermost functions are those of the handler, and the system's trampoline that called it.
    match names.iter().rposition(|name| name.contains("stacks::note")) {
        Some(handler) => names.split_off((handler + 2).min(names.len())),
        None => names,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::components::{Base, BaseParts};
    use actors::leader_retrieval::LeaderTable;
    use gateways::{RpcOptions, RpcService};
    use model::ResourceId;
    use platform::{Lane, Platform};
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// A handler that does not return.
    #[inline(never)]
    fn a_handler_that_stalls(over: &AtomicBool) {
        while !over.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
    }

    /// Keeps what is logged in this process.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[tokio::test]
    async fn the_watchdog_logs_the_stack_of_a_stalled_actor_with_the_name_of_its_function() {
        let log = Log::default();
        let writer = log.clone();
        // Of the whole process: the watchdog logs on a thread of its own.
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).finish();
        tracing::subscriber::set_global_default(subscriber).unwrap();
        let platform = Platform::production();
        let rpc = RpcService::start(platform.clone(), RpcOptions::in_process()).await.unwrap();
        let options = conf::Options::default().with("heartbeat.stuck-after", "500 ms").unwrap();
        let (id, host) = (ResourceId::new("test"), "localhost".to_owned());
        let parts = BaseParts::new(platform.clone(), rpc, Arc::new(options), id, host);
        let base = Base::start(parts, Arc::new(LeaderTable::default())).await.unwrap();
        let marker = base.services.turn_marker("job_master/7");
        let over = Arc::new(AtomicBool::new(false));
        let stalls = Arc::clone(&over);
        platform.lane(Lane::Work).spawn_local(async move {
            marker.mark();
            a_handler_that_stalls(&stalls);
        });
        let fatal = tokio::time::timeout(Duration::from_secs(60), base.services.fatal.reported());
        let fatal = fatal.await.unwrap().to_string();
        over.store(true, Ordering::SeqCst);
        assert!(fatal.contains("job_master/7 has not finished a turn"), "{fatal}");
        let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
        let stalled = log.lines().position(|line| line.contains("a_handler_that_stalls"));
        let stalled = stalled.unwrap_or_else(|| panic!("the function is not named:\n{log}"));
        // It is in the stack of the lane's thread, and called by the lane.
        let (above, below) = log.split_at(log.match_indices('\n').nth(stalled).unwrap().0);
        let thread = above.lines().rfind(|line| line.contains("stack of thread")).unwrap();
        assert!(thread.contains(Lane::Work.name()), "{thread}");
        assert!(below.contains("LocalSet"), "{log}");
        base.stop().await;
    }

    #[test]
    fn stacks_that_cannot_be_read_hold_up_the_end_of_the_process_for_a_limited_time() {
        let (release, held) = std::sync::mpsc::channel::<()>();
        let done = within(Duration::from_millis(10), move || {
            let _ = held.recv();
        });
        assert!(!done, "the work is still held");
        drop(release);
        assert!(within(Duration::from_secs(60), || ()));
    }

    #[test]
    fn a_thread_that_waits_in_the_system_is_sampled_too_and_goes_on_waiting() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let waiting = std::thread::Builder::new().name("waits-long".to_owned());
        let waiting = waiting.spawn(move || ended.recv()).unwrap();
        let found = |stacks: Vec<Stack>| {
            let mut all = stacks.into_iter();
            all.find(|stack| stack.thread == "waits-long" && stack.tid != 0)
        };
        // The thread may not have begun to wait at the first look.
        let stack = std::iter::repeat_with(|| found(sample().unwrap()).unwrap())
            .find(|stack| stack.functions.iter().any(|name| name.contains("recv")))
            .unwrap();
        assert!(!stack.functions.iter().any(|name| name.contains("stacks::note")), "{stack:?}");
        end.send(()).unwrap();
        assert_eq!(waiting.join().unwrap(), Ok(()));
    }
}
