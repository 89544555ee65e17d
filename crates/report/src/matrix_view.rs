//! A summary as pictures and sentences ask for it: cells by row and column, and only numbers that can be drawn.

use std::collections::{BTreeSet, HashMap};

use results::{
    Arrivals, Cell, Difference, Effect, FLOOR_UNKNOWN, Figures, Flag, Interval, LatencyFigures, Noise, Outcome,
    QuantilePoint, Ratio, Role, Summary, Workload,
    words::{ratio_interval, times},
};

use crate::{
    claims,
    format::significant,
    picture::series::{Group, Palette, Series},
};

/// Limit of the points of a curve, as it is drawn and embedded: closer ones fall into the same few pixels.
const CURVE_POINTS_MAX: usize = 20;

/// A borrowed summary with its cells looked up by row and column.
pub(crate) struct MatrixView<'a> {
    pub(crate) summary: &'a Summary,
    /// Prefix of every id of this matrix in the page; the first has none.
    pub(crate) prefix: String,
    /// One per [`Setup::cells`](results::Setup::cells), the control included.
    pub(crate) series: Vec<Series>,
    /// Row of the cell that every ratio is taken against; `None` where the run does not have it.
    pub(crate) reference: Option<usize>,
    /// All rows but the control's, in the order in which they are shown.
    order: Vec<usize>,
    results: HashMap<(&'a str, &'a str), &'a Outcome>,
}

impl<'a> MatrixView<'a> {
    /// Views of all matrices of a page, in which a server of ours has one colour.
    pub(crate) fn all(matrices: &'a [Summary]) -> Vec<Self> {
        let (mut palette, mut series_before) = (Palette::default(), 0);
        let view = |(position, summary): (usize, &'a Summary)| {
            let view = Self::new(summary, position, series_before, &mut palette);
            series_before += summary.setup.cells.len();
            view
        };
        matrices.iter().enumerate().map(view).collect()
    }

    /// MatrixView of a matrix that stands alone.
    pub(crate) fn alone(summary: &'a Summary) -> Self {
        Self::new(summary, 0, 0, &mut Palette::default())
    }

    fn new(summary: &'a Summary, position: usize, series_before: usize, palette: &mut Palette) -> Self {
        let setup = &summary.setup;
        let is_reference = |cell: &Cell| cell.id == setup.reference;
        let series =
            setup.cells.iter().enumerate().map(|(row, cell)| {
                palette.series(series_before + row, &cell.label, group(cell.role), is_reference(cell))
            });
        let series = series.collect();
        let results = summary.results.iter().map(|r| ((r.cell.as_str(), r.workload.as_str()), &r.outcome));
        let mut view = Self {
            summary,
            prefix: if position == 0 { String::new() } else { format!("m{}-", position + 1) },
            series,
            reference: setup.cells.iter().position(is_reference),
            order: (0..setup.cells.len()).filter(|&row| setup.cells[row].role != Role::Control).collect(),
            results: results.collect(),
        };
        view.order = view.by_cost();
        view
    }

    /// The rows by the geometric mean of their ratios, those without one last. A run that cannot rank keeps the order of the
    /// setup.
    fn by_cost(&self) -> Vec<usize> {
        let mut order = self.order.clone();
        if self.is_ranked() {
            order.sort_by(|&a, &b| self.mean_ratio(a).total_cmp(&self.mean_ratio(b)));
        }
        order
    }

    fn mean_ratio(&self, row: usize) -> f64 {
        let columns = (0..self.workloads().len()).filter(|&column| !self.workloads()[column].allows_misses);
        let logs: Vec<f64> = columns.filter_map(|column| Some(self.ratio(row, column)?.median.ln())).collect();
        if logs.is_empty() { f64::INFINITY } else { logs.iter().sum::<f64>() / logs.len() as f64 }
    }

    /// True if differences may be claimed, in words, in colours and by order.
    pub(crate) fn is_ranked(&self) -> bool {
        self.summary.why_unranked().is_none()
    }

    /// Makes an id of this matrix in the page.
    pub(crate) fn id(&self, name: impl std::fmt::Display) -> String {
        format!("{}{name}", self.prefix)
    }

    /// Id of the row of the table of all figures that has one cell under one workload.
    pub(crate) fn cell_id(&self, row: usize, column: usize) -> String {
        format!("raw-{}-{column}", self.series[row].id)
    }

