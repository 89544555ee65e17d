//! The validated request: what the flags ask for, with every check that needs neither a build nor a server.

use std::path::PathBuf;

use anyhow::Result;
use results::{RELEASE, Remote, TurnPlan};
use servers::PresetPart;

use crate::{
    commands::{Command, GateArgs, baseline},
    plan::{
        args::{Args, Program},
        cpus::CpuList,
        filter::{self, Expression, hint},
        pace::PaceRequest,
        peers::{self, Peer},
        presets::Preset,
        remote,
        setup::Placement,
        subjects::{self, SUBJECTS, Subject},
        variants::Variants,
        warm_up,
    },
    run::{
        host,
        pair::{RoundShape, SHAPE},
    },
    usage,
};

const QUICK: Defaults = Defaults { blocks: 3, slice_s: 0.3, warmup_s: 0.2, pairs: 5 };
const FULL: Defaults = Defaults { blocks: 7, slice_s: 1.5, warmup_s: 0.5, pairs: 10 };
/// Length of a turn beside the reference: long beside what begins and ends it, short beside what changes on a machine.
const TURN_S: f64 = 0.04;

/// Time in which a quick run of everything ends: on a machine that is slower than expected it makes fewer blocks.
const QUICK_WITHIN_S: f64 = 285.0;

struct Defaults {
    blocks: u32,
    slice_s: f64,
    warmup_s: f64,
    /// Pairs of turns of a visit.
    pairs: u32,
}

/// Task of one call of bench-matrix.
pub(crate) enum Task {
    /// Makes a plan and its visits.
    Start(Box<RunSpec>),
    /// Makes a plan and prints it.
    Show(Box<RunSpec>, Listing),
    /// Makes the missing visits of a run.
    Resume(ResumeSpec),
    /// Compares two programs.
    Programs(Box<ProgramsSpec>),
    /// Works on stored runs.
    Process(Command),
}

/// Form in which a plan is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// Cells, workloads and the expected time: `--list`.
    Combinations,
    /// Every visit in its order: `--dry-run`.
    Visits,
}

/// A new run.
pub(crate) struct RunSpec {
    /// Servers to measure, at least one.
    pub(crate) subjects: Vec<SubjectSpec>,
    pub(crate) preset: Option<&'static Preset>,
    pub(crate) is_quick: bool,
    /// Blocks and slices as asked for, and what they are otherwise.
    pub(crate) pace: PaceRequest,
    pub(crate) warmup_s: f64,
    /// Longest warm-up; `None` is a fixed time.
    pub(crate) max_warmup_s: Option<f64>,
    /// Turns beside the reference, if visits take some.
    pub(crate) turns: Option<TurnPlan>,
    /// True if somebody asked for a warm-up that ends by itself.
    pub(crate) has_asked_for_max_warmup: bool,
    /// `None` is the time of the plan.
    pub(crate) seed: Option<u64>,
    /// Dimensions and their values are known only to the servers, which check them.
    pub(crate) vary: Vec<String>,
    pub(crate) fix: Vec<String>,
    pub(crate) variants: Variants,
    pub(crate) reference: Option<String>,
    pub(crate) placement: Placement,
    /// PeerContext of the servers, if they do not run here.
    pub(crate) remote: Option<Remote>,
    pub(crate) counts_syscalls: bool,
    /// Under valgrind.
    pub(crate) counts_instructions: bool,
    pub(crate) keeps_histograms: bool,
    /// Cargo profile of what is measured and of what measures.
    pub(crate) profile: String,
    /// `None` is a directory named after time and commit.
    pub(crate) out: Option<PathBuf>,
    pub(crate) session: SessionSpec,
}

/// Part of a new run that concerns one server.
pub(crate) struct SubjectSpec {
    pub(crate) subject: &'static Subject,
    /// Part of the preset that belongs to this server.
    pub(crate) preset_part: Option<&'static PresetPart>,
    pub(crate) filter: Option<Expression>,
    /// Names of the workloads that were asked for; perhaps none.
    pub(crate) workloads: Vec<String>,
    /// True if workloads are scaled down: in a quick run, but where figures from elsewhere are quoted beside ours.
    pub(crate) is_scaled_down: bool,
    pub(crate) peers: Vec<&'static dyn Peer>,
}

/// A run to continue. Its plan is in its directory.
pub(crate) struct ResumeSpec {
    pub(crate) directory: PathBuf,
    /// Programs of strangers, which are no part of the plan.
    pub(crate) programs: Vec<(String, PathBuf)>,
    pub(crate) session: SessionSpec,
}

