//! Axes of pictures: their ticks, and those that several pictures have (time, requests per second, seconds).

use super::svg::{Scale, linear_ticks, log_ticks, ticks_between};
use crate::format::{compact, duration, short};

pub(crate) struct Tick {
    pub(crate) at: f64,
    pub(crate) label: String,
    /// A time in microseconds, which has a unit to choose.
    pub(crate) us: Option<f64>,
}

pub(crate) struct Axis {
    pub(crate) domain: (f64, f64),
    pub(crate) is_log: bool,
    pub(crate) ticks: Vec<Tick>,
}

impl Axis {
    pub(crate) fn scale(&self, range: (f64, f64)) -> Scale {
        if self.is_log { Scale::log(self.domain, range) } else { Scale::linear(self.domain, range) }
    }
}

/// Makes a log axis of times in microseconds that holds all `values`; 1 to 10 µs without any.
pub(crate) fn times(values: impl Iterator<Item = f64>) -> Axis {
    let (low, high) = range(values).map_or((1.0, 10.0), |(low, high)| (low * 0.85, high * 1.15));
    // A tick at least, however little the values differ.
    let domain = if high / low < 4.0 { (low / 2.0, high * 2.0) } else { (low, high) };
    let ticks = time_ticks(domain, 9);
    Axis { domain, is_log: true, ticks }
}

/// Returns ticks at the ones and threes of every decade; only the ones where there would be more than `most`.
pub(crate) fn time_ticks(domain: (f64, f64), most: usize) -> Vec<Tick> {
    let all = log_ticks(domain.0, domain.1);
    let is_one = |v: &f64| (v.log10() - v.log10().round()).abs() < 1e-6;
    let kept: Vec<f64> = if all.len() > most { all.into_iter().filter(is_one).collect() } else { all };
    kept.into_iter().map(|us| Tick { at: us, label: duration(us), us: Some(us) }).collect()
}

/// Makes a linear axis of requests per second from zero.
pub(crate) fn rates(values: impl Iterator<Item = f64>) -> Axis {
    let greatest = range(values).map_or(1.0, |(_, high)| high);
    let ticks = linear_ticks(greatest);
    let label = |at: f64| if at == 0.0 { "0".to_owned() } else { compact(at) };
    Axis {
        domain: (0.0, greatest * 1.04),
        is_log: false,
        ticks: ticks.into_iter().map(|at| Tick { at, label: label(at), us: None }).collect(),
    }
}

/// Makes a linear axis of microseconds per request from zero.
pub(crate) fn costs(values: impl Iterator<Item = f64>) -> Axis {
    let greatest = range(values).map_or(1.0, |(_, high)| high);
    let label = |at: f64| if at == 0.0 { "0".to_owned() } else { duration(at) };
    let ticks = linear_ticks(greatest);
    Axis {
        domain: (0.0, greatest * 1.06),
        is_log: false,
        ticks: ticks.into_iter().map(|at| Tick { at, label: label(at), us: None }).collect(),
    }
}

/// Makes a linear axis of seconds.
pub(crate) fn seconds(low: f64, high: f64) -> Axis {
    let high = if high > low { high } else { low + 1.0 };
    let ticks = ticks_between(low, high, 6.0);
    let label = |at: f64| format!("{}\u{a0}s", if at < 0.0 { format!("−{}", short(-at)) } else { short(at) });
    let tick = |at: f64| Tick { at, label: label(if at.abs() < 1e-9 { 0.0 } else { at }), us: None };
    Axis { domain: (low, high), is_log: false, ticks: ticks.into_iter().map(tick).collect() }
}

/// The least and the greatest of those that have a place on an axis.
fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (low, high) = values
        .filter(|v| v.is_finite() && *v > 0.0)
        .fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    (high > 0.0).then_some((low, high))
}
