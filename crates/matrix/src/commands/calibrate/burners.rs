//! The servers of a calibration: null servers, or real ones, that burn what they are told to.

use std::{ffi::OsString, process::Stdio};

use anyhow::{Context, Result, bail};
use results::{Cell, Workload};

use super::{CONNECTIONS, keeper::KeepArgs};
use crate::{
    commands::gate,
    plan::{cells::Cells, setup::Placement, subjects},
    run::{process::Process, visit::Bench},
};

/// Variable by which a real server learns what to burn; see the crate `burning`.
const VARIABLE: &str = "BURN";

/// Servers to start.
pub(super) enum Burners<'a> {
    Null(&'a KeepArgs),
    Real(Box<RealServer>),
}

/// A server built with a burn, and what it serves.
pub(super) struct RealServer {
    bench: Bench,
    cells: Cells,
    cell: Cell,
    workload: Workload,
}

impl<'a> Burners<'a> {
    pub(super) fn new(args: &'a KeepArgs) -> Result<Self> {
        let (Some(server), Some(program), Some(workload)) = (&args.server, &args.program, &args.workload) else {
            return Ok(Self::Null(args));
        };
        let subject = subjects::named(server).with_context(|| format!("{server}: no such server"))?;
        let placement = Placement { server: args.server_cpus.clone(), client: args.client_cpus.clone() };
        let timing = placement.timing(1.0, 0.0, None);
        let workloads = subjects::select(subject, std::slice::from_ref(workload), &timing, true);
        // The directory is that of peers, which are not started.
        let bench = gate::bench(timing, args.loadgen.clone(), program.parent().unwrap_or(program))?;
        let (cells, cell) =
            gate::prepared(subject, program, &placement.server, &workloads, &bench, args.reference.as_deref())?;
        let workload = workloads.into_iter().next().with_context(|| format!("{workload}: no such workload"))?;
        Ok(Self::Real(Box::new(RealServer { bench, cells, cell, workload })))
    }

    /// Starts one, and returns the arguments of its generator.
    pub(super) fn start(&self, name: &str, burns: &[String]) -> Result<(Process, Vec<String>)> {
        match self {
            Self::Null(args) => null_server(args, name, burns),
            Self::Real(real) => real.start(name, burns),
        }
    }
}

fn null_server(args: &KeepArgs, name: &str, burns: &[String]) -> Result<(Process, Vec<String>)> {
    let words = ["null", "--protocol", "http", "--listen", "127.0.0.1:0"].map(OsString::from);
    let mut command: Vec<OsString> = std::iter::once(args.loadgen.clone().into()).chain(words).collect();
    command.extend(burns.iter().flat_map(|burn| [OsString::from("--burn"), burn.into()]));
    let log = args.logs.join(format!("server-{name}.log"));
    let mut process = Process::start(&command, args.server_cpus.as_slice(), &log, Stdio::piped())?;
    let address = process.wait_for_ready_line(0)?;
    let words = ["http", "--turns", "-t", "1", "-c", CONNECTIONS, "-d", "1h", "--format", "json", "--pin"];
    let mut load: Vec<String> = words.map(str::to_owned).to_vec();
    load.extend([args.client_cpus.text().to_owned(), format!("http://{address}/")]);
    Ok((process, load))
}

impl RealServer {
    fn start(&self, name: &str, burns: &[String]) -> Result<(Process, Vec<String>)> {
        let Self { bench, cells, cell, workload } = self;
        let log = bench.scratch.path().join(format!("server-{name}.log"));
        // env(1) becomes the server, which keeps its process id.
        let wrapper = ["env".to_owned(), format!("{VARIABLE}={}", burns.join(","))].map(OsString::from);
        let (server, address) = bench.start_logged(cells, cell, workload, &wrapper, &log)?;
        if bench.fill(cells, cell, workload, &server, &address)?.is_none() {
            bail!("interrupted");
        }
        let load = subjects::in_turns(&bench.load_arguments(cells, cell, workload, &address, &server));
        Ok((server, load))
    }
}