/// Options of making visits, which are no part of the plan: a resumed run may have others.
pub(crate) struct SessionSpec {
    /// The plan is chosen to fit into it.
    pub(crate) time_budget_s: Option<f64>,
    /// Time after which no block is begun that would not end in it.
    pub(crate) ends_within_s: Option<f64>,
    /// True if what is measured has been built before.
    pub(crate) is_built: bool,
    pub(crate) is_forced: bool,
    /// Name under which the finished run is kept.
    pub(crate) save_baseline: Option<String>,
    /// Run that the finished one is compared with: a name or a directory.
    pub(crate) baseline: Option<String>,
    pub(crate) gate: GateArgs,
}

impl Task {
    /// Checks the flags and decides what they ask for.
    ///
    /// # Errors
    /// They contradict each other, or name what does not exist.
    pub(crate) fn from_args(args: Args) -> Result<Self> {
        if let Some(command) = args.command {
            return Ok(Self::Process(command));
        }
        if let Some(directory) = args.resume.clone() {
            let programs = args.program.iter().map(|program| Ok((program.name.clone(), path_of(program)?)));
            let programs = programs.collect::<Result<_>>()?;
            return Ok(Self::Resume(ResumeSpec { directory, programs, session: SessionSpec::from_args(&args)? }));
        }
        if args.program.iter().any(Program::is_build) {
            return Ok(Self::Programs(Box::new(ProgramsSpec::from_args(&args, host::cores()?, &host::siblings(0))?)));
        }
        let listing = match (args.list, args.dry_run) {
            (true, _) => Some(Listing::Combinations),
            (false, true) => Some(Listing::Visits),
            (false, false) => None,
        };
        let spec = Box::new(RunSpec::from_args(args, host::cores()?, &host::siblings(0))?);
        Ok(match listing {
            Some(listing) => Self::Show(spec, listing),
            None => Self::Start(spec),
        })
    }
}

/// Two programs side by side.
pub(crate) struct ProgramsSpec {
    pub(crate) subject: &'static Subject,
    /// Base and change.
    pub(crate) programs: [PathBuf; 2],
    pub(crate) workloads: Vec<String>,
    pub(crate) reference: Option<String>,
    pub(crate) placement: Placement,
    /// Shape of each round.
    pub(crate) shape: RoundShape,
    /// For all workloads.
    pub(crate) time_budget_s: Option<f64>,
    /// Under valgrind.
    pub(crate) counts_instructions: bool,
    pub(crate) profile: String,
    pub(crate) is_built: bool,
    pub(crate) is_forced: bool,
    pub(crate) out: Option<PathBuf>,
    pub(crate) gate: GateArgs,
}

impl ProgramsSpec {
    fn from_args(args: &Args, cores: u32, siblings: &[usize]) -> Result<Self> {
        let [subject] = subjects(args)?[..] else { return Err(usage("--program: name one server with --servers")) };
        if let Some(flag) = args.conflict_with_builds() {
            return Err(usage(format!("--program base=PATH and {flag} exclude each other")));
        }
        check_workloads(args, &[subject])?;
        let pairs = args.turns.unwrap_or(SHAPE.pairs);
        if pairs == 0 {
            return Err(usage("--turns: two builds are compared by turns, at least 1 pair in a round"));
        }
        let path = |name: &str| -> Result<PathBuf> {
            let mut named = args.program.iter().filter(|program| program.name == name);
            let (Some(program), None, true) = (named.next(), named.next(), args.program.len() == 2) else {
                return Err(usage("--program: one base=PATH and one change=PATH are compared"));
            };
            path_of(program)
        };
        let is_wanted = |name: &String| match args.workload.as_slice() {
            [] => subject.is_usual(name) && subject.is_quick(name),
            given => given.contains(name),
        };
        Ok(Self {
            subject,
            programs: [path("base")?, path("change")?],
            workloads: names(subject, args).filter(is_wanted).collect(),
            reference: args.reference.clone(),
            placement: placement(args, cores, siblings)?,
            shape: RoundShape { pairs, ..SHAPE },
            time_budget_s: args.time_budget,
            counts_instructions: args.witness.is_some(),
            profile: args.profile.clone(),
            is_built: args.no_build,
            is_forced: args.force,
            out: args.out.clone(),
            gate: args.gate,
        })
    }
}

