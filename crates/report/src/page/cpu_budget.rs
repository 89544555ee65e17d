//! The CPU budget of one request: kernel and user time of the server and of the generator, the null server's floor, and
//! the server's system calls where they were counted.

use maud::{Markup, html};

use super::section::{Section, WorkloadPart, affordable, columns_with, per_workload};
use crate::{
    claims::{self, Claim},
    format::{duration, significant, thousands},
    markup::joined,
    matrix_view::{Drawable, MatrixView, offered_rps},
    picture::{
        row_labels::{gutter, more_height},
        series::Group,
        svg::{Anchor, Canvas, Drawing, Rect, Scale, Width, linear_ticks, picture, text_width},
    },
};

const ROW_HEIGHT: f64 = 34.0;
/// Width of the column of system calls.
const CALLS_WIDTH: f64 = 76.0;

pub(super) fn section(view: &MatrixView<'_>) -> Option<Section> {
    let (columns, rest) = affordable(view, columns_with(view, |column| has_bars(view, column)));
    let first = *columns.first()?;
    let part = |&column: &usize| {
        let workload = &view.workloads()[column];
        let load = offered_rps(workload)
            .map_or_else(|| "closed loop".to_owned(), |rps| format!("{}\u{a0}requests/s", thousands(rps)));
        let name = format!("{} · {load}", workload.name);
        WorkloadPart { name, finding: finding(view, column), pictures: pictures(view, column) }
    };
    let note = html! {
        "Thick bar: server. Thin bar: generator. Full colour: kernel, pale: user. Dashed line: what the null server pays "
        "for the same bytes. Totals are read in nanoseconds; their split follows the kernel’s coarser accounting of user "
        "and system time. System calls are the server’s, counted in a pass of its own where the run was asked for it ("
        span.mono { "--syscalls" } ")." (rest)
    };
    let parts: Vec<WorkloadPart> = columns.iter().map(part).collect();
    Some(Section {
        id: "cpu",
        link: "CPU",
        title: "CPU budget of one request".to_owned(),
        finding: finding(view, first),
        content: per_workload(&parts, &note),
    })
}

/// Cost of the reference, and the kernel's part of it.
fn finding(view: &MatrixView<'_>, column: usize) -> Markup {
    let claims = [claims::needs(view, Some(column)), claims::kernel_share(view, column)];
    joined(&claims.iter().flatten().map(Claim::html).collect::<Vec<_>>(), " ")
}

/// One server's cost of a request, microseconds.
struct Bar {
    row: usize,
    cpu: f64,
    /// Kernel's part of `cpu`; `None` when the kernel's accounting gave no split.
    system: Option<f64>,
    client: f64,
    /// Kernel's part of `client`.
    client_system: Option<f64>,
    /// System calls per request.
    calls: Option<f64>,
}

/// The kernel's part of a total, by a split of it that is coarser than the total.
fn kernel_part(total: f64, system: Option<f64>, user: Option<f64>) -> Option<f64> {
    let (system, user) = system.zip(user).filter(|(s, u)| *s >= 0.0 && *u >= 0.0 && s + u > 0.0)?;
    Some(total * system / (system + user)).filter(|part| part.is_finite())
}

/// The cost of every server under one workload, cheapest first where the run may rank; empty without server CPU.
fn bars(view: &MatrixView<'_>, column: usize) -> Vec<Bar> {
    let bar = |row| {
        let (figures, cpu) = (view.figures(row, column)?, view.cpu(row, column)?);
        let client = Some(figures.client_cpu_us.median).filter(Drawable::is_drawable).unwrap_or(0.0);
        Some(Bar {
            row,
            cpu: cpu.median,
            system: kernel_part(cpu.median, figures.system_us, figures.user_us),
            client,
            client_system: kernel_part(client, figures.client_system_us, figures.client_user_us),
            calls: figures.further.syscalls_per_request.filter(|calls| calls.is_finite() && *calls >= 0.0),
        })
    };
    let mut bars: Vec<Bar> = view.compared().filter_map(bar).collect();
    if view.is_ranked() {
        bars.sort_by(|a, b| a.cpu.total_cmp(&b.cpu));
    }
    bars
}

fn has_bars(view: &MatrixView<'_>, column: usize) -> bool {
    !bars(view, column).is_empty()
}

/// Draws one workload; call only where [`has_bars`].
fn pictures(view: &MatrixView<'_>, column: usize) -> Markup {
    let bars = bars(view, column);
    let title = format!("CPU per request, {}", view.workloads()[column].name);
    let description = "A bar per server, kernel and user time, above a thin bar for the generator; \
                       a line for the null server's cost; at the right system calls per request, where they were counted.";
    picture(&view.id(format_args!("cpu{column}")), &title, description, |width| draw(view, &bars, width))
}

