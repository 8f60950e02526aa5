//! What parameters need of the machine to have any effect.

use crate::parameters::{Costs, Parameter};
use crate::spec::{Spec, SpecError, parameter};

/// What a parameter needs: whether the machine has it, and what there is instead.
type Need = (fn(&Costs) -> bool, &'static str);

const THREADS: Need = (|c| c.threads > 1.0, "cores have one thread (threads = 1)");
const CORES: Need = (|c| c.cores > 1.0, "sockets have one core (cores = 1)");
const SOCKETS: Need = (|c| c.sockets > 1.0, "there is one socket (sockets = 1)");
const HOPS: Need = (
    |c| c.links + 1.0 < c.sockets,
    "all sockets are linked to each other (links)",
);
const HYPERVISOR: Need = (
    |c| c.virtual_machine != 0.0,
    "there is no hypervisor (virtual_machine = 0)",
);
const PLE: Need = (|c| c.ple != 0.0, "there are no pause-loop exits (ple = 0)");
const PLE_GROWS: Need = (
    |c| c.ple_grow > 1.0,
    "the window does not grow (ple_grow = 1)",
);
const POLLS: Need = (
    |c| c.halt_poll_max_ns > 0.0,
    "halts do not poll (halt_poll_max_ns = 0)",
);
const EEVDF: Need = (|c| c.eevdf != 0.0, "slices are given in turn (eevdf = 0)");
const WAKEUP_PREEMPTION: Need = (
    |c| c.wakeup_preemption != 0.0,
    "who wakes up preempts nobody (wakeup_preemption = 0)",
);

/// The parameters that need something.
const NEEDS: &[(&str, &[Need])] = &[
    ("transfer_core_ns", &[THREADS]),
    ("smt_busy", &[THREADS]),
    ("smt_spin", &[THREADS]),
    ("transfer_socket_ns", &[CORES]),
    ("transfer_cross_ns", &[SOCKETS]),
    ("burst", &[SOCKETS]),
    ("transfer_hop_ns", &[SOCKETS, HOPS]),
    ("exit_ns", &[HYPERVISOR]),
    ("entry_ns", &[HYPERVISOR]),
    ("halt_poll_start_ns", &[POLLS]),
    ("halt_poll_grow", &[POLLS]),
    ("halt_poll_shrink", &[POLLS]),
    ("ple", &[HYPERVISOR]),
    ("ple_gap_ns", &[HYPERVISOR, PLE]),
    ("ple_window_ns", &[HYPERVISOR, PLE]),
    ("ple_grow", &[HYPERVISOR, PLE]),
    ("ple_window_max_ns", &[HYPERVISOR, PLE, PLE_GROWS]),
    ("wakeup_preemption", &[EEVDF]),
    ("wakeup_protect_ns", &[EEVDF, WAKEUP_PREEMPTION]),
];

/// The parameters that matter only to vCPUs which may run on several CPUs.
const OF_MIGRATION: [&str; 2] = ["migration_ns", "balance_ns"];

impl Spec {
    /// Why `parameter` has no effect on this machine, if it has none. `floating`: vCPUs may run on several CPUs.
    pub fn without_effect(&self, parameter: &Parameter, floating: bool) -> Option<&'static str> {
        if !floating && OF_MIGRATION.contains(&parameter.name) {
            return Some("each vCPU stays on its CPU (--placement)");
        }
        let (_, needs) = NEEDS.iter().find(|(name, _)| *name == parameter.name)?;
        let mut needs = needs.iter();
        needs.find_map(|(met, instead)| (!met(&self.costs)).then_some(*instead))
    }

    /// The first of `assignments`, made to `preset`, that gives a parameter another value and still has no effect
    /// on this machine; and why.
    ///
    /// # Errors
    /// If an assignment is none.
    pub fn idle_assignment<'a>(
        &self,
        preset: &Self,
        assignments: &'a [String],
        floating: bool,
    ) -> Result<Option<(&'a str, &'static str)>, SpecError> {
        for assignment in assignments {
            let name = assignment.split('=').next().unwrap_or_default();
            let parameter = parameter(name.trim())?;
            if preset.costs.get(parameter.name) == self.costs.get(parameter.name) {
                continue;
            }
            if let Some(why) = self.without_effect(parameter, floating) {
                return Ok(Some((assignment, why)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_that_of_a_parameter() {
        let names = NEEDS.iter().map(|(name, _)| *name).chain(OF_MIGRATION);
        for name in names {
            assert!(parameter(name).is_ok(), "{name}");
        }
    }

    #[test]
    fn what_a_machine_lacks_makes_parameters_idle() {
        let idle = |preset: &str, assignments: &[&str]| {
            let preset = crate::presets::find(preset).unwrap();
            let assignments: Vec<_> = assignments.iter().map(|a| (*a).to_owned()).collect();
            let mut spec = preset.clone();
            assignments.iter().for_each(|a| spec.set(a).unwrap());
            spec.idle_assignment(&preset, &assignments, false)
                .unwrap()
                .map(|(assignment, _)| assignment.to_owned())
        };
        assert_eq!(idle("broadwell-ex-4s", &["ple=1"]).unwrap(), "ple=1");
        assert_eq!(
            idle("broadwell-ex-4s", &["ple=1", "virtual_machine=1"]),
            None
        );
        assert_eq!(idle("broadwell-ex-4s", &["ple=0"]), None, "it is 0");
        assert_eq!(
            idle("here", &["ple_window_ns=9us"]).unwrap(),
            "ple_window_ns=9us"
        );
        assert_eq!(idle("here", &["smt_spin=2"]).unwrap(), "smt_spin=2");
        assert_eq!(
            idle("cascade-lake-2s", &["balance_ns=9ms"]).unwrap(),
            "balance_ns=9ms"
        );
        assert_eq!(idle("cascade-lake-2s", &["ple=0", "kick_ns=9us"]), None);
    }
}
