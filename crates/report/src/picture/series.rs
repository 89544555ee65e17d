//! How a series looks: its colour, the same in every picture and in every report.

/// Who a row of the matrix is.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Group {
    Ours,
    Peer,
    /// The null server, which copies the same bytes from memory.
    Floor,
}

/// The colours of the style sheet, by the name of the series they belong to: ours, then the peers and the null server.
const COLOURS: [&str; 10] =
    ["epoll", "uring", "tokio", "reactor", "blocking", "pool", "tokio-uring", "lighttpd", "nginx", "null"];
const COLOURS_OURS: usize = 7;
/// The dashes that go with the colours, so that grey print and colour-blind readers lose nothing.
const DASHES: [&str; 10] =
    ["none", "18 3", "7 2.5", "2.5 2", "9 2.5 2 2.5", "4.5 3", "1.2 2.4", "11 3", "6 2 1.5 2", "1 3"];

/// One server of the run, as it is drawn.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// Safe as an XML id, a CSS class and a JSON key.
    pub(crate) id: String,
    pub(crate) label: String,
    pub(crate) group: Group,
    pub(crate) is_reference: bool,
    /// One of [`COLOURS`].
    colour: &'static str,
    /// One of [`DASHES`].
    dash: &'static str,
}

/// The style rules of series that are no servers: the levels of a dimension, `k0` to `k6` and over again.
pub(crate) fn level_css() -> String {
    (0..COLOURS_OURS).map(|i| format!(".k{i}{{--c:var(--{});--d:{}}}\n", COLOURS[i], DASHES[i])).collect()
}

/// The class of the level at `index`.
pub(crate) fn level_class(index: usize) -> String {
    format!("k{}", index % COLOURS_OURS)
}

impl Series {
    /// `driver` is the driver of one of our servers, or the name of a peer; `position` is the row in the matrix.
    pub(crate) fn new(position: usize, label: &str, driver: &str, group: Group, is_reference: bool) -> Self {
        let wanted = if group == Group::Floor { "null" } else { driver };
        let known = COLOURS.into_iter().find(|colour| *colour == wanted);
        // A server the style sheet does not know borrows: a hue if it is ours, grey if it is a peer.
        let borrowed = match group {
            Group::Ours => COLOURS[position % COLOURS_OURS],
            Group::Peer | Group::Floor => COLOURS[COLOURS_OURS],
        };
        let colour = known.unwrap_or(borrowed);
        let own = COLOURS.iter().position(|name| *name == colour).unwrap_or(0);
        // Who borrows the hue of the seventh before it has another dash.
        let dash = if known.is_some() { own } else { (own + position / COLOURS_OURS) % COLOURS_OURS };
        Self { id: format!("s{position}"), label: label.to_owned(), group, is_reference, colour, dash: DASHES[dash] }
    }

    pub(crate) fn class(&self) -> String {
        format!("c-{}", self.id)
    }

    /// The style rules that give the series its colour, in light and dark alike.
    pub(crate) fn css(&self) -> String {
        let (id, name, dash) = (&self.id, self.colour, self.dash);
        format!(":root{{--{id}:var(--{name})}}.c-{id}{{--c:var(--{name});--d:{dash}}}\n")
    }
}
