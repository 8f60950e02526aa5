use super::tables::{milliseconds, percent, rate};
use super::*;
use crate::command::bench::plan::{BenchPlan, Cell, Load, Ratio};
use crate::command::bench::result::{RunFigures, fixture};
use crate::scenario::BenchKind;

fn context() -> Context {
    Context {
        machine_reason: "made up".to_owned(),
        ..Context::default()
    }
}

fn render(plan: BenchPlan, runs: &[(Cell, RunFigures)], ended: Ended, format: Format) -> String {
    let (context, result) = (context(), BenchResult::new(plan, runs, ended));
    BenchReport { context, result }.render(format)
}

/// A run of each cell, in kops/s of a second, in the order of locks, threads and columns.
fn runs(plan: &BenchPlan, kops: &[u64]) -> Vec<(Cell, RunFigures)> {
    let mut cells = plan.order(0);
    cells.sort_unstable();
    assert_eq!(cells.len(), kops.len());
    let runs = kops.iter().map(|kops| fixture::run(kops * 1000));
    cells.into_iter().zip(runs).collect()
}

/// From the second line on: the first is of this host.
fn body(text: &str) -> &str {
    text.split_once('\n').unwrap().1
}

#[test]
fn two_locks_stand_side_by_side_with_their_change_and_spread() {
    let plan = fixture::plan(&["rwlock", "rwlock"], &[1, 64]);
    let [one, two] = [
        [27373, 29409, 28170, 5980, 15478, 61],
        [28773, 30164, 29276, 5668, 15509, 58],
    ];
    let mut all = runs(&plan, &[one, two].concat());
    all.push((all[5].0, fixture::run(61_000)));
    all.push((all[5].0, fixture::run(64_050)));
    let text = render(plan, &all, Ended::Complete, Format::Table);
    assert!(text.starts_with("machine: kvm (made up), 2 vCPUs on CPUs 0-1"));
    let expected = "\
rwsem-bench, 1 pause inside: kops/s; 1.00 s each, median of 3 interleaved rounds

                         rwlock                    rwlock
   # of Threads  wlock   rlock   mixed     wlock   rlock   mixed
   ------------  -----   -----   -----     -----   -----   -----
        1        27,373  29,409  28,170    28,773  30,164  29,276
       64         5,980  15,478      61     5,668  15,509      58

% Change from rwlock to rwlock:
                         rwlock
   # of Threads  wlock   rlock   mixed
   ------------  -----   -----   -----
        1         +5.1%   +2.6%   +3.9%
       64         -5.2%   +0.2%   -4.9%

Spread (most minus least of the rounds, in % of the median):
                         rwlock                    rwlock
   # of Threads  wlock   rlock   mixed     wlock   rlock   mixed
   ------------  -----   -----   -----     -----   -----   -----
        1          0.0%    0.0%    0.0%      0.0%    0.0%    0.0%
       64          0.0%    0.0%    5.0%      0.0%    0.0%    0.0%

";
    let (tables, notes) = body(&text).split_at(expected.len());
    assert_eq!(tables, expected);
    assert!(notes.starts_with("most uneven run: "), "{notes}");
}

fn times(locks: &[&str]) -> BenchPlan {
    let mut plan = fixture::plan(locks, &[2]);
    plan.layout = TableKind::Times;
    let column = |ratio: Ratio, load| Column {
        name: format!("{ratio} {load}"),
        ratio,
        split: false,
        load: Load::Pauses(load),
    };
    let of = |ratio| [1, 10].map(|load| column(ratio, load));
    plan.columns = [of(Ratio::WRITES), of(Ratio::new(10, 1))].concat();
    plan
}

