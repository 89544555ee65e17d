//! `--generate`: the manual page and the completions of shells, made from the flags.

use std::io;

use clap::{Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

/// Text that a program makes from its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    /// Manual page, as man(1) reads it
    Man,
    Bash,
    Fish,
    Zsh,
}

impl Generated {
    /// # Errors
    /// Those of writing.
    pub(crate) fn write(self, mut command: Command, name: &'static str, out: &mut impl io::Write) -> io::Result<()> {
        let shell = match self {
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
    use clap::Arg;

    use super::*;

    #[test]
    fn every_text_has_the_flags() {
        for &generated in Generated::value_variants() {
            let command = Command::new("some-server").arg(Arg::new("listen").long("listen").help("Address"));
            let mut text = Vec::new();
            generated.write(command, "some-server", &mut text).unwrap();
            let text = String::from_utf8(text).unwrap();
            assert!(text.contains("listen") && text.contains("some-server") | text.contains("some\\-server"), "{text}");
        }
    }
}
