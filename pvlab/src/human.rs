//! Figures for people: three digits and a unit.

/// A number with three significant digits and a decimal prefix, ready for a unit: `3.05 M`.
fn prefixed(value: f64) -> String {
    if !value.is_finite() {
        return format!("{value} ");
    }
    scaled(value, ["G", "M", "k"]).unwrap_or_else(|| three_digits(value) + " ")
}

/// A value of a thousand or more with three digits and its prefix or unit, of those for 10^9, 10^6 and 10^3.
fn scaled(value: f64, names: [&str; 3]) -> Option<String> {
    // From 999.5 on, three digits round up to the next one.
    let mut scales = [1e9, 1e6, 1e3].into_iter().zip(names);
    let (scale, name) = scales.find(|(scale, _)| value.abs() >= scale * 0.9995)?;
    Some(format!("{} {name}", three_digits(value / scale)))
}

fn three_digits(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// A rate: `3.05 M/s`, `153 /s`.
pub(crate) fn rate(per_second: f64) -> String {
    prefixed(per_second) + "/s"
}

/// An interval of rates: `637 k .. 2.00 M/s`.
pub(crate) fn rates((lo, hi): (f64, f64)) -> String {
    if hi <= 0.0 {
        return "none".to_owned();
    }
    if lo <= 0.0 {
        return format!("none .. {}", rate(hi));
    }
    format!("{} .. {}", prefixed(lo).trim_end(), rate(hi))
}

/// A rate of acquisitions, of which there is none without any.
pub(crate) fn throughput(per_second: f64) -> String {
    match per_second > 0.0 {
        true => rate(per_second),
        false => "none".to_owned(),
    }
}

/// A count: `3.05 M`, `153`. Below ten thousand it is exact.
pub(crate) fn count(count: u64) -> String {
    if count < 10_000 {
        return count.to_string();
    }
    prefixed(count as f64).trim_end().to_owned()
}

/// A time from nanoseconds: `130 ns`, `4.10 ms`.
pub(crate) fn time(ns: f64) -> String {
    // Fractions of a nanosecond are beyond what is measured.
    let digits = usize::from(ns.abs() < 100.0 && ns.fract() != 0.0);
    scaled(ns, ["s", "ms", "us"]).unwrap_or_else(|| format!("{ns:.digits$} ns"))
}

/// A whole number of nanoseconds, likewise.
pub(crate) fn nanos(ns: u64) -> String {
    time(ns as f64)
}

/// A ratio: `19900`, `4.20`, `0.0502`, `0.000050`.
pub(crate) fn ratio(ratio: f64) -> String {
    match ratio {
        // Of something without which there is no ratio.
        r if !r.is_finite() || r == 0.0 => "none".to_owned(),
        r if r >= 9.995 => three_digits(r),
        r if r >= 0.9995 => format!("{r:.3}"),
        r if r >= 0.001 => format!("{r:.4}"),
        r => format!("{r:.2e}"),
    }
}

/// An interval of ratios.
pub(crate) fn ratios((lo, hi): (f64, f64)) -> String {
    format!("{} .. {}", ratio(lo), ratio(hi))
}

/// A share as a percentage: `12.3 %`.
pub(crate) fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", 100.0 * part as f64 / whole as f64)
}

/// What `format` makes of it, or a dash for what is unknown.
pub(crate) fn or_dash<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}

/// A figure, or that it is unknown, which is not 0.
pub(crate) fn or_unknown<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| "unknown".to_owned(), format)
}

/// `3, 0, 1`.
pub(crate) fn listed(parts: impl IntoIterator<Item = impl ToString>) -> String {
    let parts: Vec<_> = parts.into_iter().map(|part| part.to_string()).collect();
    parts.join(", ")
}

/// `1 vCPU`, `2 vCPUs`.
pub(crate) fn plural(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_three_digits_and_a_unit() {
        for (value, text) in [
            (3_050_000.0, "3.05 M/s"),
            (153.0, "153 /s"),
            (0.0, "0 /s"),
            (0.5, "0.50 /s"),
            (999.4, "999 /s"),
            (999.6, "1.00 k/s"),
            (59_084.0, "59.1 k/s"),
            (1e9, "1.00 G/s"),
        ] {
            assert_eq!(rate(value), text);
        }
    }

    #[test]
    fn intervals_name_their_unit_once() {
        assert_eq!(rates((637_000.0, 2e6)), "637 k .. 2.00 M/s");
        assert_eq!(rates((5.0, 6.0)), "5.00 .. 6.00 /s");
    }

    #[test]
    fn times_pick_their_unit() {
        for (ns, text) in [
            (130.0, "130 ns"),
            (9.25, "9.2 ns"),
            (0.0, "0 ns"),
            (4_100_000.0, "4.10 ms"),
            (999_999.0, "1.00 ms"),
            (27_000.0, "27.0 us"),
            (12.3e9, "12.3 s"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn counts_and_ratios() {
        assert_eq!([9_999, 6_100_000].map(count), ["9999", "6.10 M"]);
        let ratios = [19_934.2, 4.2, 1.0, 0.0502, 0.00005, f64::INFINITY].map(ratio);
        let texts = ["19934", "4.200", "1.000", "0.0502", "5.00e-5", "none"];
        assert_eq!(ratios, texts);
        assert_eq!(share(1, 8), "12.5 %");
        assert_eq!(share(0, 0), "-");
    }
}
