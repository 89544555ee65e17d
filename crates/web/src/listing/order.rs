//! Order and format of a listing, as its query asks for them.

use std::cmp::Ordering;

use sys::beneath::Entry;

/// Column that a listing is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Column {
    #[default]
    Name,
    Size,
    Time,
}

impl Column {
    pub(crate) const ALL: [Self; 3] = [Self::Name, Self::Size, Self::Time];

    /// Returns its name in a query.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Size => "size",
            Self::Time => "time",
        }
    }
}

/// Direction of a sort.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Direction {
    #[default]
    Ascending,
    Descending,
}

impl Direction {
    /// Returns its name in a query.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Ascending => "asc",
            Self::Descending => "desc",
        }
    }

    pub(crate) fn reversed(self) -> Self {
        match self {
            Self::Ascending => Self::Descending,
            Self::Descending => Self::Ascending,
        }
    }

    fn apply(self, ordering: Ordering) -> Ordering {
        match self {
            Self::Ascending => ordering,
            Self::Descending => ordering.reverse(),
        }
    }
}

/// Representation of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Format {
    #[default]
    Html,
    Json,
}

impl Format {
    pub(crate) fn media_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// Order and format of a listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub(crate) column: Column,
    pub(crate) direction: Direction,
    pub(crate) format: Format,
}

impl View {
    /// Reads a query such as `sort=size&order=desc&format=json`. What is unknown is ignored; without a format, the values of
    /// the `Accept` fields decide.
    pub(crate) fn new<'a>(query: &[u8], accept: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut view = Self { format: negotiate(accept), ..Self::default() };
        for pair in query.split(|&byte| byte == b'&') {
            match pair {
                b"sort=name" => view.column = Column::Name,
                b"sort=size" => view.column = Column::Size,
                b"sort=time" => view.column = Column::Time,
                b"order=asc" => view.direction = Direction::Ascending,
                b"order=desc" => view.direction = Direction::Descending,
                b"format=html" => view.format = Format::Html,
                b"format=json" => view.format = Format::Json,
                _ => {}
            }
        }
        view
    }

    /// Sorts directories before files, and each by the column; what is equal, and directories that are sorted by size, by
    /// name.
    pub(crate) fn sort(self, entries: &mut [Entry]) {
        entries.sort_unstable_by(|left, right| {
            let by_name = || compare_names(&left.name, &right.name);
            let by_column = match self.column {
                Column::Name => self.direction.apply(by_name()),
                Column::Size if left.is_directory => Ordering::Equal,
                Column::Size => self.direction.apply(left.size.cmp(&right.size)),
                Column::Time => self.direction.apply(left.modified_ns.cmp(&right.modified_ns)),
            };
            right.is_directory.cmp(&left.is_directory).then(by_column).then_with(by_name)
        });
    }
}

/// Returns JSON where it is preferred to HTML, or as good and named while HTML is not.
fn negotiate<'a>(accept: impl Iterator<Item = &'a [u8]>) -> Format {
    // Quality, and how specific the range is that gives it.
    let (mut html, mut json) = ((0, 0), (0, 0));
    for range in accept.flat_map(|value| value.split(|&byte| byte == b',')) {
        let mut parts = range.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
        let media = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix(b"q=").or_else(|| part.strip_prefix(b"Q=")));
        let quality = quality.map_or(1_000, parse_quality);
        let is = |name: &str| media.eq_ignore_ascii_case(name.as_bytes());
        let (for_html, for_json) = match () {
            () if is("text/html") => (3, 0),
            () if is("application/json") => (0, 3),
            () if is("text/*") => (2, 0),
            () if is("application/*") => (0, 2),
            () if is("*/*") => (1, 1),
            () => (0, 0),
        };
        for (best, specificity) in [(&mut html, for_html), (&mut json, for_json)] {
            if specificity > best.1 {
                *best = (quality, specificity);
            }
        }
    }
    if json.0 > html.0 || (json.0 == html.0 && json.0 > 0 && json.1 == 3 && html.1 < 3) {
        Format::Json
    } else {
        Format::Html
    }
}

/// Parses a weight into thousandths; what is malformed is 0.
fn parse_quality(value: &[u8]) -> u32 {
    let value = std::str::from_utf8(value).ok().and_then(|value| value.parse::<f32>().ok());
    value.filter(|value| (0.0..=1.0).contains(value)).map_or(0, |value| (value * 1_000.0) as u32)
}

