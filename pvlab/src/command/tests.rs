//! Tests of whole reports, from records made up.

use super::compare::plan::fixture::plan;
use super::compare::result::Comparison;
use super::run::live::interval_lines;
use super::run::report::RunReport;
use crate::figures::fixture;
use crate::host::Host;
use crate::record::{Context, Ended, Record, Waits};
use crate::report::fixture::undocumented;
use crate::report::{Format, Report};
use crate::scenario::Mix;
use abi::Counter;
use pvlock::{LockEvent, LockKind};
use serde_json::Value;

fn context() -> Context {
    let mut host = Host::fixture(2, vec![0, 1]);
    host.kernel = Some("6.18".into());
    host.hypervisor = Some(true);
    host.kvm.vendor = Some("kvm_pvm".into());
    host.kvm.halt_poll_ns = Some(0);
    let scenario = fixture::scenario(LockKind::Tas);
    Context::new(host, "PVM, page-table based".into(), &scenario)
}

fn record(lock: LockKind, acquisitions: u64) -> Record {
    Record {
        context: context(),
        ..fixture::record(lock, acquisitions)
    }
}

fn comparison() -> Comparison {
    use LockKind::{PvQSpinLock, QSpinLock};
    let rounds = [(153, 3_050_000), (150, 3_100_000), (160, 3_000_001)]
        .map(|(native, pv)| vec![record(QSpinLock, native), record(PvQSpinLock, pv)]);
    let plan = plan(&[QSpinLock, PvQSpinLock], 0);
    Comparison::new(plan, &rounds, Ended::Complete, None)
}

fn run() -> Record {
    record(LockKind::PvQSpinLock, 1000)
}

fn render(record: &Record, format: Format) -> String {
    RunReport::new(record).render(format)
}

/// A report of a comparison, and one of a run.
fn both(format: Format) -> [String; 2] {
    [comparison().render(format), render(&run(), format)]
}

