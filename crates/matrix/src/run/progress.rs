//! Progress, while visits are made: a bar on a terminal, a line per visit elsewhere.

use std::{
    cell::{Cell as Counter, RefCell},
    io::{IsTerminal as _, stderr},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use results::{
    Cell, Workload,
    record::{Manifest, Visit},
};

use crate::plan::minutes::minutes;

pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    blocks: usize,
    planned: u64,
    done: Counter<u64>,
    /// Visits of this session, and those with a flag that is worth a look.
    made: Counter<u32>,
    flagged: Counter<u32>,
    began: Instant,
    /// Outcome of the last visit.
    last: RefCell<String>,
}

impl Progress {
    pub(crate) fn new(manifest: &Manifest, visits: &[Vec<Visit>]) -> Self {
        let plans = manifest.matrices.iter().flat_map(|planned| &planned.plan);
        let planned = plans.map(|slots| slots.len() as u64).sum();
        let done = visits.iter().flatten().filter(|visit| visit.attempt == 1).count() as u64;
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(planned), ProgressDrawTarget::stderr_with_hz(4));
            let template = "{bar:24} {pos}/{len} · {eta} left · {wide_msg}";
            bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
            // Visits of an earlier run say nothing about the speed of this one.
            let bar = bar.with_position(done);
            bar.reset_eta();
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        Self {
            bar,
            blocks: manifest.matrices.iter().map(|planned| planned.plan.len()).max().unwrap_or(0),
            planned,
            done: Counter::new(done),
            made: Counter::new(0),
            flagged: Counter::new(0),
            began: Instant::now(),
            last: RefCell::default(),
        }
    }

    pub(crate) fn begin(&self, block: u32, cell: &Cell, workload: &Workload, attempt: u32) {
        if let Some(bar) = &self.bar {
            let place = format!("block {}/{}", block + 1, self.blocks);
            bar.set_message(message(&place, &self.last.borrow(), self.flagged.get(), cell, workload, attempt));
        }
    }

    pub(crate) fn end(&self, visit: &Visit) {
        if visit.attempt == 1 {
            self.done.set(self.done.get() + 1);
        }
        self.made.set(self.made.get() + 1);
        self.flagged.set(self.flagged.get() + u32::from(!visit.valid));
        self.last.replace(line(visit));
        let line = line(visit);
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done.get());
                if !visit.valid {
                    bar.println(line);
                }
            }
            None => {
                let (done, planned, block, blocks) = (self.done.get(), self.planned, visit.block + 1, self.blocks);
                let left = minutes(left_s(self.began.elapsed(), self.made.get(), planned.saturating_sub(done)));
                eprintln!("[{done}/{planned}] block {block}/{blocks} {line} · {left} left");
            }
        }
    }
}

/// Figures stand behind the cell and workload that they belong to; what runs now has none yet.
fn message(place: &str, last: &str, flagged: u32, cell: &Cell, workload: &Workload, attempt: u32) -> String {
    let again = if attempt > 1 { " again" } else { "" };
    let mut words = vec![place.to_owned()];
    words.extend((!last.is_empty()).then(|| last.to_owned()));
    words.push(format!("now {} {}{again}", cell.id, workload.name));
    words.extend((flagged > 0).then(|| format!("{flagged} flagged")));
    words.join(" · ")
}

/// Estimates the time of the visits to come, if they take as long as those of this session.
fn left_s(elapsed: Duration, made: u32, to_come: u64) -> f64 {
    elapsed.as_secs_f64() / f64::from(made.max(1)) * to_come as f64
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `http-server/uring get-128B-c64 213,000/s 4.02 µs noisy`.
fn line(visit: &Visit) -> String {
    let mut words = vec![visit.cell.clone(), visit.workload.clone()];
    words.extend(figures(visit));
    words.extend(visit.flags.iter().map(|flag| flag.name().to_owned()));
    words.extend(visit.failure.clone());
    words.join(" ")
}

/// `213,000/s`, `4.02 µs`, `p99 412 µs`, and failed requests by class.
fn figures(visit: &Visit) -> Vec<String> {
    let Some(measured) = &visit.measured else { return Vec::new() };
    let mut words = vec![format!("{}/s", report::rate(measured.throughput_rps))];
    words.extend(measured.server.map(|server| format!("{:.2} µs", server.cpu_us)));
    words.extend(measured.response.as_ref().map(|response| format!("p99 {:.0} µs", response.p99)));
    words.extend(measured.errors.iter().map(|(class, count)| format!("{count} {class}")));
    words
}

#[cfg(test)]
mod tests {
    use results::Flag;

    use super::*;
    use crate::samples;

    #[test]
    fn a_line_says_what_a_visit_came_to_and_what_was_wrong() {
        let mut visit = samples::visit();
        assert_eq!(line(&visit), "http-server/epoll closed 250,000/s 4.00 µs");
        visit.flags = vec![Flag::Noisy];
        visit.failure = Some("did not stop".to_owned());
        assert_eq!(line(&visit), "http-server/epoll closed 250,000/s 4.00 µs noisy did not stop");
        visit.measured = None;
        assert_eq!(figures(&visit), [""; 0]);
    }

    #[test]
    fn figures_stand_behind_the_cell_that_they_belong_to() {
        let setup = samples::setup();
        let now = |last: &str| message("block 1/3", last, 2, &setup.cells[1], &setup.workloads[1], 2);
        let (cell, workload) = (&setup.cells[1].id, &setup.workloads[1].name);
        assert_eq!(now(""), format!("block 1/3 · now {cell} {workload} again · 2 flagged"));
        let last = line(&samples::visit());
        assert_eq!(now(&last), format!("block 1/3 · {last} · now {cell} {workload} again · 2 flagged"));
    }

    #[test]
    fn the_time_left_is_that_of_visits_like_those_made() {
        assert_eq!(left_s(Duration::from_secs(30), 15, 100), 200.0);
        assert_eq!(left_s(Duration::ZERO, 0, 5), 0.0);
    }
}
