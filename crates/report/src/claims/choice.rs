//! Choice of what is said: the headline of a server, the counts below it, and how far to trust it.

use results::{BLOCKS_MIN, Difference, Effect, FLOOR_UNKNOWN, Flag, Ratio, Role};

use super::{Claim, Counts, Quantity, silence::Silence};
use crate::matrix_view::{Drawable, MatrixView, is_open, range};

/// Cell and workload that a headline is about.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Subject {
    pub(crate) row: usize,
    pub(crate) column: usize,
}

/// Columns in the order in which a headline asks: those with the same load for all first, as at saturation larger
/// batches make a request cheaper.
fn columns(view: &MatrixView<'_>) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..view.workloads().len()).collect();
    columns.retain(|&column| !view.workloads()[column].is_load_sweep() && !view.workloads()[column].allows_misses);
    columns.sort_by_key(|&column| !is_open(&view.workloads()[column]));
    columns
}

/// The cheapest peer under the first workload that has one; without peers the cheapest other cell of ours, and without any
/// the null server. `None` where nothing can be compared.
pub(crate) fn subject(view: &MatrixView<'_>) -> Option<Subject> {
    [Role::Peer, Role::Ours, Role::Null].into_iter().find_map(|role| {
        columns(view).into_iter().find_map(|column| {
            let rows = view.compared().filter(|&row| view.cells()[row].role == role && Some(row) != view.reference);
            let ratios = rows.filter_map(|row| Some((view.compared_ratio(row, column).ok()?.median, row)));
            let (_, row) = ratios.min_by(|left, right| left.0.total_cmp(&right.0))?;
            Some(Subject { row, column })
        })
    })
}

/// The one claim of a server. In a run that cannot rank it is a figure of the reference.
pub(crate) fn headline<'a>(view: &'a MatrixView<'_>) -> Claim<'a> {
    let cost = |Subject { row, column }| cost(view, row, column);
    let compared = view.is_ranked().then(|| subject(view)).flatten().and_then(cost);
    compared.or_else(|| needs(view, None)).unwrap_or(Claim::Nothing { server: &view.summary.setup.server })
}

fn cost<'a>(view: &'a MatrixView<'_>, row: usize, column: usize) -> Option<Claim<'a>> {
    Some(Claim::Cost {
        subject: &view.series[row].label,
        reference: view.reference_label(),
        workload: &view.workloads()[column].name,
        ratio: view.compared_ratio(row, column).ok()?,
        floor: view.floor(column),
    })
}

/// Cost of the reference, or of the first of ours that has one, under `column` or the first workload that has some.
pub(crate) fn needs<'a>(view: &'a MatrixView<'_>, column: Option<usize>) -> Option<Claim<'a>> {
    let ours = view.compared().filter(|&row| view.cells()[row].role == Role::Ours);
    let rows: Vec<usize> = view.reference.into_iter().chain(ours).collect();
    let columns = column.map_or_else(|| columns(view), |column| vec![column]);
    rows.into_iter().find_map(|row| {
        let column = *columns.iter().find(|&&column| view.sound(row, column).is_ok())?;
        let (cell, workload) = (&view.series[row].label, &view.workloads()[column].name);
        Some(Claim::Needs { cell, workload, cpu: view.cpu(row, column)? })
    })
}

fn add(view: &MatrixView<'_>, counts: &mut Counts, (row, column): (usize, usize)) {
    match view.compared_ratio(row, column) {
        Ok(ratio) => match ratio.difference(view.floor(column)) {
            Difference::Lower => counts.lower += 1,
            Difference::Higher => counts.higher += 1,
            Difference::Unseen(_) => counts.same += 1,
        },
        Err(Silence::NotSelected) => {}
        Err(_) => counts.silent += 1,
    }
}

