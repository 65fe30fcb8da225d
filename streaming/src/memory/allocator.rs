//! The allocator of programs. It counts the bytes that are allocated, per task and in the whole process, and hands every
//! call on to another allocator.
//!
//! A thread counts in numbers of its own and adds them to the account of the task that runs on it, and to the process's
//! total, when they have changed by [`CHUNK`] bytes: a call costs one addition and one comparison more. Batches and
//! other values that leave a task's thread move their bytes with them ([`hand_over`], [`take_over`]): what a task holds is
//! then what it has allocated and received, less what it has freed and given away.
//!
//! The part that a thread has not added yet is added at the thread's end, whoever has started the thread: a program may start
//! any number of threads that each allocate little.
//!
//! The functions of [`GlobalAlloc`] here must never allocate, lock, unwind or refuse memory. One thing is left to the
//! system: a thread's first allocation registers what is done at the thread's end.

#![expect(unsafe_code, reason = "an allocator is unsafe by its interface; this one only counts")]

use super::huge_pages;
use std::{
    alloc::{GlobalAlloc, Layout},
    cell::Cell,
    marker::PhantomData,
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicI64, Ordering},
    },
    thread::Thread,
};

/// The number of bytes, 64 KiB, by which each of a thread's two counts (allocated, and moved between tasks) may differ from what the thread
/// has added to the accounts.
pub const CHUNK: u64 = 64 << 10;

/// The maximum number of tasks with accounts in one process. Further tasks share the account of threads without a task.
const ACCOUNTS: usize = 4096;
/// The account of threads without a task, and of batches between two tasks.
const SHARED: usize = 0;

/// The size in bytes from which a block that grows always counts twice while it is copied.
const LARGE: usize = 64 << 10;

/// The size in bytes, the address space of a process on x86-64, that no block can have: a request for it is not counted ahead, because
/// the sum of such requests would leave the numbers.
const ADDRESS_SPACE: usize = 1 << 47;

/// One account, alone in its cache line, because threads add to different accounts all the time.
#[repr(align(64))]
struct Slot {
    balance: AtomicI64,
    taken: AtomicBool,
}

impl Slot {
    const fn new() -> Self {
        Self { balance: AtomicI64::new(0), taken: AtomicBool::new(false) }
    }
}

static SLOTS: [Slot; ACCOUNTS] = [const { Slot::new() }; ACCOUNTS];
/// Bytes that are allocated in the process.
static TOTAL: AtomicI64 = AtomicI64::new(0);
/// The total from which [`WATCHER`] is woken.
static ALARM: AtomicI64 = AtomicI64::new(i64::MAX);
static WATCHER: OnceLock<Thread> = OnceLock::new();

/// The value of [`PENDING`] when nothing is pending: the middle of the range, 0 to 2 [`CHUNK`]s, in which a thread counts by itself, so
/// that one comparison finds both ends.
const NOTHING: i64 = CHUNK.cast_signed();
/// The value of [`PENDING`] before the thread's first allocation, and after its end has been settled: so far from the range that no
/// block leads into it, and the next call settles.
const OUTSIDE: i64 = i64::MIN;

thread_local! {
    /// Bytes that the thread has allocated, less those that it has freed, since it last settled, plus [`NOTHING`]; or
    /// [`OUTSIDE`].
    static PENDING: Cell<i64> = const { Cell::new(OUTSIDE) };
    /// Settles when the thread ends.
    static END: End = const { End };
    /// Bytes that the thread's task has received, less those that it has given away, since it last settled.
    static MOVED: Cell<i64> = const { Cell::new(0) };
    /// The account of the task that runs on the thread.
    static ACCOUNT: Cell<usize> = const { Cell::new(SHARED) };
}

/// The end of a thread.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        settle();
        // The destructors that run after this one settle each allocation at once.
        PENDING.set(OUTSIDE);
    }
}

/// An allocator that counts the bytes that the allocator `A` hands out, per task and in the whole process: the requested sizes, without
/// what `A` adds. It never refuses memory; where `A` has none, the call fails and counts nothing, unless it asks for less than 128 KiB,
/// which no program survives. Programs have it as global allocator.
#[derive(Debug)]
pub struct Counting<A>(pub A);