/// Compares names as people do: runs of digits by their value, letters without regard to case; what is equal then, by its
/// bytes.
pub(crate) fn compare_names(left: &[u8], right: &[u8]) -> Ordering {
    let (mut a, mut b) = (left, right);
    while let (Some(&x), Some(&y)) = (a.first(), b.first()) {
        let ordering = if x.is_ascii_digit() && y.is_ascii_digit() {
            let ((number, behind), (other, behind_other)) = (split_number(a), split_number(b));
            (a, b) = (behind, behind_other);
            number.len().cmp(&other.len()).then_with(|| number.cmp(other))
        } else {
            (a, b) = (&a[1..], &b[1..]);
            x.to_ascii_lowercase().cmp(&y.to_ascii_lowercase())
        };
        if ordering.is_ne() {
            return ordering;
        }
    }
    a.len().cmp(&b.len()).then_with(|| left.cmp(right))
}

/// Splits the digits at the start off, without their leading zeros.
fn split_number(name: &[u8]) -> (&[u8], &[u8]) {
    let end = name.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(name.len());
    let (digits, rest) = name.split_at(end);
    let zeros = digits.iter().take_while(|&&byte| byte == b'0').count();
    (&digits[zeros..], rest)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(name: &str, is_directory: bool, size: u64, modified_ns: i64) -> Entry {
        Entry { name: name.into(), is_directory, size, modified_ns }
    }

    #[test]
    fn entries_are_sorted_naturally_with_folders_first() {
        let entries = [
            entry("b", true, 4_096, 5),
            entry("A", true, 8_192, 9),
            entry("file10.txt", false, 1, 3),
            entry("file9.txt", false, 7, 2),
            entry("File1.txt", false, 7, 1),
        ];
        for (query, want) in [
            ("", "A b File1.txt file9.txt file10.txt"),
            ("order=desc", "b A file10.txt file9.txt File1.txt"),
            ("sort=size", "A b file10.txt File1.txt file9.txt"),
            ("sort=size&order=desc", "A b File1.txt file9.txt file10.txt"),
            ("x&sort=time&sort=nonsense", "b A File1.txt file9.txt file10.txt"),
            ("sort=time&order=desc", "A b file10.txt file9.txt File1.txt"),
        ] {
            let mut sorted = entries.clone();
            View::new(query.as_bytes(), std::iter::empty()).sort(&mut sorted);
            let names: Vec<_> = sorted.iter().map(|entry| String::from_utf8_lossy(&entry.name)).collect();
            assert_eq!(names.join(" "), want, "{query}");
        }
    }

    #[test]
    fn json_is_sent_to_who_prefers_it() {
        for (accept, query, want) in [
            ("", "", Format::Html),
            ("*/*", "", Format::Html),
            ("application/json", "", Format::Json),
            ("application/json, text/plain, */*", "", Format::Json),
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "", Format::Html),
            ("text/html, application/json", "", Format::Html),
            ("text/html;q=0.5, application/json;q=0.6", "", Format::Json),
            ("application/json;q=0, */*", "", Format::Html),
            ("image/png", "", Format::Html),
            ("text/html", "format=json", Format::Json),
            ("application/json", "sort=name&format=html", Format::Html),
        ] {
            let view = View::new(query.as_bytes(), std::iter::once(accept.as_bytes()));
            assert_eq!(view.format, want, "{accept} {query}");
        }
    }

    #[test]
    fn numbers_of_any_length_are_compared_by_value() {
        let long = "9".repeat(50);
        for (less, more) in
            [("a2", "a10"), ("a02", "a3"), ("9", &long), ("a", "B"), ("a1b2", "a1b10"), ("x", "x1"), ("01", "1")]
        {
            assert_eq!(compare_names(less.as_bytes(), more.as_bytes()), Ordering::Less, "{less} {more}");
        }
    }

    proptest! {
        /// A comparison that is no order makes a sort panic.
        #[test]
        fn the_order_of_names_is_total(names in prop::collection::vec("[aA0-2\u{e9}]{0,5}", 3)) {
            let [a, b, c] = [&names[0], &names[1], &names[2]].map(|name| name.as_bytes());
            prop_assert_eq!(compare_names(a, b), compare_names(b, a).reverse());
            prop_assert_eq!(compare_names(a, b).is_eq(), a == b);
            if compare_names(a, b).is_le() && compare_names(b, c).is_le() {
                prop_assert!(compare_names(a, c).is_le());
            }
        }
    }
}
