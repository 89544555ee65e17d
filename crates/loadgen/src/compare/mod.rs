//! Results side by side, with their ratios to the first one, and notes on the limits of such a table.

mod measures;

use serde::Serialize;
use serde_json::Value;

use self::measures::MEASURES;
pub use self::measures::Unit;
use crate::result::{NamedResult, ProtocolKind, RunResult, SCHEMA, Step};

/// Number of replies below which a percentile is marked as thin.
const REPLIES_MIN: f64 = 10.0;
/// Share of the offered rate below which a server did not keep up.
const KEPT_UP: f64 = 0.98;
/// Settings that have no bearing on what was measured.
const IRRELEVANT_SETTINGS: &[&str] = &["pin", "seed"];

/// Two or more results of the same kind.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// Always [`SCHEMA`].
    pub schema: u32,
    pub kind: ProtocolKind,
    /// The first one is what the others are compared with.
    pub results: Vec<ComparedResult>,
    /// Settings that are not the same in all of them.
    pub differing: Vec<Setting>,
    /// One, or one for each rate.
    pub sections: Vec<Section>,
    /// Warnings to the reader.
    pub notes: Vec<String>,
}

/// One of the results.
#[derive(Clone, Debug, Serialize)]
pub struct ComparedResult {
    /// `A`, `B` and so on.
    pub label: String,
    /// Name of its file or directory.
    pub name: String,
    pub target: String,
}

/// One setting, with its value in each of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Setting {
    pub name: String,
    pub values: Vec<Value>,
}

/// A table.
#[derive(Clone, Debug, Serialize)]
pub struct Section {
    /// The rate, or empty if there is only one.
    pub title: String,
    pub rows: Vec<Row>,
}

/// One figure of each of the results.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: &'static str,
    pub unit: Unit,
    pub values: Vec<Option<f64>>,
    /// Ratio of each value to the first one; null where either is missing or the first is 0.
    pub ratios: Vec<Option<f64>>,
    /// True for each value that rests on fewer than ten replies.
    pub is_thin: Vec<bool>,
}

/// Reason why results cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    #[error("a comparison is of two results or more")]
    TooFew,
    #[error("{first} is of kind {ours} and {other} of kind {theirs}: they have nothing in common")]
    Kinds { first: String, ours: ProtocolKind, other: String, theirs: ProtocolKind },
    #[error("{first} and {other} are not of the same rates")]
    Rates { first: String, other: String },
}

impl Comparison {
    /// Compares results with the first of them.
    ///
    /// # Errors
    /// There are fewer than two results, or they are of different kinds or series of rates.
    pub fn of(all: &[NamedResult]) -> Result<Self, CompareError> {
        let [first, others @ ..] = all else { return Err(CompareError::TooFew) };
        if others.is_empty() {
            return Err(CompareError::TooFew);
        }
        for other in others {
            if other.result.kind != first.result.kind {
                return Err(CompareError::Kinds {
                    first: first.name.clone(),
                    ours: first.result.kind,
                    other: other.name.clone(),
                    theirs: other.result.kind,
                });
            }
            if !has_same_rates(&first.result, &other.result) {
                return Err(CompareError::Rates { first: first.name.clone(), other: other.name.clone() });
            }
        }
        let compared = |(index, one): (usize, &NamedResult)| ComparedResult {
            label: label(index),
            name: one.name.clone(),
            target: one.result.target.clone(),
        };
        Ok(Self {
            schema: SCHEMA,
            kind: first.result.kind,
            results: all.iter().enumerate().map(compared).collect(),
            differing: differing(all),
            sections: sections(all),
            notes: notes(all),
        })
    }
}

/// Returns the label of a result: `A` to `Z`, then `#27` and so on.
fn label(index: usize) -> String {
    let letter = u8::try_from(index).ok().filter(|&index| index < 26).map(|index| char::from(b'A' + index));
    letter.map_or_else(|| format!("#{}", index + 1), String::from)
}

/// True if the steps can be compared one by one: they have the same rates, or the same shares of what each server can do.
fn has_same_rates(one: &RunResult, other: &RunResult) -> bool {
    let mut pairs = one.steps.iter().zip(&other.steps);
    one.steps.len() == other.steps.len()
        && pairs.all(|(one, other)| one.rate == other.rate || (one.share.is_some() && one.share == other.share))
}

fn differing(all: &[NamedResult]) -> Vec<Setting> {
    let names: std::collections::BTreeSet<_> = all.iter().flat_map(|one| one.result.config.keys()).collect();
    let setting = |name: &String| {
        let value = |one: &NamedResult| one.result.config.get(name).cloned().unwrap_or(Value::Null);
        Setting { name: name.clone(), values: all.iter().map(value).collect() }
    };
    let differs = |setting: &Setting| setting.values.iter().any(|value| *value != setting.values[0]);
    let is_of_interest = |name: &&String| !IRRELEVANT_SETTINGS.contains(&name.as_str());
    names.into_iter().filter(is_of_interest).map(setting).filter(differs).collect()
}

