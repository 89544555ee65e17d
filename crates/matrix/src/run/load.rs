//! The generator: started, listened to, and given up on when the user asks or time is over.

use std::{
    ffi::OsString,
    io::Read as _,
    process::Stdio,
    sync::mpsc::{self, RecvTimeoutError},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use loadgen::result::RunResult;

use crate::{
    plan::cpus::CpuList,
    run::{process::Process, visit::Bench},
};

/// Factor by which a load may take longer than expected, where its length is a number of requests.
const LOAD_SLOW: f64 = 4.0;
/// And how much beyond that: thousands of connections are opened first.
const LOAD_SPARE: Duration = Duration::from_secs(30);
const INTERRUPT_POLL: Duration = Duration::from_millis(50);

impl Bench {
    /// Runs the generator, which is expected to take so many seconds, to its end; `None` when the user asked to stop at once.
    pub(super) fn generate(&self, arguments: &[String], expected_s: f64) -> Result<Option<RunResult>> {
        let words = arguments.iter().map(OsString::from);
        let command: Vec<OsString> = std::iter::once(self.loadgen.clone().into_os_string()).chain(words).collect();
        let log = self.scratch.path().join("loadgen.log");
        // The generator pins its own threads.
        let cpus = CpuList::parse(&self.timing.client_cpus)?;
        let mut generator = Process::start(&command, cpus.as_slice(), &log, Stdio::piped())?;
        let Some(output) = self.output_of(&mut generator, expected_s)? else { return Ok(None) };
        let status = generator.wait_until(|| self.interrupts.are_urgent())?;
        let Some(status) = status else { return Ok(None) };
        // 3 is "some requests failed": the result says which.
        if !matches!(status.code(), Some(0 | 3)) {
            bail!("loadgen ended with {status}{}", generator.quote());
        }
        let run = serde_json::from_str(&output).with_context(|| format!("loadgen's result{}", generator.quote()))?;
        Ok(Some(run))
    }

    /// All of the generator's standard output, or `None` when the user asked to stop at once.
    fn output_of(&self, generator: &mut Process, expected_s: f64) -> Result<Option<String>> {
        let deadline = Instant::now() + Duration::from_secs_f64(expected_s * LOAD_SLOW) + LOAD_SPARE;
        let mut stdout = generator.take_stdout()?;
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut text = String::new();
            let outcome = stdout.read_to_string(&mut text).map(|_| text);
            // Nobody listens any more after an interrupt or the deadline.
            drop(sender.send(outcome));
        });
        loop {
            match receiver.recv_timeout(INTERRUPT_POLL) {
                Ok(text) => return Ok(Some(text.context("loadgen's output")?)),
                Err(RecvTimeoutError::Disconnected) => bail!("loadgen's output was lost"),
                Err(RecvTimeoutError::Timeout) if self.interrupts.are_urgent() => return Ok(None),
                Err(RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                    return Err(anyhow!("loadgen did not end in time{}", generator.quote()));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}
