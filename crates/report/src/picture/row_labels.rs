//! Names of rows, at the left of a picture: in one line where there is room, otherwise in up to three.

use super::svg::{Anchor, Canvas, LABEL_SIZE, SMALL_SIZE, fit, text_width};

/// Distance from line to line, and the limit of lines.
const LEADING: f64 = 12.0;
const LINES_MAX: usize = 3;

impl Canvas {
    /// Writes a row's name at the end of its gutter, in several small lines when it is long. `y` is the middle of the row.
    pub(crate) fn row_label(&mut self, right: f64, y: f64, class: &str, label: &str) {
        let lines = lines(label, right);
        if let [only] = lines.as_slice() {
            return self.text(right, y + 4.0, format!("t {class}").trim_end(), Anchor::End, only);
        }
        let first = y + 3.5 - (lines.len() - 1) as f64 * LEADING / 2.0;
        for (i, line) in lines.iter().enumerate() {
            let y = first + i as f64 * LEADING;
            self.text(right, y, format!("s {class}").trim_end(), Anchor::End, line);
        }
    }
}

/// A row's name in one line of label type, or in up to three of small type where it can be parted at a space or slash;
/// each of them fits into `width`.
fn lines(label: &str, width: f64) -> Vec<String> {
    if text_width(label, LABEL_SIZE) <= width {
        return vec![label.to_owned()];
    }
    let mut out: Vec<String> = vec![String::new()];
    for part in label.split_inclusive([' ', '/']) {
        let is_last = out.len() == LINES_MAX;
        match out.last_mut() {
            Some(line)
                if line.is_empty()
                    || is_last
                    || text_width(&format!("{line}{}", part.trim_end()), SMALL_SIZE) <= width =>
            {
                line.push_str(part);
            }
            _ => out.push(part.to_owned()),
        }
    }
    if out.len() == 1 {
        // All of it in small type: two lines of about the same length say it better.
        let places = label.match_indices([' ', '/']).map(|(at, _)| at + 1).filter(|at| *at < label.len());
        if let Some(at) = places.min_by_key(|at| at.abs_diff(label.len() / 2)) {
            out = vec![label[..at].to_owned(), label[at..].to_owned()];
        }
    }
    match out.as_slice() {
        [only] => vec![fit(only.trim_end(), LABEL_SIZE, width)],
        several => several.iter().map(|line| fit(line.trim_end(), SMALL_SIZE, width)).collect(),
    }
}

/// The room for the names of rows: as much as the widest needs, between `least` and `most`.
pub(crate) fn gutter<'a>(labels: impl Iterator<Item = &'a str>, least: f64, most: f64) -> f64 {
    let widest = labels.map(|label| text_width(label, LABEL_SIZE)).fold(0.0, f64::max);
    (widest + 12.0).clamp(least, most)
}

/// Height that a row needs beyond that of two lines, so that all `labels` find room in a gutter.
pub(crate) fn more_height<'a>(labels: impl Iterator<Item = &'a str>, gutter: f64) -> f64 {
    let most = labels.map(|label| lines(label, gutter - 10.0).len()).max().unwrap_or(1);
    most.saturating_sub(2) as f64 * LEADING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_no_wider_than_their_room() {
        for room in [20.0, 60.0, 90.0, 118.0, 200.0] {
            for text in ["nginx, sendfile off", "uring", "epoll/cache-map=none/eviction=none", "ünïcödé näme", ""]
            {
                let lines = lines(text, room);
                let size = if lines.len() > 1 { SMALL_SIZE } else { LABEL_SIZE };
                let widest = lines.iter().map(|line| text_width(line, size)).fold(0.0, f64::max);
                assert!(widest <= room && lines.len() <= LINES_MAX, "{text} in {room}: {lines:?}");
            }
        }
    }

    #[test]
    fn nothing_is_cut_where_three_lines_hold_it() {
        assert_eq!(lines("uring", 100.0), ["uring"]);
        assert_eq!(lines("nginx, sendfile off", 80.0), ["nginx,", "sendfile off"]);
        assert_eq!(lines("epoll/cache-map=none/eviction=none", 118.0), ["epoll/", "cache-map=none/", "eviction=none"]);
        assert_eq!(more_height(["epoll/cache-map=none/eviction=none", "uring"].into_iter(), 128.0), LEADING);
        assert_eq!(more_height(["nginx, sendfile off"].into_iter(), 100.0), 0.0);
    }
}
