//! What the user sees while visits are made: a bar on a terminal, a line per visit elsewhere.

use std::cell::Cell as Counter;
use std::io::{IsTerminal as _, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::model::{Cell, Workload};
use super::record::{Manifest, Visit};

pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    blocks: usize,
    planned: u64,
    done: Counter<u64>,
}

impl Progress {
    pub(crate) fn new(manifest: &Manifest, visits: &[Vec<Visit>]) -> Self {
        let plans = manifest.matrices.iter().flat_map(|planned| &planned.plan);
        let planned = plans.map(|slots| slots.len() as u64).sum();
        let done = visits.iter().flatten().filter(|visit| visit.attempt == 1).count() as u64;
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(planned), ProgressDrawTarget::stderr_with_hz(4));
            let template = "{bar:24} {pos}/{len} · {msg} · ETA {eta}";
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
        }
    }

    pub(crate) fn begin(&self, block: u32, cell: &Cell, workload: &Workload, attempt: u32) {
        if let Some(bar) = &self.bar {
            let again = if attempt > 1 { " again" } else { "" };
            bar.set_message(format!("block {}/{} · {} {}{again}", block + 1, self.blocks, cell.id, workload.name));
        }
    }

    pub(crate) fn end(&self, visit: &Visit) {
        if visit.attempt == 1 {
            self.done.set(self.done.get() + 1);
        }
        let line = line(visit);
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.done.get());
                if !visit.valid {
                    bar.println(line);
                }
            }
            None => {
                eprintln!("[{}/{}] block {}/{} {line}", self.done.get(), self.planned, visit.block + 1, self.blocks)
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// `http-server/uring get-128B-c64 213 k/s 4.02 µs noisy`.
fn line(visit: &Visit) -> String {
    let mut words = vec![visit.cell.clone(), visit.workload.clone()];
    if let Some(measured) = &visit.measured {
        words.push(format!("{:.1} k/s", measured.throughput_rps / 1_000.0));
        words.extend(measured.server.map(|server| format!("{:.2} µs", server.cpu_us)));
        words.extend(measured.errors.iter().map(|(class, count)| format!("{count} {class}")));
    }
    words.extend(visit.flags.iter().map(|flag| flag.name().to_owned()));
    words.extend(visit.failure.clone());
    words.join(" ")
}
