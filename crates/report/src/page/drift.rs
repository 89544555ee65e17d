//! Drift: the two controls over the blocks. Did the machine move while the run lasted?

use results::{BlockValue, Drift};

use crate::{
    format::{floor, ratio, short, significant},
    matrix_view::{Drawable, View},
    picture::svg::{Anchor, Canvas, Drawing, Rect, Scale, Width, picture, text_width, ticks_between},
};

/// One control under one workload.
struct Panel {
    title: String,
    values: Vec<BlockValue>,
    /// Where the noise floor is centred: 1 for a ratio, the median for a cost.
    middle: f64,
    /// Half-width of the noise floor as a fraction of `middle`.
    floor: f64,
    is_ratio: bool,
}

/// Whether the control of this workload can be drawn at all.
pub(super) fn has_points(drift: &Drift) -> bool {
    drift.null_cpu_us.iter().chain(&drift.aa_ratio).any(|v| v.value.is_drawable())
}

/// Both drawings of one workload; call only where [`has_points`].
pub(super) fn pictures(view: &View<'_>, index: usize, drift: &Drift) -> String {
    let title = format!("Drift of the controls over the blocks, {}", drift.workload);
    let description = "Null server CPU per request, and the ratio of two runs of the same server, per block.";
    let panels = panels(view, drift);
    picture(&view.id(format_args!("dr{index}")), &title, description, |width| draw(&panels, width))
}

fn panels(view: &View<'_>, drift: &Drift) -> Vec<Panel> {
    let floor = view.noise(&drift.workload).map_or(0.01, |n| n.cpu_floor_percent / 100.0);
    let drawable = |values: &[BlockValue]| -> Vec<BlockValue> {
        values.iter().filter(|v| v.value.is_drawable()).copied().collect()
    };
    let (null, control) = (drawable(&drift.null_cpu_us), drawable(&drift.aa_ratio));
    let mut panels = Vec::new();
    if let Some(middle) = median(&null) {
        let title = "null server, CPU per request".to_owned();
        panels.push(Panel { title, values: null, middle, floor, is_ratio: false });
    }
    if !control.is_empty() {
        let title = "A/A: control ÷ reference".to_owned();
        panels.push(Panel { title, values: control, middle: 1.0, floor, is_ratio: true });
    }
    panels
}

fn median(values: &[BlockValue]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().map(|v| v.value).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}

fn draw(panels: &[Panel], width: Width) -> Drawing {
    let (panel_width, panel_height) = width.pick((355.0, 150.0), (348.0, 130.0));
    let mut canvas = Canvas::default();
    let mut bottom = 0.0;
    for (i, panel) in panels.iter().enumerate() {
        let (x, y) = match width {
            Width::Wide => (i as f64 * (panel_width + 30.0), 24.0),
            Width::Narrow => (0.0, 24.0 + i as f64 * (panel_height + 80.0)),
        };
        draw_panel(&mut canvas, panel, Rect::new(x + 56.0, y, panel_width - 62.0, panel_height));
        bottom = y + panel_height;
    }
    Drawing { height: bottom + 38.0, canvas }
}

fn draw_panel(canvas: &mut Canvas, panel: &Panel, area: Rect) {
    let blocks: Vec<f64> = panel.values.iter().map(|v| f64::from(v.block + 1)).collect();
    let (first, last) = (blocks.iter().copied().fold(f64::MAX, f64::min), blocks.iter().copied().fold(1.0, f64::max));
    let half = panel.values.iter().map(|v| (v.value - panel.middle).abs()).fold(panel.middle * panel.floor, f64::max);
    let reach = half * 1.35;
    let x = Scale::linear((first - 0.4, last + 0.4), (area.x, area.x + area.width));
    let y = Scale::linear((panel.middle - reach, panel.middle + reach), (area.y + area.height, area.y));
    canvas.text(area.x, area.y - 9.0, "t b", Anchor::Start, &panel.title);
    let (top, low) = (y.at(panel.middle * (1.0 + panel.floor)), y.at(panel.middle * (1.0 - panel.floor)));
    canvas.rect(Rect::new(area.x, top, area.width, low - top), "band");
    for tick in ticks_between(panel.middle - reach, panel.middle + reach, 5.0) {
        let is_one = panel.is_ratio && (tick - 1.0).abs() < 1e-9;
        canvas.line((area.x, y.at(tick)), (area.x + area.width, y.at(tick)), if is_one { "zero" } else { "grid" });
        canvas.text(area.x - 7.0, y.at(tick) + 4.0, "s m num", Anchor::End, &tick_label(panel, tick, reach));
    }
    let points: Vec<_> = panel.values.iter().zip(&blocks).map(|(v, &b)| (x.at(b), y.at(v.value))).collect();
    if !panel.is_ratio {
        canvas.path(&points, "thin", &[]);
    }
    let mut free_from = f64::NEG_INFINITY;
    for ((value, &block), &(px, py)) in panel.values.iter().zip(&blocks).zip(&points) {
        if panel.is_ratio {
            canvas.line((px, y.at(1.0)), (px, py), "thin");
        }
        let figure =
            if panel.is_ratio { format!("{:.3}", value.value) } else { format!("{} µs", significant(value.value)) };
        canvas.dot(px, py, "dot", Some(&format!("block {block}: {figure}")));
        let (label, half) = (block.to_string(), text_width(&block.to_string(), 11.0) / 2.0);
        if px - half > free_from {
            canvas.text(px, area.y + area.height + 17.0, "s m num", Anchor::Middle, &label);
            free_from = px + half + 4.0;
        }
    }
    let right = area.x + area.width;
    canvas.text(right, area.y + area.height + 33.0, "xs m", Anchor::End, "block");
    let note = format!("shaded: noise floor {}", floor(panel.floor));
    canvas.text(area.x, area.y + area.height + 33.0, "xs m", Anchor::Start, &note);
}

/// As many decimals as tell neighbouring ticks apart.
fn tick_label(panel: &Panel, tick: f64, reach: f64) -> String {
    let step = reach * 2.0 / 5.0;
    let decimals = (-step.log10().floor()).clamp(0.0, 4.0) as usize;
    match (panel.is_ratio, decimals) {
        (true, 0..=2) => ratio(tick),
        (true, _) => format!("{tick:.decimals$}"),
        (false, 0) => format!("{}\u{a0}µs", short(tick)),
        (false, _) => format!("{tick:.decimals$}\u{a0}µs"),
    }
}