// SAFETY: every call goes to `A` with the arguments as they came, and its result is returned as it is; counting reads and
// writes integers only.
//
// As long as the thread's count stays in its range, a call counts first and ends in a jump to `A`; everything else is out of line, so
// that the common way saves no register for it (figures in benches/RESULTS.md, *Memory*).
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counting<A> {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if !counts_alone(signed(layout.size())) {
            // SAFETY: the caller keeps the contract of `alloc`, which is that of `A`.
            return unsafe { self.alloc_and_settle(layout) };
        }
        // SAFETY: as above.
        unsafe { self.0.alloc(layout) }
    }

    // SAFETY: the caller's contract is that of `A`, which gets the call as it came.
    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if !counts_alone(signed(layout.size())) {
            // SAFETY: the caller keeps the contract of `alloc_zeroed`, which is that of `A`.
            return unsafe { self.alloc_zeroed_and_settle(layout) };
        }
        // SAFETY: as above.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    // SAFETY: the caller's contract is that of `A`, which gets the call as it came.
    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if !counts_alone(-signed(layout.size())) {
            // SAFETY: the block is one of `A`, because every block that this allocator hands out is.
            return unsafe { self.dealloc_and_settle(block, layout) };
        }
        // SAFETY: as above.
        unsafe { self.0.dealloc(block, layout) }
    }

    // SAFETY: the caller's contract is that of `A`, which gets the call as it came.
    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if size >= LARGE || !counts_alone(signed(size) - signed(layout.size())) {
            // SAFETY: the block is one of `A`, and the caller keeps the contract of `realloc`.
            return unsafe { self.realloc_and_settle(block, layout, size) };
        }
        // SAFETY: as above.
        unsafe { self.0.realloc(block, layout, size) }
    }
}

