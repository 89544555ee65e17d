//! Where and how the run was made: facts of the machine, exact commands, configurations of the peers.

use std::fmt::Write as _;

use results::{Cell, Setup, Workload, ranks::interval_name};

use crate::{
    format::{count, elapsed, short},
    matrix_view::View,
    picture::svg::escape,
};

const UNKNOWN: &str = "not visible here";

pub(super) fn html(view: &View<'_>) -> String {
    let setup = &view.summary.setup;
    let mut out = "<dl>".to_owned();
    for (term, facts) in facts(view) {
        let _ = write!(out, "<dt>{term}</dt><dd>{}</dd>", escape(&facts));
    }
    for note in &setup.notes {
        let _ = write!(out, "<dt>note</dt><dd>{}</dd>", escape(note));
    }
    out += "</dl>\n";
    let _ = writeln!(out, "<h3>Again</h3><pre>{}</pre>", escape(&setup.command));
    let servers = setup.cells.iter().map(|cell| (cell.label.as_str(), cell.command.as_str()));
    let _ = writeln!(out, "<h3>Servers</h3><pre>{}</pre>", listing(servers));
    let loads = setup.workloads.iter().map(|workload| (workload.name.as_str(), workload.command.as_str()));
    let _ = writeln!(out, "<h3>Loads</h3><pre>{}</pre>", listing(loads));
    let preloads = preloads(&setup.workloads);
    if !preloads.is_empty() {
        let listed = listing(preloads.iter().map(|(names, command)| (names.as_str(), *command)));
        let _ = writeln!(out, "<h3>Before them</h3><pre>{listed}</pre>");
    }
    let adds: Vec<(&str, String)> = (setup.workloads.iter())
        .filter(|workload| !workload.adds.is_empty())
        .map(|workload| (workload.name.as_str(), workload.adds.join(" ")))
        .collect();
    if !adds.is_empty() {
        let listed = listing(adds.iter().map(|(name, adds)| (*name, adds.as_str())));
        let _ = writeln!(out, "<h3>More arguments of our servers</h3><pre>{listed}</pre>");
    }
    for (labels, config) in configurations(&setup.cells) {
        let _ = writeln!(out, "<h3>Configuration of {}</h3><pre>{}</pre>", escape(&labels), escape(config.trim_end()));
    }
    out
}

fn facts(view: &View<'_>) -> Vec<(&'static str, String)> {
    let (setup, progress) = (&view.summary.setup, &view.summary.progress);
    let host = &setup.host;
    let known = |fact: &Option<String>| fact.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let guest = if host.virtual_machine { ", virtual machine" } else { "" };
    let memory = short(host.memory_bytes as f64 / f64::from(1 << 30));
    let ports = host.port_range.map_or_else(|| UNKNOWN.to_owned(), |[low, high]| format!("{low}–{high}"));
    let backlog = host.somaxconn.map_or_else(|| UNKNOWN.to_owned(), |n| n.to_string());
    let shared = if setup.pinning.shared { "; they share a core" } else { "; nothing shared" };
    let changed = if setup.git.dirty { "with changes" } else { "clean" };
    let mitigations: Vec<String> = host.mitigations.iter().map(|(name, state)| format!("{name}: {state}")).collect();
    let none_or = |list: Vec<String>, join: &str| if list.is_empty() { "none".to_owned() } else { list.join(join) };
    let peers: Vec<String> =
        setup.cells.iter().filter_map(|c| c.version.as_ref().map(|v| format!("{}: {v}", c.label))).collect();
    vec![
        ("machine", format!("{}, {}{guest}, {memory}\u{a0}GiB", host.cpu_model, count(host.cores as usize, "core"))),
        ("kernel", format!("{}, clocksource {}", kernel(&host.kernel), known(&host.clocksource))),
        ("huge pages", known(&host.transparent_hugepages)),
        ("governor, SMT", format!("{}; {}", known(&host.governor), known(&host.smt))),
        ("mitigations", none_or(mitigations, "; ")),
        (
            "limits",
            format!(
                "somaxconn {backlog}, ip_local_port_range {ports}, open files {} (hard {})",
                host.open_files_soft, host.open_files_hard
            ),
        ),
        (
            "congestion control",
            format!(
                "{} by default, as peers have it; our own servers use reno on loopback",
                known(&host.congestion_control)
            ),
        ),
        (
            "counters",
            format!(
                "{}; CPU time from the scheduler's nanoseconds",
                host.instruction_counter.as_deref().unwrap_or("instructions are not counted")
            ),
        ),
        ("load at start", format!("{:.2}", host.load1)),
        (
            "pinning",
            format!("server CPU {}, generator CPU {}{shared}", setup.pinning.server_cpus, setup.pinning.client_cpus),
        ),
        ("source", format!("git {} ({changed}), {}", setup.git.sha, setup.rustc)),
        ("peers", none_or(peers, "; ")),
        ("made", format!("{}, in {}", setup.created_utc, elapsed(progress.elapsed_s))),
        ("plan", plan(setup, view)),
        (
            "statistics",
            format!(
                "median over blocks of the paired ratio; {}, from resamples and ranks of blocks; a difference inside the \
                 A/A noise floor is none",
                interval_name(setup.blocks)
            ),
        ),
    ]
}

fn plan(setup: &Setup, view: &View<'_>) -> String {
    let progress = &view.summary.progress;
    format!(
        "{} of {} blocks complete, {} of {}, {}, slices of {}\u{a0}s after {} of warm-up, up to {} of an \
         invalid visit, seed {}",
        progress.blocks_complete,
        setup.blocks,
        progress.visits_done,
        count(progress.visits_planned as usize, "visit"),
        count(progress.attempts as usize, "attempt"),
        short(setup.slice_s),
        setup.warm_up_in_words(),
        if setup.retries_max == 1 { "1\u{a0}retry".to_owned() } else { format!("{}\u{a0}retries", setup.retries_max) },
        setup.seed
    )
}

/// `Linux 6.18`, whether or not the fact names the system.
pub(super) fn kernel(release: &str) -> String {
    if release.starts_with("Linux") { release.to_owned() } else { format!("Linux {release}") }
}

fn listing<'a>(lines: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    let lines: Vec<String> = lines.map(|(name, command)| escape(&format!("{command}   # {name}"))).collect();
    lines.join("\n")
}

/// Each command that stores keys once, with the workloads that need it.
fn preloads(workloads: &[Workload]) -> Vec<(String, &str)> {
    once(workloads.iter().filter_map(|workload| Some((workload.name.as_str(), workload.preload.as_deref()?))))
}

/// Each configuration once, with the cells that use it.
fn configurations(cells: &[Cell]) -> Vec<(String, &str)> {
    once(cells.iter().filter_map(|cell| Some((cell.label.as_str(), cell.config.as_deref()?))))
}

/// Equal texts once, with the names of all that have them.
fn once<'a>(named: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<(String, &'a str)> {
    let mut out: Vec<(String, &str)> = Vec::new();
    for (name, text) in named {
        match out.iter_mut().find(|(_, other)| *other == text) {
            Some((names, _)) => *names += &format!(", {name}"),
            None => out.push((name.to_owned(), text)),
        }
    }
    out
}