fn sections(all: &[NamedResult]) -> Vec<Section> {
    let whole: Vec<_> = all.iter().map(|one| &one.result).collect();
    if whole[0].steps.is_empty() {
        return vec![Section { title: String::new(), rows: rows(&whole) }];
    }
    let section = |(index, step): (usize, &Step)| {
        let results: Vec<_> = whole.iter().map(|result| &result.steps[index].result).collect();
        let is_same = whole.iter().all(|result| result.steps[index].rate == step.rate);
        let title = match step.share {
            Some(share) if !is_same => format!("at {:.0} % of its own capacity", share * 100.0),
            _ => format!("at {:.0} requests/s", step.rate),
        };
        Section { title, rows: rows(&results) }
    };
    whole[0].steps.iter().enumerate().map(section).collect()
}

/// Returns the rows of all measures that at least one of the results has.
fn rows(results: &[&RunResult]) -> Vec<Row> {
    let row = |measure: &measures::Measure| {
        let values: Vec<_> = results.iter().map(|result| (measure.value)(result)).collect();
        let base = values[0].filter(|base| *base > 0.0);
        #[expect(clippy::cast_precision_loss, reason = "a count of replies fits a double")]
        let is_thin = |result: &&RunResult| {
            measure.quantile.is_some_and(|quantile| result.ok as f64 * (1.0 - quantile) < REPLIES_MIN)
        };
        Row {
            name: measure.name,
            unit: measure.unit,
            ratios: values.iter().map(|value| Some((*value)? / base?)).collect(),
            is_thin: results.iter().map(is_thin).collect(),
            values,
        }
    };
    MEASURES.iter().map(row).filter(|row| row.values.iter().any(Option::is_some)).collect()
}

fn notes(all: &[NamedResult]) -> Vec<String> {
    let mut notes = vec![
        "one run each says nothing of how much runs of the same thing differ: repeat them, in turns, before believing a \
         small difference"
            .to_owned(),
    ];
    let results: Vec<_> = all.iter().map(|one| &one.result).collect();
    if results.iter().any(|result| result.origin.version != results[0].origin.version) {
        let versions: Vec<_> = results.iter().map(|result| result.origin.version.as_deref().unwrap_or("?")).collect();
        notes.push(format!("the versions of loadgen differ: {}", versions.join(", ")));
    }
    if results.iter().any(|result| result.is_open() != results[0].is_open()) {
        notes.push(
            "closed and open loops: the latency of the one is service time, that of the other counts from the schedule; they \
             are not the same measure"
                .to_owned(),
        );
    } else if results[0].is_open() {
        notes.push("open loops: throughput is what was offered, as long as the server keeps up".to_owned());
    } else {
        notes.push(
            "closed loops: the faster server is also asked more, and a stall is under-counted; compare latencies at one rate \
             (--rate)"
                .to_owned(),
        );
    }
    for (index, one) in all.iter().enumerate() {
        let (label, result) = (label(index), &one.result);
        if result.origin.interrupted {
            notes.push(format!(
                "{label}: interrupted after {:.1} s: not the run that its settings describe",
                result.duration_s
            ));
        }
        if result.clipped > 0 {
            notes.push(format!("{label}: {} replies took 60 s or more, where histograms end", result.clipped));
        }
        if !result.errors.is_empty() {
            let failed = result.requests - result.ok;
            notes.push(format!(
                "{label}: {failed} of {} requests failed; its latencies are of the others",
                result.requests
            ));
        }
        for (name, result) in each_rate(&label, result) {
            let offered = result.config.get("rate").and_then(Value::as_f64);
            if let Some(offered) = offered.filter(|offered| result.throughput_rps < KEPT_UP * offered) {
                notes.push(format!(
                    "{name}: {:.0} of {offered:.0} requests/s: it did not keep up",
                    result.throughput_rps
                ));
            }
            if !result.saturation.note.is_empty() {
                notes.push(format!("{name}: {}", result.saturation.note));
            }
        }
    }
    notes
}

/// Returns the result, or that of each of its rates, with a name.
fn each_rate<'a>(label: &str, result: &'a RunResult) -> Vec<(String, &'a RunResult)> {
    if result.steps.is_empty() {
        return vec![(label.to_owned(), result)];
    }
    result.steps.iter().map(|step| (format!("{label} at {:.0} requests/s", step.rate), &step.result)).collect()
}

#[cfg(test)]
mod tests;
