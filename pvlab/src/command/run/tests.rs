//! Tests of [`super`], on hosts made up for them.

use super::*;
use crate::command::{Cli, Command};
use crate::host::Device;
use crate::options::Request;
use crate::options::machine::KvmError;
use crate::scenario::MachineKind;
use clap::Parser;

fn host() -> Host {
    Host::fixture(4, vec![1, 2, 3])
}

fn run_args(options: &str) -> Box<RunArgs> {
    let words = ["pvlab", "run"].into_iter();
    let words = words.chain(options.split_whitespace());
    let Command::Run(args) = Cli::try_parse_from(words).unwrap().command else {
        unreachable!()
    };
    args
}

/// What comes of the options on [`host`].
fn scenario(options: &str) -> Scenario {
    ask(options, &host()).unwrap().scenario
}

fn ask(options: &str, host: &Host) -> Result<Request, CliError> {
    let args = run_args(options);
    let guests = Guests::of(&args.guests)?;
    let length = length(args.duration, args.iterations);
    args.common.request(guests, length, host)
}

#[test]
fn defaults_use_two_allowed_cpus_with_four_vcpus_each() {
    let request = ask("--lock tas", &host()).unwrap();
    assert_eq!(request.scenario.cpus, [1, 2]);
    assert_eq!(request.scenario.vcpus(), 8);
    assert_eq!(request.scenario.machine, MachineKind::Kvm);
    assert_eq!(request.context.machine_reason, "vendor unknown");
    let two_seconds = Length::Duration(Duration::from_secs(2));
    assert_eq!(request.scenario.length, two_seconds);
}

#[test]
fn a_placement_list_tells_the_cpus_and_the_number_of_vcpus() {
    let scenario = scenario("--lock tas --placement 3,3,1");
    assert_eq!(scenario.cpus, [1, 3]);
    assert_eq!(scenario.vcpus(), 3);
}

#[test]
fn without_kvm_the_machine_is_threads_and_says_why() {
    let mut host = host();
    host.kvm.device = Device::NoPermission;
    let request = ask("--lock tas", &host).unwrap();
    assert_eq!(request.scenario.machine, MachineKind::Threads);
    let reason = request.context.machine_reason;
    assert_eq!(reason, "no permission to open /dev/kvm");

    let error = ask("--lock tas --machine kvm", &host).unwrap_err();
    assert_eq!(error.exit_code, 1);
    assert!(error.to_string().contains("--machine threads"), "{error}");
}

#[test]
fn other_architectures_get_threads() {
    let host = Host {
        arch: "aarch64".into(),
        ..host()
    };
    let request = ask("--lock tas", &host).unwrap();
    assert_eq!(request.scenario.machine, MachineKind::Threads);
    let error = ask("--lock tas --machine kvm", &host).unwrap_err();
    let why = error.why.downcast_ref();
    assert!(matches!(why, Some(KvmError::NotX86 { .. })));
}

#[test]
fn contradictions_are_usage_errors_with_a_way_out() {
    let offline = "CPU 9 does not exist or is offline; online are 0-3";
    let two_vms = "--vm lock=tas,vcpus=1 --vm lock=tas,vcpus=2";
    for (options, part) in [
        ("--cpus 1,9", offline),
        ("--cpus 0", "may not run on CPU 0; it may use 1-3"),
        ("--cpus 1,1", "CPU 1 is named twice"),
        ("--placement 9", "--placement: CPU 9 does not exist"),
        ("--placement 1,2 --cpus 1", "CPU 2 is not among --cpus 1"),
        ("--vcpus 3 --placement 1,2", "lists 2 CPUs for 3 vCPUs"),
        (two_vms, "2 CPUs for 3 vCPUs"),
        ("--vcpus 4097", "at most 4096"),
        ("--vcpus 16384 --machine threads", "at most 16383"),
        ("--machine threads --cpl 3", "leave it out"),
        (
            "--machine threads --no-seccomp",
            "--no-seccomp applies only to KVM",
        ),
        ("--watchdog 1ms --critical 2ms", "--watchdog 1ms is shorter"),
    ] {
        let options = match options == two_vms {
            true => format!("{options} --placement 1,2"),
            false => format!("--lock tas {options}"),
        };
        let error = ask(&options, &host()).unwrap_err();
        assert_eq!(error.exit_code, 2, "{options}");
        let message = error.to_string();
        assert!(message.contains(part), "{options}: {message}");
        assert!(!message.contains('\n'), "{options}: {message}");
    }
}

#[test]
fn a_guest_has_no_more_vcpus_than_this_kvm_gives_it() {
    let mut host = host();
    host.kvm.max_vcpus = Some(64);
    assert!(ask("--lock tas --vcpus 64", &host).is_ok());
    let two_vms = "--vm lock=tas,vcpus=1 --vm lock=tas,vcpus=65";
    for many in ["--lock tas --vcpus 65", two_vms] {
        let error = ask(many, &host).unwrap_err();
        assert_eq!(error.exit_code, 2, "{many}");
        assert!(error.to_string().contains("at most 64"), "{error}");
    }
    assert!(ask("--lock tas --vcpus 65 --machine threads", &host).is_ok());
}

#[test]
fn limits_themselves_are_allowed() {
    assert!(ask("--lock tas --vcpus 4096", &host()).is_ok());
    assert!(ask("--lock tas --vcpus 16383 --machine threads", &host()).is_ok());
    assert!(ask("--lock tas --critical 0 --outside 0 --warm-up 0", &host()).is_ok());
}

#[test]
fn auto_is_resolved_for_each_guest_by_what_it_is_offered() {
    let locks = |options: &str| {
        let request = ask(options, &host()).unwrap();
        let locks: Vec<_> = request.scenario.vms.iter().map(|vm| vm.lock).collect();
        assert_eq!(locks, request.locks);
        locks.iter().map(|lock| lock.name()).collect::<Vec<_>>()
    };
    assert_eq!(locks("--lock auto --vcpus 2"), ["auto=pv-qspinlock"]);
    assert_eq!(locks("--lock auto --vcpus 1"), ["auto=qspinlock"]);
    assert_eq!(
        locks("--vm lock=auto,vcpus=1 --vm lock=auto:pointer,vcpus=4 --no-pv-unhalt"),
        ["auto=qspinlock", "auto=virt-tas:pointer"]
    );
    assert_eq!(locks("--lock auto --no-pv"), ["auto=qspinlock"]);
    assert_eq!(locks("--lock auto --realtime-hint"), ["auto=qspinlock"]);
}

#[test]
fn a_scenario_with_a_chosen_lock_can_be_run_again() {
    let scenario = scenario("--lock auto:patched --no-pv-unhalt");
    let text = serde_json::to_string(&scenario).unwrap();
    assert!(text.contains(r#""lock":"auto=virt-tas:patched""#), "{text}");
    assert!(text.contains(r#""pv_unhalt":false"#), "{text}");
    let again: Scenario = serde_json::from_str(&text).unwrap();
    assert_eq!(again, scenario);
}

#[test]
fn scenarios_of_before_the_switch_can_be_read() {
    assert!(!scenario("--lock mutex --no-vcpu-is-preempted").vcpu_is_preempted);
    let on = scenario("--lock mutex");
    let mut file = serde_json::to_value(&on).unwrap();
    assert_eq!(file["vcpu_is_preempted"], true);
    file.as_object_mut().unwrap().remove("vcpu_is_preempted");
    assert_eq!(serde_json::from_value::<Scenario>(file).unwrap(), on);
}
