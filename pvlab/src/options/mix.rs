//! From [`MixArgs`] to the workload: which vCPUs take which lock and how, or why that makes no sense.

use super::args::{Common, MixArgs};
use super::error::Usage;
use crate::machine::lock_bytes;
use crate::scenario::{Data, Lock, Mix, Scenario, VmSpec, Workload};
use abi::{Dispatch, LOCK_BYTES_BESIDE_DATA};
use pvlock::LockKind;

/// The workload of `vms`.
pub(crate) fn workload(common: &Common, vms: &[VmSpec]) -> Result<Workload, Usage> {
    let args = &common.mix;
    let mix = mix(args);
    check_locks(common, vms.iter().map(|vm| vm.lock))?;
    for &VmSpec { vcpus, .. } in vms {
        let nodes = args.numa_nodes;
        if usize::try_from(nodes).is_ok_and(|nodes| nodes > vcpus) {
            return Err(Usage::TooManyNodes { nodes, vcpus });
        }
        match mix {
            Mix::Readers(readers) if readers > vcpus => {
                return Err(Usage::TooManyReaders { readers, vcpus });
            }
            _ => {}
        }
    }
    Ok(Workload {
        critical: common.critical,
        outside: common.outside.mean,
        outside_spread: common.outside.spread,
        data: data(common, vms.iter().map(|vm| vm.lock))?,
        locks: locks(args, common.lock_count)?,
        skew: args.skew.unwrap_or(0.0),
        mix,
        contexts: args.contexts,
    })
}

/// Where the data is to lie, if all of the locks leave room for it there.
pub(crate) fn data(common: &Common, locks: impl IntoIterator<Item = Lock>) -> Result<Data, Usage> {
    let data = common.data.resolve()?;
    if data == Data::SameLine {
        let most = LOCK_BYTES_BESIDE_DATA;
        for lock in locks {
            let bytes = lock_bytes(lock.kind);
            if bytes > most {
                let lock = lock.name();
                return Err(Usage::NoRoomBesideLock { lock, bytes, most });
            }
        }
    }
    Ok(data)
}

fn mix(args: &MixArgs) -> Mix {
    match (args.reads, args.readers) {
        (Some(share), _) => Mix::ReadShare(share),
        (None, Some(readers)) => Mix::Readers(readers),
        (None, None) => Mix::Exclusive,
    }
}

fn option(mix: Mix) -> Option<&'static str> {
    match mix {
        Mix::Exclusive => None,
        Mix::ReadShare(_) => Some("--reads"),
        Mix::Readers(_) => Some("--readers"),
    }
}

/// Whether each of the locks can do what is asked for.
pub(crate) fn check_locks(
    common: &Common,
    locks: impl IntoIterator<Item = Lock> + Clone,
) -> Result<(), Usage> {
    let sleeps = |lock: &Lock| lock.traits().sleeps;
    if common.mix.contexts > 1
        && let Some(lock) = locks.clone().into_iter().find(sleeps)
    {
        return Err(Usage::SleepsInInterrupt { lock: lock.name() });
    }
    data(common, locks.clone())?;
    option(mix(&common.mix)).map_or(Ok(()), |option| check_reads(option, locks))
}

/// Whether each of the locks can be read, as `option` asks for.
pub(crate) fn check_reads(
    option: &'static str,
    locks: impl IntoIterator<Item = Lock>,
) -> Result<(), Usage> {
    let direct = |lock: &Lock| lock.kind.is_rw() && lock.dispatch == Dispatch::Direct;
    match locks.into_iter().find(|lock| !direct(lock)) {
        None => Ok(()),
        Some(lock) if lock.kind.is_rw() => Err(Usage::ReadsNotDirect {
            option,
            lock: lock.name(),
            direct: lock.kind.name(),
        }),
        Some(lock) => Err(no_read_side(option, lock.name())),
    }
}

/// What to say where `option` asks for reads of a lock that has no read side.
pub(crate) fn no_read_side(option: &'static str, lock: String) -> Usage {
    let rw = LockKind::ALL
        .iter()
        .filter(|kind| kind.is_rw() && !kind.traits().control);
    let names: Vec<_> = rw.map(|kind| kind.name()).collect();
    Usage::NoReadSide {
        option,
        lock,
        rw: names.join(", "),
    }
}

/// The number of locks: contexts have one each.
fn locks(args: &MixArgs, asked: Option<usize>) -> Result<usize, Usage> {
    let contexts = args.contexts;
    if contexts == 1 {
        let locks = asked.unwrap_or(1);
        return if locks == 1 && args.skew.is_some() {
            Err(Usage::SkewOfOneLock)
        } else {
            Ok(locks)
        };
    }
    if args.skew.is_some() {
        return Err(Usage::SkewOfContexts);
    }
    let own = usize::try_from(contexts).unwrap_or(usize::MAX);
    match asked {
        Some(locks) if locks != own => Err(Usage::LocksOfContexts { locks, contexts }),
        _ => Ok(own),
    }
}

/// Whether a trace of the scenario can be accounted for.
pub(crate) fn check_traceable(scenario: &Scenario) -> Result<(), Usage> {
    let refuse = |option, reason| Err(Usage::NotTraceable { option, reason });
    if let Some(option) = option(scenario.workload.mix) {
        return refuse(
            option,
            "the account of a trace knows one holder of a lock at a time",
        );
    }
    if scenario.workload.contexts > 1 {
        return refuse(
            "--contexts",
            "the account of a trace knows one acquisition of a vCPU at a time",
        );
    }
    Ok(())
}
