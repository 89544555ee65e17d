//! Workloads that were chosen, with the commands that make them.

use results::{Arrivals, Role, Workload};

use super::{Subject, Target, Timing, generator::rounded};
use crate::judge::load_sweep;

/// Selects the workloads of a server by name, in its order, with the commands that make them.
pub(crate) fn select(subject: &Subject, names: &[String], timing: &Timing, is_quick: bool) -> Vec<Workload> {
    select_with(subject, names, timing, is_quick, |own| own)
}

/// Selects the same and varies them.
pub(crate) fn select_with(
    subject: &Subject,
    names: &[String],
    timing: &Timing,
    is_quick: bool,
    vary: impl FnOnce(Vec<Workload>) -> Vec<Workload>,
) -> Vec<Workload> {
    let mut workloads = subject.workloads(is_quick);
    workloads.retain(|workload| names.contains(&workload.name));
    let mut workloads = vary(workloads);
    for workload in &mut workloads {
        show_commands(subject, workload, timing);
    }
    workloads
}

/// Sets the load that the open workloads of this calibration offer, from the reference's capacity.
pub(crate) fn calibrate(
    subject: &Subject,
    workloads: &mut [Workload],
    calibration: &str,
    capacity_rps: f64,
    timing: &Timing,
) {
    for workload in workloads.iter_mut().filter(|workload| subject.calibration(&workload.name) == calibration) {
        if let Arrivals::Open { rate_rps, fraction, .. } = workload.arrivals {
            let (rate_rps, fraction) = match rate_rps > 0.0 {
                // Somebody chose it.
                true => (rate_rps, rate_rps / capacity_rps),
                false => (rounded(capacity_rps * fraction), fraction),
            };
            workload.arrivals = Arrivals::Open { rate_rps, fraction, capacity_rps };
            show_commands(subject, workload, timing);
        }
    }
}

/// The generator's arguments against the server `pid`.
pub(crate) fn arguments(subject: &Subject, target: &Target<'_>, timing: &Timing, pid: &str) -> Vec<String> {
    let workload = target.workload;
    let mut words = vec![subject.load.command(target.role).to_owned()];
    words.extend(subject.load.amount_arguments(workload, timing));
    words.extend(subject.outstanding_arguments(workload));
    let mut flag = |name: &str, value: String| words.extend([name.to_owned(), value]);
    match workload.arrivals {
        Arrivals::Closed => {}
        Arrivals::Open { rate_rps, .. } => flag("-R", rate_rps.to_string()),
        Arrivals::LoadSweep => flag("--rate-sweep", load_sweep::SHARES.to_owned()),
    }
    flag("--pin", timing.client_cpus.clone());
    flag("--format", "json".to_owned());
    flag("--server-pid", pid.to_owned());
    words.push("--timeline".to_owned());
    words.extend(subject.load_arguments(target));
    words
}
fn show_commands(subject: &Subject, workload: &mut Workload, timing: &Timing) {
    let shown = |arguments: Vec<String>| format!("loadgen {}", arguments.join(" "));
    let target = Target { workload, role: Role::Ours, address: "ADDR", site: "SITE" };
    let command = shown(arguments(subject, &target, timing, "PID"));
    let preload = workload.prepared().map(|_| shown(subject.preload_arguments(&target, timing)));
    workload.command = command;
    workload.preload = preload;
}
