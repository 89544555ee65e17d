//! What COMMAND tells of commands beside what the server needs to know of them itself.

use std::{collections::HashMap, sync::LazyLock};

use super::syntax::Syntax;

/// Name, categories that do not follow from the flags, tips, what is done to the keys (for each specification of
/// keys, with ` / ` between them), complexity, arguments.
const TABLE: &str = include_str!("details.tsv");

/// One command's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Details {
    categories: &'static str,
    tips: &'static str,
    access: &'static str,
    pub(super) complexity: &'static str,
    pub(super) syntax: Syntax<'static>,
}

impl Details {
    /// Of [`super::acl::CATEGORIES`].
    pub(super) fn categories(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.categories.split_ascii_whitespace()
    }

    pub(super) fn tips(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.tips.split_ascii_whitespace()
    }

    /// For each specification of keys, what is done to them.
    pub(super) fn access(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.access.split(" / ").filter(|access| !access.is_empty())
    }
}

/// Of a command that is not in the list there is nothing to tell.
pub(super) fn of(command: &str) -> Details {
    static DETAILS: LazyLock<HashMap<&str, Details>> = LazyLock::new(|| TABLE.lines().filter_map(parse).collect());
    DETAILS.get(command).copied().unwrap_or_default()
}

fn parse(line: &'static str) -> Option<(&'static str, Details)> {
    let mut fields = line.split('\t');
    let name = fields.next()?;
    let mut field = || fields.next().unwrap_or_default();
    let (categories, tips, access, complexity) = (field(), field(), field(), field());
    Some((name, Details { categories, tips, access, complexity, syntax: Syntax(field()) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_has_six_fields_and_every_command_a_line() {
        for line in TABLE.lines() {
            assert_eq!(line.split('\t').count(), 6, "{line:?}");
        }
        for command in super::super::table::TABLE {
            assert!(TABLE.lines().any(|line| line.split('\t').next() == Some(command.name)), "{}", command.name);
        }
    }
}
