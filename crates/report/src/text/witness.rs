//! The second witness: instructions per request beside the CPU time, for `summary.md` and for the report.

use std::cmp::Ordering;

use results::{
    Figures, Ratio, Summary,
    words::{agreement, times},
};

use super::names::name;
use crate::matrix_view::MatrixView;

/// Explanation of the witness, behind the tables.
pub(crate) const NOTE: &str = "Instructions of the program per request, without the kernel’s, counted under valgrind; as a multiple of the \
    reference’s; and what they make of the difference of CPU time.";

/// Head and rows: a server under a workload in each; `None` where nothing was counted.
pub(crate) fn rows(summary: &Summary) -> Option<Vec<[String; 6]>> {
    let view = MatrixView::alone(summary);
    let reference = &summary.setup.reference;
    let counted = |figures: &Figures| figures.further.instructions_under_valgrind.filter(|number| *number > 0.0);
    let mut rows = vec![["server", "workload", "CPU time", "instructions", "", "witnesses"].map(str::to_owned)];
    for workload in view.workloads() {
        let base = summary.figures(reference, &workload.name).and_then(counted);
        for row in view.compared() {
            let cell = &view.cells()[row];
            let Some(figures) = summary.figures(&cell.id, &workload.name) else { continue };
            let Some(number) = counted(figures) else { continue };
            let ratio = base.filter(|_| cell.id != *reference).map(|base| number / base);
            let cpu = figures.cpu_ratio.filter(|_| cell.id != *reference);
            rows.push([
                name(cell),
                workload.name.clone(),
                cpu.map_or_else(String::new, |cpu| times(cpu.median)),
                format!("{number:.0}"),
                ratio.map_or_else(String::new, times),
                cpu.zip(ratio).map_or_else(String::new, |(cpu, ratio)| agreement(direction(cpu), ratio).to_owned()),
            ]);
        }
    }
    (rows.len() > 1).then_some(rows)
}

/// Direction of a difference, where one was seen.
fn direction(ratio: Ratio) -> Ordering {
    if ratio.differs { ratio.median.total_cmp(&1.0) } else { Ordering::Equal }
}

/// Writes the table as Markdown; empty where nothing was counted.
pub(crate) fn markdown(summary: &Summary) -> String {
    let Some(rows) = rows(summary) else { return String::new() };
    let line = |row: &[String; 6]| format!("| {} |\n", row.join(" | "));
    let lines: String = rows[1..].iter().map(line).collect();
    format!("{}|---|---|---:|---:|---:|---|\n{lines}\n{NOTE}\n\n", line(&rows[0]))
}

#[cfg(test)]
mod tests {
    use results::Outcome;

    use super::*;
    use crate::{page, sample};

    #[test]
    fn the_second_witness_has_a_row_for_each_server_that_it_was_asked_about() {
        let mut summary = sample::summary();
        assert_eq!((rows(&summary), markdown(&summary)), (None, String::new()));
        let reference = summary.setup.reference.clone();
        let workload = summary.setup.workloads[0].name.clone();
        let other = summary.setup.cells.iter().find(|cell| cell.id != reference).unwrap().id.clone();
        let factor = summary.figures(&other, &workload).unwrap().cpu_ratio.unwrap();
        for (cell, number) in [(&reference, 2_000.0), (&other, 2_000.0 * factor.median)] {
            let mut results = summary.results.iter_mut();
            let result = results.find(|it| it.cell == *cell && it.workload == workload).unwrap();
            let Outcome::Measured(figures) = &mut result.outcome else { panic!("{cell} was measured") };
            figures.further.instructions_under_valgrind = Some(number);
        }
        let rows = rows(&summary).unwrap();
        assert_eq!(rows.len(), 3);
        let [_, _, cpu, _, instructions, words] = rows.iter().find(|row| !row[4].is_empty()).unwrap();
        assert_eq!(cpu, instructions);
        assert_eq!(words, agreement(direction(factor), factor.median));
        let text = markdown(&summary);
        assert!(text.contains("| 2000 |  |  |\n") && text.contains(words.as_str()), "{text}");
        let page = page::render(&results::Report { schema: String::new(), matrices: vec![summary] });
        assert!(page.contains("A second witness") && page.contains("without the kernel’s"));
    }
}