/// Two readers and two writers, of whom one never writes.
fn shared() -> Record {
    let mut record = fixture::record(LockKind::RwLock, 0);
    record.scenario.workload.mix = Mix::Readers(2);
    record.scenario.workload.locks = 3;
    record.scenario.workload.skew = 1.5;
    record.scenario.workload.contexts = 3;
    record.scenario.numa_nodes = 2;
    let mut vm = fixture::vm("rwlock", &[0, 10, 900, 1090]);
    vm.most_used_lock = Some(0.625);
    for vcpu in &mut vm.vcpus[..2] {
        vcpu.whole.read_waits = Some(Waits::default());
    }
    for vcpu in &mut vm.vcpus[2..] {
        let reads = vcpu.counter(Counter::Acquisitions);
        let figures = &mut vcpu.whole;
        figures.counters.insert(Counter::Reads.name().into(), reads);
        figures.read_waits = figures.waits.replace(Waits::default());
    }
    record.vms = vec![vm];
    record
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn json_of_a_comparison_has_the_promised_shape() {
    let json = json(&comparison().render(Format::Json));
    assert_eq!(json["schema"], "pvlab.compare/1");
    assert_eq!(json["machine"], "kvm");
    assert_eq!(json["baseline"], "qspinlock");
    assert_eq!(json["exclusion"], "held");
    assert_eq!(json["host"]["kvm"]["vendor"], "kvm_pvm");
    assert_eq!(json["host"]["governor"], Value::Null);
    assert_eq!(json["scenario"]["locks"][1], "pv-qspinlock");
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for result in results {
        assert!(result["lock"].is_string());
        for name in ["median", "lo", "hi"] {
            assert!(result["throughput"][name].is_f64(), "throughput.{name}");
            assert!(result["ratio"][name].is_f64(), "ratio.{name}");
        }
        assert_eq!(result["throughput"]["unit"], "acquisitions/s");
        let verdict = result["ratio"]["verdict"].as_str().unwrap();
        assert!(["faster", "slower", "no difference"].contains(&verdict));
        for name in ["jain", "max_over_min"] {
            assert!(result["fairness"][name].is_f64(), "fairness.{name}");
        }
        for name in ["p50", "p99", "p999", "max"] {
            assert!(result["wait_ns"][name].is_u64(), "wait_ns.{name}");
        }
        for name in ["contended", "acquisitions", "halts", "kicks"] {
            assert!(result[name].is_u64(), "{name}");
        }
        assert_eq!(result["exclusion"], "held");
        for event in LockEvent::ALL {
            assert!(result["events"][event.name()].is_u64(), "{}", event.name());
        }
    }
    assert_eq!(results[1]["acquisitions"], 9_150_001);
    assert_eq!(results[1]["ratio"]["verdict"], "faster");
}

#[test]
fn json_of_a_run_carries_the_record_so_that_it_can_be_run_again() {
    let json = json(&render(&run(), Format::Json));
    assert_eq!(json["schema"], "pvlab.run/1");
    assert_eq!(json["exclusion"], "held");
    let record: Record = serde_json::from_value(json["record"].clone()).unwrap();
    assert_eq!(record.scenario, run().scenario);
    assert_eq!(json["summaries"][0]["acquisitions"], 1000);
}

#[test]
fn tables_begin_with_the_machine_and_fit_a_mail() {
    for text in both(Format::Table) {
        assert!(text.starts_with("machine: kvm (PVM, page-table based), 2 vCPUs on CPUs 0-1"));
        assert!(text.is_ascii());
        let of_table = |line: &&str| line.contains(" | ") || line.starts_with("==");
        for line in text.lines().filter(of_table) {
            assert!(line.len() <= 100, "{} columns: {line}", line.len());
        }
    }
    let run = run();
    let mut report = RunReport::new(&run);
    report.first_line = false;
    assert!(!report.render(Format::Table).contains("machine: kvm"));
}

#[test]
fn tables_are_readable_and_have_units() {
    let text = comparison().render(Format::Table);
    for part in [
        "3.05 M/s",
        "153 /s",
        "faster",
        "baseline",
        "132 ns",
        "timing one acquisition costs: 9.2 ns",
        "0 halts",
        "measurement started after 300 ms: the warm-up was over",
        "queue, halt",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
}

#[test]
fn csv_has_as_many_cells_in_each_row_as_in_its_header() {
    for text in both(Format::Csv) {
        let cells = |line: &str| line.split(',').count();
        let mut lines = text.lines();
        let header = cells(lines.next().unwrap());
        let rows: Vec<usize> = lines.map(cells).collect();
        assert_eq!(rows, [header; 2], "{text}");
    }
    let csv = comparison().render(Format::Csv);
    assert!(csv.contains("9150001"), "exact");
}

#[test]
fn markdown_has_tables() {
    let text = comparison().render(Format::Markdown);
    assert!(text.starts_with("* machine: kvm"));
    assert!(text.contains("\n| pv-qspinlock |"), "{text}");
}

#[test]
fn a_broken_lock_is_cried_out_and_written_down() {
    let mut record = fixture::record(LockKind::Busted, 1000);
    record.vms[0].exclusion.entries = Some(999);
    let cry = RunReport::new(&record).exclusion_broken().unwrap();
    assert!(cry.contains("BROKEN by lock 'busted'"));
    assert_eq!(json(&render(&record, Format::Json))["exclusion"], "broken");

    let plan = plan(&[LockKind::Tas, LockKind::Busted], 0);
    let report = Comparison::new(plan, &[], Ended::ExclusionBroken, Some(&(1, record)));
    assert!(report.exclusion_broken().is_some());
    let json = json(&report.render(Format::Json));
    assert_eq!(json["exclusion"], "broken");
    assert_eq!(json["results"][0]["exclusion"], "held");
    assert_eq!(json["results"][1]["exclusion"], "broken");
    assert_eq!(json["results"][1]["throughput"], Value::Null);
    for format in [Format::Table, Format::Csv, Format::Markdown] {
        assert!(!report.render(format).contains("NaN"));
    }
}

#[test]
fn starvation_has_no_ratio_in_tables_and_null_in_json() {
    let mut record = fixture::record(LockKind::Tas, 1000);
    record.vms = vec![fixture::vm("tas", &[1000, 0])];
    let rounds = vec![vec![record]; 2];
    let report = Comparison::new(plan(&[LockKind::Tas], 0), &rounds, Ended::Complete, None);
    let table = report.render(Format::Table);
    assert!(table.contains(" none "));
    let json = json(&report.render(Format::Json));
    assert_eq!(json["results"][0]["fairness"]["max_over_min"], Value::Null);
    assert_eq!(json["results"][0]["fairness"]["jain"], 0.5);
    let starved = "in round 2 vCPU 1 (acquisitions: 0; the others: 1000 each)";
    assert!(table.contains(starved));
}

#[test]
fn interval_lines_name_the_vm_and_units() {
    use crate::session::{Interval, IntervalVm};
    let vm = IntervalVm {
        acquisitions: 100,
        contended: 50,
        halts: 4,
        kicks: 3,
        ..IntervalVm::default()
    };
    let interval = Interval {
        at_s: 1.5,
        length_s: 0.5,
        without_cpu_s: 0.0,
        vms: vec![vm],
        live: Vec::new(),
    };
    let lines = interval_lines(&fixture::scenario(LockKind::Tas), &interval);
    assert_eq!(lines.len(), 1);
    let parts = "1.50 s|VM 0 tas|200 /s acquisitions|8.00 /s halts|6.00 /s kicks";
    for part in parts.split('|') {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}

#[test]
fn every_field_is_documented() {
    let documentation = include_str!("../../../docs/json.md");
    let counted = ["events", "exits", "kvm", "counters"];
    let [one, two] = both(Format::Json);
    for text in [one, two, render(&shared(), Format::Json)] {
        let lacking = undocumented(&json(&text), documentation, &counted);
        assert!(lacking.is_empty(), "{lacking:?} are not in docs/json.md");
    }
    for event in LockEvent::ALL {
        let name = event.name();
        assert!(documentation.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn readers_and_writers_are_told_apart_in_every_format() {
    let text = render(&shared(), Format::Table);
    for part in [
        "told of 2 NUMA nodes",
        "3 locks (skew 1.5), 2 readers of each VM, 3 contexts of each vCPU",
        "2.00 k/s",
        "0.50 %",
        "share of the most used lock: 62.5 % (0 rwlock)",
        "warning: rwlock: writers starved: 0.500 % of acquisitions were writes, and the vCPUs ask for \
         50.0 %; 1 of 2 vCPUs never came to it in a run",
    ] {
        assert!(text.contains(part), "{part} is missing in\n{text}");
    }
    assert!(!text.contains("readers starved"));
    let table = text.lines().filter(|line| line.contains(" | "));
    assert!(table.clone().all(|line| line.len() <= 100), "{text}");

    let json = json(&render(&shared(), Format::Json));
    let summary = &json["summaries"][0];
    assert_eq!(summary["fairness"]["jain"], Value::Null);
    let sharing = &summary["sharing"];
    assert_eq!(sharing["reads"]["acquisitions"], 1990);
    assert_eq!(sharing["writes"]["share"], 0.005);
    assert_eq!(sharing["writes"]["fairness"]["max_over_min"], Value::Null);
    assert_eq!(sharing["writes"]["wait_ns"]["max"], 100);
    assert!(sharing["reads"]["fairness"]["jain"].as_f64().unwrap() > 0.99);

    let rounds = [vec![shared()], vec![shared()]];
    let plan = plan(&[LockKind::RwLock], 0);
    let report = Comparison::new(plan, &rounds, Ended::Complete, None);
    for text in [render(&shared(), Format::Csv), report.render(Format::Csv)] {
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        let column = rows[0].iter().position(|name| *name == "write_wait_max_ns");
        // The second vCPU writes; a comparison has one row.
        let row = &rows[rows.len().min(3) - 1];
        assert_eq!(row[column.unwrap()], "100", "{text}");
        assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{text}");
    }
}

#[test]
fn a_placement_is_told_as_it_is_typed() {
    let mut scenario = run().scenario;
    scenario.placement = crate::scenario::Placement::Map(vec![0, 0, 0, 1]);
    let line = crate::report::headline(&context(), &scenario);
    assert!(line.ends_with("pinned as 0,0,0,1"), "{line}");
}