/// Counts of one cell over all workloads; `None` for a run that cannot rank, and for one workload.
pub(crate) fn tally<'a>(view: &'a MatrixView<'_>, row: usize) -> Option<Claim<'a>> {
    let mut counts = Counts::default();
    compared_columns(view).for_each(|column| add(view, &mut counts, (row, column)));
    let (subject, reference) = (&view.series[row].label, view.reference_label());
    (view.is_ranked() && counts.total() > 1).then_some(Claim::Tally { subject, reference, counts })
}

/// Counts of all cells but the reference's; `None` for a run that cannot rank.
pub(crate) fn matrix<'a>(view: &'a MatrixView<'_>) -> Option<Claim<'a>> {
    let mut counts = Counts::default();
    for row in view.compared().filter(|&row| Some(row) != view.reference) {
        compared_columns(view).for_each(|column| add(view, &mut counts, (row, column)));
    }
    (view.is_ranked() && counts.total() > 0).then_some(Claim::Matrix { reference: view.reference_label(), counts })
}

fn compared_columns<'b>(view: &'b MatrixView<'_>) -> impl Iterator<Item = usize> + use<'b> {
    let workloads = view.workloads();
    (0..workloads.len()).filter(|&column| !workloads[column].is_load_sweep())
}

/// The cheapest of ours under a workload, with all whose interval reaches its own or that lie within the noise floor of it.
/// `None` for a run that cannot rank, and for fewer than two cells.
pub(crate) fn cheapest<'a>(view: &'a MatrixView<'_>, column: usize) -> Option<Claim<'a>> {
    let ratios = ratios_of_ours(view, column);
    let (first, _) = *ratios.first()?;
    let floor = 1.0 + view.floor(column);
    let is_separate = |other: &Ratio| {
        let has_blocks = [first, *other].iter().all(|ratio| ratio.blocks >= BLOCKS_MIN);
        has_blocks && first.hi < other.lo && other.median / first.median > floor
    };
    let names = ratios.iter().filter(|(ratio, _)| !is_separate(ratio)).map(|(_, row)| view.series[*row].label.as_str());
    let claim = Claim::Cheapest { workload: &view.workloads()[column].name, of: ratios.len(), names: names.collect() };
    (view.is_ranked() && ratios.len() > 1).then_some(claim)
}

/// The one of ours that costs most under a workload. `None` where [`cheapest`] is, and where it is not told apart from the
/// reference.
pub(crate) fn dearest<'a>(view: &'a MatrixView<'_>, column: usize) -> Option<Claim<'a>> {
    let ratios = ratios_of_ours(view, column);
    let &(ratio, row) = ratios.last()?;
    (view.difference(row, column) == Some(Difference::Higher)).then(|| Claim::Dearest {
        subject: &view.series[row].label,
        reference: view.reference_label(),
        workload: &view.workloads()[column].name,
        of: ratios.len(),
        ratio,
    })
}

/// Those of ours that may be compared with the reference, the cheapest first.
fn ratios_of_ours(view: &MatrixView<'_>, column: usize) -> Vec<(Ratio, usize)> {
    let ours = view.compared().filter(|&row| view.cells()[row].role == Role::Ours);
    let mut ratios: Vec<(Ratio, usize)> =
        ours.filter_map(|row| Some((view.compared_ratio(row, column).ok()?, row))).collect();
    ratios.sort_by(|left, right| left.0.median.total_cmp(&right.0.median));
    ratios
}

/// The least p99 of ours in an open loop, with all whose interval reaches it, and the greatest. `None` in a closed loop, for
/// a run that cannot rank, and for fewer than two cells.
pub(crate) fn least_p99<'a>(view: &'a MatrixView<'_>, column: usize) -> Option<Claim<'a>> {
    let workload = &view.workloads()[column];
    let ours = view.compared().filter(|&row| view.cells()[row].role == Role::Ours && view.sound(row, column).is_ok());
    let p99 = |row| {
        let value = view.figures(row, column)?.response.as_ref()?.p99;
        value.is_drawable().then_some((value, view.series[row].label.as_str()))
    };
    let mut cells: Vec<_> = ours.filter_map(p99).collect();
    cells.sort_by(|left, right| left.0.median.total_cmp(&right.0.median));
    let ((least, _), &(greatest, last)) = (*cells.first()?, cells.last()?);
    let names = cells.iter().filter(|(p99, _)| p99.lo <= least.hi).map(|(_, name)| *name).collect();
    let claim = Claim::LeastP99 { workload: &workload.name, of: cells.len(), names, least, last: (last, greatest) };
    (view.is_ranked() && is_open(workload) && cells.len() > 1).then_some(claim)
}

