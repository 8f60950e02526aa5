//! The claims, one after the other.

use super::super::tables::TableName;
use super::{Judged, Of, judged};

/// A claim as it is stated, and how it is judged.
pub(super) struct Stated {
    pub(super) id: &'static str,
    pub(super) table: TableName,
    pub(super) claim: &'static str,
    pub(super) judge: fn(&Of<'_>) -> Option<Judged>,
}

const fn claim(
    id: &'static str,
    table: TableName,
    claim: &'static str,
    judge: fn(&Of<'_>) -> Option<Judged>,
) -> Stated {
    Stated {
        id,
        table,
        claim,
        judge,
    }
}

use TableName::{Aim7, Perf, Rwsem2014, Rwsem2019, Torture, UnixBench};

/// All claims.
pub(super) const CLAIMS: &[Stated] = &[
    claim(
        "C1",
        Rwsem2019,
        "the generic fast path is not slower at one thread",
        c1,
    ),
    claim(
        "C2",
        Rwsem2019,
        "mixed collapses by two orders of magnitude, the last step past 32 threads",
        c2,
    ),
    claim(
        "C3",
        Rwsem2019,
        "readers alone are on a plateau from 2 threads on",
        c3,
    ),
    claim(
        "C4",
        Rwsem2019,
        "writers alone lose most at 2 threads, then little; mixed at 64 is about 1 % of them",
        c4,
    ),
    claim(
        "C5",
        Rwsem2019,
        "runs of several threads differ from each other",
        c5,
    ),
    claim(
        "C6",
        Torture,
        "the old lock starves writers: below 0.1 % of the last interval, and falling",
        c6,
    ),
    claim(
        "C7",
        Torture,
        "queued: ten times the writes and more, a tenth to a half of the reads",
        c7,
    ),
    claim(
        "C8",
        Torture,
        "queued: readers are still preferred, beyond the 4 : 1 of the threads",
        c8,
    ),
    claim(
        "C9",
        Torture,
        "queued: a writer's wait is bounded where the old lock's is not",
        c9,
    ),
    claim(
        "C10",
        Perf,
        "qspinlock is fair, as fast at one thread, and faster under contention",
        c10,
    ),
    claim(
        "C11",
        UnixBench,
        "PowerNV: the call through a pointer costs next to nothing",
        c11,
    ),
    claim(
        "C12",
        UnixBench,
        "without overcommit pv loses to native: pHyp pv < current < q, KVM q > pv > current",
        c12,
    ),
    claim(
        "C13",
        UnixBench,
        "system calls: pv loses some per cent, q next to nothing",
        c13,
    ),
    claim(
        "C14",
        UnixBench,
        "KVM: process creation with the current lock falls behind by a quarter and more",
        c14,
    ),
    claim(
        "C15",
        Perf,
        "futex hash: pv gains, q the same; lock-pi all equal; pipe: both lose some per cent",
        c15,
    ),
    claim(
        "C16",
        Rwsem2014,
        "before: 1:1 takes the same for each operation at 2 and 10 threads; gains 5 times and more",
        c16,
    ),
    claim(
        "C17",
        Rwsem2014,
        "after: rwsem is faster than the mutex in all 18 cells",
        c17,
    ),
    claim(
        "C18",
        Aim7,
        "AIM7 gains some per cent at most, in all four",
        c18,
    ),
    claim(
        "C19",
        Perf,
        "overcommitted, not measured then: pv holds its rate where native collapses",
        c19,
    ),
];

const THREADS: [&str; 7] = ["1", "2", "4", "8", "16", "32", "64"];

fn c1(of: &Of<'_>) -> Option<Judged> {
    let ratio = |mode| Some(of.at("after", "1", mode)? / of.at("before", "1", mode)?);
    let ratios = [ratio("wlock")?, ratio("rlock")?, ratio("mixed")?];
    let holds = ratios.iter().all(|ratio| (0.99..1.1).contains(ratio));
    let [w, r, m] = ratios.map(|ratio| 100.0 * (ratio - 1.0));
    judged(
        holds,
        format!("{w:+.1}, {r:+.1} and {m:+.1} % (w, r, mixed)"),
    )
}

fn c2(of: &Of<'_>) -> Option<Judged> {
    let mut holds = true;
    let mut told = Vec::new();
    for block in ["before", "after"] {
        let rates = THREADS.map(|threads| of.at(block, threads, "mixed"));
        let rates: Vec<f64> = rates.into_iter().collect::<Option<_>>()?;
        let falls = rates.windows(2).all(|pair| pair[1] < pair[0]);
        let (collapse, step) = (rates[0] / rates[6], rates[5] / rates[6]);
        holds &= falls && collapse >= 100.0 && step >= 4.0;
        let how = if falls {
            "falls throughout"
        } else {
            "does not fall throughout"
        };
        told.push(format!(
            "{block}: {collapse:.0} times, the last step {step:.1}, {how}"
        ));
    }
    judged(holds, told.join("; "))
}

fn c3(of: &Of<'_>) -> Option<Judged> {
    let mut worst = 0.0_f64;
    for block in ["before", "after"] {
        let rates = THREADS[1..]
            .iter()
            .map(|threads| of.at(block, threads, "rlock"));
        let rates: Vec<f64> = rates.collect::<Option<_>>()?;
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let most = rates.iter().copied().fold(0.0, f64::max);
        worst = worst.max((most - least) / (most + least));
    }
    judged(
        worst <= 0.12,
        format!("flat within +-{:.0} %", 100.0 * worst),
    )
}

fn c4(of: &Of<'_>) -> Option<Judged> {
    let at = |threads, mode| of.at("before", threads, mode);
    let first = at("2", "wlock")? / at("1", "wlock")?;
    let rest = at("64", "wlock")? / at("2", "wlock")?;
    let mixed = at("64", "mixed")? / at("64", "wlock")?;
    let holds = first < 0.5 && rest > 0.5 && mixed < 0.03;
    let told = format!("2/1 threads {first:.2}, 64/2 {rest:.2}, mixed/wlock at 64 {mixed:.3}");
    judged(holds, told)
}

fn c5(of: &Of<'_>) -> Option<Judged> {
    let mut most = (0.0_f64, "");
    let mut seen = false;
    for threads in &THREADS[1..] {
        let figure = of.figure("before", threads, "mixed")?;
        seen |= figure.least < figure.most;
        if figure.spread() > most.0 {
            most = (figure.spread(), threads);
        }
    }
    // One seed has no spread.
    seen.then_some(())?;
    let told = format!(
        "mixed up to +-{:.0} % over the seeds, at {} threads",
        100.0 * most.0,
        most.1
    );
    judged(most.0 > 0.03, told)
}

fn c6(of: &Of<'_>) -> Option<Judged> {
    let share = |n: &str| {
        let rate = |side: &str| of.at("old", &format!("{side} {n}"), "rate");
        let (writes, reads) = (rate("writes")?, rate("reads")?);
        Some(writes / (writes + reads))
    };
    let (first, last) = (share("1")?, share("3")?);
    let told = format!(
        "writes are {:.3} % at first, {:.3} % in the end",
        100.0 * first,
        100.0 * last
    );
    judged(last < 0.001 && last < first, told)
}

fn c7(of: &Of<'_>) -> Option<Judged> {
    let ratio = |row| Some(of.at("queued", row, "rate")? / of.at("old", row, "rate")?);
    let (writes, reads) = (ratio("writes 3")?, ratio("reads 3")?);
    let holds = writes > 10.0 && (0.1..0.5).contains(&reads);
    judged(
        holds,
        format!("writes times {writes:.0}, reads times {reads:.2}"),
    )
}

fn c8(of: &Of<'_>) -> Option<Judged> {
    let ratio = of.at("queued", "reads 3", "rate")? / of.at("queued", "writes 3", "rate")?;
    judged(ratio > 4.0, format!("{ratio:.1} reads for each write"))
}

fn c9(of: &Of<'_>) -> Option<Judged> {
    let wait = |block| of.at(block, "writer", "longest wait");
    let (old, queued) = (wait("old")? / 1e6, wait("queued")? / 1e6);
    judged(
        old > 5.0 * queued,
        format!("longest wait of a writer {old:.1} ms, queued {queued:.1} ms"),
    )
}

fn c10(of: &Of<'_>) -> Option<Judged> {
    let at = |row, column| of.at("contended", row, column);
    let ratio = |row| Some(at(row, "qspinlock")? / at(row, "current-spinlock")?);
    let (one, many) = (ratio("1")?, ratio("32")?);
    let fair = at("32", "qspinlock max/min")?;
    let unfair = at("32", "current-spinlock max/min");
    let holds = (0.9..1.1).contains(&one) && many > 1.1 && fair < 1.5;
    let other = unfair.map_or_else(|| "infinite".to_owned(), |unfair| format!("{unfair:.1}"));
    judged(
        holds,
        format!("q/current {one:.2} at 1 vCPU, {many:.2} at 32; max/min {fair:.2} against {other}"),
    )
}

const SCORE: &str = "System Benchmarks Index Score";
const CURRENT: &str = "current-spinlock";

fn c11(of: &Of<'_>) -> Option<Judged> {
    let column = "pv-qspinlock and qspinlock";
    let change = of.at("PowerNV", SCORE, column)? / of.at("PowerNV", SCORE, CURRENT)? - 1.0;
    judged(
        change.abs() < 0.02,
        format!("{:+.1} % of the score", 100.0 * change),
    )
}

fn c12(of: &Of<'_>) -> Option<Judged> {
    let scores = |block| {
        let at = |column| of.at(block, SCORE, column);
        Some((at("pv-qspinlock")?, at("qspinlock")?, at(CURRENT)?))
    };
    let (pv, q, current) = scores("pHyp")?;
    let (kvm_pv, kvm_q, kvm_current) = scores("KVM")?;
    let holds = pv < current && current < q && kvm_q > kvm_pv && kvm_pv > kvm_current;
    let told = format!(
        "pHyp pv {pv:.1}, current {current:.1}, q {q:.1}; KVM q {kvm_q:.1}, pv {kvm_pv:.1}, current {kvm_current:.1}"
    );
    judged(holds, told)
}

fn c13(of: &Of<'_>) -> Option<Judged> {
    let mut holds = true;
    let mut told = Vec::new();
    for block in ["pHyp", "KVM"] {
        let at = |column| of.at(block, "System Call Overhead", column);
        let change = |column| Some(100.0 * (at(column)? / at(CURRENT)? - 1.0));
        let (pv, q) = (change("pv-qspinlock")?, change("qspinlock")?);
        holds &= pv < -2.0 && q.abs() < 2.0;
        told.push(format!("{block}: pv {pv:+.1} %, q {q:+.1} %"));
    }
    judged(holds, told.join("; "))
}

fn c14(of: &Of<'_>) -> Option<Judged> {
    let at = |column| of.at("KVM", "Process Creation", column);
    let ratio = at(CURRENT)? / at("pv-qspinlock")?.min(at("qspinlock")?);
    judged(ratio < 0.8, format!("current/others {ratio:.2}"))
}

fn c15(of: &Of<'_>) -> Option<Judged> {
    let change = |row, column| {
        Some(100.0 * (of.at("pHyp", row, column)? / of.at("pHyp", row, CURRENT)? - 1.0))
    };
    let both = |row| Some((change(row, "pv-qspinlock")?, change(row, "qspinlock")?));
    let (hash, pi, pipe) = (
        both("futex hash")?,
        both("futex lock-pi")?,
        both("sched pipe")?,
    );
    let holds = hash.0 > 2.0
        && hash.1.abs() < 2.0
        && pi.0.abs() < 2.0
        && pi.1.abs() < 2.0
        && pipe.0 < 0.0
        && pipe.1 < 0.0;
    let told = |(pv, q): (f64, f64)| format!("pv {pv:+.1} %, q {q:+.1} %");
    let told = format!(
        "hash {}; lock-pi {}; pipe {}",
        told(hash),
        told(pi),
        told(pipe)
    );
    judged(holds, told)
}

const LOADS: [&str; 3] = ["1", "5", "10"];

fn c16(of: &Of<'_>) -> Option<Judged> {
    let mut gains = Vec::new();
    let mut same = Vec::new();
    for load in LOADS {
        let at = |block, threads: u32| of.at(block, &format!("1:1 x{threads}"), load);
        // The time of each thread's operations, over how many threads there are.
        same.push((at("before", 10)? / 10.0) / (at("before", 2)? / 2.0));
        gains.push(at("before", 2)? / at("after", 2)?);
        gains.push(at("before", 10)? / at("after", 10)?);
    }
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gains.iter().copied().fold(0.0, f64::max);
    let holds = least > 5.0 && same.iter().all(|ratio| (0.7..1.4).contains(ratio));
    let [a, b, c] = [same[0], same[1], same[2]];
    judged(
        holds,
        format!(
            "10/2 threads {a:.2}, {b:.2}, {c:.2} for each operation; gains {least:.0} to {most:.0} times"
        ),
    )
}

fn c17(of: &Of<'_>) -> Option<Judged> {
    let mut faster = 0;
    for threads in ["x2", "x10"] {
        for load in LOADS {
            let mutex = of.at("mutex", &format!("mutex {threads}"), load)?;
            for ratio in ["0:1", "1:1", "10:1"] {
                let rwsem = of.at("after", &format!("{ratio} {threads}"), load)?;
                faster += usize::from(rwsem < mutex);
            }
        }
    }
    judged(faster == 18, format!("faster in {faster} of 18 cells"))
}

fn c18(of: &Of<'_>) -> Option<Judged> {
    let rows = [
        "custom (200-1000)",
        "custom (1100-2000)",
        "high_systime (200-1000)",
        "high_systime (1100-2000)",
    ];
    let changes = rows.map(|row| of.at("AIM7", row, "change"));
    let changes: Vec<f64> = changes.into_iter().collect::<Option<_>>()?;
    let holds = changes.iter().all(|change| (0.0..15.0).contains(change));
    let told: Vec<_> = changes
        .iter()
        .map(|change| format!("{change:+.1} %"))
        .collect();
    judged(holds, told.join(", "))
}

fn c19(of: &Of<'_>) -> Option<Judged> {
    let mut holds = true;
    let mut told = Vec::new();
    for times in ["1", "2", "4", "8"] {
        let at = |column| of.at("overcommit", times, column);
        let (pv, q, next) = (at("pv-qspinlock")?, at("qspinlock")?, at("pv-next")?);
        if times != "1" {
            holds &= pv > 10.0 * q;
        }
        told.push(format!(
            "{times}x: pv {pv:.0}, q {q:.2}, pv-next {next:.0} k/s"
        ));
    }
    judged(holds, told.join("; "))
}
