//! Comma-separated values (RFC 4180, with bare line feeds).

/// A row, with its cells quoted where that is needed.
pub(crate) fn row(cells: impl IntoIterator<Item = String>) -> String {
    let cells: Vec<_> = cells.into_iter().map(quoted).collect();
    cells.join(",") + "\n"
}

fn quoted(cell: String) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", cell.replace('"', "\"\""));
    }
    cell
}

/// A cell for something that may be unknown.
pub(crate) fn maybe(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

/// A cell for a figure that there is none of if it rests on no acquisition.
pub(crate) fn some(value: f64) -> String {
    maybe(Some(value).filter(|value| crate::figures::none::is_figure(*value)))
}

/// A cell for a figure that there is none of if it is not finite.
pub(crate) fn finite(value: Option<f64>) -> String {
    maybe(value.filter(|value| value.is_finite()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let cells = ["plain", "a,b", "say \"hi\"", ""].map(str::to_owned);
        assert_eq!(row(cells), "plain,\"a,b\",\"say \"\"hi\"\"\",\n");
        assert_eq!(maybe(None::<u64>), "");
        assert_eq!(finite(Some(f64::INFINITY)) + &finite(Some(f64::NAN)), "");
        assert_eq!(maybe(Some(0.5)), "0.5");
    }
}
