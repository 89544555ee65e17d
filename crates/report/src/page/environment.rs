//! Conditions of the run: facts of the machine, exact commands, configurations of the peers.

use maud::{Markup, html};
use results::{Cell, Role, Setup, Workload, ranks::interval_name};

use super::{header::calibration, section::Section};
use crate::{
    format::{count, elapsed, short},
    matrix_view::MatrixView,
};

const UNKNOWN: &str = "not visible here";

pub(super) fn section(view: &MatrixView<'_>) -> Section {
    let is_first = view.prefix.is_empty();
    Section {
        id: "env",
        link: "environment",
        title: "Environment and commands".to_owned(),
        finding: Markup::default(),
        content: html! { (conditions(view)) @if is_first { (data_note()) } },
    }
}

fn data_note() -> Markup {
    html! {
        p.small {
            "The curves of this page are in it as data, in the element " span.mono { "script#data" }
            ", with numbers of four digits; " span.mono { "summary.json" }
            " beside this file has everything in full. " span #dl {}
        }
    }
}

fn conditions(view: &MatrixView<'_>) -> Markup {
    let setup = &view.summary.setup;
    let servers = setup.cells.iter().map(|cell| (cell.label.as_str(), cell.command.as_str()));
    let loads = setup.workloads.iter().map(|workload| (workload.name.as_str(), workload.command.as_str()));
    let preloads = preloads(&setup.workloads);
    let adds: Vec<(&str, String)> = (setup.workloads.iter())
        .filter(|workload| !workload.adds.is_empty())
        .map(|workload| (workload.name.as_str(), workload.adds.join(" ")))
        .collect();
    html! {
        dl {
            @for (term, facts) in facts(view) { dt { (term) } dd { (facts) } }
            @if let Some(known) = &setup.calibration { dt { "calibration" } dd { (calibration(known)) } }
            @for note in &setup.notes { dt { "note" } dd { (note) } }
        }
        "\n"
        (listing("Again", &setup.command))
        (listing("Servers", &commands(servers)))
        (listing("Loads", &commands(loads)))
        @if !preloads.is_empty() {
            (listing("Before them", &commands(preloads.iter().map(|(names, command)| (names.as_str(), *command)))))
        }
        @if !adds.is_empty() {
            (listing("More arguments of our servers", &commands(adds.iter().map(|(name, adds)| (*name, adds.as_str())))))
        }
        @for (labels, config) in configurations(&setup.cells) {
            (listing(&format!("Configuration of {labels}"), config.trim_end()))
        }
    }
}

fn listing(title: &str, text: &str) -> Markup {
    html! { h3 { (title) } pre { (text) } "\n" }
}

/// Facts without which nobody can repeat the run: a term, and what is true of it.
pub(crate) fn facts(view: &MatrixView<'_>) -> Vec<(&'static str, String)> {
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
    let versions = |is_wanted: fn(&Cell) -> bool| -> Vec<String> {
        let cells = setup.cells.iter().filter(|cell| is_wanted(cell));
        cells.filter_map(|cell| cell.version.as_ref().map(|version| format!("{}: {version}", cell.label))).collect()
    };
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
        (
            "confinement",
            host.confinement.as_ref().map_or_else(
                || UNKNOWN.to_owned(),
                |facilities| format!("{facilities}, which our own servers use (--sandbox auto) and peers do not"),
            ),
        ),
        ("load at start", format!("{:.2}", host.load1)),
        (
            "pinning",
            format!("server CPU {}, generator CPU {}{shared}", setup.pinning.server_cpus, setup.pinning.client_cpus),
        ),
        ("source", format!("git {} ({changed}), {}", setup.git.sha, setup.rustc)),
        ("drivers", none_or(versions(|cell| cell.role == Role::Ours), "; ")),
        ("peers", none_or(versions(|cell| cell.role == Role::Peer), "; ")),
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

fn plan(setup: &Setup, view: &MatrixView<'_>) -> String {
    let progress = &view.summary.progress;
    format!(
        "{} of {} complete, {} of {}, {}, slices of {}\u{a0}s after {} of warm-up, up to {} of an \
         invalid visit, seed {}",
        progress.blocks_complete,
        count(setup.blocks as usize, "block"),
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

/// A line for each command, with the names behind it.
fn commands<'a>(named: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    named.map(|(name, command)| format!("{command}   # {name}")).collect::<Vec<_>>().join("\n")
}

/// Lists each command that stores keys once, with the workloads that need it.
fn preloads(workloads: &[Workload]) -> Vec<(String, &str)> {
    once(workloads.iter().filter_map(|workload| Some((workload.name.as_str(), workload.preload.as_deref()?))))
}

/// Lists each configuration once, with the cells that use it.
fn configurations(cells: &[Cell]) -> Vec<(String, &str)> {
    once(cells.iter().filter_map(|cell| Some((cell.label.as_str(), cell.config.as_deref()?))))
}

/// Lists equal texts once, with the names of all that have them.
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
