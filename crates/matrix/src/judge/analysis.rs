//! From visits to the summary: pure, so that the same files give the same figures at any time.

use std::collections::BTreeMap;

use results::{
    Arrivals, BlockFigures, BlockValue, Cell, CellResult, Comparison, Drift, Effect, Figures, Flag, FlagCount,
    Interval, Metric, Noise, Outcome, Progress, Ratio, Report, Role, SCHEMA, SecondaryFigures, Setup, Summary, Topic,
    Workload,
    record::{Latency, Manifest, Measured, Planned, ServerCost, Visit},
    warnings,
};

use crate::{
    judge::{
        latency, load_sweep, raw,
        stats::{Bootstrap, FLOOR_UNKNOWN, median, noise_floor},
        windows,
    },
    plan::{order::counting, warm_up},
    run::{instructions, syscalls},
    store::Counts,
};

/// A figure of a visit; `None` where it was not measured.
type Pick = fn(&Measured) -> Option<f64>;

fn cpu_us(measured: &Measured) -> Option<f64> {
    measured.server.map(|server| server.cpu_us)
}

fn total_cpu_us(measured: &Measured) -> Option<f64> {
    measured.server.map(|server| server.cpu_us + measured.client_cpu_us)
}

#[expect(clippy::unnecessary_wraps, reason = "one of several figures that may be missing")]
fn throughput_rps(measured: &Measured) -> Option<f64> {
    Some(measured.throughput_rps)
}

/// `visits`: those of each matrix.
pub(crate) fn report(manifest: &Manifest, visits: &[Vec<Visit>]) -> Report {
    let matrices = manifest.matrices.iter().zip(visits);
    Report {
        schema: SCHEMA.to_owned(),
        matrices: matrices.map(|(planned, visits)| summarise(planned, visits)).collect(),
    }
}

/// The same with system calls and instructions, where they were counted.
pub(crate) fn with_counts(manifest: &Manifest, visits: &[Vec<Visit>], counts: &Counts) -> Report {
    let mut report = report(manifest, visits);
    syscalls::add_to(&mut report, &counts.syscalls);
    instructions::add_to(&mut report, &counts.instructions);
    report
}

pub(crate) fn summarise(planned: &Planned, visits: &[Visit]) -> Summary {
    let analysis = Analysis::new(&planned.setup, visits);
    let mut summary = Summary {
        setup: planned.setup.clone(),
        progress: progress(planned, visits, &analysis),
        results: analysis.results(),
        noise: planned
            .setup
            .workloads
            .iter()
            .filter(|it| !it.is_load_sweep())
            .map(|workload| analysis.noise(workload))
            .collect(),
        effects: analysis.effects(),
        drift: planned.setup.workloads.iter().map(|workload| analysis.drift(workload)).collect(),
        comparisons: Vec::new(),
        warnings: Vec::new(),
    };
    summary.comparisons = analysis.comparisons(&summary);
    summary.warnings = warnings::of(&summary);
    summary
}

/// The attempts at each slot, and the visit that counts.
struct Analysis<'a> {
    setup: &'a Setup,
    bootstrap: Bootstrap,
    /// (cell, workload) → block → attempts.
    attempts: BTreeMap<(&'a str, &'a str), BTreeMap<u32, Vec<&'a Visit>>>,
    /// Workload → noise floors of CPU and throughput, as fractions.
    floors: BTreeMap<&'a str, (f64, f64)>,
}

impl<'a> Analysis<'a> {
    fn new(setup: &'a Setup, visits: &'a [Visit]) -> Self {
        let mut attempts: BTreeMap<_, BTreeMap<_, Vec<_>>> = BTreeMap::new();
        for visit in visits {
            let of_cell = attempts.entry((visit.cell.as_str(), visit.workload.as_str())).or_default();
            of_cell.entry(visit.block).or_default().push(visit);
        }
        let mut analysis = Self { setup, bootstrap: Bootstrap::new(setup.seed), attempts, floors: BTreeMap::new() };
        analysis.floors = (setup.workloads.iter())
            .map(|workload| {
                let cost = noise_floor(analysis.cost_control(&workload.name).as_ref());
                let throughput = noise_floor(analysis.control(&workload.name, throughput_rps).as_ref());
                (workload.name.as_str(), (cost, throughput))
            })
            .collect();
        analysis
    }

