//! vCPUs of a KVM guest.

use super::{Facts, MachineError, Plan, RunningVm, Started, Unknown, unknown_of_threads};
use abi::KICK_PAGES;
use host::{HostError, HostNote, Region};
use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use vmm::{Cpl, Vm};

/// Each vCPU needs a kick doorbell, a 32-bit word in one of the doorbell pages.
#[expect(clippy::cast_possible_truncation, reason = "there are four pages")]
const MOST_VCPUS: usize = KICK_PAGES as usize * 0x1000 / size_of::<u32>();

pub(super) const FACTS: Facts = Facts {
    name: "kvm",
    about: "Guests on real vCPUs.",
    simulated: false,
    kvm: true,
    tasks: true,
    peers: false,
    ends_waiters: true,
    most_vcpus: MOST_VCPUS,
    why_no_more: "as there is a kick doorbell for each",
    caution: None,
    start,
};

/// The privilege level that guests are to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CplChoice {
    /// 0 if the host runs it natively, else 3.
    #[serde(rename = "auto")]
    Auto,
    /// Kernel mode.
    #[serde(rename = "0")]
    Cpl0,
    /// User mode.
    #[serde(rename = "3")]
    Cpl3,
}

fn start(plan: &Plan<'_>) -> Result<Vec<Started>, MachineError> {
    let cpl = match plan.cpl {
        CplChoice::Cpl0 => Cpl::Cpl0,
        CplChoice::Cpl3 => Cpl::Cpl3,
        CplChoice::Auto => auto_cpl()?,
    };
    let vm = |(params, affinity): &(_, Vec<_>)| {
        let (vm, notices) = Vm::start(&vmm::Config {
            params: *params,
            cpl,
            seccomp: plan.seccomp,
            affinity: affinity.clone(),
        })?;
        Ok((Box::new(vm) as Box<dyn RunningVm>, notices))
    };
    plan.vms.iter().map(vm).collect()
}

/// The privilege level for this host, found out once.
///
/// # Errors
/// If KVM cannot run a guest to find out.
pub fn auto_cpl() -> Result<Cpl, MachineError> {
    static AUTO: OnceLock<Cpl> = OnceLock::new();
    if let Some(cpl) = AUTO.get() {
        return Ok(*cpl);
    }
    let cpl = vmm::cpl::detect()?;
    Ok(*AUTO.get_or_init(|| cpl))
}

impl CplChoice {
    /// Whether each instruction of such a guest is emulated here.
    ///
    /// # Errors
    /// As of [`auto_cpl`].
    pub fn is_emulated(self) -> Result<bool, MachineError> {
        Ok(self == Self::Cpl0 && auto_cpl()? == Cpl::Cpl3)
    }
}

/// What the VM does by itself, under the same names.
macro_rules! of_the_vm {
    ($(fn $name:ident(&self $(, $argument:ident: $type:ty)?) -> $result:ty;)*) => {$(
        fn $name(&self $(, $argument: $type)?) -> $result {
            Vm::$name(self $(, $argument)?)
        }
    )*};
}

impl RunningVm for Vm {
    of_the_vm! {
        fn region(&self) -> &Region;
        fn now(&self) -> u64;
        fn kick(&self, vcpu: usize) -> Result<(), HostError>;
        fn tid(&self, vcpu: usize) -> Option<Pid>;
        fn exits(&self, vcpu: usize) -> BTreeMap<String, u64>;
        fn kvm_stats(&self, vcpu: usize) -> Option<BTreeMap<String, u64>>;
        fn tsc_offset(&self) -> u64;
        fn take_notes(&self, vcpu: usize) -> Vec<HostNote>;
        fn is_halted(&self, vcpu: usize) -> bool;
    }

    fn khz(&self) -> u64 {
        self.tsc_khz()
    }

    fn unknown(&self) -> Vec<Unknown> {
        let mut unknown = unknown_of_threads(Vm::tid(self, 0));
        let what = "KVM's statistics of vCPUs".to_owned();
        unknown.extend(self.without_stats().map(|why| Unknown { what, why }));
        unknown
    }

    fn stop(&mut self) {
        Vm::stop(self);
    }

    fn states(&self) -> Vec<String> {
        let state = |(vcpu, registers)| {
            let state = if self.is_halted(vcpu) {
                "halted"
            } else {
                "running"
            };
            let none = || "no answer: ended, or the host gives its thread no CPU".to_owned();
            let registers: Option<_> = registers;
            format!(
                "{state}, {}",
                registers.as_ref().map_or_else(none, ToString::to_string)
            )
        };
        let numbered = self.registers().into_iter().enumerate();
        numbered.map(state).collect()
    }
}
