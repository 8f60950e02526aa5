//! What keeps this process from its host's CPUs: its cgroup, and how it is scheduled.

use crate::host::parse_cpu_list;
use host::thread::Scheduling;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

const CGROUPS: &str = "/sys/fs/cgroup";

/// What keeps this process from its host's CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// What its cgroup, and those around that, allow; `None`: unknown.
    pub cgroup: Option<Cgroup>,
    /// Scheduling policy, as Linux names it: "SCHED_OTHER" for most processes.
    pub policy: Option<String>,
    /// Real-time priority, of policies that have one.
    pub priority: Option<i32>,
    /// Niceness: -20 to 19, the less important the higher.
    pub nice: Option<i32>,
}

/// What a cgroup allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cgroup {
    /// The tightest quota of CPU time, if there is any.
    pub quota: Option<Quota>,
    /// CPUs of its cpuset, if it tells.
    pub cpuset: Option<Vec<usize>>,
}

/// So much CPU time in each period; then all threads wait until it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// CPU time, us.
    pub quota_us: u64,
    /// Period, us.
    pub period_us: u64,
}

impl Quota {
    /// In CPUs.
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us.max(1) as f64
    }
}

impl Limits {
    /// Those that this process was started with: the first call finds them out, before it changes anything
    /// for its own threads.
    pub fn examine() -> Self {
        static FOUND: OnceLock<Limits> = OnceLock::new();
        FOUND.get_or_init(Self::find_out).clone()
    }

    fn find_out() -> Self {
        let scheduling = Scheduling::of_caller().ok();
        let membership = fs::read_to_string("/proc/self/cgroup").ok();
        Self {
            cgroup: membership.and_then(|text| cgroup(Path::new(CGROUPS), &text)),
            policy: scheduling.map(|s| s.policy_name().to_owned()),
            priority: scheduling.and_then(|s| (s.priority > 0).then_some(s.priority)),
            nice: rustix::process::getpriority_process(None).ok(),
        }
    }

    /// The quota, if there is one.
    pub fn quota(&self) -> Option<Quota> {
        self.cgroup.as_ref()?.quota
    }

    /// What matters to a run on so many CPUs, in short.
    pub fn notable(&self, cpus: usize) -> Vec<String> {
        let mut notable = Vec::new();
        let quota = self.quota().map(Quota::cpus);
        if let Some(quota) = quota.filter(|quota| *quota < cpus as f64) {
            notable.push(format!("cgroup quota {quota:.2} CPUs"));
        }
        let policy = self.policy.as_deref();
        let policy = policy.filter(|policy| *policy != "SCHED_OTHER");
        notable.extend(policy.map(|policy| match self.priority {
            Some(priority) => format!("{policy} {priority}"),
            None => policy.to_owned(),
        }));
        let nice = self.nice.filter(|nice| *nice != 0);
        notable.extend(nice.map(|nice| format!("nice {nice}")));
        notable
    }
}

/// For how long threads of this process's cgroups have waited for their quota, all in all; `None` if that is
/// unknown, or there is no quota.
pub fn throttled() -> Option<Duration> {
    let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
    throttled_in(Path::new(CGROUPS), &membership)
}

/// Directories of the controller's cgroup that `membership` (/proc/self/cgroup) names, from it up to the root;
/// and whether they are of the second version.
fn directories(root: &Path, membership: &str, controller: &str) -> Option<(Vec<PathBuf>, bool)> {
    let entries = || {
        let lines = membership.lines();
        lines.filter_map(|line| line.split_once(':')?.1.split_once(':'))
    };
    let first = entries().find(|(controllers, _)| controllers.split(',').any(|c| c == controller));
    let (base, path, unified) = match first {
        Some((controllers, path)) => {
            let named = [controllers, controller].map(|name| root.join(name));
            (named.into_iter().find(|base| base.is_dir())?, path, false)
        }
        None => {
            let (_, path) = entries().find(|(controllers, _)| controllers.is_empty())?;
            (root.to_owned(), path, true)
        }
    };
    // Within a cgroup namespace paths may begin with "..", and where a container sees its own cgroup alone, the path
    // is not below what is mounted: then what is mounted is all that can be seen.
    let mut directory = base.join(path.trim_start_matches('/'));
    if path.contains("..") || !directory.is_dir() {
        directory = base.clone();
    }
    let all = directory.ancestors().take_while(|d| d.starts_with(&base));
    Some((all.map(Path::to_owned).collect(), unified))
}

