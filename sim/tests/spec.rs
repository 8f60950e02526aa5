//! Machines as they are described: presets, and what is said to those that cannot be.

#![allow(clippy::unwrap_used)] // A test fails by panicking.

use sim::{MAX_CPUS, PARAMETERS, Spec, SpecError, Unit, presets};

fn preset() -> Spec {
    presets::find("broadwell-ex-4s").unwrap()
}

fn refused(assignment: &str) -> SpecError {
    let mut spec = preset();
    let before = spec.clone();
    let error = spec.set(assignment).unwrap_err();
    assert_eq!(spec, before, "{assignment}: nothing has changed");
    error
}

#[test]
fn every_preset_is_a_machine_and_says_where_each_figure_is_from() {
    assert!(presets::names().count() >= 5);
    for name in presets::names() {
        let spec = presets::find(name).unwrap();
        assert_eq!(spec.name, name);
        assert!(!spec.about.trim().is_empty(), "{name}");
        spec.check().unwrap();
        for parameter in PARAMETERS {
            let source = spec.sources.get(parameter.name).map_or("", |s| s.trim());
            assert!(
                !source.is_empty(),
                "{name}: {} has no source",
                parameter.name
            );
        }
        assert_eq!(spec.sources.len(), PARAMETERS.len(), "{name}");
    }
}

#[test]
fn the_machines_of_the_presets_are_as_large_as_those_they_stand_for() {
    let shape = |name: &str| presets::find(name).unwrap().shape();
    assert_eq!(shape("broadwell-ex-4s"), (4, 14, 2));
    assert_eq!(shape("thunderx2-2s"), (2, 28, 4));
    let cpus = |name: &str| presets::find(name).unwrap().cpus();
    assert_eq!(cpus("westmere-ex-4s"), 40);
    // The 32 vCPUs of that one share 16 cores.
    assert_eq!(cpus("power8-lpar-32"), 16);
}

#[test]
fn a_preset_that_is_written_out_reads_as_the_same() {
    for name in presets::names() {
        let spec = presets::find(name).unwrap();
        assert_eq!(Spec::from_toml(&spec.to_toml().unwrap()).unwrap(), spec);
    }
    let mut spec = preset();
    // What TOML writes otherwise than Rust does.
    spec.about = "it's \"quoted\",\u{7f} a\u{301}, \\, and\nof two lines".to_owned();
    let text = spec.to_toml().unwrap();
    assert_eq!(Spec::from_toml(&text).unwrap(), spec);
    let (sockets, timer) = (text.rfind("sockets = "), text.rfind("timer_slack_ns = "));
    assert!(
        sockets < timer,
        "sources are in the order of the parameters"
    );
}

#[test]
fn an_unknown_preset_is_refused_with_the_name_most_like_it() {
    let error = presets::find("broadwel-ex-4s").unwrap_err();
    let message = error.to_string();
    assert!(message.contains("'broadwel-ex-4s'"), "{message}");
    assert!(
        message.contains("did you mean 'broadwell-ex-4s'?"),
        "{message}"
    );
    let message = presets::find("zzz").unwrap_err().to_string();
    assert!(!message.contains("did you mean"), "{message}");
}

#[test]
fn an_unknown_parameter_is_refused_with_the_name_most_like_it() {
    let message = refused("kik_ns=2us").to_string();
    assert!(message.contains("'kik_ns'"), "{message}");
    assert!(message.contains("did you mean 'kick_ns'?"), "{message}");
    assert!(!message.contains('\n'), "{message}");
}

#[test]
fn a_preset_with_a_parameter_too_many_or_too_few_is_refused() {
    let text = presets::text("broadwell-ex-4s").unwrap();
    let more = text.replace("kick_ns = 900", "kick_ns = 900\nkik_ns = 1");
    let error = Spec::from_toml(&more).unwrap_err();
    assert!(error.to_string().contains("kik_ns"), "{error}");
    let less = text.replace("kick_ns = 900\n", "");
    let error = Spec::from_toml(&less).unwrap_err();
    assert!(error.to_string().contains("kick_ns"), "{error}");
    let source = text.replace("[sources]", "[sources]\nkik_ns = \"nowhere\"");
    let error = Spec::from_toml(&source).unwrap_err();
    assert!(
        matches!(error, SpecError::UnknownParameter { .. }),
        "{error}"
    );
}

