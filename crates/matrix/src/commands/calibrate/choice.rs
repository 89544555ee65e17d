//! Means of a calibration, built and named by its flags.

use std::path::PathBuf;

use anyhow::Result;
use results::Workload;

use super::{CONNECTIONS, CalibrateArgs, verdict};
use crate::{
    plan::{
        builds,
        filter::hint,
        setup,
        subjects::{self, Subject},
    },
    usage,
};

/// Means of a calibration: null servers, or a real one under a workload.
pub(super) struct Choice {
    pub(super) loadgen: PathBuf,
    pub(super) real: Option<Real>,
}

pub(super) struct Real {
    pub(super) server: String,
    pub(super) program: PathBuf,
    pub(super) workload: Workload,
}

impl Choice {
    pub(super) fn build(args: &CalibrateArgs) -> Result<Self> {
        let Some(server) = &args.server else {
            let build = if args.no_build { setup::built } else { setup::build };
            return Ok(Self { loadgen: setup::loadgen(&build(&[], &args.profile)?), real: None });
        };
        let Some(subject) = subjects::named(server) else {
            let known: Vec<&str> = subjects::SUBJECTS.iter().map(Subject::server).collect();
            return Err(usage(format!("--server {server}: no such server; {}", hint(server, &known))));
        };
        let workload = chosen_workload(subject, args.workload.as_deref())?;
        let (binaries, program) = builds::burning(server, &args.profile, args.no_build)?;
        let real = Real { server: server.clone(), program, workload };
        Ok(Self { loadgen: setup::loadgen(&binaries), real: Some(real) })
    }

    /// Names them in the middle of a sentence.
    pub(super) fn title(&self, reference: Option<&str>) -> String {
        let Some(Real { server, workload, .. }) = &self.real else { return verdict::null_servers() };
        format!("{} under {}", reference.unwrap_or(server), workload.name)
    }

    pub(super) fn connections(&self) -> String {
        self.real.as_ref().map_or_else(|| CONNECTIONS.to_owned(), |real| real.workload.connections.to_string())
    }
}

/// Finds the workload of that name, or the first of a quick run; it has to be one whose requests are one at a time, as the burn counts
/// turns of a connection.
fn chosen_workload(subject: &Subject, name: Option<&str>) -> Result<Workload> {
    let is_possible = |workload: &Workload| subjects::takes_turns(workload) && workload.pipeline == 1;
    let workloads = subject.workloads(true);
    let mut possible = workloads.iter().filter(|workload| is_possible(workload));
    let found = match name {
        Some(name) => possible.find(|workload| workload.name == name),
        None => possible.find(|workload| subject.is_quick(&workload.name)),
    };
    found.cloned().ok_or_else(|| {
        let names: Vec<&str> = workloads.iter().filter(|it| is_possible(it)).map(|it| it.name.as_str()).collect();
        let wanted = name.unwrap_or("that of a quick run");
        usage(format!(
            "--workload: {wanted} is none with a closed loop and one request at a time; {}",
            hint(wanted, &names)
        ))
    })
}
