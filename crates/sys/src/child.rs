//! Children that do not outlive the thread that started them, however it ends.

use std::{io, os::unix::process::CommandExt as _, process::Command};

use rustix::{
    io::Errno,
    process::{Signal, getpid, getppid, set_parent_process_death_signal},
};

/// Has the kernel kill what `command` starts when the thread that starts it ends, of SIGKILL too. A program that changes its
/// user or gains rights while it starts loses that.
pub fn end_with_starter(command: &mut Command) -> &mut Command {
    let starter = getpid();
    let tie = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Whoever ended before the request above is not noticed any more.
        if getppid() == Some(starter) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    // SAFETY: between fork and exec only system calls that are safe there may be made: these are prctl and getppid, and
    // neither allocates nor takes a lock.
    unsafe { command.pre_exec(tie) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn a_child_ends_with_the_thread_that_started_it() {
        let start = || end_with_starter(Command::new("sleep").arg("600")).spawn().expect("a child");
        let mut child = std::thread::spawn(start).join().expect("it starts a child");
        let ended = child.wait().expect("a child");
        assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
    }
}
