//! Tests of guests, where there is a KVM.

use vmm::VmmError;

/// Whether there is a KVM to test with. Any other obstacle than its absence fails the test.
pub(crate) fn kvm_is_here() -> bool {
    match vmm::check_host(8) {
        Ok(()) => true,
        Err(VmmError::NoKvm | VmmError::NoPermission) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED: no usable /dev/kvm, no guest was run\n{line}");
            false
        }
        Err(e) => panic!("KVM is here but unusable: {e}"),
    }
}