    /// The visits that count and have figures, by block.
    fn usable(&self, cell: &str, workload: &str) -> Vec<(&'a Visit, &'a Measured)> {
        let Some(blocks) = self.attempts.get(&(cell, workload)) else { return Vec::new() };
        let counting = blocks.values().filter_map(|attempts| counting(attempts)).filter(|visit| visit.is_usable());
        counting.filter_map(|visit| Some((visit, visit.measured.as_ref()?))).collect()
    }

    fn by_block(&self, cell: &str, workload: &str, pick: Pick) -> BTreeMap<u32, f64> {
        let usable = self.usable(cell, workload);
        let values = usable.iter().filter_map(|(visit, measured)| Some((visit.block, pick(measured)?)));
        values.filter(|(_, value)| *value > 0.0).collect()
    }

    /// ln(subject / object) in each block that has both.
    fn logs(&self, subject: &str, object: &str, workload: &str, pick: Pick) -> BTreeMap<u32, f64> {
        let objects = self.by_block(object, workload, pick);
        let subjects = self.by_block(subject, workload, pick);
        subjects.into_iter().filter_map(|(block, value)| Some((block, (value / objects.get(&block)?).ln()))).collect()
    }

    fn ratio(&self, subject: &str, object: &str, workload: &str, pick: Pick, floor: f64) -> Option<Ratio> {
        let logs: Vec<f64> = self.logs(subject, object, workload, pick).into_values().collect();
        self.bootstrap.ratio(&logs, floor)
    }

    /// Cost of a cell over its own under the workload that asks for the same with less.
    fn counterpart_ratio(&self, cell: &Cell, workload: &Workload) -> Option<Ratio> {
        let counterpart = workload.counterpart.as_deref()?;
        let less = self.by_block(&cell.id, counterpart, cpu_us);
        let more = self.by_block(&cell.id, &workload.name, cpu_us);
        let logs: Vec<f64> =
            more.into_iter().filter_map(|(block, value)| Some((value / less.get(&block)?).ln())).collect();
        let floor = self.floor(&workload.name).0.max(self.floor(counterpart).0);
        self.bootstrap.ratio(&logs, floor)
    }

    fn control(&self, workload: &str, pick: Pick) -> Option<Ratio> {
        let control = self.setup.cells.iter().find(|cell| cell.role == Role::Control)?;
        self.ratio(&control.id, &self.setup.reference, workload, pick, 0.0)
    }

    fn floor(&self, workload: &str) -> (f64, f64) {
        self.floors.get(workload).copied().unwrap_or((FLOOR_UNKNOWN, FLOOR_UNKNOWN))
    }

    fn noise(&self, workload: &Workload) -> Noise {
        let (cpu, throughput) = self.floor(&workload.name);
        let of_it = self.attempts.iter().filter(|((_, name), _)| *name == workload.name);
        let visits = of_it.flat_map(|(_, blocks)| blocks.values().flatten());
        Noise {
            workload: workload.name.clone(),
            cpu_aa: self.cost_control(&workload.name),
            throughput_aa: self.control(&workload.name, throughput_rps),
            cpu_floor_percent: cpu * 100.0,
            throughput_floor_percent: throughput * 100.0,
            elapsed_s: visits.map(|visit| visit.elapsed_s).sum(),
        }
    }

    fn results(&self) -> Vec<CellResult> {
        let setup = self.setup;
        setup
            .selected()
            .filter_map(|(cell, workload)| {
                let outcome = match setup.why_not(&cell.id, &workload.name) {
                    Some(reason) => Outcome::NotRun { reason: reason.to_owned() },
                    None => self.outcome(cell, workload)?,
                };
                Some(CellResult { cell: cell.id.clone(), workload: workload.name.clone(), outcome })
            })
            .collect()
    }

    /// `None` when no visit was made yet.
    fn outcome(&self, cell: &Cell, workload: &Workload) -> Option<Outcome> {
        if let Some(figures) = self.figures(cell, workload) {
            return Some(Outcome::Measured(Box::new(figures)));
        }
        let attempts = self.attempts.get(&(cell.id.as_str(), workload.name.as_str()))?;
        let reason = attempts.values().flatten().next_back().map(|visit| why_unusable(visit))?;
        Some(Outcome::NotRun { reason: format!("failed: {reason}") })
    }