#[test]
fn execution_times_are_before_after_and_change() {
    let plan = times(&["rwlock", "rwlock"]);
    let mut all = runs(&plan, &[1; 8]);
    let ms = [339.4, 394.0, 891.2, 2764.0, 161.1, 271.4, 168.8, 209.8];
    for ((_, run), ms) in all.iter_mut().zip(ms) {
        *run = fixture::timed(ms);
    }
    let text = render(plan, &all, Ended::Complete, Format::Table);
    let expected = "  lock/r:w ratio # of threads   Load:Execution Time (ms)
  -------------- ------------   ------------------------
Before (rwlock):
  rwlock/0:1          2         1:339.4, 10:394.0
  rwlock/10:1         2         1:891.2, 10:2764

After (rwlock):
  rwlock/0:1          2         1:161.1, 10:271.4
  rwlock/10:1         2         1:168.8, 10:209.8

% Change:
  rwlock/0:1          2         1:-52.5%, 10:-31.1%
  rwlock/10:1         2         1:-81.1%, 10:-92.4%

Spread of rwlock (";
    let start = text.find("  lock/r:w").unwrap();
    assert_eq!(&text[start..start + expected.len()], expected);
}

#[test]
fn a_lock_without_a_read_side_has_one_row_and_no_ratio() {
    let plan = times(&["tas", "ticket", "rwlock"]);
    let all = runs(&plan, &[1; 8]);
    let text = render(plan, &all, Ended::Complete, Format::Table);
    let rows = |name: &str| text.lines().filter(|l| l.starts_with(name)).count();
    // Figures, and spread; of all but the first the change, too.
    assert_eq!((rows("  tas  "), rows("  ticket  ")), (2, 3), "{text}");
    assert_eq!((rows("  rwlock/0:1 "), rows("  rwlock/10:1 ")), (3, 3));
    assert!(text.contains("% Change from tas to rwlock:\n"), "{text}");
    assert!(!text.contains("tas/"), "{text}");
}

#[test]
fn what_was_not_run_is_a_dash_and_is_told() {
    let plan = fixture::plan(&["tas"], &[1, 2]);
    let cells = plan.order(0);
    let all = [(cells[0], fixture::run(5_000_000))];
    let text = render(plan, &all, Ended::Interrupted, Format::Table);
    assert!(text.contains("\n        1         5,000\n"), "{text}");
    assert!(text.contains("\n        2             -\n"), "{text}");
    assert!(text.contains("\nnot complete: 1 of 6 runs"), "{text}");
}

#[test]
fn the_originals_averages_and_totals() {
    let per_thread = ["per thread      total", "    618,572   1,237,144"];
    let round_trips = ["us/op      total", "     0.81  1,237,144"];
    for (workload, layout, parts) in [
        (BenchKind::FutexHash, TableKind::PerThread, per_thread),
        (BenchKind::Pipe, TableKind::RoundTrips, round_trips),
    ] {
        let mut plan = fixture::plan(&["tas"], &[2]);
        plan.workload = workload;
        plan.layout = layout;
        plan.columns.truncate(1);
        let cell = plan.order(0)[0];
        let all = [(cell, fixture::run(1_237_144))];
        let text = render(plan, &all, Ended::Complete, Format::Table);
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
}

#[test]
fn programs_get_every_cell() {
    let plan = fixture::plan(&["rwlock", "tas"], &[1, 2]);
    let all = runs(&plan, &[100, 200, 300, 400, 500, 600, 50, 200]);
    let json = render(plan.clone(), &all, Ended::Complete, Format::Json);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "pvlab.bench/1");
    let cells = json["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 8);
    assert_eq!(cells[6]["lock"], "tas");
    assert_eq!(cells[6]["figures"][0]["median"], 50.0);
    assert_eq!(cells[6]["figures"][0]["unit"], "kops/s");
    assert_eq!(cells[6]["change_percent"][0], -50.0);
    assert_eq!(cells[2]["column"]["ratio"]["reads"], 1);

    let csv = render(plan.clone(), &all, Ended::Complete, Format::Csv);
    let lines: Vec<_> = csv.lines().collect();
    assert_eq!(lines.len(), 9);
    let commas = |line: &&str| line.matches(',').count() == lines[0].matches(',').count();
    assert!(lines.iter().all(commas), "{csv}");
    assert!(lines[7].starts_with("rwsem-bench,tas,1,1,wlock,0:1,false,1,kops/s,50,"));

    let markdown = render(plan, &all, Ended::Complete, Format::Markdown);
    let header = "rwlock wlock | rwlock rlock | rwlock mixed | tas wlock |";
    assert!(markdown.contains(header), "{markdown}");
}

#[test]
fn a_cell_of_two_states_is_flagged_and_one_of_nothing_is_none() {
    let mut plan = fixture::plan(&["tas", "ticket"], &[2]);
    plan.columns.truncate(1);
    plan.rounds = 4;
    let [tas, ticket] = plan.order(0)[..] else {
        panic!("two cells");
    };
    let of = |cell, all: [u64; 4]| all.map(|n| (cell, fixture::run(n)));
    let both = [
        of(tas, [3_500, 136_000, 3_600, 135_000]),
        of(ticket, [0; 4]),
    ];
    let both = both.as_flattened();
    let of = |format| render(plan.clone(), both, Ended::Complete, format);
    let text = of(Format::Table);
    let flag = "tas wlock, 2 threads: two states, far apart: 3.55 kops/s in 2 rounds, 135 kops/s in 2 rounds";
    assert!(text.contains(flag), "{text}");
    let json: serde_json::Value = serde_json::from_str(&of(Format::Json)).unwrap();
    let figure = |cell: usize| &json["cells"][cell]["figures"][0];
    assert_eq!(figure(0)["bistable"]["low_rounds"], 2);
    assert_eq!(figure(0)["interval"]["method"], "student_t_log");
    assert!(figure(1)["median"].is_null() && figure(1)["lo"].is_null());
    let csv = of(Format::Csv);
    let row = csv.lines().find(|line| line.contains(",ticket,")).unwrap();
    assert!(row.contains(",kops/s,,,,,,,false,"), "{row}");
}

#[test]
fn figures_for_people() {
    let rates = [27373.4, 1_234_567.0, 999.0, 61.0, 9.994, 0.0].map(rate);
    assert_eq!(rates, ["27,373", "1,234,567", "999", "61", "9.99", "0.00"]);
    let times = [530.71, 999.94, 999.96, 14562.3].map(milliseconds);
    assert_eq!(times, ["530.7", "999.9", "1000", "14562"]);
    let changes = [-93.55, 5.12, -0.01, 0.0, 812.0].map(percent);
    assert_eq!(changes, ["-93.5%", "+5.1%", "+0.0%", "+0.0%", "+812.0%"]);
}

#[test]
fn runs_without_an_operation_have_no_figures() {
    let plan = fixture::plan(&["rwlock", "tas"], &[2]);
    let runs = [0, 1].map(|lock| (Cell::new(lock, 0, 0), fixture::run(0)));
    let result = BenchResult::new(plan, &runs, Ended::Complete);
    let text = super::tables::text(&result);
    assert!(text.contains("none"), "{text}");
    let csv = super::csv(&result);
    for bad in ["NaN", "inf", "0.00"] {
        assert!(!text.contains(bad), "{bad}: {text}");
        assert!(!csv.contains(bad), "{bad}: {csv}");
    }
    let notes = super::notes::foot(&result);
    let idle = "no operation at all in 2 runs";
    assert!(notes.iter().any(|line| line.contains(idle)));
}
