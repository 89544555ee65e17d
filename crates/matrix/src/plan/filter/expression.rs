//! Expression of a filter, as written: a tree of terms joined by and, or and not. `Display` writes it back.

use std::fmt;

/// A filter as parsed. `All` and `Any` have at least two parts; what was in parentheses keeps them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Expression {
    All(Vec<Self>),
    Any(Vec<Self>),
    Not(Box<Self>),
    Term(Written),
    /// `kvcache/epoll/*`: the server, then its dimensions in their order.
    Path(Vec<String>),
}

/// `driver=uring|epoll`, `driver!=tokio*`, `workload~get-*`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Written {
    pub(crate) key: String,
    pub(crate) relation: Relation,
    /// At least one; any of them.
    pub(crate) patterns: Vec<String>,
}

/// Operator between key and patterns. All four know `*`; `~` reads better where one is used.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Relation {
    Is,
    IsNot,
    Like,
    NotLike,
}

impl Relation {
    /// Longest first: `!=` begins like nothing else, but `=` would match inside it.
    pub(crate) const ALL: [(&'static str, Self); 4] =
        [("!=", Self::IsNot), ("!~", Self::NotLike), ("=", Self::Is), ("~", Self::Like)];

    pub(crate) fn is_negated(self) -> bool {
        matches!(self, Self::IsNot | Self::NotLike)
    }

    fn text(self) -> &'static str {
        Self::ALL.iter().find(|(_, relation)| *relation == self).map_or("", |(text, _)| text)
    }
}

impl fmt::Display for Written {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}{}", self.key, self.relation.text(), self.patterns.join("|"))
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All(parts) => join(formatter, parts, " and "),
            Self::Any(parts) => join(formatter, parts, " or "),
            Self::Not(part) => {
                formatter.write_str("not ")?;
                grouped(formatter, part)
            }
            Self::Term(term) => write!(formatter, "{term}"),
            Self::Path(segments) => formatter.write_str(&segments.join("/")),
        }
    }
}

fn join(formatter: &mut fmt::Formatter<'_>, parts: &[Expression], word: &str) -> fmt::Result {
    for (index, part) in parts.iter().enumerate() {
        if index > 0 {
            formatter.write_str(word)?;
        }
        grouped(formatter, part)?;
    }
    Ok(())
}

/// In parentheses where it is made of parts, so that it is read back as it was.
fn grouped(formatter: &mut fmt::Formatter<'_>, part: &Expression) -> fmt::Result {
    match part {
        Expression::All(_) | Expression::Any(_) => write!(formatter, "({part})"),
        Expression::Not(_) | Expression::Term(_) | Expression::Path(_) => write!(formatter, "{part}"),
    }
}
