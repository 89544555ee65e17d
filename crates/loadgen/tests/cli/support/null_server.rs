//! `loadgen null` as a process.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

/// The program as a null server, and the address that it printed.
pub(crate) struct NullServer {
    child: Child,
    pub(crate) address: String,
}

impl NullServer {
    /// Starts it, and waits until it listens.
    pub(crate) fn start(protocol: &str, listen: &str, options: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_loadgen"))
            .args(["null", "--protocol", protocol, "--listen", listen])
            .args(options)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let address = line.trim().strip_prefix("listening on ").expect("the ready line").to_owned();
        Self { child, address }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Ends it with SIGTERM, and returns its exit status.
    pub(crate) fn stop(mut self) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), Signal::TERM).expect("it runs");
        self.child.wait().expect("it ends").code()
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        // Ended already, unless the test failed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
