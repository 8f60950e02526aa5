//! The machines that tests can run on here.

/// Host threads, and KVM where it gives a guest that many vCPUs; where not, that is said loudly.
pub(crate) fn machines(vcpus: usize) -> Vec<&'static str> {
    match vmm::check_host(vcpus) {
        Ok(()) => vec!["threads", "kvm"],
        Err(e) => {
            let line = "=".repeat(60);
            eprintln!("{line}\nSKIPPED on kvm, no guest was run: {e}\n{line}");
            vec!["threads"]
        }
    }
}
