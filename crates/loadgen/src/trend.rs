//! Trend of a series: its rise or fall as a whole, whatever single values do.

/// Computes the rise of a series from its first value to its last, in the unit of the values: the median of the slopes between any
/// two of them (Theil and Sen), times the number of steps. 0 of fewer than two values.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "a number of values is small")]
pub fn trend(values: &[f64]) -> f64 {
    let pairs = (0..values.len()).flat_map(|left| (left + 1..values.len()).map(move |right| (left, right)));
    let mut slopes: Vec<f64> =
        pairs.map(|(left, right)| (values[right] - values[left]) / (right - left) as f64).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let middle = slopes.len() / 2;
    let slope = match slopes.len() {
        0 => return 0.0,
        odd if odd % 2 == 1 => slopes[middle],
        _ => f64::midpoint(slopes[middle - 1], slopes[middle]),
    };
    slope * (values.len() - 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trend_of_a_line_is_the_distance_of_its_ends() {
        assert_eq!(trend(&[10.0, 12.0, 14.0, 16.0]), 6.0);
        assert_eq!(trend(&[5.0, 4.0]), -1.0);
        assert_eq!((trend(&[]), trend(&[3.0])), (0.0, 0.0));
    }

    #[test]
    fn one_stall_or_wavering_is_no_trend() {
        assert_eq!(trend(&[10.0, 10.0, 0.0, 10.0, 10.0]), 0.0);
        assert_eq!(trend(&[9.0, 11.0, 9.0, 11.0, 9.0]), 0.0);
    }
}
