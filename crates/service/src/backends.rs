//! `--list-backends`: the only list of back ends there is; `bench-matrix` reads its JSON.

use std::{collections::BTreeMap, io::Write};

use anyhow::Context;
use clap::ValueEnum;
use drivers::{Descriptor, DriverSet};
use serde::Serialize;

use crate::{Program, args::Format};

/// Version of the JSON.
const SCHEMA: u32 = 1;

/// Something to choose.
#[derive(Clone, Debug, Serialize)]
pub struct Dimension {
    pub name: &'static str,
    pub flag: &'static str,
    pub default: String,
    pub choices: Vec<Choice>,
}

impl Dimension {
    /// Dimension whose choices are the variants of a [`ValueEnum`]: their names, and the first line of their help.
    pub fn of<T: ValueEnum>(name: &'static str, flag: &'static str, default: &T) -> Self {
        let choices = T::value_variants().iter().filter_map(T::to_possible_value).map(|value| Choice {
            name: value.get_name().to_owned(),
            description: value.get_help().map(ToString::to_string).unwrap_or_default(),
            unavailable: None,
            facts: None,
        });
        Self { name, flag, default: choice_name(default), choices: choices.collect() }
    }
}

/// Name of a choice on the command line; empty for a variant that is skipped there.
pub fn choice_name<T: ValueEnum>(choice: &T) -> String {
    choice.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// One of the things to choose from.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    pub name: String,
    pub description: String,
    /// Reason that this machine cannot run it.
    pub unavailable: Option<String>,
    /// Facts about a driver; no other choice has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<&'static Descriptor>,
}

/// Choices that do not go together.
#[derive(Clone, Debug, Serialize)]
pub struct Invalid {
    pub combination: BTreeMap<&'static str, String>,
    pub reason: String,
}

#[derive(Serialize)]
struct Backends {
    schema: u32,
    server: &'static str,
    dimensions: Vec<Dimension>,
    invalid: Vec<Invalid>,
}

/// Dimension of the drivers that a program has.
pub(crate) fn drivers<D: DriverSet>() -> Dimension {
    let choice = |driver: &D| Choice {
        name: driver.descriptor().name.to_owned(),
        description: driver.descriptor().text(),
        unavailable: driver.probe().err().map(|error| error.to_string()),
        facts: Some(driver.descriptor()),
    };
    Dimension {
        name: "driver",
        flag: "--driver",
        default: D::DEFAULT.to_string(),
        choices: D::ALL.iter().map(choice).collect(),
    }
}

/// Prints the dimensions of a program, that of its drivers first.
pub(crate) fn print<C: Program>(drivers: Option<Dimension>, format: Format) -> anyhow::Result<()> {
    let dimensions = drivers.into_iter().chain(C::dimensions()).collect();
    let backends = Backends { schema: SCHEMA, server: C::NAME, dimensions, invalid: C::invalid() };
    let text = match format {
        Format::Text => as_text(&backends),
        Format::Json => serde_json::to_string_pretty(&backends)? + "\n",
    };
    std::io::stdout().write_all(text.as_bytes()).context("cannot write to standard output")
}

fn as_text(backends: &Backends) -> String {
    let mut text = String::new();
    for dimension in &backends.dimensions {
        text += &format!("{} ({}, default {})\n", dimension.name, dimension.flag, dimension.default);
        for Choice { name, description, unavailable, .. } in &dimension.choices {
            let unavailable = unavailable.as_ref().map_or_else(String::new, |why| format!(" [not here: {why}]"));
            text += &format!("  {name:<14} {description}{unavailable}\n");
        }
    }
    for Invalid { combination, reason } in &backends.invalid {
        let choices: Vec<_> = combination.iter().map(|(name, choice)| format!("{name}={choice}")).collect();
        text += &format!("not together: {}: {reason}\n", choices.join(", "));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, ValueEnum)]
    enum Verdict {
        /// Pass it on
        #[value(alias = "pass")]
        Keep,
        /// Forget it
        Drop,
    }

    #[test]
    fn a_dimension_lists_the_variants_of_its_enum() {
        let dimension = Dimension::of("verdict", "--verdict", &Verdict::Drop);
        let choices: Vec<_> = dimension.choices.iter().map(|it| (&*it.name, &*it.description)).collect();
        assert_eq!(choices, [("keep", "Pass it on"), ("drop", "Forget it")]);
        assert_eq!(dimension.default, "drop");
    }
}
