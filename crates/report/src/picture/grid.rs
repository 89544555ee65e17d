//! Small pictures of equal size side by side and below one another: a panel per server.

use super::{
    series::Series,
    svg::{Anchor, Canvas, Rect, Width, fit, text_width},
};

/// Places of the panels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    pub(crate) across: usize,
    pub(crate) panel_width: f64,
    pub(crate) panel_height: f64,
    left: f64,
    gap: f64,
    /// Room for the head of a panel.
    head: f64,
}

impl Grid {
    pub(crate) fn new(width: Width) -> Self {
        let across = width.pick(3, 2);
        let (left, gap) = width.pick((52.0, 22.0), (48.0, 12.0));
        Self {
            across,
            panel_width: (width.units() - left - gap * (across as f64 - 1.0) - 4.0) / across as f64,
            panel_height: width.pick(118.0, 104.0),
            left,
            gap,
            head: width.pick(22.0, 20.0),
        }
    }

    /// Upper left corner of a panel, below its head.
    pub(crate) fn corner(&self, index: usize) -> (f64, f64) {
        let (across, down) = (index % self.across, index / self.across);
        let x = self.left + across as f64 * (self.panel_width + self.gap);
        (x, self.head + down as f64 * (self.panel_height + self.head + 6.0))
    }

    pub(crate) fn area(&self, index: usize) -> Rect {
        let (x, y) = self.corner(index);
        Rect::new(x, y, self.panel_width, self.panel_height)
    }

    /// Returns the y below the last of `count` panels.
    pub(crate) fn bottom(&self, count: usize) -> f64 {
        count.div_ceil(self.across) as f64 * (self.panel_height + self.head + 6.0) - 6.0
    }

    /// True if there is no panel below.
    pub(crate) fn is_last(&self, index: usize, count: usize) -> bool {
        index + self.across >= count
    }

    pub(crate) fn is_first_in_row(&self, index: usize) -> bool {
        index.is_multiple_of(self.across)
    }

    /// Writes the server's name, and a figure at the right.
    pub(crate) fn panel_head(&self, canvas: &mut Canvas, index: usize, series: &Series, figure: &str) {
        let (left, top) = self.corner(index);
        let room = self.panel_width - text_width(figure, 11.0) - 6.0;
        // A long name takes smaller type, and at last the room of the figure: it is in the table too.
        let (class, size, figure) = match &series.label {
            label if text_width(label, 13.5) <= room => ("t b", 13.5, figure),
            label if text_width(label, 11.5) <= room => ("s b", 11.5, figure),
            _ => ("s b", 11.5, ""),
        };
        let room = if figure.is_empty() { self.panel_width } else { room };
        canvas.text(left, top - 5.0, class, Anchor::Start, &fit(&series.label, size, room));
        if !figure.is_empty() {
            canvas.text(left + self.panel_width, top - 5.0, "s m num", Anchor::End, figure);
        }
    }
}
