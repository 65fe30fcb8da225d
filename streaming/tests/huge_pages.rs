//! When a program has huge pages. A test program of its own, because the switch is one of the whole process.

use nix::sys::prctl::{get_thp_disable, set_thp_disable};
use std::alloc::System;
use streaming::memory::allocator::{Account, Counting};
use streaming::memory::huge_pages;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

fn bytes(mib: usize) -> Vec<u8> {
    vec![1; mib << 20]
}

#[test]
fn a_program_gets_huge_pages_when_a_task_or_all_that_is_outside_of_tasks_has_become_large() {
    set_thp_disable(true).unwrap();
    huge_pages::start_without();
    drop(bytes(70));
    assert_eq!(get_thp_disable(), Ok(true), "somebody else has decided that");

    set_thp_disable(false).unwrap();
    huge_pages::start_without();
    assert_eq!(get_thp_disable(), Ok(true));
    let account = Account::open();
    {
        let _entered = account.enter();
        let _held = bytes(3);
        assert_eq!(get_thp_disable(), Ok(true), "a task with 3 MiB");
        let _more = bytes(1);
        assert_eq!(get_thp_disable(), Ok(false), "a task with 4 MiB");
    }

    huge_pages::start_without();
    let _held = bytes(60);
    assert_eq!(get_thp_disable(), Ok(true), "60 MiB outside of tasks");
    let _more = bytes(4);
    assert_eq!(get_thp_disable(), Ok(false), "64 MiB outside of tasks");
}
