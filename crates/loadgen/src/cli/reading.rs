//! Something to look at while files are read. Only on a terminal.

use std::io::IsTerminal as _;

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over bytes that are read before a run.
pub(super) struct Reading {
    bar: Option<ProgressBar>,
}

impl Reading {
    pub(super) fn new(bytes: u64, what: &'static str) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(bytes).with_message(what);
            match ProgressStyle::with_template("{wide_bar} {percent:>3} % {eta} left · {msg}, {binary_bytes_per_sec}")
            {
                Ok(style) => bar.with_style(style),
                // The template is a constant; if it were wrong the default style would do.
                Err(_) => bar,
            }
        });
        Self { bar }
    }

    pub(super) fn advance(&self, bytes: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
