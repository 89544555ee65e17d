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

/// A line for the person who started the server.
pub fn advise(line: fmt::Arguments<'_>) {
    to_stderr(line);
}