#[test]
fn impossible_topologies_are_refused() {
    let check = |changes: &[&str]| {
        let mut spec = preset();
        changes.iter().for_each(|change| spec.set(change).unwrap());
        spec.check()
    };
    let too_many = check(&["sockets=16", "cores=64", "threads=2"]).unwrap_err();
    assert!(
        matches!(too_many, SpecError::TooManyCpus { .. }),
        "{too_many}"
    );
    assert!(too_many.to_string().contains("2048"), "{too_many}");
    check(&["sockets=16", "cores=64", "threads=1"]).unwrap();
    assert_eq!(MAX_CPUS, 16 * 64);

    let links = |n: &str| check(&["sockets=2", &format!("links={n}")]);
    assert!(matches!(links("2"), Err(SpecError::Links { .. })));
    assert!(matches!(links("0"), Err(SpecError::Links { .. })));
    links("1").unwrap();
    check(&["sockets=1", "links=0"]).unwrap();
    assert!(check(&["sockets=1", "links=1"]).is_err());
}

#[test]
fn every_parameter_has_a_range_that_holds() {
    for parameter in PARAMETERS {
        let (least, most) = parameter.range;
        assert!(
            least < most && !parameter.what.trim().is_empty(),
            "{}",
            parameter.name
        );
        for value in [least - 1.0, most * 2.0 + 1.0] {
            let error = refused(&format!("{}={value}", parameter.name));
            assert!(matches!(error, SpecError::OutOfRange { .. }), "{error}");
            assert!(error.to_string().contains(parameter.name), "{error}");
        }
        let mut spec = preset();
        for value in [least, most] {
            spec.set_value(parameter, value).unwrap();
            assert_eq!(spec.costs.get(parameter.name), Some(value));
        }
    }
}

#[test]
fn counts_and_switches_are_whole() {
    let mut whole = 0;
    for parameter in PARAMETERS {
        let middle = parameter.range.0 + 0.5;
        let mut spec = preset();
        let result = spec.set_value(parameter, middle);
        if matches!(parameter.unit, Unit::Count | Unit::Switch) {
            whole += 1;
            assert!(
                matches!(result, Err(SpecError::NotWhole { .. })),
                "{}",
                parameter.name
            );
        } else {
            result.unwrap();
        }
    }
    assert!(whole > 5);
}

#[test]
fn times_are_taken_with_and_without_their_unit() {
    let mut spec = preset();
    for (text, ns) in [
        ("2us", 2e3),
        ("1500", 1500.0),
        ("0.5 ms", 5e5),
        ("7ns", 7.0),
        ("1s", 1e9),
        (" 3 us ", 3e3),
    ] {
        spec.set(&format!("kick_ns={text}")).unwrap();
        assert!((spec.costs.kick_ns - ns).abs() < 1e-6, "{text}");
    }
    spec.set(" jitter = 0.25 ").unwrap();
    assert_eq!(spec.costs.jitter.to_bits(), 0.25f64.to_bits());
}

#[test]
fn what_is_no_number_is_refused() {
    for text in ["2parsec", "", "us", "nan", "inf", "1us2", "-"] {
        let error = refused(&format!("kick_ns={text}"));
        assert!(
            matches!(error, SpecError::NotANumber { .. }),
            "{text}: {error}"
        );
    }
    // A ratio has no unit, and neither has a count.
    for text in ["jitter=1us", "sockets=2us", "ple=yes"] {
        let error = refused(text);
        assert!(
            matches!(error, SpecError::NotANumber { .. }),
            "{text}: {error}"
        );
    }
    assert!(matches!(refused("kick_ns"), SpecError::NoAssignment(_)));
}

#[test]
fn every_parameter_is_documented() {
    let documentation = include_str!("../../docs/simulator.md");
    for parameter in sim::PARAMETERS {
        let row = format!("| `{}` |", parameter.name);
        assert!(documentation.contains(&row), "{row}");
    }
}
