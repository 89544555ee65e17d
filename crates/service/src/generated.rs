//! `--generate`: the manual page and the completions of shells, made from the flags, and the profile of a container, made
//! from the lists of system calls.

use std::io;

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::{Program, sandbox};

/// Text that a program makes from its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    /// Manual page, as man(1) reads it
    Man,
    Bash,
    Fish,
    Zsh,
    /// Profile of system calls for container runtimes (OCI), io_uring included
    Seccomp,
}

impl Generated {
    /// # Errors
    /// Those of writing.
    pub(crate) fn write<P: Program>(self, mut command: Command, out: &mut impl io::Write) -> io::Result<()> {
        let name = P::NAME;
        let shell = match self {
            Self::Seccomp => return out.write_all(sandbox::profile::<P>().as_bytes()),
            Self::Man => return Man::new(command.name(name)).render(out),
            Self::Bash => Shell::Bash,
            Self::Fish => Shell::Fish,
            Self::Zsh => Shell::Zsh,
        };
        // Its writer panics where its output cannot be written.
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut command, name, &mut text);
        out.write_all(&text)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::{Dimension, ShellArgs, cli};

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        shell: ShellArgs,
    }

    impl Program for Flags {
        const NAME: &'static str = "some-server";
        const CALLS: &'static [&'static str] = &["tee"];

        fn shell(&self) -> &ShellArgs {
            &self.shell
        }

        fn dimensions() -> Vec<Dimension> {
            Vec::new()
        }
    }

    #[test]
    fn every_text_has_the_flags() {
        for &generated in Generated::value_variants().iter().filter(|&&generated| generated != Generated::Seccomp) {
            let mut text = Vec::new();
            generated.write::<Flags>(cli::command::<Flags>(|_| false), &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(
                text.contains("metrics") && text.contains("some-server") | text.contains("some\\-server"),
                "{text}"
            );
        }
    }

    #[test]
    fn the_profile_has_the_calls_of_the_server_and_of_every_driver() {
        let mut text = Vec::new();
        Generated::Seccomp.write::<Flags>(cli::command::<Flags>(|_| false), &mut text).unwrap();
        let profile: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let allowed = profile["syscalls"][0]["names"].as_array().unwrap();
        for call in ["execve", "recvfrom", "epoll_ctl", "io_uring_enter", "tee"] {
            assert!(allowed.iter().any(|name| name == call), "{call}");
        }
        assert_eq!((&profile["defaultAction"], &profile["defaultErrnoRet"]), (&"SCMP_ACT_ERRNO".into(), &1.into()));
    }
}
