//! What this process may have, and what to tell where it may have no more.

use rustix::process::{Resource, Rlimit, setrlimit};
use std::io;

/// Raises what may be raised without privilege, to the hard limits: open files, of which each vCPU has three
/// to five, and memory that may be locked, of which each recorder of context switches takes some.
pub fn raise() {
    for resource in [Resource::Nofile, Resource::Memlock] {
        let limit = match limit_of(resource) {
            Ok(limit) if limit.current != limit.maximum => limit,
            Ok(_) => continue,
            Err(error) => {
                tracing::debug!(?resource, %error, "the host does not tell a limit");
                continue;
            }
        };
        let raised = Rlimit {
            current: limit.maximum,
            ..limit
        };
        // A process that is refused keeps what it had, and is told when that is too little.
        if let Err(error) = setrlimit(resource, raised) {
            tracing::debug!(?resource, %error, "a soft limit cannot be raised");
        }
    }
}

/// A limit of this process. (rustix's own function panics where a policy forbids the call.)
#[allow(unsafe_code)]
fn limit_of(resource: Resource) -> io::Result<Rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let number = match resource {
        Resource::Memlock => libc::RLIMIT_MEMLOCK,
        _ => libc::RLIMIT_NOFILE,
    };
    // SAFETY: `limit` is valid to be written.
    if unsafe { libc::getrlimit(number, &raw mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let number = |n| (n != libc::RLIM_INFINITY).then_some(n);
    Ok(Rlimit {
        current: number(limit.rlim_cur),
        maximum: number(limit.rlim_max),
    })
}

/// `error`, with its remedy if there is one; of open files with the limit, which [`raise`] could not raise any
/// more.
pub fn explain(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE) => {
            let most = limit_of(Resource::Nofile)
                .ok()
                .and_then(|limit| limit.current);
            let most = most.map_or_else(|| "no known number".to_owned(), |n| n.to_string());
            format!(
                "{error}: this process may have {most} open; raise 'ulimit -n', or use fewer vCPUs"
            )
        }
        errno => format!("{error}{}", remedy(errno)),
    }
}

/// What to do about a refusal of the host, to be put behind what it says; empty if nothing is known to help.
pub fn remedy(errno: Option<i32>) -> &'static str {
    match errno {
        Some(libc::EMFILE) => {
            "; it takes more open files than are allowed: raise 'ulimit -n', or use fewer vCPUs"
        }
        Some(libc::ENFILE) => "; the host has no more open files: close others, or use fewer vCPUs",
        Some(libc::EAGAIN) => {
            "; it takes more threads, or memory for them, than is allowed: raise 'ulimit -u', 'ulimit -v' \
             or the cgroup's pids.max, or use fewer vCPUs"
        }
        Some(libc::ENOMEM) => {
            "; there is no memory for it: raise 'ulimit -v' or the cgroup's memory.max, or use fewer vCPUs, \
             locks or VMs, or a smaller --ring"
        }
        Some(libc::ENOSPC) => "; KVM has no room for more: use fewer vCPUs",
        Some(libc::EPERM | libc::EACCES) => {
            "; a policy forbids it (seccomp, SELinux, a container's): change that, or use --machine threads"
        }
        Some(libc::EBUSY) => "; another hypervisor has the CPU: end that, or use --machine threads",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn soft_limits_are_the_hard_ones_afterwards() {
        raise();
        let limit = limit_of(Resource::Nofile).unwrap();
        assert_eq!(limit.current, limit.maximum);
    }

    #[test]
    fn too_many_open_files_are_told_with_the_limit_and_the_remedy() {
        let text = explain(&io::Error::from_raw_os_error(libc::EMFILE));
        assert!(text.contains("ulimit -n"), "{text}");
        let other = io::Error::from_raw_os_error(libc::EIO);
        assert_eq!(explain(&other), other.to_string());
    }
}