/// The calls of [`GlobalAlloc`] where the thread's count leaves its range.
impl<A: GlobalAlloc> Counting<A> {
    // SAFETY: the caller's contract is that of the call of the same name, which `A` gets as it came.
    #[cold]
    #[inline(never)]
    unsafe fn alloc_and_settle(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc`.
        let block = unsafe { self.0.alloc(layout) };
        if !block.is_null() {
            count(signed(layout.size()));
        }
        block
    }

    // SAFETY: the caller's contract is that of the call of the same name, which `A` gets as it came.
    #[cold]
    #[inline(never)]
    unsafe fn alloc_zeroed_and_settle(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        let block = unsafe { self.0.alloc_zeroed(layout) };
        if !block.is_null() {
            count(signed(layout.size()));
        }
        block
    }

    // SAFETY: the caller's contract is that of the call of the same name, which `A` gets as it came.
    #[cold]
    #[inline(never)]
    unsafe fn dealloc_and_settle(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { self.0.dealloc(block, layout) };
        count(-signed(layout.size()));
    }

    // SAFETY: the caller's contract is that of the call of the same name, which `A` gets as it came.
    #[cold]
    #[inline(never)]
    unsafe fn realloc_and_settle(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let (old, new) = (signed(layout.size()), signed(size));
        // Both blocks exist while one is copied to the other, which takes time for large ones.
        let ahead = if size < ADDRESS_SPACE { new } else { 0 };
        count(ahead);
        // SAFETY: the caller keeps the contract of `realloc`.
        let moved = unsafe { self.0.realloc(block, layout, size) };
        count(if moved.is_null() { -ahead } else { new - ahead - old });
        moved
    }
}

/// Returns a size, which is at most `isize::MAX`, as a signed number.
#[inline]
#[expect(clippy::cast_possible_wrap, reason = "no layout is larger than isize::MAX")]
const fn signed(size: usize) -> i64 {
    size as i64
}

/// Counts, if the thread's count stays in its range, and returns true; otherwise does nothing and returns false.
#[inline]
fn counts_alone(bytes: i64) -> bool {
    let pending = PENDING.get().wrapping_add(bytes);
    let alone = pending.cast_unsigned() < 2 * CHUNK;
    if alone {
        PENDING.set(pending);
    }
    alone
}

fn count(bytes: i64) {
    if !counts_alone(bytes) {
        settle_pending(bytes);
    }
}

/// Adds the thread's count and further bytes to its account and to the total, allows huge pages if that is much, and wakes the
/// watcher if the total has reached the alarm.
#[cold]
#[inline(never)]
fn settle_pending(bytes: i64) {
    let before = PENDING.replace(NOTHING);
    let pending = if before == OUTSIDE {
        // Where registering allocates, it counts like any other code: the thread's counts are in order by now.
        if END.try_with(|_| ()).is_err() {
            PENDING.set(OUTSIDE);
        }
        bytes
    } else {
        before.wrapping_sub(NOTHING).wrapping_add(bytes)
    };
    let account = ACCOUNT.get();
    let held = slot(account).balance.fetch_add(pending, Ordering::Relaxed).wrapping_add(pending);
    let total = TOTAL.fetch_add(pending, Ordering::Relaxed).wrapping_add(pending);
    let is_large_task = account != SHARED && held >= huge_pages::OF_A_TASK;
    if is_large_task || total >= huge_pages::OF_THE_PROGRAM {
        huge_pages::allow();
    }
    if pending > 0
        && total >= ALARM.load(Ordering::Relaxed)
        && let Some(watcher) = WATCHER.get()
    {
        // Neither allocates nor locks: an atomic swap, and a system call if the watcher is parked.
        watcher.unpark();
    }
}

#[cold]
#[inline(never)]
fn settle_moved() {
    let moved = MOVED.replace(0);
    slot(ACCOUNT.get()).balance.fetch_add(moved, Ordering::Relaxed);
    slot(SHARED).balance.fetch_sub(moved, Ordering::Relaxed);
}

fn slot(account: usize) -> &'static Slot {
    // The index is always in range; the shared account is nearer than a panic in an allocator.
    SLOTS.get(account).unwrap_or(&SLOTS[SHARED])
}

fn moved(bytes: i64) {
    if ACCOUNT.get() == SHARED {
        return;
    }
    let moved = MOVED.get().wrapping_add(bytes);
    MOVED.set(moved);
    if moved.unsigned_abs() >= CHUNK {
        settle_moved();
    }
}

/// Moves bytes that leave the calling thread's task out of its account: into the exchange, or to threads without a task. Does nothing on
/// a thread without a task. Counts only; no memory moves.
pub fn hand_over(bytes: u64) {
    moved(-i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Adds bytes that the calling thread's task has received to its account. Does nothing on a thread without a task. Counts only.
pub fn take_over(bytes: u64) {
    moved(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Adds what the calling thread has counted since it last did so to its account and to the total of the process, so that these are exact
/// for this thread. Threads do this by themselves from [`CHUNK`] bytes on, and at their end.
pub fn settle() {
    settle_pending(0);
    settle_moved();
}

/// Returns the number of bytes that are allocated in the process, exact up to [`CHUNK`] for each thread; 0 if the process does not use
/// [`Counting`].
pub fn total() -> u64 {
    u64::try_from(TOTAL.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Makes the calling thread the watcher for the rest of the process: it is unparked whenever a thread that has allocated another
/// [`CHUNK`] finds the total at or above that of [`set_alarm`]. Returns true if the thread is the watcher now; false, with no effect, if
/// a watcher was set before.
pub fn watch_alarm() -> bool {
    WATCHER.set(std::thread::current()).is_ok()
}

/// Sets the total, in bytes, from which the watcher of [`watch_alarm`] is unparked: not once, but after each further [`CHUNK`] that a
/// thread allocates. A call replaces the last one; `u64::MAX`, as at the start, switches the alarm off. Wakes nobody itself.
pub fn set_alarm(total: u64) {
    ALARM.store(i64::try_from(total).unwrap_or(i64::MAX), Ordering::Relaxed);
}

/// The account of one task's memory. When it is dropped, what the task has left behind counts for no task.
#[derive(Debug)]
pub struct Account(usize);

impl Account {
    /// Opens an account of 0 bytes. If the process has 4,095 accounts already, the task shares the account of threads without a task, and
    /// its balance is always 0.
    pub fn open() -> Self {
        let free = |slot: &Slot| !slot.taken.swap(true, Ordering::AcqRel);
        let found = SLOTS.iter().skip(SHARED + 1).position(free);
        Self(found.map_or(SHARED, |index| index + SHARED + 1))
    }

    /// Returns the number of bytes that the task holds, exact up to twice [`CHUNK`] for each thread that counts for it. Negative if the
    /// task has freed or given away more than was counted for it, such as memory that another thread allocated and did not hand over.
    pub fn balance(&self) -> i64 {
        if self.0 == SHARED { 0 } else { slot(self.0).balance.load(Ordering::Relaxed) }
    }

    /// Makes the calling thread count what it allocates and frees for this account, until the returned value is dropped; then the thread
    /// counts for no task.
    pub fn enter(&self) -> Entered<'_> {
        settle();
        ACCOUNT.set(self.0);
        Entered { _account: PhantomData, _this_thread: PhantomData }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        if self.0 != SHARED {
            let slot = slot(self.0);
            let left = slot.balance.swap(0, Ordering::Relaxed);
            SLOTS[SHARED].balance.fetch_add(left, Ordering::Relaxed);
            slot.taken.store(false, Ordering::Release);
        }
    }
}

/// Marks the time in which a thread counts for an account, from [`Account::enter`]: when it is dropped, the thread counts for no task
/// again. Cannot leave its thread.
#[derive(Debug)]
pub struct Entered<'a> {
    _account: PhantomData<&'a Account>,
    /// Its drop changes the thread's own state, so that it stays on the thread.
    _this_thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        settle();
        ACCOUNT.set(SHARED);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;

    const COUNTING: Counting<System> = Counting(System);

    /// The allocator of all unit tests of this crate.
    #[global_allocator]
    static ALLOCATOR: Counting<System> = Counting(System);

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    fn allocate(size: usize) -> *mut u8 {
        // SAFETY: the layout's size is not zero.
        let block = unsafe { COUNTING.alloc(layout(size)) };
        assert!(!block.is_null());
        block
    }

    fn free(block: *mut u8, size: usize) {
        // SAFETY: the tests free each block once, with its size.
        unsafe { COUNTING.dealloc(block, layout(size)) };
    }

    #[test]
    fn an_account_has_what_its_thread_allocated_and_did_not_free() {
        let account = Account::open();
        let block = {
            let _entered = account.enter();
            let first = allocate(1 << 20);
            assert!(account.balance() >= 1 << 20, "large blocks are settled at once");
            let small: Vec<_> = (0..100).map(|_| allocate(1_000)).collect();
            small.into_iter().for_each(|block| free(block, 1_000));
            first
        };
        assert_eq!(account.balance(), 1 << 20, "exact once the thread has left");
        free(block, 1 << 20);
        assert_eq!(account.balance(), 1 << 20, "freed by a thread of no task");
    }

    #[test]
    fn a_block_that_grows_counts_its_new_size() {
        let account = Account::open();
        let entered = account.enter();
        let block = allocate(100_000);
        // SAFETY: the block has that layout, and the new size is not zero.
        let block = unsafe { COUNTING.realloc(block, layout(100_000), 300_000) };
        settle();
        assert_eq!(account.balance(), 300_000);
        // SAFETY: as above.
        let zeroed = unsafe { COUNTING.alloc_zeroed(layout(5_000)) };
        settle();
        assert_eq!(account.balance(), 305_000);
        free(zeroed, 5_000);
        free(block, 300_000);
        drop(entered);
        assert_eq!(account.balance(), 0);
    }

    /// The allocator must not unwind: it runs in destructors and while a thread unwinds already.
    #[test]
    fn memory_that_there_is_not_is_null_and_counts_nothing_and_nothing_unwinds() {
        let none = layout(isize::MAX as usize - 7);
        let account = Account::open();
        let entered = account.enter();
        let block = allocate(100_000);
        let asked = std::panic::catch_unwind(|| {
            // SAFETY: the layouts' sizes are not zero, and the block has the layout that it was allocated with.
            let all = unsafe {
                [
                    COUNTING.alloc(none),
                    COUNTING.alloc_zeroed(none),
                    COUNTING.realloc(block, layout(100_000), none.size()),
                ]
            };
            std::hint::black_box(all).map(|block| block.is_null())
        });
        assert_eq!(asked.unwrap(), [true; 3]);
        settle();
        assert_eq!(account.balance(), 100_000, "the block is as it was");
        free(block, 100_000);
        drop(entered);
        assert_eq!(account.balance(), 0);
        // An account that cannot be is the shared one, not a panic.
        assert!(std::ptr::eq(slot(usize::MAX), &raw const SLOTS[SHARED]));
    }

    #[test]
    fn what_is_handed_over_is_the_receivers() {
        let (producer, consumer) = (Account::open(), Account::open());
        let entered = producer.enter();
        let block = allocate(500_000);
        hand_over(500_000);
        drop(entered);
        assert_eq!(producer.balance(), 0);
        let entered = consumer.enter();
        take_over(500_000);
        settle();
        assert_eq!(consumer.balance(), 500_000);
        free(block, 500_000);
        drop(entered);
        assert_eq!((producer.balance(), consumer.balance()), (0, 0));
        take_over(1 << 30);
        assert_eq!(consumer.balance(), 0, "a thread without a task moves nothing");
    }

    #[test]
    fn counts_of_a_users_thread_are_not_lost_at_its_end() {
        /// Frees a block when its thread's values are destroyed, after the thread's end was settled or before.
        struct Late(Cell<usize>);
        impl Drop for Late {
            fn drop(&mut self) {
                free(self.0.get() as *mut u8, 40_000);
            }
        }
        thread_local!(static LATE: Late = const { Late(Cell::new(0)) });
        let account = Account::open();
        let run = || {
            ACCOUNT.set(account.0);
            LATE.with(|late| late.0.set(allocate(40_000) as usize));
            allocate(10_000) as usize
        };
        let thread = |_| std::thread::scope(|scope| scope.spawn(run).join().unwrap());
        let blocks: Vec<usize> = (0..100).map(thread).collect();
        let kept = account.balance();
        // A thread also allocates and frees a few hundred bytes for itself.
        assert!((900_000..1_100_000).contains(&kept), "{kept}");
        blocks.into_iter().for_each(|block| free(block as *mut u8, 10_000));
    }

    #[test]
    fn accounts_are_given_out_again_empty() {
        let account = Account::open();
        let entered = account.enter();
        let block = allocate(200_000);
        drop(entered);
        drop(account);
        // Tests run side by side, and one of them may have the place already.
        let all: Vec<_> = (0..64).map(|_| Account::open()).collect();
        assert!(all.iter().all(|account| account.balance() == 0));
        free(block, 200_000);
    }
}
