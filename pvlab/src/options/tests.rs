//! Tests of the values of options, as users write them.

#![allow(clippy::unwrap_used)]
use super::common::noise;
use super::cpus::placement;
use super::guests::{GuestUsage, VmArg, vcpus, vm};
use super::lock::{LockUsage, lock};
use super::numbers::{NumberUsage, share};
use super::times::*;
use super::work::{WorkUsage, contexts, numa_nodes, reads, skew};
use crate::scenario::{Placement, Spread, WorkTime};
use std::time::Duration;

#[test]
fn durations_need_a_unit_unless_they_are_zero() {
    assert_eq!(duration("130ns"), Ok(Duration::from_nanos(130)));
    assert_eq!(duration("1.5ms"), Ok(Duration::from_micros(1500)));
    assert_eq!(duration("2s"), Ok(Duration::from_secs(2)));
    assert_eq!(duration("1m 30s"), Ok(Duration::from_secs(90)));
    assert_eq!(duration("0"), Ok(Duration::ZERO));
    assert_eq!(duration("5"), Err(TimeUsage::NoUnit("5".into())));
    assert_eq!(duration("0.5"), Err(TimeUsage::NoUnit("0.5".into())));
    for bad in ["", "s", "-1s", "5 parsecs", "NaN", "inf", "1e3", "\u{b2}s"] {
        assert!(duration(bad).is_err(), "{bad}");
    }
    assert!(matches!(duration("2h"), Err(TimeUsage::TooLong { .. })));
    assert_eq!(long_duration("12h"), Ok(Duration::from_secs(12 * 3600)));
    let days = Duration::from_secs(3 * 24 * 3600);
    assert_eq!(nonzero_long_duration("3d"), Ok(days));
    assert_eq!(long_interval("2h"), Ok(Duration::from_secs(7200)));
    let long = TimeUsage::FarTooLong("31d".into());
    assert_eq!(long_duration("31d"), Err(long));
    assert_eq!(nonzero_duration("0s"), Err(TimeUsage::Zero));
    let short = TimeUsage::IntervalTooShort("1us".into());
    assert_eq!(interval("1us"), Err(short));
}

#[test]
fn work_may_have_fractions_of_a_nanosecond_and_be_random() {
    for (text, ps) in [
        ("4.2ns", 4_200),
        ("130ns", 130_000),
        ("0.001ns", 1),
        ("7ps", 7),
        ("1.5 us", 1_500_000),
        ("1us 500ns", 1_500_000),
        ("0", 0),
        ("1h", 3_600_000_000_000_000),
    ] {
        assert_eq!(work_time(text), Ok(WorkTime::from_ps(ps)), "{text}");
    }
    for bad in "4.2||ns|-1ns|1.2.3ns|1e3ns|NaNns|2h|3601s".split('|') {
        assert!(work_time(bad).is_err(), "{bad}");
    }
    let random = OutsideArg {
        mean: WorkTime::from_ns(130),
        spread: Spread::Exp,
    };
    assert_eq!(outside("130ns:exp"), Ok(random));
    assert_eq!(outside("130ns").unwrap().spread, Spread::Fixed);
    let unknown = TimeUsage::NoSpread("gauss".into());
    assert_eq!(outside("130ns:gauss"), Err(unknown));
    assert!(outside(":exp").is_err() && outside("exp").is_err());
}

#[test]
fn an_unknown_lock_gets_the_closest_name() {
    let message = |name| lock(name).unwrap_err().to_string();
    assert!(message("qspinlok").contains("did you mean 'qspinlock'?"));
    assert!(message("pv-qspin").contains("did you mean 'pv-qspinlock'?"));
    assert!(message("TAS").contains("did you mean 'tas'?"));
    assert!(!message("zzz").contains("did you mean"));
    let control = message("buste");
    assert!(!control.contains("busted"), "controls are not advertised");
}

#[test]
fn guests_are_read_in_either_order_and_nothing_else() {
    let spec = VmArg {
        lock: lock("ticket").unwrap(),
        vcpus: 4,
    };
    assert_eq!(vm("lock=ticket,vcpus=4"), Ok(spec));
    assert_eq!(vm("vcpus=4,lock=ticket"), Ok(spec));
    assert_eq!(vm(" lock = ticket, vcpus=4 "), Ok(spec));
    let bad = "|ticket|lock=ticket|vcpus=4|lock=tas,lock=tas,vcpus=1|lock=tas,vcpus=1,|a=b";
    for bad in bad.split('|') {
        assert_eq!(vm(bad), Err(GuestUsage::NoVm(bad.into())));
    }
    assert_eq!(vm("lock=ticket,vcpus=0"), Err(NumberUsage::Zero.into()));
    let unknown = LockUsage::UnknownLock("nope".into());
    assert_eq!(vm("lock=nope,vcpus=1"), Err(unknown.into()));
}

#[test]
fn placements_keep_order_and_repetitions() {
    assert_eq!(placement("0,0,1,1"), Ok(Placement::Map(vec![0, 0, 1, 1])));
    assert_eq!(placement("pinned"), Ok(Placement::Pinned));
    assert!(placement("pined").is_err());
}

#[test]
fn shares_are_percentages() {
    assert_eq!(share("1%"), Ok(0.01));
    assert_eq!(share("0%"), Ok(0.0));
    for bad in ["1", "0.01", "-1%", "%", "nan%", "inf%", "1001%"] {
        assert!(share(bad).is_err(), "{bad}");
    }
}

#[test]
fn reads_are_a_percentage_or_a_ratio() {
    assert_eq!(reads("80%"), Ok(0.8));
    assert_eq!(reads("4:1"), Ok(0.8));
    assert_eq!((reads("0:1"), reads("1:0")), (Ok(0.0), Ok(1.0)));
    assert_eq!(reads("0:0"), Err(WorkUsage::NothingToDo));
    for bad in "|80|0.8|101%|4|4:|:1|-1:1|4:1:1|a:b".split('|') {
        assert_eq!(reads(bad), Err(WorkUsage::NoReads(bad.into())));
    }
}

#[test]
fn numbers_stay_in_their_ranges() {
    assert_eq!((skew("0"), skew("1.2")), (Ok(0.0), Ok(1.2)));
    assert!(skew("-1").is_err() && skew("NaN").is_err() && skew("11").is_err());
    assert_eq!((contexts("1"), contexts("5")), (Ok(1), Ok(5)));
    assert!(contexts("0").is_err() && contexts("6").is_err() && contexts("x").is_err());
    assert_eq!(numa_nodes("2"), Ok(2));
    assert!(numa_nodes("0").is_err() && numa_nodes("4294967297").is_err());
    assert_eq!(noise("0"), Ok(0));
    assert_eq!(vcpus("0"), Err(NumberUsage::Zero));
    assert!(vcpus("-1").is_err() && vcpus("1.5").is_err() && vcpus("").is_err());
}