impl RunSpec {
    /// `cores` is the number of this machine's CPUs; `siblings` share a core with the first.
    fn from_args(args: Args, cores: u32, siblings: &[usize]) -> Result<Self> {
        let subjects = with_programs(subjects(&args)?, &args)?;
        let defaults = if args.quick { &QUICK } else { &FULL };
        let warmup_s = args.warmup.unwrap_or(defaults.warmup_s);
        warm_up::check(args.max_warmup, warmup_s)?;
        check_workloads(&args, &subjects)?;
        // Names can only be checked once the servers have been asked; what cannot be read at all is said before that.
        args.filter.iter().try_for_each(|text| filter::parse(text).map(drop))?;
        if args.against != ["none"] {
            check_names("--against", &args.against, &peers::names())?;
        }
        let placement = placement(&args, cores, siblings)?;
        let subjects = subjects.into_iter().map(|subject| SubjectSpec::from_args(&args, subject));
        let max_warmup_s = warm_up::longest_s(args.max_warmup, warmup_s, args.quick);
        Ok(Self {
            subjects: subjects.collect::<Result<_>>()?,
            preset: args.preset,
            is_quick: args.quick,
            pace: PaceRequest {
                blocks: args.blocks,
                slice_s: args.slice,
                default_blocks: defaults.blocks,
                default_slice_s: defaults.slice_s,
            },
            warmup_s,
            max_warmup_s,
            turns: turns(&args, defaults)?,
            has_asked_for_max_warmup: args.max_warmup.is_some() && max_warmup_s.is_some(),
            seed: args.seed,
            placement,
            session: SessionSpec::from_args(&args)?,
            remote: remote::of(&args)?,
            vary: args.vary,
            fix: args.fix,
            variants: args.variants,
            reference: args.reference,
            counts_syscalls: args.syscalls,
            counts_instructions: args.witness.is_some(),
            keeps_histograms: args.hist,
            profile: args.profile,
            out: args.out,
        })
    }

    /// True if the number of threads is a dimension.
    pub(crate) fn is_scaling(&self) -> bool {
        self.preset.is_some_and(|preset| preset.scales)
    }
}

impl SubjectSpec {
    fn from_args(args: &Args, subject: &'static Subject) -> Result<Self> {
        let preset_part = preset_part(args, subject);
        let filter = match (preset_part, args.filter.as_slice()) {
            (Some(part), _) => Some(part.filter.clone()),
            (None, []) => None,
            (None, [only]) => Some(only.clone()),
            (None, several) => Some(several.iter().map(|text| format!("({text})")).collect::<Vec<_>>().join(" and ")),
        };
        let is_wanted = |name: &String| match (preset_part, args.workload.as_slice()) {
            (Some(part), _) => part.workloads.contains(name),
            (None, []) => subject.is_usual(name) && (!args.quick || subject.is_quick(name)),
            (None, given) => given.contains(name),
        };
        let is_named = |peer: &&dyn Peer| peer.is_given() || args.against.iter().any(|name| name == peer.name());
        Ok(Self {
            subject,
            preset_part,
            filter: filter.map(|text| filter::parse(&text)).transpose()?,
            workloads: names(subject, args).filter(is_wanted).collect(),
            is_scaled_down: args.quick && preset_part.is_none_or(|part| part.quotes.is_none()),
            peers: subject.peers().iter().copied().filter(is_named).collect(),
        })
    }
}

impl SubjectSpec {
    /// Number of blocks: those of the preset, where it has a number of its own and nobody asked for another.
    pub(crate) fn blocks(&self, usual: u32, spec: &RunSpec) -> u32 {
        let own =
            self.preset_part.and_then(|part| part.blocks).map(|[full, quick]| if spec.is_quick { quick } else { full });
        own.filter(|_| spec.pace.blocks.is_none() && spec.session.time_budget_s.is_none()).unwrap_or(usual)
    }
}

impl SessionSpec {
    fn from_args(args: &Args) -> Result<Self> {
        if args.gate.fail_on_regression.is_some() && args.baseline.is_none() {
            return Err(usage("--fail-on-regression needs a --baseline to compare with"));
        }
        // A run of an hour must not end with a baseline that is not there.
        if let Some(name) = &args.baseline {
            baseline::find(name)?;
        }
        let is_plain =
            args.preset.is_none() && args.workload.is_empty() && args.blocks.is_none() && args.slice.is_none();
        let quick_s = (args.quick && is_plain).then_some(QUICK_WITHIN_S);
        Ok(Self {
            time_budget_s: args.time_budget,
            ends_within_s: args.time_budget.or(quick_s),
            is_built: args.no_build,
            is_forced: args.force,
            save_baseline: args.save_baseline.clone(),
            baseline: args.baseline.clone(),
            gate: args.gate,
        })
    }
}

