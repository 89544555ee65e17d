//! Progress of a run, and of the reading before it, on standard error.

use std::{
    collections::VecDeque,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use loadgen::{
    engine::{Limit, LiveReading, LiveStats, Load, Pacing},
    units::{self, TimeUnit},
};

use super::{
    agent::{self, LiveMessages},
    eprint_line,
};

/// Time between two readings of the counters.
const SAMPLE_EVERY: Duration = Duration::from_millis(250);
/// Samples in the second that is shown.
const SAMPLES: usize = 4;
/// Samples in each bar of the sparkline.
const SAMPLES_PER_BAR: u64 = 2;
const BARS_MAX: usize = 40;
/// Columns from which on the view has room for whole words and a sparkline.
const WIDE_COLUMNS: usize = 70;
/// Time for which a run without a terminal is silent.
const SILENCE: Duration = Duration::from_secs(60);
/// Time between two lines after that, so that whoever waits knows that the run lives.
const LINE_EVERY: Duration = Duration::from_secs(10);
const REDRAWS_PER_SECOND: u8 = 8;

/// Form of the progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgressMode {
    /// A live view on a terminal; elsewhere nothing for a minute, and then a line every ten seconds
    Auto,
    /// A line every second
    Lines,
    /// Nothing
    None,
}

/// Progress of a run: how far it is, and what it measures.
pub(super) struct Progress {
    display: Display,
    limit: Limit,
    /// The longest warm-up.
    warmup: Duration,
    begin: Instant,
    /// Time at which the window was first seen to be open.
    opened: Option<Instant>,
    /// Requests per second that an open loop offers.
    rate: Option<f64>,
    samples: VecDeque<Sample>,
    /// Requests per second, one after the other.
    bars: VecDeque<f64>,
    taken: u64,
}

enum Display {
    Terminal(ProgressBar),
    Lines {
        next: Instant,
        every: Duration,
    },
    /// Messages of an agent.
    Messages(LiveMessages),
    Nothing,
}

struct Sample {
    at: Instant,
    /// Settled requests inside the window.
    settled: u64,
    answered: u64,
    reading: LiveReading,
}

/// Figures of the last second.
struct Figures {
    per_second: f64,
    p50_us: Option<f64>,
    p99_us: Option<f64>,
    failed: u64,
}

impl Progress {
    pub(super) fn new(mode: ProgressMode, load: &Load) -> Self {
        let begin = Instant::now();
        let (limit, warmup) = (load.limit, load.warmup_max.unwrap_or(load.warmup));
        let rate = match load.pacing {
            Pacing::Closed => None,
            Pacing::Open { rate, .. } => Some(rate),
        };
        let display = match mode {
            _ if agent::link().is_some() => Display::Messages(LiveMessages::new()),
            ProgressMode::None => Display::Nothing,
            ProgressMode::Lines => {
                Display::Lines { next: begin + Duration::from_secs(1), every: Duration::from_secs(1) }
            }
            ProgressMode::Auto if is_live_terminal() => Display::Terminal(new_bar(limit, warmup)),
            ProgressMode::Auto => Display::Lines { next: begin + SILENCE, every: LINE_EVERY },
        };
        let (samples, bars) = (VecDeque::new(), VecDeque::new());
        let progress = Self { display, limit, warmup, begin, opened: None, rate, samples, bars, taken: 0 };
        if let Display::Terminal(bar) = &progress.display {
            bar.set_prefix(progress.phase(begin));
        }
        progress
    }

