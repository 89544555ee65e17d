//! How a series looks: its colour, the same in every picture and in every report.

/// Who a row of the matrix is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Group {
    Ours,
    Peer,
    /// The null server: what any server on this machine pays for the same bytes.
    Floor,
}

/// The colours of the style sheet, by the name of the series they belong to: ours, then the peers and the floor.
const COLOURS: [&str; 10] =
    ["epoll", "uring", "tokio", "reactor", "blocking", "pool", "tokio-uring", "lighttpd", "nginx", "null"];
const COLOURS_OURS: usize = 7;

/// One server of the run, as it is drawn.
#[derive(Clone, Debug)]
pub(super) struct Series {
    /// Safe as an XML id, a CSS class and a JSON key.
    pub(super) id: String,
    pub(super) label: String,
    pub(super) group: Group,
    pub(super) is_reference: bool,
    /// One of [`COLOURS`].
    colour: &'static str,
}

impl Series {
    /// `driver` is the driver of one of our servers, or the name of a peer; `position` is the row in the matrix.
    pub(super) fn new(position: usize, label: &str, driver: &str, group: Group, is_reference: bool) -> Self {
        let wanted = if group == Group::Floor { "null" } else { driver };
        let known = COLOURS.into_iter().find(|colour| *colour == wanted);
        // A server the style sheet does not know borrows: a hue if it is ours, grey if it is a peer.
        let borrowed = match group {
            Group::Ours => COLOURS[position % COLOURS_OURS],
            Group::Peer | Group::Floor => COLOURS[COLOURS_OURS],
        };
        let colour = known.unwrap_or(borrowed);
        Self { id: format!("s{position}"), label: label.to_owned(), group, is_reference, colour }
    }

    pub(super) fn class(&self) -> String {
        format!("c-{}", self.id)
    }

    /// The style rules that give the series its colour, in light and dark alike.
    pub(super) fn css(&self) -> String {
        let (id, name) = (&self.id, self.colour);
        format!(":root{{--{id}:var(--{name})}}.c-{id}{{--c:var(--{name})}}\n")
    }
}
