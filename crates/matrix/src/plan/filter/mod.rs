//! The filter language of `--filter`: `server=kvcache & (driver=epoll|uring) & !eviction=none & workload~get*`.
//!
//! `,`, `&` and `and` join terms that must all hold, `;`, `|` and `or` such of which one must; `!` and `not` negate, and
//! parentheses group. A value is one or more alternatives, each with `*` for any text. `kvcache/epoll/*` names a server
//! and its dimensions in order. A key that a thing does not have (a peer has no driver) does not exclude it.
//!
//! A filter is turned into products (terms that must all hold, of which one product must): which dimensions are
//! crossed is decided product by product.

mod expression;
mod names;
mod parser;

use anyhow::Result;

pub(crate) use self::{
    expression::{Expression, Relation, Written},
    names::{glob, hint},
};
use crate::usage;

/// Shown with whatever cannot be read.
const EXAMPLE: &str = "--filter 'server=kvcache & driver=epoll|uring'";

/// Products that a filter may come to; alternatives multiply.
const PRODUCTS_MAX: usize = 256;

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

/// Names that exist, for checking and for hints.
#[derive(Clone, Debug, Default)]
pub(crate) struct Vocabulary {
    /// The keys and the values they take.
    pub(crate) keys: Vec<(String, Vec<String>)>,
    /// Each server of ours and its dimensions, in the order in which a path names them.
    pub(crate) servers: Vec<(String, Vec<String>)>,
}

/// Everything is selected.
impl Default for Filter {
    fn default() -> Self {
        Self { products: vec![Product::default()] }
    }
}

impl Filter {
    #[cfg(test)]
    pub(crate) fn parse(text: &str, vocabulary: &Vocabulary) -> Result<Self> {
        Self::of(&parse(text)?, vocabulary)
    }

    /// Checks against what exists, so that a misspelt name is an error and not an empty run, and multiplies out.
    pub(crate) fn of(expression: &Expression, vocabulary: &Vocabulary) -> Result<Self> {
        let products = products(expression, false, vocabulary).map_err(|why| usage(format!("--filter {why}")))?;
        Ok(Self { products })
    }

    pub(crate) fn products(&self) -> &[Product] {
        &self.products
    }

    /// True if some product accepts `value`.
    pub(crate) fn accepts(&self, key: &str, value: &str) -> bool {
        self.products.iter().any(|product| product.accepts(key, value))
    }
}

/// The expression alone; names are not checked.
pub(crate) fn parse(text: &str) -> Result<Expression> {
    // What was expected at the end has nothing to quote.
    let told = |why: String| format!("--filter '{text}': {}; for example {EXAMPLE}", why.replacen("``: ", "", 1));
    parser::parse(text).map_err(|why| usage(told(why)))
}

impl Product {
    /// True if every term about `key` accepts `value`.
    pub(crate) fn accepts(&self, key: &str, value: &str) -> bool {
        self.terms.iter().filter(|term| term.key == key).all(|term| term.accepts(value))
    }

    /// True if some term is about `key`.
    pub(crate) fn names(&self, key: &str) -> bool {
        self.terms.iter().any(|term| term.key == key)
    }
}

impl Term {
    fn accepts(&self, value: &str) -> bool {
        self.patterns.iter().any(|pattern| glob(pattern, value)) != self.is_negated
    }
}

/// Disjunctive normal form; negations end up in the terms (de Morgan).
fn products(expression: &Expression, is_negated: bool, vocabulary: &Vocabulary) -> Result<Vec<Product>, String> {
    match (expression, is_negated) {
        (Expression::Not(inner), _) => products(inner, !is_negated, vocabulary),
        (Expression::All(parts), false) | (Expression::Any(parts), true) => {
            let mut crossed = vec![Product::default()];
            for part in parts {
                crossed = cross(&crossed, &products(part, is_negated, vocabulary)?)?;
            }
            Ok(crossed)
        }
        (Expression::Any(parts), false) | (Expression::All(parts), true) => {
            let mut united = Vec::new();
            for part in parts {
                united.extend(products(part, is_negated, vocabulary)?);
                check_size(united.len())?;
            }
            Ok(united)
        }
        (Expression::Term(written), _) => Ok(vec![Product { terms: vec![term(written, is_negated, vocabulary)?] }]),
        (Expression::Path(segments), _) => products(&path(segments, vocabulary)?, is_negated, vocabulary),
    }
}

fn cross(left: &[Product], right: &[Product]) -> Result<Vec<Product>, String> {
    check_size(left.len().saturating_mul(right.len()))?;
    let both = |one: &Product, other: &Product| Product { terms: [one.terms.clone(), other.terms.clone()].concat() };
    Ok(left.iter().flat_map(|one| right.iter().map(move |other| both(one, other))).collect())
}

fn check_size(products: usize) -> Result<(), String> {
    if products > PRODUCTS_MAX {
        return Err(format!("comes to more than {PRODUCTS_MAX} alternatives; say it in several runs"));
    }
    Ok(())
}

fn term(written: &Written, is_negated: bool, vocabulary: &Vocabulary) -> Result<Term, String> {
    let Written { key, relation, patterns } = written;
    let Some((_, values)) = vocabulary.keys.iter().find(|(known, _)| known == key) else {
        let keys: Vec<&str> = vocabulary.keys.iter().map(|(known, _)| known.as_str()).collect();
        return Err(format!("`{written}`: no key `{key}`; {}", hint(key, &keys)));
    };
    if let Some(pattern) = patterns.iter().find(|pattern| !values.iter().any(|value| glob(pattern, value))) {
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        return Err(format!("`{written}`: no {key} `{pattern}`; {}", hint(pattern, &values)));
    }
    Ok(Term { key: key.clone(), is_negated: relation.is_negated() != is_negated, patterns: patterns.clone() })
}

/// `kvcache/epoll/*` as terms: for each server that the first segment matches, its dimensions in order.
fn path(segments: &[String], vocabulary: &Vocabulary) -> Result<Expression, String> {
    let shown = segments.join("/");
    let [server, levels @ ..] = segments else { return Err(format!("`{shown}`: expected server/…")) };
    let known = &vocabulary.servers;
    if !known.iter().any(|(name, _)| glob(server, name)) {
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        return Err(format!("`{shown}`: no server `{server}`; {}", hint(server, &names)));
    }
    let is = |key: &str, pattern: &str| {
        Expression::Term(Written { key: key.to_owned(), relation: Relation::Is, patterns: vec![pattern.to_owned()] })
    };
    let fits = known.iter().filter(|(name, dimensions)| glob(server, name) && levels.len() <= dimensions.len());
    let mut any: Vec<Expression> = fits
        .map(|(name, dimensions)| {
            let levels = dimensions.iter().zip(levels).map(|(dimension, level)| is(dimension, level));
            Expression::All(std::iter::once(is("server", name)).chain(levels).collect())
        })
        .collect();
    match any.len() {
        0 => Err(format!("`{shown}`: no server so named has {} dimensions", levels.len())),
        1 => Ok(any.swap_remove(0)),
        _ => Ok(Expression::Any(any)),
    }
}

#[cfg(test)]
mod tests;