    pub(super) fn update(&mut self, live: &LiveStats) {
        if matches!(self.display, Display::Nothing) {
            return;
        }
        let now = Instant::now();
        let is_due = self.samples.back().is_none_or(|last| now.duration_since(last.at) >= SAMPLE_EVERY);
        if is_due {
            self.sample(live, now);
        }
        if self.opened.is_none() && live.counts() != (0, 0) {
            self.opened = Some(now);
            if let (Display::Terminal(bar), Limit::Duration(duration)) = (&self.display, self.limit) {
                bar.set_length(milliseconds(now.duration_since(self.begin) + duration));
            }
        }
        match &mut self.display {
            Display::Nothing => {}
            Display::Messages(messages) => messages.update(live, now),
            Display::Terminal(bar) => {
                bar.set_position(match self.limit {
                    Limit::Duration(_) => milliseconds(now.duration_since(self.begin)),
                    Limit::Requests(_) => self.samples.back().map_or(0, |last| last.settled),
                });
                if is_due {
                    let bar = bar.clone();
                    bar.set_prefix(self.phase(now));
                    bar.set_message(self.live_line(terminal_columns()));
                }
            }
            Display::Lines { next, every } if now >= *next => {
                // A line that is missed is left out.
                while *next <= now {
                    *next += *every;
                }
                let seconds = now.duration_since(self.begin).as_secs();
                let phase = self.phase(now);
                eprint_line(&format!("{seconds} s, {phase}: {}", self.line()));
            }
            Display::Lines { .. } => {}
        }
    }

    pub(super) fn finish(self) {
        if let Display::Terminal(bar) = self.display {
            bar.finish_and_clear();
        }
    }

    fn sample(&mut self, live: &LiveStats, now: Instant) {
        let ((ok, failed), reading) = (live.counts(), live.read());
        // Clients that are processes of their own tell their counts, but no latencies.
        let answered = if reading.answered() == 0 { ok } else { reading.answered() };
        self.samples.push_back(Sample { at: now, settled: ok + failed, answered, reading });
        if self.samples.len() > SAMPLES + 1 {
            self.samples.pop_front();
        }
        self.taken += 1;
        if self.taken.is_multiple_of(SAMPLES_PER_BAR) {
            let last = self.samples.len() - 1;
            let before = last.saturating_sub(usize::try_from(SAMPLES_PER_BAR).unwrap_or(1));
            self.bars.push_back(per_second(&self.samples[before], &self.samples[last]));
            if self.bars.len() > BARS_MAX {
                self.bars.pop_front();
            }
        }
    }

    fn phase(&self, now: Instant) -> String {
        let opened = self.opened.unwrap_or(self.begin + self.warmup);
        let phase = match self.limit {
            _ if now < opened => "warm-up",
            Limit::Duration(duration) if now > opened + duration => "last replies",
            Limit::Duration(_) | Limit::Requests(_) => "measuring",
        };
        match self.rate {
            Some(rate) => format!("{phase} at {}/s", units::rate(rate)),
            None => phase.to_owned(),
        }
    }

    fn figures(&self) -> Figures {
        let (Some(first), Some(last)) = (self.samples.front(), self.samples.back()) else {
            return Figures { per_second: 0.0, p50_us: None, p99_us: None, failed: 0 };
        };
        let second = last.reading.since(&first.reading);
        Figures {
            per_second: per_second(first, last),
            p50_us: second.quantile_us(0.5),
            p99_us: second.quantile_us(0.99),
            failed: last.reading.failed().max(last.settled.saturating_sub(last.answered)),
        }
    }

    fn line(&self) -> String {
        self.figures().spell("")
    }

    /// Returns the figures in a line of at most so many columns, with a sparkline if there is room.
    fn live_line(&self, columns: usize) -> String {
        let figures = self.figures();
        if columns < WIDE_COLUMNS {
            return figures.abbreviate(columns);
        }
        let room = columns.saturating_sub(figures.spell(" ").chars().count()).min(self.bars.len());
        let bars: Vec<_> = self.bars.iter().skip(self.bars.len() - room).copied().collect();
        figures.spell(&sparkline(&bars))
    }
}

impl Figures {
    /// Spells the figures out, with a sparkline behind the first.
    fn spell(&self, bars: &str) -> String {
        let mut parts = vec![format!("{} requests/s {bars}", units::rate(self.per_second)).trim_end().to_owned()];
        if let Some(p50_us) = self.p50_us {
            let unit = TimeUnit::of(p50_us);
            for (name, value) in [("p50", self.p50_us), ("p99", self.p99_us)] {
                parts.extend(value.map(|value| format!("{name} {}", unit.spell(value))));
            }
        }
        parts.push(format!("{} failed", self.failed));
        parts.join(", ")
    }

