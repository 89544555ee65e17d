//! Figures of somebody else beside ours: for `summary.md`, for the terminal and for the report.

use results::{Cell, Figures, Outcome, Quote, Quotes, Role, Summary, Workload};

use super::{names::name, terminal::aligned};
use crate::format::{rate, significant};

/// The figures that a preset quotes, each row beside the cell of ours that answers to it, and below them our other back
/// ends.
pub struct QuotedFigures<'a> {
    source: &'a str,
    here: String,
    figures: Shown,
    has_workloads: bool,
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    workload: &'a str,
    there: &'a str,
    quoted: String,
    /// `None` where the run does not have it: its id.
    cell: Result<&'a Cell, &'a str>,
    measured: String,
    cpu: String,
}

/// The kinds of figures that were printed there; what was not printed there is not printed here.
#[derive(Clone, Copy)]
struct Shown {
    rates: bool,
    means: bool,
    worst: bool,
    totals: bool,
}

/// `None` where nothing is quoted.
pub fn quoted_figures(summary: &Summary) -> Option<QuotedFigures<'_>> {
    let quotes = summary.setup.quotes.as_ref()?;
    let figures = Shown::of(quotes);
    let is_quoted = |workload: &&Workload| quotes.rows.iter().any(|quote| under(quotes, quote) == workload.name);
    let workloads: Vec<&Workload> = summary.setup.workloads.iter().filter(is_quoted).collect();
    let rows = workloads.iter().flat_map(|workload| rows(summary, quotes, figures, workload)).collect();
    Some(QuotedFigures {
        source: &quotes.source,
        here: here(summary),
        figures,
        has_workloads: workloads.len() > 1,
        rows,
    })
}

/// Workload of ours that a row is quoted beside.
fn under<'a>(quotes: &'a Quotes, quote: &'a Quote) -> &'a str {
    quote.workload.as_deref().unwrap_or(&quotes.workload)
}

fn here(summary: &Summary) -> String {
    let setup = &summary.setup;
    let place = match &setup.remote {
        None => format!(
            "the server on CPU {}, the generator on CPU {}",
            setup.pinning.server_cpus, setup.pinning.client_cpus
        ),
        Some(_) => "the generator; the server on another".to_owned(),
    };
    format!("Here: {}, {} cores: {place}.", setup.host.cpu_model, setup.host.cores)
}

fn rows<'a>(summary: &'a Summary, quotes: &'a Quotes, figures: Shown, workload: &'a Workload) -> Vec<Row<'a>> {
    let cells = &summary.setup.cells;
    let quoted: Vec<&Quote> = quotes.rows.iter().filter(|quote| under(quotes, quote) == workload.name).collect();
    let is_quoted = |cell: &Cell| quoted.iter().any(|quote| quote.cell == cell.id);
    let mut rows: Vec<Row<'_>> = Vec::new();
    for quote in &quoted {
        let cell = cells.iter().find(|cell| cell.id == quote.cell).ok_or(quote.cell.as_str());
        let (measured, cpu) = cell
            .map_or_else(|_| ("not measured".to_owned(), String::new()), |cell| figures.here(summary, cell, workload));
        let theirs = [quote.rate_rps, quote.mean_ms, quote.worst_ms, quote.total_ms];
        rows.push(Row {
            workload: &workload.name,
            there: &quote.name,
            quoted: figures.words(theirs),
            cell,
            measured,
            cpu,
        });
    }
    let has_result = |cell: &Cell| summary.results.iter().any(|it| it.cell == cell.id && it.workload == workload.name);
    for cell in cells.iter().filter(|cell| cell.role == Role::Ours && !is_quoted(cell) && has_result(cell)) {
        let (measured, cpu) = figures.here(summary, cell, workload);
        rows.push(Row { workload: &workload.name, there: "", quoted: String::new(), cell: Ok(cell), measured, cpu });
    }
    rows
}

impl Shown {
    fn of(quotes: &Quotes) -> Self {
        let has = |pick: fn(&Quote) -> Option<f64>| quotes.rows.iter().any(|quote| pick(quote).is_some());
        Self {
            rates: has(|quote| quote.rate_rps),
            means: has(|quote| quote.mean_ms),
            worst: has(|quote| quote.worst_ms),
            totals: has(|quote| quote.total_ms),
        }
    }

    fn title(self) -> String {
        let names = ["requests per second", "mean", "worst", "all clients"];
        let shown = names.into_iter().zip(self.each()).filter_map(|(name, is_shown)| is_shown.then_some(name));
        shown.collect::<Vec<_>>().join(", ")
    }

    fn each(self) -> [bool; 4] {
        [self.rates, self.means, self.worst, self.totals]
    }

