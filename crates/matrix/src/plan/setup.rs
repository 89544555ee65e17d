//! From the flags to a run: what is built, asked and found before the first visit.

use std::{
    path::{Path, PathBuf},
    time::SystemTime,
};

use anyhow::{Context, Result};
use results::{Arrivals, Cell, Git, Host, NotRun, Pinning, Setup, TurnPlan, Workload};

use crate::{
    commands::calibrate,
    plan::{
        cells::{Cells, Selection},
        cpus::CpuList,
        filter::{Filter, Vocabulary, hint},
        pace::{self, Pace},
        peers, presets, preview,
        spec::{RunSpec, SubjectSpec},
        subjects::{self, Subject, Timing},
        sweep::{self, Sweep},
        warm_up,
    },
    run::{instructions, syscalls},
    usage,
    workspace::{self, cargo, first_line, run_shown},
};

const QUICK_RETRIES: u32 = 1;
const RETRIES: u32 = 2;

/// Builds what is measured and what measures, with the output shown, and returns where it lies.
pub(crate) fn build(subjects: &[&Subject], profile: &str) -> Result<PathBuf> {
    run_shown(cargo().args(build_arguments(subjects, profile)))?;
    Ok(workspace::metadata()?.target_directory.join(profile_directory(profile)))
}

/// Returns cargo's arguments for that.
pub(crate) fn build_arguments(subjects: &[&Subject], profile: &str) -> Vec<String> {
    // By binary: the package `zerocopy` shares its name with one that others of ours depend on, which makes `-p` ambiguous.
    let programs = programs(subjects).into_iter().flat_map(|program| ["--bin", program]);
    ["build", "--profile", profile].into_iter().chain(programs).map(str::to_owned).collect()
}

/// Returns the directory of what was built before.
///
/// # Errors
/// Something of it was not.
pub(crate) fn built(subjects: &[&Subject], profile: &str) -> Result<PathBuf> {
    let directory = workspace::metadata()?.target_directory.join(profile_directory(profile));
    let missing = programs(subjects).into_iter().find(|program| !directory.join(program).is_file());
    match missing {
        Some(program) => Err(usage(format!("--no-build: {program} has not been built with the profile `{profile}`"))),
        None => Ok(directory),
    }
}

/// Returns the names of the programs that are measured and that measure.
fn programs(subjects: &[&Subject]) -> Vec<&'static str> {
    let servers = subjects.iter().map(|subject| subject.server());
    let peers =
        subjects.iter().flat_map(|subject| subject.peers()).filter(|peer| peer.is_built()).map(|peer| peer.name());
    servers.chain(peers).chain(["loadgen"]).collect()
}

/// Directory of what cargo builds with a profile: its own four share two directories.
pub(super) fn profile_directory(profile: &str) -> &str {
    match profile {
        "dev" | "test" => "debug",
        "bench" => "release",
        named => named,
    }
}

pub(crate) fn loadgen(binaries: &Path) -> PathBuf {
    binaries.join("loadgen")
}

/// CPUs of server and generator.
pub(crate) struct Placement {
    pub(crate) server: CpuList,
    pub(crate) client: CpuList,
}

impl Placement {
    /// See [`CpuList::growth`].
    pub(crate) fn growth(&self, cores: u32) -> Vec<usize> {
        CpuList::growth(&self.server, &self.client, cores as usize)
    }

    pub(crate) fn pinning(&self) -> Pinning {
        Pinning {
            server_cpus: self.server.text().to_owned(),
            client_cpus: self.client.text().to_owned(),
            shared: self.server.shares_with(&self.client),
        }
    }

    pub(crate) fn timing(&self, slice_s: f64, warmup_s: f64, max_warmup_s: Option<f64>) -> Timing {
        let (client_cpus, client_threads) = (self.client.text().to_owned(), self.client.len());
        Timing { slice_s, warmup_s, max_warmup_s, client_cpus, client_threads }
    }
}

/// Makes a setup for each server of which the specification leaves something: everything but the open loops' rates, which
/// calibration visits find. `servers` are those of the specification, in its order.
pub(crate) fn plan(spec: &RunSpec, servers: &[Cells], host: &Host) -> Result<Vec<Setup>> {
    check_reference(spec, servers)?;
    let vocabulary = vocabulary(spec, servers);
    let seed = spec.seed.unwrap_or_else(seed_from_time);
    let usual = pace::without_budget(spec.pace);
    let setups = |pace: &Pace| setups(spec, servers, host, &vocabulary, seed, pace);
    let Some(budget_s) = spec.session.time_budget_s else { return setups(&usual) };
    let first = setups(&usual)?;
    let subject_of =
        |setup: &Setup| servers.iter().map(|cells| cells.subject).find(|subject| subject.server() == setup.server);
    let block_s = |slice_s: f64| -> f64 {
        first.iter().filter_map(|setup| Some(preview::block(subject_of(setup)?, setup, slice_s).1)).sum()
    };
    setups(&pace::within(budget_s, spec.pace, block_s)?)
}

