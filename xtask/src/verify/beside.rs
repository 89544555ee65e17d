//! A step that runs beside the others: it takes long, judges no times, and leaves the machine much of its time.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command},
    time::SystemTime,
};

use anyhow::{Context, Result, ensure};

use super::tools;

/// Niceness of the step and of all that it starts: about a tenth of a CPU that others want, too.
const NICENESS: &str = "10";

/// This program once more, with the step alone. It is killed if nobody waits for it.
pub(super) struct Beside {
    child: Child,
    began: SystemTime,
    log: PathBuf,
}

impl Beside {
    /// Starts the step of this name.
    ///
    /// # Errors
    /// There is no process, or no file for what it prints.
    pub(super) fn start(step: &str, options: &[&str]) -> Result<Self> {
        let directory = tools::directory()?;
        fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
        let log = directory.join(format!("{step}.log"));
        let file = File::create(&log).with_context(|| log.display().to_string())?;
        let errors = file.try_clone().context("a second descriptor")?;
        let program = std::env::current_exe().context("own path")?;
        let child = Command::new("nice")
            .args(["-n", NICENESS])
            .arg(program)
            .args(["verify", step])
            .args(options)
            .stdout(file)
            .stderr(errors)
            .spawn()
            .with_context(|| format!("verify {step}"))?;
        println!("verify: {step} runs beside the others: {}", log.display());
        Ok(Self { child, began: SystemTime::now(), log })
    }

    /// Waits for the end of the step, shows what it printed, and returns the seconds from its start to the last thing that it
    /// printed.
    ///
    /// # Errors
    /// The step has failed.
    pub(super) fn wait(mut self) -> Result<f64> {
        let status = self.child.wait().context("wait")?;
        let printed = fs::metadata(&self.log).and_then(|log| log.modified()).context("time of the log")?;
        let seconds = printed.duration_since(self.began).unwrap_or_default().as_secs_f64();
        let text = fs::read_to_string(&self.log).with_context(|| self.log.display().to_string())?;
        print!("{text}");
        ensure!(status.success(), "{status}");
        Ok(seconds)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // Both fail once it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
