//! `--list-backends`: the only list of back ends there is; `bench-matrix` reads its JSON.

use std::{collections::BTreeMap, io::Write};

use anyhow::Context;
use drivers::DriverKind;
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

/// One of the things to choose from.
#[derive(Clone, Debug, Serialize)]
pub struct Choice {
    pub name: String,
    pub description: String,
    /// Why this machine cannot run it, if so.
    pub unavailable: Option<String>,
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

pub(crate) fn drivers() -> Dimension {
    let choice = |kind: &DriverKind| Choice {
        name: kind.name().to_owned(),
        description: kind.about().to_owned(),
        unavailable: kind.probe().err().map(|error| error.to_string()),
    };
    Dimension {
        name: "driver",
        flag: "--driver",
        default: DriverKind::Epoll.name().to_owned(),
        choices: DriverKind::ALL.iter().map(choice).collect(),
    }
}

pub(crate) fn print<C: Program>(format: Format) -> anyhow::Result<()> {
    let backends = Backends { schema: SCHEMA, server: C::NAME, dimensions: C::dimensions(), invalid: C::invalid() };
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
        for Choice { name, description, unavailable } in &dimension.choices {
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