    /// Requests per second, and times in milliseconds: mean, worst, and until all was done.
    fn words(self, figures: [Option<f64>; 4]) -> String {
        // Two decimals, as the quoted ones have, but never fewer than three digits.
        let ms = |ms: f64| if ms < 0.0995 { format!("{} ms", significant(ms)) } else { format!("{ms:.2} ms") };
        let shown = figures.into_iter().zip(self.each()).map(|(figure, is_shown)| figure.filter(|_| is_shown));
        let written: [fn(f64) -> String; 4] = [rate, ms, ms, ms];
        let words = shown.zip(written).filter_map(|(figure, write)| figure.map(write));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Figure that was measured here, or why it was not, and the server's CPU time per request.
    fn here(self, summary: &Summary, cell: &Cell, workload: &Workload) -> (String, String) {
        let Some(figures) = summary.figures(&cell.id, &workload.name) else {
            return (not_run(summary, cell, workload), String::new());
        };
        let cpu = figures.cpu_us.map(|cpu| format!("{} µs", significant(cpu.median)));
        (self.words(ours(figures, workload)), cpu.unwrap_or_default())
    }
}

fn ours(figures: &Figures, workload: &Workload) -> [Option<f64>; 4] {
    let service = figures.service.as_ref();
    let rate = figures.throughput_rps.median;
    // Of a workload that is a number of requests, not a slice of time.
    let requests = workload.repetitions.map(|each| f64::from(each) * f64::from(workload.connections));
    let (mean_ms, worst_ms) = (service.map(|trips| trips.mean.median / 1e3), service.map(|trips| trips.max / 1e3));
    [Some(rate), mean_ms, worst_ms, requests.map(|requests| requests / rate * 1e3)]
}

fn not_run(summary: &Summary, cell: &Cell, workload: &Workload) -> String {
    let result = summary.results.iter().find(|result| result.cell == cell.id && result.workload == workload.name);
    match result.map(|result| &result.outcome) {
        Some(Outcome::NotRun { reason }) => format!("n/a: {reason}"),
        Some(Outcome::Measured(_)) | None => "not measured".to_owned(),
    }
}

impl QuotedFigures<'_> {
    fn head(&self) -> Vec<String> {
        let figures = self.figures.title();
        let mut head = vec!["there".to_owned(), format!("{figures} there (quoted)")];
        head.extend(["here".to_owned(), format!("{figures} here"), "server CPU per request".to_owned()]);
        head
    }

    /// Sources of the quoted figures and of ours.
    pub fn sources(&self) -> String {
        format!("{} {}", self.source, self.here)
    }

    /// Returns the head, then the rows; our cells under the name that `name` gives them.
    pub fn entries(&self, name: impl Fn(&Cell) -> String + Copy) -> Vec<Vec<String>> {
        let mut rows = vec![self.head()];
        rows.extend(self.rows.iter().map(|row| {
            let here = row.cell.map_or_else(str::to_owned, &name);
            vec![row.there.to_owned(), row.quoted.clone(), here, row.measured.clone(), row.cpu.clone()]
        }));
        if self.has_workloads {
            let workloads = std::iter::once("workload").chain(self.rows.iter().map(|row| row.workload));
            for (row, workload) in rows.iter_mut().zip(workloads) {
                row.insert(0, workload.to_owned());
            }
        }
        rows
    }

    /// Writes the sources and the table as Markdown.
    pub fn markdown(&self) -> String {
        let entries = self.entries(name);
        let line = |row: &Vec<String>| format!("| {} |\n", row.join(" | "));
        let rule = format!("|{}\n", "---|".repeat(entries[0].len()));
        let rows: String = entries[1..].iter().map(line).collect();
        format!("{}\n\n{}{rule}{rows}", self.sources(), line(&entries[0]))
    }

    /// Writes the sources and the table for a terminal.
    pub fn text(&self) -> String {
        folded(self.sources().split_whitespace()) + "\n" + &aligned(&self.entries(|cell| cell.id.clone()))
    }
}

/// Folds words into lines that a terminal of the usual width need not break.
fn folded<'a>(words: impl Iterator<Item = &'a str>) -> String {
    const COLUMNS_MAX: usize = 100;
    let mut text = String::new();
    let mut columns = 0;
    for word in words {
        let width = word.chars().count();
        if columns > 0 {
            let fits = columns + 1 + width <= COLUMNS_MAX;
            text.push(if fits { ' ' } else { '\n' });
            columns = if fits { columns + 1 } else { 0 };
        }
        text.push_str(word);
        columns += width;
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_folded_between_words_and_none_is_lost() {
        let words = ["zwölf "; 60].concat() + &"x".repeat(150) + " end";
        let text = folded(words.split_whitespace());
        assert_eq!(text.split_whitespace().collect::<Vec<_>>(), words.split_whitespace().collect::<Vec<_>>());
        assert!(text.lines().all(|line| line.chars().count() <= 100 || line.len() == 150), "{text}");
        assert_eq!(folded("a b".split(' ')), "a b\n");
    }
}
