//! `--vary driver,eviction --fix store=std`: each dimension alone, around one back end, instead of the whole product.

use anyhow::Result;

use crate::{
    plan::filter::{self, Expression, Relation, Vocabulary, Written, hint},
    usage,
};

/// Values of the two flags.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sweep {
    vary: Vec<String>,
    fix: Vec<Written>,
}

impl Sweep {
    /// `vary`: names of dimensions; `fix`: `dimension=value`.
    pub(crate) fn parse(vary: &[String], fix: &[String], vocabulary: &Vocabulary) -> Result<Self> {
        let dimensions: Vec<&str> =
            vocabulary.servers.iter().flat_map(|(_, dimensions)| dimensions.iter().map(String::as_str)).collect();
        let known = |flag: &str, name: &str| {
            if dimensions.contains(&name) {
                return Ok(());
            }
            let mut names = dimensions.clone();
            names.sort_unstable();
            names.dedup();
            Err(usage(format!("{flag} `{name}`: no such dimension; {}", hint(name, &names))))
        };
        vary.iter().try_for_each(|name| known("--vary", name))?;
        let mut fixed = Vec::new();
        for text in fix {
            let Ok(Expression::Term(term @ Written { relation: Relation::Is, .. })) = filter::parse(text) else {
                return Err(usage(format!("--fix `{text}`: expected dimension=value, such as store=std")));
            };
            known("--fix", &term.key)?;
            if vary.contains(&term.key) {
                return Err(usage(format!("--fix `{text}`: --vary names {} as well", term.key)));
            }
            fixed.push(term);
        }
        Ok(Self { vary: vary.to_vec(), fix: fixed })
    }

    /// True if a server with these dimensions has one that varies; without `--vary` every server counts.
    pub(crate) fn concerns(&self, dimensions: &[String]) -> bool {
        self.vary.is_empty() || self.vary.iter().any(|name| dimensions.contains(name))
    }

    /// The same as a filter for a server with these dimensions, so that what selects cells is one thing: one product
    /// for each dimension that varies.
    pub(crate) fn expression(&self, dimensions: &[String]) -> Option<Expression> {
        let fixed: Vec<Expression> = (self.fix.iter())
            .filter(|term| dimensions.contains(&term.key))
            .map(|term| Expression::Term(term.clone()))
            .collect();
        let swept: Vec<Expression> = (self.vary.iter())
            .filter(|name| dimensions.contains(name))
            .map(|name| {
                let all = Written { key: name.clone(), relation: Relation::Is, patterns: vec!["*".to_owned()] };
                all_of(std::iter::once(Expression::Term(all)).chain(fixed.iter().cloned()).collect())
            })
            .collect();
        match swept.len() {
            0 => None,
            1 => swept.into_iter().next(),
            _ => Some(Expression::Any(swept)),
        }
    }
}

/// Both of two filters, where there are two.
pub(crate) fn both(one: Option<Expression>, other: Option<Expression>) -> Option<Expression> {
    match (one, other) {
        (Some(one), Some(other)) => Some(Expression::All(vec![one, other])),
        (one, other) => one.or(other),
    }
}

fn all_of(mut parts: Vec<Expression>) -> Expression {
    if parts.len() == 1 { parts.swap_remove(0) } else { Expression::All(parts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vocabulary() -> Vocabulary {
        let list = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>();
        Vocabulary {
            keys: vec![
                ("driver".to_owned(), list(&["epoll", "uring"])),
                ("store".to_owned(), list(&["packed", "std"])),
            ],
            servers: vec![
                ("kvcache".to_owned(), list(&["driver", "store", "eviction"])),
                ("http-server".to_owned(), list(&["driver"])),
            ],
        }
    }

    fn sweep(vary: &[&str], fix: &[&str]) -> Result<Sweep> {
        let list = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        Sweep::parse(&list(vary), &list(fix), &vocabulary())
    }

    #[test]
    fn each_dimension_varies_alone_with_the_fixed_ones_beside_it() {
        let sweep = sweep(&["driver", "eviction"], &["store=std"]).unwrap();
        let dimensions = &vocabulary().servers[0].1;
        let text = sweep.expression(dimensions).unwrap().to_string();
        assert_eq!(text, "(driver=* and store=std) or (eviction=* and store=std)");
        let web = vec!["driver".to_owned()];
        assert_eq!(sweep.expression(&web).unwrap().to_string(), "driver=*", "what it does not have is left out");
        assert!(sweep.concerns(&web) && !sweep.concerns(&["strategy".to_owned()]));
        assert!(Sweep::default().concerns(&[]) && Sweep::default().expression(dimensions).is_none());
    }

    #[test]
    fn misspelt_and_contradictory_names_are_usage_errors() {
        for (vary, fix, says) in [
            (&["drver"][..], &[][..], "did you mean `driver`?"),
            (&["driver"], &["stre=std"], "did you mean `store`?"),
            (&["driver"], &["store"], "expected dimension=value"),
            (&["driver"], &["store!=std"], "expected dimension=value"),
            (&["driver"], &["driver=epoll"], "--vary names driver as well"),
        ] {
            let error = sweep(vary, fix).unwrap_err();
            assert!(error.is::<crate::UsageError>() && error.to_string().contains(says), "{error}");
        }
    }
}
