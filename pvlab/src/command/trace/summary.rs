//! The account of a trace that is there.

use super::TraceArgs;
use super::{check_sums, slow_paths};
use crate::options::error::CliError;
use crate::options::exit::complain;
use crate::options::output::Target;
use crate::report;
use crate::report::Format;
use crate::scenario::{Lock, Scenario};
use crate::trace::account::{Accountant, Setup, VmSetup};
use crate::trace::header::Header;
use crate::trace::read;
use pvlock::LockKind;
use serde::Deserialize;
use std::path::Path;

/// Reads a trace and accounts for it.
pub(crate) fn summarise(args: &TraceArgs, path: &Path) -> Result<u8, CliError> {
    let mut accountant = None;
    let summary = read::read(path, |header, event| {
        accountant
            .get_or_insert_with(|| Accountant::new(&setup_of(header)))
            .event(event);
    })?;
    let accountant = accountant.unwrap_or_else(|| Accountant::new(&setup_of(&summary.header)));
    let account = accountant.finish(summary.end_ns);
    let format = args.account;
    let mut text = String::new();
    if format == Format::Table {
        text += &format!(
            "trace: {}, machine {}\n",
            path.display(),
            summary.header.machine
        );
        // A scenario that this version does not understand is left out, not the account.
        text += &Scenario::deserialize(&summary.header.scenario)
            .map_or_else(|_| String::new(), |scenario| slow_paths(&scenario));
        for note in &summary.header.notes {
            text += &format!("warning: {note}\n");
        }
    }
    text += &report::account::account(&account, format);
    Target::print(&text)?;
    if let Some(warning) = summary.warning() {
        complain(&format!("warning: {warning}"));
    }
    check_sums(&account)
}

fn setup_of(header: &Header) -> Setup {
    let vms = header.vms.iter().map(|vm| VmSetup {
        // The account needs the lock for its name only; one that this version does not know is kept
        // as one without an order.
        lock: vm
            .lock
            .parse()
            .map_or(LockKind::Tas.into(), |lock: Lock| lock.kind),
        vcpus: vm.vcpus.len(),
        locks: vm.locks,
    });
    Setup {
        vms: vms.collect(),
        simulated: header.simulated,
    }
}