fn setups(
    spec: &RunSpec,
    servers: &[Cells],
    host: &Host,
    vocabulary: &Vocabulary,
    seed: u64,
    pace: &Pace,
) -> Result<Vec<Setup>> {
    let sweep = Sweep::parse(&spec.vary, &spec.fix, vocabulary)?;
    let (mut setups, mut subjects) = (Vec::<Setup>::new(), Vec::new());
    for (own, cells) in spec.subjects.iter().zip(servers).filter(|(_, cells)| sweep.concerns(&cells.dimensions())) {
        let wanted = sweep::both(own.filter.clone(), sweep.expression(&cells.dimensions()));
        let filter = wanted.map(|wanted| Filter::of(&wanted, vocabulary)).transpose()?.unwrap_or_default();
        let accepted: Vec<String> =
            own.workloads.iter().filter(|name| filter.accepts("workload", name)).cloned().collect();
        let max_warmup_s = warm_up::of_subject(spec.max_warmup_s, cells.subject, spec.remote.is_some());
        let timing = spec.placement.timing(pace.slice_s, spec.warmup_s, max_warmup_s);
        let workloads =
            subjects::select_with(cells.subject, &accepted, &timing, own.is_scaled_down, |own| spec.variants.of(own));
        if workloads.is_empty() {
            continue;
        }
        if let Some(selection) = cells.select(&filter, &own.peers, &workloads, spec.reference.as_deref())? {
            setups.push(setup(spec, own, seed, pace, selection, workloads, host));
            subjects.push(cells.subject);
        }
    }
    if setups.is_empty() {
        return Err(usage("no workload or no server is left to run"));
    }
    let of_subjects =
        subjects.iter().zip(&setups).flat_map(|(subject, setup)| setup.workloads.iter().map(|it| (*subject, it)));
    spec.variants.check(of_subjects)?;
    if spec.has_asked_for_max_warmup && setups.iter().all(|setup| setup.max_warmup_s.is_none()) {
        return Err(usage("--max-warmup: no server that is left has a warm-up that ends by itself"));
    }
    Ok(setups)
}

/// Everything that a filter may name of any of the servers.
fn vocabulary(spec: &RunSpec, servers: &[Cells]) -> Vocabulary {
    let mut vocabulary = Vocabulary::default();
    for (own, cells) in spec.subjects.iter().zip(servers) {
        let own = cells.vocabulary(&own.peers, &own.workloads);
        vocabulary.servers.extend(own.servers);
        for (key, values) in own.keys {
            match vocabulary.keys.iter_mut().find(|(known, _)| *known == key) {
                Some((_, known)) => {
                    known.extend(values.into_iter().filter(|value| !known.contains(value)).collect::<Vec<_>>())
                }
                None => vocabulary.keys.push((key, values)),
            }
        }
    }
    vocabulary
}

/// Some server must have the reference; the others keep their own default.
fn check_reference(spec: &RunSpec, servers: &[Cells]) -> Result<()> {
    let Some(name) = spec.reference.as_deref() else { return Ok(()) };
    let ids: Vec<String> = servers.iter().flat_map(Cells::ids).collect();
    let is_it = |id: &String| id == name || id.split_once('/').is_some_and(|(_, label)| label == name);
    if ids.iter().any(is_it) {
        return Ok(());
    }
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    Err(usage(format!("--reference `{name}`: no such cell; {}", hint(name, &ids))))
}

fn setup(
    spec: &RunSpec,
    own: &SubjectSpec,
    seed: u64,
    pace: &Pace,
    selection: Selection,
    workloads: Vec<Workload>,
    host: &Host,
) -> Setup {
    let subject = own.subject;
    let mut setup = Setup {
        server: subject.server().to_owned(),
        created_utc: workspace::now_utc(),
        git: git(),
        rustc: first_line("rustc", &["--version"]).unwrap_or_default(),
        profile: spec.profile.clone(),
        command: shown_command(std::env::args().skip(1), spec.seed.is_none().then_some(seed)),
        quick: spec.is_quick,
        seed,
        blocks: own.blocks(pace.blocks, spec),
        slice_s: pace.slice_s,
        warmup_s: spec.warmup_s,
        max_warmup_s: warm_up::of_subject(spec.max_warmup_s, subject, spec.remote.is_some()),
        turns: spec.turns.filter(|plan| workloads.iter().any(|workload| subject.turns(workload, *plan).is_some())),
        calibration: None,
        retries_max: if spec.is_quick { QUICK_RETRIES } else { RETRIES },
        retry_budget_s: spec.is_quick.then_some(subject.quick_retry_budget_s()),
        not_run: Vec::new(),
        notes: notes(spec, pace, subject, &selection, &workloads),
        time_budget_s: spec.session.time_budget_s,
        reference: selection.reference,
        cells: selection.cells,
        workloads,
        pinning: spec.placement.pinning(),
        remote: spec.remote.clone(),
        syscalls: spec.counts_syscalls && syscalls::is_possible(),
        instructions: spec.counts_instructions && instructions::is_possible(),
        histograms: spec.keeps_histograms,
        host: host.clone(),
        quotes: own.preset_part.and_then(presets::quotes),
    };
    if setup.turns.is_some() {
        setup.calibration = calibrate::stored(&workspace::results(), host, &setup.profile);
    }
    setup.not_run = not_run(&setup, subject, &selection.unavailable);
    setup
}

