//! The filter on threads of its own.

use super::*;
use std::fs;
use std::process::Command;
use std::thread;

/// What `f` returns on a thread under the filter, and the call that was denied meanwhile.
fn confined<T: Send>(f: impl FnOnce() -> T + Send) -> (T, Option<String>) {
    thread::scope(|scope| {
        let thread = scope.spawn(|| {
            Filter::new().unwrap().confine().unwrap();
            let result = f();
            (result, denied().map(name))
        });
        thread.join().unwrap()
    })
}

#[test]
fn what_is_not_needed_fails_and_is_named() {
    let (read, denied) = confined(|| fs::read("/proc/self/status").map_err(|e| e.kind()));
    assert_eq!(read, Err(io::ErrorKind::PermissionDenied));
    assert_eq!(denied, Some(name(libc::SYS_openat)));
    let (ran, denied) = confined(|| Command::new("true").spawn().map(|_| ()));
    assert!(ran.is_err() && denied.is_some(), "{denied:?}");
    let (_, denied) = confined(std::process::id);
    assert_eq!(denied, None);
    assert_eq!(name(libc::SYS_openat), "openat (number 257)");
    assert_eq!(name(4000), "number 4000");
}

#[test]
fn memory_is_to_be_had_and_not_to_be_executed() {
    let map = |protection| {
        // SAFETY: maps memory wherever the kernel likes, which nobody uses.
        let address = unsafe {
            let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, protection, anonymous, -1, 0)
        };
        address != libc::MAP_FAILED
    };
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    assert_eq!(confined(|| map(read_write)), (true, None));
    let (mapped, denied) = confined(|| map(read_write | libc::PROT_EXEC));
    assert_eq!((mapped, denied), (false, Some(name(libc::SYS_mmap))));
    // The allocator gets small and large pieces, and gives them back.
    let (sum, denied) = confined(|| {
        let sizes = (0..24).map(|power| vec![1u8; 1 << power].len());
        sizes.sum::<usize>()
    });
    assert_eq!((sum, denied), ((1 << 24) - 1, None));
}

#[test]
fn a_panic_is_told_as_always() {
    let (caught, _) = confined(|| {
        let caught = std::panic::catch_unwind(|| panic!("as was to be tested"));
        caught.unwrap_err().downcast_ref::<&str>().copied()
    });
    assert_eq!(caught, Some("as was to be tested"));
}

#[test]
fn only_that_thread_is_confined() {
    confined(|| ());
    fs::read("/proc/self/status").unwrap();
    assert_eq!(denied(), None);
}
