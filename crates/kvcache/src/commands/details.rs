//! Details of commands that only COMMAND and ACL show.

use std::{collections::HashMap, sync::LazyLock};

use super::syntax::Syntax;
use crate::command_table::{Command, Flags};

/// Redis's categories, in its order.
pub(super) const CATEGORIES: [&str; 21] = [
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
];

/// Fields of a line: name, categories that do not follow from the flags, tips, access to the keys (one for each key
/// specification, separated by ` / `), complexity, arguments.
const TABLE: &str = include_str!("details.tsv");

/// Details of one command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Details {
    categories: &'static str,
    tips: &'static str,
    access: &'static str,
    pub(super) complexity: &'static str,
    pub(super) syntax: Syntax<'static>,
}

impl Details {
    /// Returns some of [`CATEGORIES`].
    fn explicit_categories(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.categories.split_ascii_whitespace()
    }

    pub(super) fn tips(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.tips.split_ascii_whitespace()
    }

    /// Returns the access to the keys, for each key specification.
    pub(super) fn access(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.access.split(" / ").filter(|access| !access.is_empty())
    }
}

/// Returns the categories of a command, in Redis's order.
pub(super) fn categories(command: &Command) -> Vec<&'static str> {
    let explicit: Vec<_> = of(command.name).explicit_categories().collect();
    let flags = command.flags;
    let is_in = |category: &&str| match *category {
        // A script that only reads is none of Redis's readers.
        "read" => flags.has(Flags::READONLY) && command.group != "scripting",
        "write" => flags.has(Flags::WRITE),
        "admin" | "dangerous" if flags.has(Flags::ADMIN) => true,
        "fast" => flags.has(Flags::FAST),
        "slow" => !flags.has(Flags::FAST),
        category => explicit.contains(&category),
    };
    CATEGORIES.into_iter().filter(|category| is_in(category)).collect()
}

/// Returns the details of a command; nothing for one that is not in the list.
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
    fn every_command_has_a_line_of_six_fields() {
        for line in TABLE.lines() {
            assert_eq!(line.split('\t').count(), 6, "{line:?}");
        }
        for command in crate::command_table::TABLE {
            assert!(TABLE.lines().any(|line| line.split('\t').next() == Some(command.name)), "{}", command.name);
        }
    }
}
