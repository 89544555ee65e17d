//! The filter language of `--filter`: `driver=uring|epoll,workload=get-128B*,server!=nginx`.
//!
//! Terms are joined by commas and must all hold. A value is one or more alternatives, each with `*` for any text.
//! A key that a thing does not have (a peer has no driver) does not exclude it. Several such products are joined by
//! semicolons, and what one of them selects is selected.

use anyhow::Result;

use crate::usage;

/// At least one product.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Filter {
    products: Vec<Product>,
}

/// Terms that must all hold.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Product {
    terms: Vec<Term>,
}

#[derive(Clone, Debug, PartialEq)]
struct Term {
    key: String,
    is_negated: bool,
    patterns: Vec<String>,
}

/// The keys that exist and the values they take, for checking and for hints.
pub(crate) type Vocabulary = [(String, Vec<String>)];

/// Everything is selected.
impl Default for Filter {
    fn default() -> Self {
        Self { products: vec![Product::default()] }
    }
}

impl Filter {
    /// Parses and checks against what exists, so that a misspelt name is an error and not an empty run.
    pub(crate) fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self> {
        let products = text.split(';').map(|product| Product::parse(product, vocabulary)).collect::<Result<_>>()?;
        Ok(Self { products })
    }

    pub(crate) fn products(&self) -> &[Product] {
        &self.products
    }

    /// Whether some product accepts `value`.
    pub(crate) fn accepts(&self, key: &str, value: &str) -> bool {
        self.products.iter().any(|product| product.accepts(key, value))
    }
}

impl Product {
    fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self> {
        let terms = text.split(',').map(|term| Term::parse(term.trim(), vocabulary)).collect::<Result<_>>()?;
        Ok(Self { terms })
    }

    /// Whether every term about `key` accepts `value`.
    pub(crate) fn accepts(&self, key: &str, value: &str) -> bool {
        self.terms.iter().filter(|term| term.key == key).all(|term| term.accepts(value))
    }

    /// Whether some term is about `key`.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.terms.iter().any(|term| term.key == key)
    }
}

impl Term {
    fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(usage(format!("filter `{text}`: expected key=value")));
        };
        let is_negated = key.ends_with('!');
        let key = key.trim_end_matches('!').trim();
        let Some((_, values)) = vocabulary.iter().find(|(known, _)| known == key) else {
            let keys: Vec<&str> = vocabulary.iter().map(|(known, _)| known.as_str()).collect();
            return Err(usage(format!("filter `{text}`: no key `{key}`; {}", hint(key, &keys))));
        };
        let patterns: Vec<String> = value.split('|').map(|pattern| pattern.trim().to_owned()).collect();
        for pattern in &patterns {
            if !values.iter().any(|value| glob(pattern, value)) {
                let values: Vec<&str> = values.iter().map(String::as_str).collect();
                return Err(usage(format!("filter `{text}`: no {key} `{pattern}`; {}", hint(pattern, &values))));
            }
        }
        Ok(Self { key: key.to_owned(), is_negated, patterns })
    }

    fn accepts(&self, value: &str) -> bool {
        self.patterns.iter().any(|pattern| glob(pattern, value)) != self.is_negated
    }
}

/// `did you mean `uring`? (blocking, epoll, uring)`.
pub(crate) fn hint(given: &str, known: &[&str]) -> String {
    let nearest = known.iter().min_by_key(|name| distance(given, name));
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`? ({})", known.join(", ")),
        None => "there are none".to_owned(),
    }
}

/// Whether `text` matches `pattern`, in which `*` stands for any text, the empty one included.
pub(crate) fn glob(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, tail)) => text.strip_prefix(head).is_some_and(|rest| {
            (0..=rest.len()).filter(|&at| rest.is_char_boundary(at)).any(|at| glob(tail, &rest[at..]))
        }),
    }
}

/// Levenshtein distance: insertions, deletions and substitutions that turn one text into the other.
fn distance(from: &str, to: &str) -> usize {
    let mut row: Vec<usize> = (0..=to.chars().count()).collect();
    for (line, left) in from.chars().enumerate() {
        let mut diagonal = line;
        row[0] = line + 1;
        for (column, right) in to.chars().enumerate() {
            let substituted = diagonal + usize::from(left != right);
            diagonal = row[column + 1];
            row[column + 1] = substituted.min(row[column] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vec<(String, Vec<String>)> {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        vec![
            ("driver".to_owned(), list(&["blocking", "epoll", "uring", "tokio", "tokio-uring"])),
            ("workload".to_owned(), list(&["get-128B-c64", "get-1MiB-c16"])),
        ]
    }

    fn parse(text: &str) -> Result<Filter> {
        Filter::parse(text, &vocabulary())
    }

    #[test]
    fn all_terms_must_hold_and_alternatives_are_any_of() {
        let filter = parse("driver=uring|epoll, workload=get-128B*").unwrap();
        assert!(filter.accepts("driver", "uring") && filter.accepts("driver", "epoll"));
        assert!(!filter.accepts("driver", "tokio-uring"));
        assert!(filter.accepts("workload", "get-128B-c64") && !filter.accepts("workload", "get-1MiB-c16"));
        assert!(filter.accepts("server", "anything"), "a key without a term excludes nothing");
        let [product] = filter.products() else { panic!("{filter:?}") };
        assert!(product.names("driver") && !product.names("server"));
        let filter = parse("driver!=tokio*").unwrap();
        assert!(filter.accepts("driver", "epoll") && !filter.accepts("driver", "tokio-uring"));
    }

    #[test]
    fn what_one_of_several_products_selects_is_selected() {
        let filter = parse("driver=uring,workload=get-128B*; driver=epoll").unwrap();
        assert!(filter.accepts("driver", "uring") && filter.accepts("driver", "epoll"));
        assert!(!filter.accepts("driver", "tokio"));
        let [first, second] = filter.products() else { panic!("{filter:?}") };
        assert!(!first.accepts("workload", "get-1MiB-c16") && second.accepts("workload", "get-1MiB-c16"));
        assert!(parse("driver=uring;").is_err(), "an empty product would select everything");
    }

    #[test]
    fn unknown_names_are_usage_errors_that_name_the_nearest_valid_one() {
        for (text, nearest) in [
            ("driver=urnig", "did you mean `uring`?"),
            ("drivr=uring", "did you mean `driver`?"),
            ("driver=uring|epol", "did you mean `epoll`?"),
            ("workload=put*", "did you mean `get-"),
            ("driver", "expected key=value"),
            ("", "expected key=value"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.is::<crate::UsageError>());
            assert!(error.to_string().contains(nearest), "{text}: {error}");
        }
    }

    #[test]
    fn a_star_stands_for_any_text() {
        for (pattern, text, matches) in [
            ("*", "", true),
            ("*", "epoll", true),
            ("get-*-c64", "get-128B-c64", true),
            ("get-*-c64", "get-128B-c64-open", false),
            ("*uring", "tokio-uring", true),
            ("uring", "tokio-uring", false),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-c", false),
        ] {
            assert_eq!(glob(pattern, text), matches, "{pattern} {text}");
        }
    }

    #[test]
    fn distances_are_those_of_levenshtein() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("uring", "uring"), 0);
    }
}