    fn figures(&self, cell: &Cell, workload: &Workload) -> Option<Figures> {
        let visits = self.usable(&cell.id, &workload.name);
        let interval = |pick: Pick| -> Option<Interval> {
            self.bootstrap.interval(&visits.iter().filter_map(|(_, measured)| pick(measured)).collect::<Vec<f64>>())
        };
        let server = |pick: fn(&ServerCost) -> f64| -> Option<f64> {
            let values: Vec<f64> =
                visits.iter().filter_map(|(_, measured)| measured.server.as_ref().map(pick)).collect();
            (!values.is_empty()).then(|| median(&values))
        };
        let latencies = |pick: fn(&Measured) -> Option<&Latency>| {
            let latencies: Vec<&Latency> = visits.iter().filter_map(|(_, measured)| pick(measured)).collect();
            latency::figures(&latencies, &self.bootstrap)
        };
        let (floor, throughput_floor) = self.floor(&workload.name);
        let ratio = |pick, floor| self.ratio(&cell.id, &self.setup.reference, &workload.name, pick, floor);
        let attempts = self.attempts.get(&(cell.id.as_str(), workload.name.as_str()))?;
        Some(Figures {
            cpu_us: interval(cpu_us),
            user_us: server(|server| server.user_us),
            system_us: server(|server| server.system_us),
            cpu_ratio: self.cost_ratio(&cell.id, &self.setup.reference, &workload.name, floor),
            counterpart_ratio: self.counterpart_ratio(cell, workload),
            throughput_rps: interval(throughput_rps)?,
            throughput_ratio: ratio(throughput_rps, throughput_floor),
            client_cpu_us: interval(|measured| Some(measured.client_cpu_us))?,
            client_user_us: interval(|measured| measured.client_user_us).map(|it| it.median),
            client_system_us: interval(|measured| measured.client_system_us).map(|it| it.median),
            total_cpu_us: interval(total_cpu_us),
            total_cpu_ratio: ratio(total_cpu_us, floor),
            server_busy: server(|server| server.busy),
            client_busy: interval(|measured| Some(measured.client_busy))?.median,
            rss_bytes: server(|server| server.rss_bytes as f64).map(|bytes| bytes as u64),
            bytes_per_key: interval(|measured| measured.bytes_per_key),
            hit_ratio: interval(|measured| measured.hit_ratio),
            response: latencies(|measured| measured.response.as_ref()),
            service: latencies(|measured| measured.service.as_ref()),
            flags: flag_counts(&visits),
            visits: count(visits.len()),
            attempts: count(attempts.values().map(Vec::len).sum()),
            failed: count(
                attempts.values().filter_map(|of_slot| counting(of_slot)).filter(|it| !it.is_usable()).count(),
            ),
            per_block: (visits.iter())
                .map(|(visit, measured)| BlockFigures {
                    block: visit.block,
                    cpu_us: cpu_us(measured),
                    throughput_rps: measured.throughput_rps,
                    valid: visit.valid,
                    source: raw::source(visit),
                })
                .collect(),
            sweep: load_sweep::points(&visits, &self.bootstrap),
            further: secondary_figures(&visits),
        })
    }

    fn drift(&self, workload: &Workload) -> Drift {
        let values = |by_block: BTreeMap<u32, f64>| {
            by_block.into_iter().map(|(block, value)| BlockValue { block, value }).collect::<Vec<_>>()
        };
        let with_role = |role| self.setup.cells.iter().find(|cell| cell.role == role);
        let null = with_role(Role::Null).map(|null| self.by_block(&null.id, &workload.name, cpu_us));
        let aa = with_role(Role::Control).map(|control| {
            let logs = self.cost_logs(&control.id, &self.setup.reference, &workload.name);
            logs.into_iter().map(|(block, log)| (block, log.exp())).collect()
        });
        Drift {
            workload: workload.name.clone(),
            null_cpu_us: values(null.unwrap_or_default()),
            aa_ratio: values(aa.unwrap_or_default()),
        }
    }

