//! When a program has huge pages. A test program of its own, because the switch is one of the whole process.

use nix::sys::prctl::{get_thp_disable, set_thp_disable};
use std::alloc::System;
use std::process::Command;
use streaming::memory::allocator::{Account, Counting};
use streaming::memory::huge_pages;

#[global_allocator]
static ALLOCATOR: Counting<System> = Counting(System);

const NAME: &str =
    "a_program_gets_huge_pages_when_a_task_or_all_that_the_program_holds_has_become_large";

fn bytes(mib: usize) -> Vec<u8> {
    vec![1; mib << 20]
}

#[test]
fn a_program_gets_huge_pages_when_a_task_or_all_that_the_program_holds_has_become_large() {
    if std::env::var_os(huge_pages::INHERITED_VARIABLE).is_some() {
        return in_the_host_of_a_program();
    }
    set_thp_disable(true).unwrap();
    huge_pages::start_without();
    drop(bytes(140));
    assert_eq!(get_thp_disable(), Ok(true), "somebody else has decided that");
    assert!(!huge_pages::are_off_for_now());

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
    assert!(!huge_pages::are_off_for_now());

    huge_pages::start_without();
    let _held = bytes(120);
    assert_eq!(get_thp_disable(), Ok(true), "120 MiB outside of tasks");
    let host = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME])
        .env(huge_pages::INHERITED_VARIABLE, "1")
        .output();
    let host = host.unwrap();
    assert!(host.status.success(), "{}", String::from_utf8_lossy(&host.stdout));
    let _more = bytes(10);
    assert_eq!(get_thp_disable(), Ok(false), "130 MiB outside of tasks");
}

fn in_the_host_of_a_program() {
    assert_eq!(get_thp_disable(), Ok(true), "inherited");
    huge_pages::start_without();
    assert!(huge_pages::are_off_for_now());
    let _held = bytes(130);
    assert_eq!(get_thp_disable(), Ok(false));
}