/// Effects of the choices, the largest change first, then those that change nothing; empty for a run that cannot rank.
pub(crate) fn effects<'a>(view: &'a MatrixView<'_>) -> Vec<Claim<'a>> {
    if !view.is_ranked() {
        return Vec::new();
    }
    let mut effects: Vec<&Effect> = view.effects();
    let size = |effect: &Effect| effect.cpu.median.ln().abs();
    effects.sort_by(|a, b| b.cpu.differs.cmp(&a.cpu.differs).then(size(b).total_cmp(&size(a))));
    effects.into_iter().map(|effect| effect_of(view, effect)).collect()
}

pub(crate) fn effect_of<'a>(view: &'a MatrixView<'_>, effect: &'a Effect) -> Claim<'a> {
    // Several dimensions may have levels of the same name.
    let is_alone = view.summary.effects.iter().all(|other| other.factor == effect.factor);
    Claim::Effect {
        factor: (!is_alone).then_some(&effect.factor),
        level: &effect.level,
        instead_of: &effect.instead_of,
        ratio: effect.cpu,
        floor: effect.floor_percent / 100.0,
    }
}

/// The p99 of the reference: of the response time in an open loop, else of the service time.
pub(crate) fn latency<'a>(view: &'a MatrixView<'_>, column: usize) -> Option<Claim<'a>> {
    let (row, workload) = (view.reference?, &view.workloads()[column]);
    view.sound(row, column).ok()?;
    let figures = view.figures(row, column)?;
    let (quantity, latency) = if is_open(workload) {
        (Quantity::ResponseP99, &figures.response)
    } else {
        (Quantity::ServiceP99, &figures.service)
    };
    let value = latency.as_ref()?.p99;
    let cell = &view.series[row].label;
    value.is_drawable().then_some(Claim::Figure { quantity, cell, workload: &workload.name, value })
}

/// The column that the first picture is about: the headline's.
pub(crate) fn picture_column(view: &MatrixView<'_>) -> Option<usize> {
    let has_ratio = |&column: &usize| view.compared().filter(|&row| view.ratio(row, column).is_some()).count() > 1;
    subject(view).map(|subject| subject.column).or_else(|| columns(view).into_iter().find(has_ratio))
}