    /// One effect per factor and level other than the reference's.
    fn effects(&self) -> Vec<Effect> {
        let ours: Vec<&Cell> = self.setup.cells.iter().filter(|cell| cell.role == Role::Ours).collect();
        let Some(reference) = ours.iter().find(|cell| cell.id == self.setup.reference) else { return Vec::new() };
        let mut effects: Vec<Effect> = Vec::new();
        for (factor, base) in &reference.factors {
            for level in ours.iter().filter_map(|cell| cell.factors.get(factor)) {
                let is_known = effects.iter().any(|effect| effect.factor == *factor && effect.level == *level);
                if level != base && !is_known {
                    effects.extend(self.effect(&ours, factor, level, base));
                }
            }
        }
        effects
    }

    fn effect(&self, ours: &[&Cell], factor: &str, level: &str, base: &str) -> Option<Effect> {
        let mut logs: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        let mut workloads: Vec<String> = Vec::new();
        for cell in ours.iter().filter(|cell| cell.factors.get(factor).is_some_and(|own| own == level)) {
            let mut equal = cell.factors.clone();
            equal.insert(factor.to_owned(), base.to_owned());
            let is_partner = |other: &&&Cell| other.server == cell.server && other.factors == equal;
            let Some(partner) = ours.iter().find(is_partner) else { continue };
            for workload in ranked(self.setup) {
                let by_block = self.cost_logs(&cell.id, &partner.id, &workload.name);
                if !by_block.is_empty() && !workloads.contains(&workload.name) {
                    workloads.push(workload.name.clone());
                }
                for (block, log) in by_block {
                    logs.entry(block).or_default().push(log);
                }
            }
        }
        // A block that lacks some pairs would compare other things than the rest.
        let complete = logs.values().map(Vec::len).max()?;
        let means: Vec<f64> = (logs.values().filter(|logs| logs.len() == complete))
            .map(|logs| logs.iter().sum::<f64>() / complete as f64)
            .collect();
        let floor = workloads.iter().map(|workload| self.floor(workload).0).sum::<f64>() / workloads.len() as f64;
        Some(Effect {
            factor: factor.to_owned(),
            level: level.to_owned(),
            instead_of: base.to_owned(),
            cpu: self.bootstrap.ratio(&means, floor)?,
            floor_percent: floor * 100.0,
            workloads,
        })
    }

    fn comparisons(&self, summary: &Summary) -> Vec<Comparison> {
        let with_role =
            |role| self.setup.cells.iter().filter(move |cell| cell.role == role).map(|cell| cell.id.as_str());
        let reference = self.setup.reference.as_str();
        let mut comparisons = Vec::new();
        for workload in ranked(self.setup) {
            let Some(best) = cheapest(summary, with_role(Role::Ours), &workload.name) else { continue };
            let mut compare = |topic, metric, subject: &str, object: &str| {
                comparisons.extend(self.comparison(topic, workload, metric, subject, object));
            };
            if best != reference {
                compare(Topic::BestOverReference, Metric::ServerCpu, best, reference);
            }
            for peer in with_role(Role::Peer) {
                for (topic, ours) in [(Topic::BestOverPeer, best), (Topic::ReferenceOverPeer, reference)] {
                    compare(topic, Metric::ServerCpu, ours, peer);
                    if workload.arrivals == Arrivals::Closed {
                        compare(topic, Metric::Throughput, ours, peer);
                    }
                }
            }
            for null in with_role(Role::Null) {
                compare(Topic::BestOverNull, Metric::ServerCpu, best, null);
            }
        }
        comparisons
    }

    fn comparison(
        &self,
        topic: Topic,
        workload: &Workload,
        metric: Metric,
        subject: &str,
        object: &str,
    ) -> Option<Comparison> {
        let (cpu_floor, throughput_floor) = self.floor(&workload.name);
        let (ratio, floor) = match metric {
            Metric::ServerCpu => (self.cost_ratio(subject, object, &workload.name, cpu_floor)?, cpu_floor),
            Metric::Throughput => {
                let ratio = self.ratio(subject, object, &workload.name, throughput_rps, throughput_floor)?;
                (ratio, throughput_floor)
            }
        };
        Some(Comparison {
            topic,
            workload: workload.name.clone(),
            metric,
            subject: subject.to_owned(),
            object: object.to_owned(),
            ratio,
            floor_percent: floor * 100.0,
        })
    }
}

