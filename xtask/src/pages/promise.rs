//! Comparison of what a page promises with what was printed.

use anyhow::{Result, bail};

/// Stands for any text within a line, or on a line of its own for any lines.
const ANYTHING: &str = "…";

/// Compares the lines. Numbers, with the unit behind them, may be others; blanks may be more or fewer.
///
/// # Errors
/// A line that was promised did not come.
pub(super) fn check(promised: &str, printed: &str) -> Result<()> {
    let mut lines = printed.lines().map(shape).filter(|line| !line.is_empty());
    let mut may_skip = false;
    for line in promised.lines().filter(|line| !line.trim().is_empty()) {
        if line.trim() == ANYTHING {
            may_skip = true;
            continue;
        }
        let wanted = shape(line);
        let is_found = if may_skip {
            lines.any(|line| matches(&wanted, &line))
        } else {
            lines.next().is_some_and(|line| matches(&wanted, &line))
        };
        if !is_found {
            bail!("promised: {line}\nprinted:\n{printed}");
        }
        may_skip = false;
    }
    match lines.next() {
        Some(line) if !may_skip => bail!("not promised: {line}\nprinted:\n{printed}"),
        _ => Ok(()),
    }
}

/// Reduces a line to what stays the same from run to run.
fn shape(line: &str) -> String {
    let words = line.split_whitespace().map(|word| {
        let is_number = word.starts_with(|first: char| first.is_ascii_digit());
        if is_number { "#".to_owned() } else { word.to_owned() }
    });
    let mut shape: Vec<String> = Vec::new();
    for word in words {
        // A unit, which follows its number, depends on how large that is.
        let is_unit = shape.last().is_some_and(|last| last == "#")
            && matches!(word.as_str(), "ns" | "µs" | "ms" | "s" | "B" | "kB" | "MB" | "GB" | "KiB" | "MiB" | "GiB");
        if !is_unit {
            shape.push(word);
        }
    }
    shape.join(" ")
}

fn matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split(ANYTHING);
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_their_units_may_differ() {
        check("p99   1.2 ms\n", "p99 800 µs\n").unwrap();
        check("listening on 127.0.0.1:8080\n", "listening on 127.0.0.1:4711\n").unwrap();
        check("served 5\n", "refused 5\n").unwrap_err();
    }

    #[test]
    fn an_ellipsis_stands_for_lines_or_for_a_part_of_one() {
        check("a\n…\nb\n", "a\nx\ny\nb\n").unwrap();
        check("a … c\n", "a b b c\n").unwrap();
        check("a\n…\nb\n", "a\nx\n").unwrap_err();
    }

    #[test]
    fn more_lines_than_promised_are_not_the_promise() {
        check("a\n", "a\nb\n").unwrap_err();
        check("a\n…\n", "a\nb\n").unwrap();
    }
}
