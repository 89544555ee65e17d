//! Ratios of cost: by the turns that cells took beside the reference, where they took some.

use std::collections::BTreeMap;

use results::{Ratio, Role, record::Measured};

use super::{Analysis, cpu_us};

impl Analysis<'_> {
    /// ln(subject / object) of cost in each block that has both: from their turns beside the reference, where both have some in
    /// every such block, else from their visits.
    pub(super) fn cost_logs(&self, subject: &str, object: &str, workload: &str) -> BTreeMap<u32, f64> {
        let visits = self.logs(subject, object, workload, cpu_us);
        let (subjects, objects) = (self.turn_logs(subject, workload), self.turn_logs(object, workload));
        let of_block = |block: &u32| Some((*block, subjects.get(block)? - objects.get(block)?));
        let turns: BTreeMap<u32, f64> = visits.keys().filter_map(of_block).collect();
        if turns.len() == visits.len() { turns } else { visits }
    }

    /// ln(cell / reference) of cost by turns, in each block that has some; 0 for the reference.
    fn turn_logs(&self, cell: &str, workload: &str) -> BTreeMap<u32, f64> {
        let usable = self.usable(cell, workload);
        let log = |measured: &Measured| match &measured.turns {
            _ if cell == self.setup.reference => self.setup.turns.map(|_| 0.0),
            turns => turns.map(|turns| turns.cpu_log),
        };
        usable.into_iter().filter_map(|(visit, measured)| Some((visit.block, log(measured)?))).collect()
    }

    pub(super) fn cost_ratio(&self, subject: &str, object: &str, workload: &str, floor: f64) -> Option<Ratio> {
        let logs: Vec<f64> = self.cost_logs(subject, object, workload).into_values().collect();
        self.bootstrap.ratio(&logs, floor)
    }

    pub(super) fn cost_control(&self, workload: &str) -> Option<Ratio> {
        let control = self.setup.cells.iter().find(|cell| cell.role == Role::Control)?;
        self.cost_ratio(&control.id, &self.setup.reference, workload, 0.0)
    }
}
