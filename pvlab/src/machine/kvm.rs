//! vCPUs of a KVM guest.

use super::{RunningVm, unknown_of_threads};
use crate::record::Unknown;
use host::{HostError, HostNote, Region};
use rustix::process::Pid;
use std::collections::BTreeMap;
use vmm::Vm;

impl RunningVm for Vm {
    fn region(&self) -> &Region {
        Vm::region(self)
    }

    fn khz(&self) -> u64 {
        self.tsc_khz()
    }

    fn now(&self) -> u64 {
        Vm::now(self)
    }

    fn kick(&self, vcpu: usize) -> Result<(), HostError> {
        Vm::kick(self, vcpu)
    }

    fn tid(&self, vcpu: usize) -> Option<Pid> {
        Vm::tid(self, vcpu)
    }

    fn exits(&self, vcpu: usize) -> BTreeMap<String, u64> {
        Vm::exits(self, vcpu)
    }

    fn kvm_stats(&self, vcpu: usize) -> Option<BTreeMap<String, u64>> {
        Vm::kvm_stats(self, vcpu)
    }

    fn unknown(&self) -> Vec<Unknown> {
        let mut unknown = unknown_of_threads(self);
        unknown.extend(self.without_stats().map(|why| Unknown {
            what: "KVM's statistics of vCPUs".to_owned(),
            why,
        }));
        unknown
    }

    fn tsc_offset(&self) -> u64 {
        Vm::tsc_offset(self)
    }

    fn take_notes(&self, vcpu: usize) -> Vec<HostNote> {
        Vm::take_notes(self, vcpu)
    }

    fn is_halted(&self, vcpu: usize) -> bool {
        Vm::is_halted(self, vcpu)
    }

    fn stop(&mut self) {
        Vm::stop(self);
    }

    fn states(&self) -> Vec<String> {
        let registers = self.registers();
        registers
            .iter()
            .enumerate()
            .map(|(vcpu, registers)| {
                let state = if self.is_halted(vcpu) {
                    "halted"
                } else {
                    "running"
                };
                match registers {
                    Some(registers) => format!("{state}, {registers}"),
                    None => {
                        format!("{state}, no answer: ended, or the host gives its thread no CPU")
                    }
                }
            })
            .collect()
    }
}