fn not_run(setup: &Setup, subject: &Subject, unavailable: &[(String, String)]) -> Vec<NotRun> {
    let why = |(cell, workload): (&Cell, &Workload)| {
        let reason = unavailable.iter().find(|(id, _)| *id == cell.id).map(|(_, reason)| reason.clone());
        let open_files = setup.host.open_files_hard;
        let reason = reason.or_else(|| subjects::cannot_run(subject, cell, workload, open_files, setup.quick));
        let agents = setup.remote.as_ref().map_or(0, |remote| remote.agents.len());
        let reason = reason.or_else(|| subjects::cannot_be_shared(subject, workload, agents))?;
        Some(NotRun { cell: cell.id.clone(), workload: workload.name.clone(), reason })
    };
    setup.selected().filter_map(why).collect()
}

/// Returns what is to be said of visits in turns.
fn turn_notes(plan: TurnPlan, subject: &Subject, workloads: &[Workload]) -> Vec<String> {
    let TurnPlan { turn_s, pairs } = plan;
    let mut notes = Vec::new();
    if workloads.iter().any(subjects::takes_turns) {
        notes.push(format!(
            "Ratios of cost of closed loops are those of {pairs} pairs of turns in each visit, in which the server and a fresh reference, both alive, are loaded for {} ms at a time.",
            (turn_s * 1e3).round()
        ));
    }
    let rounds: Vec<&str> =
        workloads.iter().filter(|it| subject.round_s(it).is_some()).map(|it| it.name.as_str()).collect();
    if !rounds.is_empty() {
        notes.push(format!(
            "Ratios of cost under {} are those of one pair of turns in each visit, in which the server and a fresh reference each answer every client at least once.",
            rounds.join(" and ")
        ));
    }
    notes
}

fn notes(spec: &RunSpec, pace: &Pace, subject: &Subject, selection: &Selection, workloads: &[Workload]) -> Vec<String> {
    let mut notes = vec![
        "Every visit starts a fresh server process; a block visits every cell and workload once, in random order."
            .to_owned(),
        "Closed loops measure throughput and the cost of a request at saturation.".to_owned(),
    ];
    notes.extend(spec.preset.map(|preset| format!("Preset `{}`: {}.", preset.name, preset.about)));
    notes.extend(subject.note().map(str::to_owned));
    notes.extend(pace.note.clone());
    notes.extend(warm_up::note(spec.warmup_s, spec.max_warmup_s, subject, spec.remote.is_some()));
    notes.extend(spec.turns.into_iter().flat_map(|plan| turn_notes(plan, subject, workloads)));
    if let Some(remote) = &spec.remote {
        let (prefix, host) = (remote.prefix.join(" "), remote.host);
        notes.push(format!(
            "The servers ran behind `{prefix}` and listened at {host}. The generator could not see them: their CPU time was read before and after a run, \
             connecting included, and the warm-up was a run of its own."
        ));
        if !remote.agents.is_empty() {
            let (agents, prefixes) = (remote.agents.len(), remote.agents.join("`, `"));
            notes.push(format!("Each load was shared by agents of the generator ({agents}), behind `{prefixes}`."));
        }
    }
    if spec.is_scaling() {
        notes.push("A server with N threads has N CPUs, the generator's own last: where it takes those, a visit is flagged `shared-core`.".to_owned());
    }
    if spec.counts_syscalls {
        notes.push(if syscalls::is_possible() {
            "System calls per request were counted by strace in a pass of its own, as the difference of two loads."
                .to_owned()
        } else {
            "System calls were not counted: strace is not installed.".to_owned()
        });
    }
    if spec.counts_instructions {
        notes.push(if instructions::is_possible() {
            "Instructions per request were counted under valgrind in a pass of its own, as the difference of two loads; the programs were \
             built for it (rustix by way of libc)."
                .to_owned()
        } else {
            "Instructions were not counted: valgrind is not installed.".to_owned()
        });
    }
    notes.extend(open_loops(spec, subject, &selection.reference, workloads));
    if spec.is_quick {
        notes.push(format!(
            "Quick: to save time, {}, a flagged visit is repeated at most once, and only if all visits are still expected to take at most {} s.",
            subject.quick_note(),
            subject.quick_retry_budget_s(),
        ));
    }
    if workloads.iter().any(|workload| subjects::asks_for_site(&workload.name)) && peers::web::lacks_brotli() {
        notes.push("nginx is installed without its module for files compressed by brotli: everybody is asked for gzip, so that all send the same bytes.".to_owned());
    }
    for peer in &selection.missing_peers {
        notes.push(format!("{peer} is not installed and was left out."));
    }
    notes
}

