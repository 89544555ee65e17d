//! Something to look at while a run lasts. Only on a terminal.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use loadgen::engine::{Limit, Live};

/// A bar over the time or the number of requests, or nothing at all.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    limit: Limit,
    warmup: Duration,
    begin: Instant,
    last: (Instant, u64),
}

impl Progress {
    pub(super) fn new(limit: Limit, warmup: Duration) -> Self {
        let begin = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| new_bar(limit, warmup));
        Self { bar, limit, warmup, begin, last: (begin, 0) }
    }

    pub(super) fn update(&mut self, live: &Live) {
        let Some(bar) = &self.bar else { return };
        let (ok, failed) = live.counts();
        let now = Instant::now();
        let (then, before) = self.last;
        let elapsed = now.duration_since(then);
        if elapsed >= Duration::from_millis(500) {
            #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
            let rate = ok.saturating_sub(before) as f64 / elapsed.as_secs_f64();
            let phase = if self.begin.elapsed() < self.warmup { "warm-up" } else { "measuring" };
            bar.set_message(format!("{phase} · {rate:.0} requests/s · {failed} failed"));
            self.last = (now, ok);
        }
        bar.set_position(match self.limit {
            Limit::Duration(_) => milliseconds(self.begin.elapsed()),
            Limit::Requests(_) => ok + failed,
        });
    }

    pub(super) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

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

fn new_bar(limit: Limit, warmup: Duration) -> ProgressBar {
    let bar = ProgressBar::new(match limit {
        Limit::Duration(duration) => milliseconds(warmup + duration),
        Limit::Requests(requests) => requests,
    });
    // The template is a constant; if it were wrong the default style would do.
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {percent:>3} % {eta} left · {msg}") {
        bar.set_style(style);
    }
    bar
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