fn cgroup(root: &Path, membership: &str) -> Option<Cgroup> {
    let (cpu, unified) = directories(root, membership, "cpu")?;
    let read = |directory: &Path, file| fs::read_to_string(directory.join(file)).ok();
    let quota = |directory: &PathBuf| {
        let text = match unified {
            true => read(directory, "cpu.max")?,
            false => read(directory, "cpu.cfs_quota_us")? + &read(directory, "cpu.cfs_period_us")?,
        };
        let (quota, period) = text.trim().split_once([' ', '\n'])?;
        // "max" and -1 are no quotas.
        Some(Quota {
            quota_us: quota.parse().ok()?,
            period_us: period.parse().ok()?,
        })
    };
    let quotas = cpu.iter().filter_map(quota);
    let sets = [
        "cpuset.cpus.effective",
        "cpuset.effective_cpus",
        "cpuset.cpus",
    ];
    let cpuset = directories(root, membership, "cpuset").and_then(|(directories, _)| {
        let directory = directories.first()?;
        (sets.iter()).find_map(|file| parse_cpu_list(read(directory, *file)?.trim()))
    });
    Some(Cgroup {
        quota: quotas.min_by(|a, b| a.cpus().total_cmp(&b.cpus())),
        cpuset,
    })
}

fn throttled_in(root: &Path, membership: &str) -> Option<Duration> {
    let (cpu, unified) = directories(root, membership, "cpu")?;
    let of = |directory: &PathBuf| {
        let text = fs::read_to_string(directory.join("cpu.stat")).ok()?;
        let field = |name: &str| -> Option<u64> {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().parse().ok()
        };
        match unified {
            true => field("throttled_usec ").map(Duration::from_micros),
            false => field("throttled_time ").map(Duration::from_nanos),
        }
    };
    cgroup(root, membership)?.quota?;
    cpu.iter().filter_map(of).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with these files.
    fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn the_tightest_quota_of_all_cgroups_around_counts() {
        let root = directory(&[
            ("a/cpu.max", "150000 100000\n"),
            ("a/b/cpu.max", "max 100000\n"),
            ("a/b/cpuset.cpus.effective", "0-1,4\n"),
            ("a/cpu.stat", "usage_usec 7\nthrottled_usec 2500000\n"),
            ("a/b/cpu.stat", "usage_usec 7\nthrottled_usec 0\n"),
        ]);
        let found = cgroup(root.path(), "0::/a/b\n").unwrap();
        assert_eq!(found.quota.unwrap().cpus(), 1.5);
        assert_eq!(found.cpuset, Some(vec![0, 1, 4]));
        let waited = throttled_in(root.path(), "0::/a/b\n");
        assert_eq!(waited, Some(Duration::from_millis(2500)));
        // A container sees its own cgroup as the root.
        let own = cgroup(&root.path().join("a"), "0::/elsewhere\n").unwrap();
        assert_eq!(own.quota.unwrap().cpus(), 1.5);
    }

    #[test]
    fn the_first_version_has_a_hierarchy_for_each_controller() {
        let membership = "4:cpuset:/\n2:cpu,cpuacct:/job\n0::/\n";
        let job_stat = "nr_periods 9\nthrottled_time 1500\n";
        let root = directory(&[
            ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n"),
            ("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"),
            ("cpu,cpuacct/job/cpu.stat", job_stat),
            ("cpuset/cpuset.cpus", "0-3\n"),
        ]);
        let found = cgroup(root.path(), membership).unwrap();
        assert_eq!(found.quota.unwrap().cpus(), 0.5);
        assert_eq!(found.cpuset, Some(vec![0, 1, 2, 3]));
        let waited = throttled_in(root.path(), membership);
        assert_eq!(waited, Some(Duration::from_nanos(1500)));
    }

    #[test]
    fn no_quota_is_none_and_no_cgroup_is_unknown() {
        let root = directory(&[("cpu.max", "max 100000\n")]);
        let found = cgroup(root.path(), "0::/\n").unwrap();
        assert_eq!(found.quota, None);
        assert_eq!(throttled_in(root.path(), "0::/\n"), None);
        assert_eq!(cgroup(root.path(), ""), None);
    }

    #[test]
    fn what_does_not_matter_is_not_said() {
        let quota = Some(Quota {
            quota_us: 200_000,
            period_us: 100_000,
        });
        let cpuset = None;
        let limits = Limits {
            cgroup: Some(Cgroup { quota, cpuset }),
            policy: Some("SCHED_OTHER".to_owned()),
            priority: None,
            nice: Some(0),
        };
        assert!(limits.notable(2).is_empty());
        let fifo = Limits {
            policy: Some("SCHED_FIFO".to_owned()),
            priority: Some(10),
            nice: Some(5),
            ..limits
        };
        let notable = ["cgroup quota 2.00 CPUs", "SCHED_FIFO 10", "nice 5"];
        assert_eq!(fifo.notable(4), notable);
    }
}
