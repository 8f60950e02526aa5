//! What keeps this process from its host's CPUs: its cgroup, and how it is scheduled.

use crate::host::parse_cpu_list;
use host::thread::Scheduling;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

/// Where cgroups are to be found.
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
        match (self.policy.as_deref(), self.priority) {
            (None | Some("SCHED_OTHER"), _) => {}
            (Some(policy), Some(priority)) => notable.push(format!("{policy} {priority}")),
            (Some(policy), None) => notable.push(policy.to_owned()),
        }
        if let Some(nice) = self.nice.filter(|nice| *nice != 0) {
            notable.push(format!("nice {nice}"));
        }
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
        membership.lines().filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            Some((fields.next()?, fields.next()?))
        })
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
    let read = |directory: &Path, file: &str| {
        let text = fs::read_to_string(directory.join(file)).ok()?;
        Some(text.trim().to_owned())
    };
    let quota = |directory: &PathBuf| {
        let (quota, period) = if unified {
            let text = read(directory, "cpu.max")?;
            let (quota, period) = text.split_once(' ')?;
            (quota.to_owned(), period.to_owned())
        } else {
            (
                read(directory, "cpu.cfs_quota_us")?,
                read(directory, "cpu.cfs_period_us")?,
            )
        };
        // "max" and -1 are no quotas.
        Some(Quota {
            quota_us: quota.parse().ok()?,
            period_us: period.parse().ok()?,
        })
    };
    let quotas = cpu.iter().filter_map(quota);
    let cpuset = directories(root, membership, "cpuset").and_then(|(directories, _)| {
        [
            "cpuset.cpus.effective",
            "cpuset.effective_cpus",
            "cpuset.cpus",
        ]
        .into_iter()
        .find_map(|file| parse_cpu_list(&read(directories.first()?, file)?))
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
        if unified {
            field("throttled_usec ").map(Duration::from_micros)
        } else {
            field("throttled_time ").map(Duration::from_nanos)
        }
    };
    cgroup(root, membership)?.quota?;
    cpu.iter().filter_map(of).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with these files, which is removed again.
    struct Files(PathBuf);

    impl Files {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let root = std::env::temp_dir().join(format!("pvlab-{}-{name}", std::process::id()));
            for (file, text) in files {
                let path = root.join(file);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(root)
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_tightest_quota_of_all_cgroups_around_counts() {
        let files = Files::new(
            "v2",
            &[
                ("a/cpu.max", "150000 100000\n"),
                ("a/b/cpu.max", "max 100000\n"),
                ("a/b/cpuset.cpus.effective", "0-1,4\n"),
                ("a/cpu.stat", "usage_usec 7\nthrottled_usec 2500000\n"),
                ("a/b/cpu.stat", "usage_usec 7\nthrottled_usec 0\n"),
            ],
        );
        let found = cgroup(&files.0, "0::/a/b\n").unwrap();
        assert_eq!(found.quota.unwrap().cpus(), 1.5);
        assert_eq!(found.cpuset, Some(vec![0, 1, 4]));
        let waited = throttled_in(&files.0, "0::/a/b\n");
        assert_eq!(waited, Some(Duration::from_millis(2500)));
        // A container sees its own cgroup as the root.
        let own = cgroup(&files.0.join("a"), "0::/elsewhere\n").unwrap();
        assert_eq!(own.quota.unwrap().cpus(), 1.5);
    }

    #[test]
    fn the_first_version_has_a_hierarchy_for_each_controller() {
        let membership = "4:cpuset:/\n2:cpu,cpuacct:/job\n0::/\n";
        let files = Files::new(
            "v1",
            &[
                ("cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
                ("cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
                ("cpu,cpuacct/job/cpu.cfs_quota_us", "50000\n"),
                ("cpu,cpuacct/job/cpu.cfs_period_us", "100000\n"),
                (
                    "cpu,cpuacct/job/cpu.stat",
                    "nr_periods 9\nthrottled_time 1500\n",
                ),
                ("cpuset/cpuset.cpus", "0-3\n"),
            ],
        );
        let found = cgroup(&files.0, membership).unwrap();
        assert_eq!(found.quota.unwrap().cpus(), 0.5);
        assert_eq!(found.cpuset, Some(vec![0, 1, 2, 3]));
        let waited = throttled_in(&files.0, membership);
        assert_eq!(waited, Some(Duration::from_nanos(1500)));
    }

    #[test]
    fn no_quota_is_none_and_no_cgroup_is_unknown() {
        let files = Files::new("none", &[("cpu.max", "max 100000\n")]);
        let found = cgroup(&files.0, "0::/\n").unwrap();
        assert_eq!(found.quota, None);
        assert_eq!(throttled_in(&files.0, "0::/\n"), None);
        assert_eq!(cgroup(&files.0, ""), None);
    }

    #[test]
    fn what_does_not_matter_is_not_said() {
        let quota = |quota_us| Quota {
            quota_us,
            period_us: 100_000,
        };
        let limits = Limits {
            cgroup: Some(Cgroup {
                quota: Some(quota(200_000)),
                cpuset: None,
            }),
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
