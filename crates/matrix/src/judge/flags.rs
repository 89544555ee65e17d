//! Flags of a visit, from what was measured.

use std::time::Duration;

use results::{
    Arrivals, Flag, Workload,
    record::{HostDuring, Measured},
};

use crate::{
    judge::{significance::trend, windows},
    run::host::tick_error,
};

/// Limit of a rate's change over a slice, as a fraction.
const TREND_MAX: f64 = 0.05;
const STEAL_MAX: f64 = 0.01;
const FOREIGN_MAX: f64 = 0.05;
const CLIENT_BUSY_MAX: f64 = 0.90;
const SERVER_BUSY_MAX: f64 = 0.95;
/// Part of the offered load that must have been served.
const OFFERED_MIN: f64 = 0.98;

/// The flags that figures raise. `host` is what the machine did meanwhile, over `elapsed`.
pub(crate) fn of(workload: &Workload, measured: &Measured, host: &HostDuring, elapsed: Duration) -> Vec<Flag> {
    let mut flags = Vec::new();
    let mut raise = |flag, is_raised| flags.extend(Some(flag).filter(|_| is_raised));
    let server_busy = measured.server.map_or(0.0, |server| server.busy);
    let is_late = match workload.arrivals {
        Arrivals::Closed | Arrivals::LoadSweep => false,
        Arrivals::Open { rate_rps, .. } => measured.throughput_rps < OFFERED_MIN * rate_rps,
    };
    // What the sampling of /proc/stat can be wrong by is not foreign.
    let foreign_max = FOREIGN_MAX + tick_error(elapsed).as_secs_f64() / elapsed.as_secs_f64();
    raise(Flag::Errors, measured.ok < measured.requests || measured.ok == 0);
    // An open loop may spin until the next request is due; whether it kept up is what `lag` says.
    let is_closed = workload.arrivals == Arrivals::Closed;
    raise(Flag::ClientSaturated, is_closed && measured.client_busy > CLIENT_BUSY_MAX && server_busy < CLIENT_BUSY_MAX);
    raise(Flag::Lag, is_late && server_busy <= SERVER_BUSY_MAX);
    raise(Flag::Noisy, host.steal > STEAL_MAX || host.foreign > foreign_max);
    raise(Flag::ServerSaturated, server_busy > SERVER_BUSY_MAX);
    let rates = windows::rates(&measured.windows);
    raise(Flag::NoSteadyState, trend(&rates).is_some_and(|trend| trend.abs() > TREND_MAX));
    raise(Flag::Unsettled, measured.warmup_steady == Some(false));
    flags
}

#[cfg(test)]
mod tests {
    use results::record::{ServerCost, Window};

    use super::*;
    use crate::samples;

    const ELAPSED: Duration = Duration::from_secs(2);

    /// The flags of a visit under the closed (0) or the open workload (1), changed from one that has none.
    fn raised(workload: usize, change: impl Fn(&mut Measured, &mut HostDuring)) -> Vec<Flag> {
        let workload = &samples::setup().workloads[workload];
        let (mut measured, mut host) = (samples::measured(10.0), HostDuring::default());
        measured.server = measured.server.map(|server| ServerCost { busy: 0.9, ..server });
        change(&mut measured, &mut host);
        of(workload, &measured, &host, ELAPSED)
    }

    fn busy(measured: &mut Measured, server: f64, client: f64) {
        measured.client_busy = client;
        measured.server = measured.server.map(|cost| ServerCost { busy: server, ..cost });
    }

    #[test]
    fn a_quiet_visit_without_errors_has_no_flag() {
        assert_eq!(raised(0, |_, _| ()), []);
        assert_eq!(raised(1, |_, _| ()), [], "100,000 offered, 100,000 served");
    }

    #[test]
    fn one_failed_request_or_none_that_was_answered_is_an_error() {
        assert_eq!(raised(0, |measured, _| measured.ok -= 1), [Flag::Errors]);
        assert_eq!(raised(0, |measured, _| (measured.ok, measured.requests) = (0, 0)), [Flag::Errors]);
    }

    #[test]
    fn saturation_flags_name_the_saturated_side() {
        assert_eq!(raised(0, |measured, _| busy(measured, 0.5, 0.95)), [Flag::ClientSaturated]);
        assert_eq!(raised(0, |measured, _| busy(measured, 0.93, 0.95)), [], "both: it is the pair's");
        assert_eq!(raised(1, |measured, _| busy(measured, 0.5, 1.0)), [], "it may spin");
        assert_eq!(raised(0, |measured, _| busy(measured, 0.96, 0.5)), [Flag::ServerSaturated]);
    }

    #[test]
    fn an_unserved_load_is_lag_unless_the_server_is_saturated() {
        assert_eq!(raised(1, |measured, _| measured.throughput_rps = 97_000.0), [Flag::Lag]);
        assert_eq!(raised(1, |measured, _| measured.throughput_rps = 98_500.0), []);
        let overloaded = |measured: &mut Measured, _: &mut HostDuring| {
            measured.throughput_rps = 50_000.0;
            busy(measured, 0.99, 0.5);
        };
        assert_eq!(raised(1, overloaded), [Flag::ServerSaturated]);
        assert_eq!(raised(0, |measured, _| measured.throughput_rps = 1.0), [], "a closed loop is asked less");
    }

    #[test]
    fn time_of_others_is_noise_beyond_the_error_of_a_tick() {
        assert_eq!(raised(0, |_, host| host.steal = 0.02), [Flag::Noisy]);
        // Two seconds are 200 ticks: 5 % and 1.5 × √200 / 200.
        assert_eq!(raised(0, |_, host| host.foreign = 0.15), []);
        assert_eq!(raised(0, |_, host| host.foreign = 0.17), [Flag::Noisy]);
    }

    #[test]
    fn a_rate_that_rises_over_the_slice_is_no_steady_state() {
        let rising = |measured: &mut Measured, _: &mut HostDuring| {
            let window =
                |index: u32| Window { s: 0.0, rps: 100.0 + f64::from(index), errors: 0, p99_us: 0.0, lag_us: 0.0 };
            measured.windows = (0..15).map(window).collect();
        };
        assert_eq!(raised(0, rising), [Flag::NoSteadyState]);
    }

    #[test]
    fn a_warm_up_at_its_limit_is_unsettled_and_still_valid() {
        assert_eq!(raised(0, |measured, _| measured.warmup_steady = Some(false)), [Flag::Unsettled]);
        assert_eq!(raised(1, |measured, _| measured.warmup_steady = Some(true)), []);
        assert!(!Flag::Unsettled.is_invalid() && !Flag::Unsettled.is_fatal());
    }
}