/// Returns the turns that visits take. Of servers behind a prefix the CPU clock cannot be read so quickly.
fn turns(args: &Args, defaults: &Defaults) -> Result<Option<TurnPlan>> {
    let is_here = args.server_host.is_none();
    if !is_here && args.turns.is_some_and(|pairs| pairs > 0) {
        return Err(usage(
            "--turns are for servers and a generator on this machine, not behind --server-exec or --agent",
        ));
    }
    let usual = if is_here && args.profile == RELEASE { defaults.pairs } else { 0 };
    let pairs = args.turns.unwrap_or(usual);
    Ok((pairs > 0).then_some(TurnPlan { turn_s: TURN_S, pairs }))
}

/// Returns what the preset, if there is one, says of a server.
fn preset_part(args: &Args, subject: &Subject) -> Option<&'static PresetPart> {
    args.preset?.part(subject.server())
}

/// Returns the servers that were asked for.
fn subjects(args: &Args) -> Result<Vec<&'static Subject>> {
    check_names("--servers", &args.servers, &subjects::names())?;
    let is_in_preset = |server: &str| args.preset.is_none_or(|preset| preset.part(server).is_some());
    if let Some((name, preset)) = args.servers.iter().find(|name| !is_in_preset(name)).zip(args.preset) {
        return Err(usage(format!("--servers `{name}`: the preset `{}` does not measure it", preset.name)));
    }
    let is_named = |server: &str| args.servers.is_empty() || args.servers.iter().any(|name| name == server);
    let is_wanted = |subject: &&Subject| is_named(subject.server()) && is_in_preset(subject.server());
    Ok(SUBJECTS.iter().filter(is_wanted).collect())
}

/// Returns the path of a program, which is started in another directory than it is named in.
fn path_of(Program { name, path }: &Program) -> Result<PathBuf> {
    if !path.is_file() {
        return Err(usage(format!("--program {name}: {} is no file", path.display())));
    }
    Ok(std::path::absolute(path)?)
}

/// Gives the one server that was asked for the programs of strangers that do its work.
fn with_programs(subjects: Vec<&'static Subject>, args: &Args) -> Result<Vec<&'static Subject>> {
    if args.program.is_empty() {
        return Ok(subjects);
    }
    let [subject] = subjects[..] else { return Err(usage("--program: name one server with --servers")) };
    if !subject.takes_programs() {
        return Err(usage(format!("--program: the work of {} is not one of another program", subject.server())));
    }
    let mut programs = Vec::<(String, PathBuf)>::new();
    for program in &args.program {
        let is_taken = |name: &str| peers::names().contains(&name) || subjects::names().contains(&name);
        let is_twice = programs.iter().any(|(name, _)| *name == program.name);
        if is_twice || is_taken(&program.name) || ["null", "control"].contains(&program.name.as_str()) {
            return Err(usage(format!("--program {}: there is a row of that name", program.name)));
        }
        programs.push((program.name.clone(), path_of(program)?));
    }
    Ok(vec![subject.with_programs(&programs)])
}

/// Returns the names of all workloads of a server.
fn names(subject: &Subject, args: &Args) -> impl Iterator<Item = String> {
    subject.workloads(args.quick).into_iter().map(|workload| workload.name)
}

fn check_workloads(args: &Args, subjects: &[&Subject]) -> Result<()> {
    let known: Vec<String> = subjects.iter().flat_map(|subject| names(subject, args)).collect();
    check_names("--workload", &args.workload, &known.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Returns the CPU of a server where nobody chose another.
pub(crate) fn default_server_cpu() -> Result<CpuList> {
    CpuList::of(&[0])
}

/// Returns the CPU of the generator: of another core where there is one.
pub(crate) fn default_client_cpu(cores: u32, siblings: &[usize]) -> Result<CpuList> {
    let elsewhere = (1..cores as usize).find(|cpu| !siblings.contains(cpu));
    CpuList::of(&[elsewhere.unwrap_or_else(|| usize::from(cores > 1))])
}

/// Server on the first core and generator on the second where there are two; `siblings` share a core with the first.
fn placement(args: &Args, cores: u32, siblings: &[usize]) -> Result<Placement> {
    let server = args.server_cpus.clone().map_or_else(default_server_cpu, Ok)?;
    let client = args.client_cpus.clone().map_or_else(|| default_client_cpu(cores, siblings), Ok)?;
    // The CPUs of another host are not known here; `taskset` will say.
    let here = if args.server_exec.is_some() { &[] } else { server.as_slice() };
    let highest = here.iter().chain(client.as_slice()).max().copied().unwrap_or(0);
    if highest >= cores as usize {
        return Err(usage(format!("CPU {highest}: this machine has {cores}, numbered from 0")));
    }
    Ok(Placement { server, client })
}

fn check_names(flag: &str, given: &[String], known: &[&str]) -> Result<()> {
    match given.iter().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(usage(format!("{flag} `{name}`: unknown; {}", hint(name, known)))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