/// Claims about a run as a whole that go before all others: it ranks nothing, it is unfinished.
pub(crate) fn stamps(views: &[MatrixView<'_>]) -> Vec<Claim<'static>> {
    let mut claims: Vec<Claim<'static>> = Vec::new();
    for reason in views.iter().filter_map(|view| view.summary.why_unranked()) {
        if !claims.contains(&Claim::Unranked { reason }) {
            claims.push(Claim::Unranked { reason });
        }
    }
    let partial = views.iter().map(|view| &view.summary.progress).filter(|progress| progress.is_partial);
    let (done, planned) = partial
        .fold((0, 0), |(done, planned), progress| (done + progress.visits_done, planned + progress.visits_planned));
    if planned > 0 {
        claims.push(Claim::Unfinished { done, planned });
    }
    claims
}

/// Reasons to trust the figures or to doubt them.
pub(crate) fn trust(views: &[MatrixView<'_>]) -> Vec<Claim<'static>> {
    let mut claims = Vec::new();
    let floors = views.iter().flat_map(|view| compared_columns(view).map(|column| view.floor(column)));
    let (known, unknown): (Vec<f64>, Vec<f64>) = floors.partition(|floor| *floor < FLOOR_UNKNOWN);
    let (least, greatest) = range(known.iter().copied());
    if least.is_finite() {
        claims.push(Claim::Noise { least, greatest });
    }
    if !unknown.is_empty() {
        claims.push(Claim::NoiseUnknown { workloads: unknown.len(), of: known.len() + unknown.len() });
    }
    let sum = |of_view: &dyn Fn(&MatrixView<'_>, usize, usize) -> bool| -> usize {
        let of_view = |view: &MatrixView<'_>| {
            let places = compared_columns(view).flat_map(|column| view.compared().map(move |row| (row, column)));
            places.filter(|&(row, column)| of_view(view, row, column)).count()
        };
        views.iter().map(of_view).sum()
    };
    let cells = sum(&|view, row, column| view.is_doubtful(row, column));
    if cells > 0 {
        let of = sum(&|view, row, column| view.figures(row, column).is_some());
        claims.push(Claim::Doubt { cells, of });
    }
    let is_limited = |(flag, _): &(Flag, u32)| *flag == Flag::ClientSaturated;
    let cells = sum(&|view, row, column| view.flags(row, column).iter().any(is_limited));
    if cells > 0 {
        claims.push(Claim::Limited { cells });
    }
    for blocks in views.iter().map(|view| view.summary.setup.blocks) {
        if !claims.contains(&Claim::Intervals { blocks }) {
            claims.push(Claim::Intervals { blocks });
        }
    }
    claims
}

/// Workloads whose noise floor is higher than a table should have.
pub(crate) fn wide_floors<'a>(views: &[MatrixView<'a>]) -> Option<Claim<'a>> {
    let noise = views
        .iter()
        .flat_map(|view| compared_columns(view).filter_map(|column| view.noise(&view.workloads()[column].name)));
    let of: Vec<_> =
        noise.filter_map(|noise| Some((noise.workload.as_str(), noise.elapsed_s, noise.wanted_s()?))).collect();
    (!of.is_empty()).then_some(Claim::WideFloors { of })
}

/// The highest offered load that the reference kept up with in a load sweep.
pub(crate) fn kept_up<'a>(view: &'a MatrixView<'_>, column: usize) -> Option<Claim<'a>> {
    let row = view.reference?;
    let points = &view.figures(row, column).filter(|_| !view.is_doubtful(row, column))?.sweep;
    let (cell, workload) = (&view.series[row].label, &view.workloads()[column].name);
    let last = points.iter().take_while(|point| point.is_served).last()?;
    let is_all = points.iter().all(|point| point.is_served);
    let offered_rps = Some(last.offered_rps).filter(Drawable::is_drawable)?;
    Some(Claim::KeptUp { cell, workload, offered_rps, is_all })
}

/// The kernel's part of the cost that [`needs`] tells.
pub(crate) fn kernel_share<'a>(view: &'a MatrixView<'_>, column: usize) -> Option<Claim<'a>> {
    let row = view.reference.filter(|&row| view.sound(row, column).is_ok())?;
    let figures = view.figures(row, column)?;
    let (system, user) =
        figures.system_us.zip(figures.user_us).filter(|(s, u)| *s >= 0.0 && *u >= 0.0 && s + u > 0.0)?;
    let (cell, workload) = (&view.series[row].label, &view.workloads()[column].name);
    let share = Some(system / (system + user)).filter(|share| share.is_finite())?;
    Some(Claim::KernelShare { cell, workload, share })
}

/// Memory per key of the reference under the first workload that tells it.
pub(crate) fn bytes_per_key<'a>(view: &'a MatrixView<'_>) -> Option<Claim<'a>> {
    let row = view.reference?;
    (0..view.workloads().len()).find_map(|column| {
        let figures = view.figures(row, column).filter(|_| !view.is_doubtful(row, column))?;
        let value = figures.bytes_per_key.filter(Drawable::is_drawable)?;
        let (cell, workload) = (&view.series[row].label, &view.workloads()[column].name);
        Some(Claim::Figure { quantity: Quantity::BytesPerKey, cell, workload, value })
    })
}