    pub(crate) fn cells(&self) -> &'a [Cell] {
        &self.summary.setup.cells
    }

    pub(crate) fn workloads(&self) -> &'a [Workload] {
        &self.summary.setup.workloads
    }

    /// The rows that are compared, by cost: all but the control, which only tells the noise.
    pub(crate) fn compared(&self) -> impl Iterator<Item = usize> + '_ {
        self.order.iter().copied()
    }

    /// Row and column of every cell of the matrix, row by row.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let columns = self.workloads().len();
        self.compared().flat_map(move |row| (0..columns).map(move |column| (row, column)))
    }

    pub(crate) fn reference_label(&self) -> &str {
        self.reference.map_or("the reference", |row| &self.series[row].label)
    }

    /// Result of one cell; `None` where the combination was not selected.
    pub(crate) fn outcome(&self, row: usize, column: usize) -> Option<&'a Outcome> {
        self.results.get(&(self.cells()[row].id.as_str(), self.workloads()[column].name.as_str())).copied()
    }

    pub(crate) fn figures(&self, row: usize, column: usize) -> Option<&'a Figures> {
        match self.outcome(row, column)? {
            Outcome::Measured(figures) => Some(figures),
            Outcome::NotRun { .. } => None,
        }
    }

    /// Server CPU per request over the reference's.
    pub(crate) fn ratio(&self, row: usize, column: usize) -> Option<Ratio> {
        self.figures(row, column)?.cpu_ratio.filter(Drawable::is_drawable)
    }

    /// The direction that is claimed of a cell, in words and in colours; `None` where none is.
    pub(crate) fn difference(&self, row: usize, column: usize) -> Option<Difference> {
        let ratio =
            self.compared_ratio(row, column).ok().filter(|_| self.is_ranked() && Some(row) != self.reference)?;
        Some(ratio.difference(self.floor(column))).filter(|difference| !matches!(difference, Difference::Unseen(_)))
    }

    /// True if a cell was compared and no difference is seen.
    pub(crate) fn is_same(&self, row: usize, column: usize) -> bool {
        self.is_ranked() && self.compared_ratio(row, column).is_ok() && self.difference(row, column).is_none()
    }

    /// Tells what is known of a cell in one line: `uring, get-P1: 0.975× [0.964, 0.986] epoll, cheaper; 3.90 µs per request`.
    pub(crate) fn read_out(&self, row: usize, column: usize) -> String {
        let mut words = format!("{}, {}", self.series[row].label, self.workloads()[column].name);
        let ratio = self.ratio(row, column).filter(|_| Some(row) != self.reference);
        if let Some(ratio) = ratio {
            let interval = ratio_interval(ratio.lo, ratio.hi);
            words += &format!(": {} {interval} {}", times(ratio.median), self.reference_label());
        }
        if let Some(cpu) = self.cpu(row, column) {
            words += &format!("{} {} µs per request", if ratio.is_some() { ";" } else { ":" }, significant(cpu.median));
        }
        match self.standing(row, column) {
            standing if standing.is_empty() => words,
            standing => format!("{words}; {standing}"),
        }
    }

    /// Tells what is claimed of a cell, or why nothing is: `cheaper`, `in doubt: flagged noisy`. Empty of the reference, and in a
    /// run that cannot rank.
    pub(crate) fn standing(&self, row: usize, column: usize) -> String {
        match self.compared_ratio(row, column) {
            Err(silence) => silence.words(self.reference_label()),
            Ok(_) if Some(row) == self.reference || !self.is_ranked() => String::new(),
            Ok(ratio) => claims::standing(&ratio, self.floor(column)),
        }
    }

    pub(crate) fn cpu(&self, row: usize, column: usize) -> Option<Interval> {
        self.figures(row, column)?.cpu_us.filter(Drawable::is_drawable)
    }

    pub(crate) fn noise(&self, workload: &str) -> Option<&'a Noise> {
        let is_finite = |noise: &&'a Noise| noise.cpu_floor_percent.is_finite();
        self.summary.noise.iter().find(|noise| noise.workload == workload).filter(is_finite)
    }

    /// The noise floor of server CPU per request as a fraction.
    pub(crate) fn floor(&self, column: usize) -> f64 {
        self.noise(&self.workloads()[column].name).map_or(FLOOR_UNKNOWN, Noise::cpu_floor)
    }

    /// The effects that have a place on an axis.
    pub(crate) fn effects(&self) -> Vec<&'a Effect> {
        let is_drawable = |effect: &&Effect| effect.cpu.is_drawable() && effect.floor_percent.is_finite();
        self.summary.effects.iter().filter(is_drawable).collect()
    }

    /// The flags of a cell that are no matter of course, with the number of visits that have them.
    pub(crate) fn flags(&self, row: usize, column: usize) -> Vec<(Flag, u32)> {
        let is_open = is_open(&self.workloads()[column]);
        // A closed loop is meant to keep the server's core busy.
        let is_expected = |flag| flag == Flag::ServerSaturated && !is_open;
        let counts = self.figures(row, column).map_or(&[][..], |figures| &figures.flags);
        counts.iter().filter(|c| c.visits > 0 && !is_expected(c.flag)).map(|c| (c.flag, c.visits)).collect()
    }

    /// The flags that cast doubt on a cell: visits stayed invalid, or an open loop met a saturated side.
    pub(crate) fn doubts(&self, row: usize, column: usize) -> Vec<Flag> {
        let is_open = is_open(&self.workloads()[column]);
        let is_bad = |flag: &Flag| {
            flag.is_invalid() || (is_open && matches!(flag, Flag::ClientSaturated | Flag::ServerSaturated))
        };
        self.flags(row, column).into_iter().map(|(flag, _)| flag).filter(is_bad).collect()
    }

    /// True if the cell is to be hatched: a flag casts doubt on it, or visits failed.
    pub(crate) fn is_doubtful(&self, row: usize, column: usize) -> bool {
        self.sound(row, column).is_err_and(|silence| silence.is_doubt())
    }

    /// The letter of each flag that occurs in the matrix.
    pub(crate) fn flag_letters(&self) -> Vec<(Flag, char)> {
        let flags = self.places().flat_map(|(row, column)| self.flags(row, column));
        let occurring: BTreeSet<Flag> = flags.map(|(flag, _)| flag).collect();
        occurring.into_iter().zip('a'..='z').collect()
    }
}