/// Describes the load of the open loops, in a sentence for each capacity that they offer a fraction of.
fn open_loops(spec: &RunSpec, subject: &Subject, reference: &str, workloads: &[Workload]) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    for workload in workloads {
        let Arrivals::Open { fraction, .. } = workload.arrivals else { continue };
        let fraction = subject.fraction(&workload.name).unwrap_or(fraction);
        let calibration = subject.calibration(&workload.name);
        let note = format!(
            "Open loops offer every cell the same load: {} in `{}`. The capacity is what {reference} served in one closed-loop visit of {calibration} before the first block. Latency and cost at equal load come from it.",
            spec.variants.shares(fraction, subject.rate(&workload.name)),
            subjects::plain(&workload.name),
        );
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

pub(crate) fn git() -> Git {
    let sha = first_line("git", &["rev-parse", "--short=10", "--verify", "--quiet", "HEAD"]);
    let changed = first_line("git", &["status", "--porcelain", "--untracked-files=no"]);
    // Outside a repository git says `fatal: …`; nothing is known then.
    let is_known = |text: &String| !text.starts_with("fatal");
    Git {
        sha: sha.filter(is_known).unwrap_or_else(|| "unknown".to_owned()),
        dirty: changed.is_some_and(|text| is_known(&text)),
    }
}

pub(crate) fn default_directory(setup: &Setup) -> PathBuf {
    let stamp: String = setup.created_utc.chars().filter(|character| !matches!(character, '-' | ':')).collect();
    workspace::results().join(format!("{stamp}-{}", setup.git.sha))
}

fn seed_from_time() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(1, |since| since.as_secs())
}

/// The command to run the same again: as typed, with the seed, without where its files went.
fn shown_command(words: impl Iterator<Item = String>, seed: Option<u64>) -> String {
    let mut shown = vec!["cargo".to_owned(), "xtask".to_owned()];
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        if word == "--out" {
            words.next();
        } else if !word.starts_with("--out=") {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=.,/:".contains(&byte);
            shown.push(if word.bytes().all(is_plain) { word } else { format!("'{word}'") });
        }
    }
    shown.extend(seed.map(|seed| format!("--seed {seed}")));
    shown.join(" ")
}

/// Prevents two matrices at once on one machine, whoever runs them; held until dropped.
pub(crate) fn lock(is_forced: bool) -> Result<Option<nix::fcntl::Flock<std::fs::File>>> {
    use nix::fcntl::{Flock, FlockArg};
    if is_forced {
        return Ok(None);
    }
    let path = std::env::temp_dir().join("quintet-bench-matrix.lock");
    // Read access is enough for a lock, and all that another user's file gives.
    let file = std::fs::File::open(&path).or_else(|_| std::fs::File::create(&path));
    let file = file.with_context(|| format!("{}", path.display()))?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, error)) => Err(error).context("another bench-matrix runs on this machine (--force runs all the same)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_command_to_repeat_has_the_seed_and_no_path() {
        let words = ["bench-matrix", "--filter", "driver=uring|epoll", "--out", "/somewhere/x", "--quick", "--out=/y"];
        let shown = shown_command(words.iter().map(|&word| word.to_owned()), Some(7));
        assert_eq!(shown, "cargo xtask bench-matrix --filter 'driver=uring|epoll' --quick --seed 7");
    }

    #[test]
    fn results_go_to_a_directory_named_after_time_and_commit() {
        let directory = default_directory(&samples::setup());
        assert!(directory.ends_with("bench-results/20260101T000000Z-0123456"), "{}", directory.display());
    }

    #[test]
    fn two_matrices_do_not_run_at_once() {
        let first = lock(false);
        // Another test process may hold it; then the second attempt here fails all the same.
        let second = lock(false);
        assert!(first.is_err() || second.is_err());
        assert!(lock(true).unwrap().is_none());
    }
}