    /// Returns as many of the figures as fit, the most important first.
    fn abbreviate(&self, columns: usize) -> String {
        let rate = units::rate(self.per_second.round());
        let rate = rate.strip_suffix(".00").unwrap_or(&rate);
        let mut line = format!("{rate}/s {} failed", self.failed);
        if let (Some(p50_us), Some(p99_us)) = (self.p50_us, self.p99_us) {
            let unit = TimeUnit::of(p50_us);
            for longer in [
                format!("{line} p99 {}", unit.spell(p99_us)),
                format!("{line} p50 {} p99 {}", unit.format(p50_us), unit.spell(p99_us)),
            ] {
                if longer.chars().count() <= columns {
                    line = longer;
                }
            }
        }
        line
    }
}

/// Returns the width of the terminal.
fn terminal_columns() -> usize {
    let columns = rustix::termios::tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { units::COLUMNS } else { columns }
}

#[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
fn per_second(before: &Sample, after: &Sample) -> f64 {
    let elapsed = after.at.duration_since(before.at).as_secs_f64();
    if elapsed > 0.0 { after.answered.saturating_sub(before.answered) as f64 / elapsed } else { 0.0 }
}

/// Draws values as bars, from zero to the highest one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 7")]
fn sparkline(values: &[f64]) -> String {
    const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let highest = values.iter().copied().fold(0.0, f64::max);
    let level = |value: &f64| if highest > 0.0 { ((value / highest * 8.0) as usize).min(7) } else { 0 };
    values.iter().map(|value| LEVELS[level(value)]).collect()
}

/// True if lines of standard error can be drawn over.
fn is_live_terminal() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|kind| kind != "dumb")
}

fn new_bar(limit: Limit, warmup: Duration) -> ProgressBar {
    let length = match limit {
        Limit::Duration(duration) => milliseconds(warmup + duration),
        Limit::Requests(requests) => requests,
    };
    let bar = ProgressBar::with_draw_target(Some(length), ProgressDrawTarget::stderr_with_hz(REDRAWS_PER_SECOND));
    let template = if terminal_columns() < WIDE_COLUMNS {
        "{prefix} {wide_bar} {percent:>3} %\n{wide_msg}"
    } else {
        "{prefix} {wide_bar} {percent:>3} %, {eta} left\n{wide_msg}"
    };
    // The templates are constants; if one were wrong the default style would do.
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Bar over the bytes that are read before a run. Only on a terminal.
pub(super) struct ReadingBar {
    bar: Option<ProgressBar>,
}

impl ReadingBar {
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

impl Drop for ReadingBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_fit_a_narrow_terminal() {
        for (per_second, p50_us, p99_us, failed) in [
            (0.0, None, None, 0),
            (1_234_567.0, Some(85.3), Some(5_012_345.6), 266_606),
            (3.5, Some(1e6), Some(6e7), 9),
        ] {
            let figures = Figures { per_second, p50_us, p99_us, failed };
            for columns in [40, 50, 60, 69] {
                let line = figures.abbreviate(columns);
                assert!(line.chars().count() <= columns && line.contains(&format!("{failed} failed")), "{line}");
            }
        }
        let figures = Figures { per_second: 12_345.6, p50_us: Some(85.3), p99_us: Some(1_200.0), failed: 0 };
        assert_eq!(figures.abbreviate(40), "12,346/s 0 failed p99 1,200.0 µs");
        assert_eq!(figures.abbreviate(50), "12,346/s 0 failed p50 85.3 p99 1,200.0 µs");
    }

    #[test]
    fn a_sparkline_reaches_from_zero_to_the_highest() {
        assert_eq!(sparkline(&[0.0, 50.0, 99.0, 100.0]), "▁▅██");
        assert_eq!(sparkline(&[0.0, 0.0]), "▁▁");
        assert_eq!(sparkline(&[]), "");
    }
}