fn group(role: Role) -> Group {
    match role {
        Role::Ours | Role::Control => Group::Ours,
        Role::Peer => Group::Peer,
        Role::Null => Group::Null,
    }
}

pub(crate) fn is_open(workload: &Workload) -> bool {
    workload.is_open()
}

/// True if the workload has figures that are compared: a load sweep has only curves.
pub(crate) fn is_compared(workload: &Workload) -> bool {
    !workload.is_load_sweep()
}

/// Offered load in requests per second; `None` for a closed loop.
pub(crate) fn offered_rps(workload: &Workload) -> Option<f64> {
    match workload.arrivals {
        Arrivals::Closed | Arrivals::LoadSweep => None,
        Arrivals::Open { rate_rps, .. } => Some(rate_rps),
    }
}

/// The points of a percentile curve that can be told apart on paper, x rising.
pub(crate) fn curve(figures: &LatencyFigures) -> Vec<QuantilePoint> {
    let is_drawable = |p: &&QuantilePoint| {
        [p.x, p.us, p.min_us, p.max_us].iter().all(|v| v.is_finite()) && p.x >= 1.0 && p.us > 0.0 && p.min_us > 0.0
    };
    let points: Vec<QuantilePoint> = figures.points.iter().filter(is_drawable).copied().collect();
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return Vec::new() };
    let step = (last.x / first.x).ln() / (CURVE_POINTS_MAX - 2) as f64;
    let mut kept: Vec<QuantilePoint> = Vec::with_capacity(CURVE_POINTS_MAX);
    for point in &points {
        if kept.last().is_none_or(|previous| (point.x / previous.x).ln() >= step) {
            kept.push(*point);
        }
    }
    if kept.last() != Some(last) {
        kept.push(*last);
    }
    kept
}

/// The least and the greatest value; infinite without any.
pub(crate) fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)))
}

/// Numbers that have a place on an axis.
pub(crate) trait Drawable {
    fn is_drawable(&self) -> bool;
}

impl Drawable for f64 {
    fn is_drawable(&self) -> bool {
        self.is_finite() && *self > 0.0
    }
}

impl Drawable for Interval {
    fn is_drawable(&self) -> bool {
        [self.median, self.lo, self.hi].iter().all(Drawable::is_drawable)
    }
}

impl Drawable for Ratio {
    fn is_drawable(&self) -> bool {
        [self.median, self.lo, self.hi].iter().all(Drawable::is_drawable)
    }
}
