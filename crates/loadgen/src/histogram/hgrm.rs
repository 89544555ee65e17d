//! HdrHistogram's percentile distribution as text, which its plotter and readers of wrk2's output take.

use std::io::{self, Write};

use hdrhistogram::Histogram;

/// Lines for each halving of the distance to 100 %: the default of the Java implementation and of wrk2.
const TICKS_PER_HALF_DISTANCE: u32 = 5;

/// Nanoseconds per unit of the values.
const NANOS_PER_MILLISECOND: f64 = 1e6;

/// Writes a histogram of nanoseconds. Values are milliseconds, with all digits down to the nanosecond.
///
/// # Errors
/// `out` cannot be written.
#[expect(clippy::cast_precision_loss, reason = "at most a minute in nanoseconds")]
pub(crate) fn write(out: &mut impl Write, histogram: &Histogram<u64>) -> io::Result<()> {
    writeln!(out, "{:>12} {:>14} {:>10} {:>14}\n", "Value", "Percentile", "TotalCount", "1/(1-Percentile)")?;
    let mut total = 0;
    for step in histogram.iter_quantiles(TICKS_PER_HALF_DISTANCE) {
        total += step.count_since_last_iteration();
        let (value, quantile) = (step.value_iterated_to() as f64 / NANOS_PER_MILLISECOND, step.quantile_iterated_to());
        write!(out, "{value:>12.6} {quantile:>14.12} {total:>10}")?;
        // The last line has no fourth column: 1/0.
        if quantile < 1.0 { writeln!(out, " {:>14.2}", 1.0 / (1.0 - quantile))? } else { writeln!(out)? }
    }
    let milliseconds = |nanos: f64| nanos / NANOS_PER_MILLISECOND;
    let (mean, deviation) = (milliseconds(histogram.mean()), milliseconds(histogram.stdev()));
    writeln!(out, "#[Mean    = {mean:>12.6}, StdDeviation   = {deviation:>12.6}]")?;
    let max = milliseconds(histogram.max() as f64);
    writeln!(out, "#[Max     = {max:>12.6}, Total count    = {:>12}]", histogram.len())?;
    let (buckets, sub_buckets) = shape(histogram);
    writeln!(out, "#[Buckets = {buckets:>12}, SubBuckets     = {sub_buckets:>12}]")
}

/// Returns the number of buckets, each twice as wide as the one before it, and the number of counters in the first.
fn shape(histogram: &Histogram<u64>) -> (u64, u64) {
    let sub_buckets = (2 * 10_u64.pow(histogram.sigfig().into())).next_power_of_two();
    // The first bucket has all of its counters, each of the others the upper half of them.
    let halves = histogram.distinct_values() as u64 / (sub_buckets / 2);
    (halves.saturating_sub(1), sub_buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the rows as HdrHistogram's plotFiles.html does: four columns split at blanks, the first and the last one as
    /// numbers.
    fn plotted(text: &str) -> Vec<(f64, f64)> {
        let columns = |line: &str| line.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let rows = text.lines().map(|line| columns(line.trim()));
        let is_row = |row: &Vec<String>| row.len() == 4 && !row[0].starts_with('#');
        rows.filter(is_row).filter_map(|row| Some((row[3].parse().ok()?, row[0].parse().ok()?))).collect()
    }

    fn written(histogram: &Histogram<u64>) -> String {
        let mut text = Vec::new();
        write(&mut text, histogram).expect("memory");
        String::from_utf8(text).expect("UTF-8")
    }

    #[test]
    fn the_plotter_finds_the_quantiles_of_the_histogram() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("valid");
        (1..=10_000_u64).for_each(|step| histogram.record(step * 1_000).expect("in range"));
        let text = written(&histogram);
        let rows = plotted(&text);
        assert!(rows.len() > 40, "{text}");
        assert!(rows.is_sorted_by(|one, next| one.0 < next.0 && one.1 <= next.1), "{text}");
        for (inverse, milliseconds) in rows {
            let quantile = 1.0 - 1.0 / inverse;
            let expected = histogram.value_at_quantile(quantile) as f64 / 1e6;
            // The fourth column has two digits behind the point, which is what limits this.
            assert!(
                (milliseconds - expected).abs() <= 0.01 * expected.max(0.1),
                "{quantile}: {milliseconds} {expected}"
            );
        }
    }

    #[test]
    fn the_last_row_and_the_footer_count_everything() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 60_000_000_000, 3).expect("valid");
        histogram.record_n(2_000_000, 99).expect("in range");
        histogram.record(5_000_000).expect("in range");
        let text = written(&histogram);
        let last = text.lines().rfind(|line| !line.starts_with('#')).expect("rows");
        let last: Vec<_> = last.split_ascii_whitespace().collect();
        assert_eq!((last.len(), last[1], last[2]), (3, "1.000000000000", "100"), "{text}");
        assert!(text.contains("Total count    =          100]"), "{text}");
        assert!(text.contains("#[Buckets =           26, SubBuckets     =         2048]"), "{text}");
    }

    #[test]
    fn an_empty_histogram_is_a_header_and_a_footer() {
        let text = written(&Histogram::<u64>::new(3).expect("valid"));
        assert!(plotted(&text).is_empty() && text.contains("Total count    =            0]"), "{text}");
    }
}
