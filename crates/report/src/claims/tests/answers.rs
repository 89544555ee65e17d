//! The answers on a preset's page, read back and compared with the figures.

use results::{Difference, Interval, Role};

use super::{
    Law, ensure,
    oracle::{Oracle, close},
};
use crate::{claims, matrix_view::MatrixView};

/// Reads the answers under every workload of a matrix and counts them, by kind.
pub(super) fn of_matrix(oracle: &Oracle<'_>, said: &mut [u64; 2]) -> Law {
    let view = MatrixView::alone(oracle.summary);
    for (column, workload) in oracle.summary.setup.workloads.iter().enumerate() {
        let answers = [claims::dearest(&view, column), claims::least_p99(&view, column)];
        let laws = [dearest, least_p99];
        for (place, (claim, law)) in answers.into_iter().zip(laws).enumerate() {
            let Some(claim) = claim else { continue };
            let words = claim.text().replace('\u{a0}', " ");
            let holds = law(words.trim_end_matches('.'), &workload.name, oracle).unwrap_or(false);
            ensure(holds && oracle.is_ranked(), || words)?;
            said[place] += 1;
        }
    }
    Ok(())
}

/// `pool costs the most of 12 under get-128B-c64, 1.700× [1.690, 1.710] as much as epoll`
fn dearest(words: &str, workload: &str, oracle: &Oracle<'_>) -> Option<bool> {
    let (subject, rest) = words.split_once(" costs the most of ")?;
    let (of, rest) = rest.split_once(&format!(" under {workload}, "))?;
    let (figure, rest) = rest.split_once("× [")?;
    let reference = rest.split_once("] as much as ")?.1;
    let ratios = || oracle.ours().filter_map(|cell| oracle.ratio(&cell.label, workload));
    let greatest = ratios().map(|ratio| ratio.median).fold(0.0, f64::max);
    let own = oracle.ratio(subject, workload)?;
    let is_claimed = oracle.claimed(subject, workload) == Some(Difference::Higher);
    let is_greatest = own.median >= greatest && close(figure, greatest) && of == ratios().count().to_string();
    Some(is_claimed && is_greatest && oracle.reference()?.label == reference)
}

/// `Least p99 of the response time of 12 under open: uring, epoll, not told apart; uring has 120 µs [110, 130], pool the
/// greatest, 900 µs [890, 910]`
fn least_p99(words: &str, workload: &str, oracle: &Oracle<'_>) -> Option<bool> {
    let rest = words.strip_prefix("Least p99 of the response time of ")?;
    let (of, rest) = rest.split_once(&format!(" under {workload}: "))?;
    let (names, rest) = rest.split_once("; ")?;
    let mut names: Vec<&str> = names.trim_end_matches(", not told apart").split(", ").collect();
    let (first, rest) = rest.split_once(" has ")?;
    let (least, rest) = rest.split_once("], ")?;
    let (last, greatest) = rest.split_once(" the greatest, ")?;
    let p99 = |label: &str| -> Option<Interval> {
        let is_told = oracle.cell(label)?.role == Role::Ours && !oracle.is_doubtful(label, workload);
        let figures = oracle.figures(label, workload).filter(|figures| is_told && figures.cpu_us.is_some())?;
        Some(figures.response.as_ref()?.p99)
    };
    let all = || oracle.ours().filter_map(|cell| Some((cell.label.as_str(), p99(&cell.label)?)));
    let extreme = |least: bool| {
        let medians = all().map(|(_, p99)| p99.median);
        if least { medians.fold(f64::INFINITY, f64::min) } else { medians.fold(0.0, f64::max) }
    };
    let is_written = |words: &str, value: Interval| words.split(" µs").next().is_some_and(|it| close(it, value.median));
    let mut near: Vec<&str> =
        all().filter(|(_, it)| it.lo <= p99(first).map_or(0.0, |it| it.hi)).map(|(name, _)| name).collect();
    let (begins, own, greatest_own) = (names.first() == Some(&first), p99(first)?, p99(last)?);
    names.sort_unstable();
    near.sort_unstable();
    let has_extremes = own.median == extreme(true) && greatest_own.median == extreme(false);
    let has_figures = is_written(least, own) && is_written(greatest, greatest_own) && of == all().count().to_string();
    Some(begins && names == near && has_extremes && has_figures)
}