fn draw(view: &MatrixView<'_>, bars: &[Bar], width: Width) -> Drawing {
    let labels = || bars.iter().map(|bar| view.series[bar.row].label.as_str());
    let gutter = gutter(labels(), width.pick(112.0, 76.0), width.pick(220.0, 120.0));
    let row_height = ROW_HEIGHT + more_height(labels(), gutter);
    let greatest = bars.iter().map(|b| b.cpu.max(b.client)).fold(0.0, f64::max);
    let ticks = linear_ticks(greatest);
    // Behind the longest bar its figure, and behind that a column of calls.
    let has_calls = bars.iter().any(|b| b.calls.is_some());
    let right = width.pick(58.0, 46.0) + if has_calls { width.pick(CALLS_WIDTH, CALLS_WIDTH - 14.0) } else { 0.0 };
    let scale = Scale::linear((0.0, greatest.max(f64::MIN_POSITIVE)), (gutter, width.units() - right));
    let mut canvas = Canvas::default();
    let top = 26.0;
    let bottom = top + row_height * bars.len() as f64;
    let mut free_from = f64::NEG_INFINITY;
    for tick in ticks.into_iter().filter(|t| scale.holds(*t)) {
        let x = scale.at(tick);
        canvas.line((x, top - 4.0), (x, bottom - 6.0), "grid");
        let label = if tick == 0.0 { "0".to_owned() } else { duration(tick) };
        let half = text_width(&label, 11.0) / 2.0;
        if x - half > free_from {
            canvas.text(x, bottom + 10.0, "s m num", Anchor::Middle, &label);
            free_from = x + half + 6.0;
        }
    }
    for (i, bar) in bars.iter().enumerate() {
        let y = top + row_height * i as f64;
        draw_bar(&mut canvas, view, bar, &scale, (gutter, y));
        if let Some(calls) = bar.calls {
            canvas.text(width.units(), y + 11.0, "t num m", Anchor::End, &significant(calls));
        }
    }
    if has_calls {
        canvas.text(width.units(), 12.0, "s m", Anchor::End, width.pick("system calls", "calls"));
    }
    let words_end = width.units() - if has_calls { CALLS_WIDTH } else { 0.0 };
    floor_line(&mut canvas, view, bars, &scale, (bottom, words_end));
    let height = legend(&mut canvas, bars, bottom + 24.0, width.pick(gutter, 0.0), width);
    Drawing { height, canvas }
}

fn draw_bar(canvas: &mut Canvas, view: &MatrixView<'_>, bar: &Bar, scale: &Scale, (left, y): (f64, f64)) {
    let series = &view.series[bar.row];
    let class = if series.is_reference { "b" } else { "" };
    canvas.row_label(left - 10.0, y + 7.0, class, &series.label);
    let end = scale.at(bar.cpu);
    let words = |who: &str, total: f64, system: Option<f64>| match system {
        Some(system) => {
            format!("{}, {who}: {} kernel + {} user", series.label, duration(system), duration(total - system))
        }
        None => format!("{}, {who}: {}", series.label, duration(total)),
    };
    canvas.group(&[("data-t", &words("server", bar.cpu, bar.system))], |canvas| match bar.system {
        Some(system) => {
            let split = scale.at(system);
            canvas.rect(Rect::new(left, y + 1.0, split - left, 11.0), "sys");
            canvas.rect(Rect::new(split + 1.0, y + 1.0, end - split - 1.0, 11.0), "usr");
        }
        None => canvas.rect(Rect::new(left, y + 1.0, end - left, 11.0), "unsplit"),
    });
    canvas.text(end + 6.0, y + 11.0, "t num", Anchor::Start, &significant(bar.cpu));
    if bar.client > 0.0 {
        let end = scale.at(bar.client);
        let words = words("generator", bar.client, bar.client_system);
        canvas.group(&[("data-t", &words)], |canvas| match bar.client_system {
            Some(system) => {
                let split = scale.at(system);
                canvas.rect(Rect::new(left, y + 15.0, split - left, 5.0), "csys");
                canvas.rect(Rect::new(split + 1.0, y + 15.0, end - split - 1.0, 5.0), "cusr");
            }
            None => canvas.rect(Rect::new(left, y + 15.0, end - left, 5.0), "cmix"),
        });
    }
}

fn floor_line(
    canvas: &mut Canvas,
    view: &MatrixView<'_>,
    bars: &[Bar],
    scale: &Scale,
    (bottom, words_end): (f64, f64),
) {
    let Some(floor) = bars.iter().find(|b| view.series[b.row].group == Group::Null) else { return };
    let x = scale.at(floor.cpu);
    canvas.line((x, 20.0), (x, bottom - 6.0), "floor");
    let words = format!("{}, {}", view.series[floor.row].label, significant(floor.cpu));
    let half = text_width(&words, 11.0) / 2.0;
    let middle = x.max(half).min(words_end - half);
    canvas.text(middle, 12.0, "s", Anchor::Middle, &words);
}

/// Returns the height of the whole picture.
fn legend(canvas: &mut Canvas, bars: &[Bar], y: f64, left: f64, width: Width) -> f64 {
    let is_split = |b: &Bar| b.system.is_some();
    let mut items = Vec::new();
    if bars.iter().any(is_split) {
        items.extend([("sys", 9.0, "server, kernel"), ("usr", 9.0, "server, user")]);
    }
    if !bars.iter().all(is_split) {
        items.push(("unsplit", 9.0, "server, not split"));
    }
    let is_client_split = |b: &&Bar| b.client_system.is_some();
    let generators = || bars.iter().filter(|b| b.client > 0.0);
    if generators().any(|b| is_client_split(&b)) {
        items.extend([("csys", 5.0, "generator, kernel"), ("cusr", 5.0, "generator, user")]);
    }
    if generators().any(|b| !is_client_split(&b)) {
        items.push(("cmix", 5.0, "generator"));
    }
    let across = width.pick(4, 2);
    for (i, (class, height, words)) in items.iter().enumerate() {
        let (x, y) = (left + (i % across) as f64 * width.pick(132.0, 150.0), y + (i / across) as f64 * 18.0);
        canvas.rect(Rect::new(x, y + (9.0 - height) / 2.0, 18.0, *height), class);
        canvas.text(x + 25.0, y + 9.0, "s m", Anchor::Start, words);
    }
    y + items.len().div_ceil(across) as f64 * 18.0 - 2.0
}
