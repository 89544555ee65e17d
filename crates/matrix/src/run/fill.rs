//! Content of a server before it is measured: stored, or checked.

use anyhow::{Context as _, Result, bail};
use results::{Cell, Role, Workload};

use crate::{
    plan::{cells::Cells, subjects::Target},
    run::{process::Process, visit::Bench},
};

impl Bench {
    /// Does as [`fill`](Self::fill) does, but for answers of a cell that have been checked.
    pub(super) fn fill_once(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        server: &Process,
        address: &str,
    ) -> Result<Option<Option<f64>>> {
        let key = (cell.id.clone(), workload.name.clone());
        if cells.subject.preload_only_checks() && self.checked.borrow().contains(&key) {
            return Ok(Some(None));
        }
        let filled = self.fill(cells, cell, workload, server, address)?;
        if filled.is_some() {
            self.checked.borrow_mut().insert(key);
        }
        Ok(filled)
    }

    /// Stores the keys or checks the documents if the workload has some, and says what that added per key, where keys are
    /// kept; `None` when the user asked to stop at once.
    pub(crate) fn fill(
        &self,
        cells: &Cells,
        cell: &Cell,
        workload: &Workload,
        server: &Process,
        address: &str,
    ) -> Result<Option<Option<f64>>> {
        // The null server keeps nothing, and has one document for all.
        let Some(prepared) = workload.prepared().filter(|_| cell.role != Role::Null) else { return Ok(Some(None)) };
        let site = self.scratch.site();
        let target = Target { workload, role: cell.role, address, site: &site.to_string_lossy() };
        let empty = self.process(server)?.rss_bytes;
        let arguments = cells.understood_by(cell, cells.subject.preload_arguments(&target, &self.timing));
        let prepare_s = cells.subject.preload_s(workload);
        let Some(run) = self.generate(&arguments, prepare_s).context("before the load")? else { return Ok(None) };
        if run.ok < u64::from(prepared) {
            bail!("{} of {prepared} keys were stored or documents right: {:?}", run.ok, run.errors);
        }
        cells.subject.check_answers(workload, &site, &run)?;
        cells.subject.check_sessions(workload, &run)?;
        let added = self.process(server)?.rss_bytes.saturating_sub(empty);
        let is_kept = workload.keys.is_some() && !workload.allows_misses;
        Ok(Some(is_kept.then(|| added as f64 / f64::from(prepared))))
    }
}