/// Workloads whose costs may be compared. Who misses more has less to do: cost alone would then crown the worst.
fn ranked(setup: &Setup) -> impl Iterator<Item = &Workload> {
    setup.workloads.iter().filter(|workload| !workload.allows_misses)
}

fn cheapest<'a>(summary: &Summary, cells: impl Iterator<Item = &'a str>, workload: &str) -> Option<&'a str> {
    let cost = |cell: &str| summary.figures(cell, workload)?.cpu_us.map(|cpu| cpu.median);
    let costs = cells.filter_map(|cell| Some((cell, cost(cell)?)));
    costs.min_by(|left, right| left.1.total_cmp(&right.1)).map(|(cell, _)| cell)
}

fn secondary_figures(visits: &[(&Visit, &Measured)]) -> SecondaryFigures {
    let middle = |pick: fn(&Measured) -> Option<f64>| {
        let values: Vec<f64> = visits.iter().filter_map(|(_, measured)| pick(measured)).collect();
        (!values.is_empty()).then(|| median(&values))
    };
    SecondaryFigures {
        run_queue_wait: middle(|it| it.process.map(|process| process.run_queue_wait_s / process.elapsed_s)),
        minor_faults: middle(|it| it.process.map(|process| process.minor_faults as f64)),
        major_faults: middle(|it| it.process.map(|process| process.major_faults as f64)),
        switches_voluntary: middle(|it| it.process.map(|process| process.switches_voluntary as f64)),
        switches_involuntary: middle(|it| it.process.map(|process| process.switches_involuntary as f64)),
        peak_rss_bytes: middle(|it| it.process.map(|process| process.peak_rss_bytes as f64)).map(|it| it as u64),
        lag_p99_us: middle(|it| it.lag_p99_us),
        instructions_per_request: middle(|it| it.server.as_ref()?.instructions),
        head_bytes: middle(|it| it.head_bytes),
        warmup_s: middle(|it| it.warmup_s),
        unsettled_visits: warm_up::unsettled(visits.iter().map(|(_, measured)| *measured)),
        windows: windows::of_visits(visits),
        ..SecondaryFigures::default()
    }
}

fn why_unusable(visit: &Visit) -> String {
    let errors = |measured: &Measured| {
        let classes: Vec<String> = measured.errors.iter().map(|(class, count)| format!("{count} {class}")).collect();
        classes.join(", ")
    };
    visit.failure.clone().or_else(|| visit.measured.as_ref().map(errors)).unwrap_or_default()
}

fn flag_counts(visits: &[(&Visit, &Measured)]) -> Vec<FlagCount> {
    let mut counts: BTreeMap<Flag, u32> = BTreeMap::new();
    for flag in visits.iter().flat_map(|(visit, _)| &visit.flags) {
        *counts.entry(*flag).or_default() += 1;
    }
    counts.into_iter().map(|(flag, visits)| FlagCount { flag, visits }).collect()
}

fn progress(planned: &Planned, visits: &[Visit], analysis: &Analysis<'_>) -> Progress {
    let slots: Vec<_> = analysis.attempts.values().flat_map(BTreeMap::values).filter_map(|all| counting(all)).collect();
    let done_in = |block: usize| slots.iter().filter(|visit| visit.block as usize == block).count();
    let due: usize = planned.plan.iter().map(Vec::len).sum();
    let is_complete = |(block, plan): &(usize, &Vec<_>)| done_in(*block) >= plan.len();
    Progress {
        visits_planned: count(due),
        visits_done: count(slots.len()),
        attempts: count(visits.len()),
        visits_invalid: count(slots.iter().filter(|visit| !visit.valid).count()),
        visits_failed: count(slots.iter().filter(|visit| !visit.is_usable()).count()),
        blocks_complete: count(planned.plan.iter().enumerate().filter(is_complete).count()),
        elapsed_s: visits.iter().map(|visit| visit.elapsed_s).sum(),
        is_partial: slots.len() < due,
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

mod cost;
#[cfg(test)]
mod tests;
