//! Standard output carries the ready lines and nothing else. A stream that is full or closed stops no server.

use std::{
    fmt,
    io::{self, Write},
};

/// One flushed line on standard output.
pub(crate) fn announce(line: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

pub(crate) fn to_stderr(line: fmt::Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// The text of an error and of its causes, without those that the text before already ends with.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.ends_with(&cause) {
            text += ": ";
            text += &cause;
        }
    }
    text
}

/// A line for the person who started the server.
pub fn advise(line: fmt::Arguments<'_>) {
    to_stderr(line);
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_that_has_been_said_is_not_said_again() {
        let cause = || io::Error::from_raw_os_error(2);
        let said = anyhow!(cause()).context(format!("cannot open x: {}", cause())).context("start");
        assert_eq!(chain(&said), "start: cannot open x: No such file or directory (os error 2)");
        let unsaid = anyhow!(cause()).context("cannot open x");
        assert_eq!(chain(&unsaid), "cannot open x: No such file or directory (os error 2)");
    }
}
