//! A result for people and for programs.

mod comparison;
mod csv;
mod text;

pub use self::{
    comparison::{csv as comparison_csv, text as comparison_text},
    csv::write as csv,
    text::render as text,
};
use crate::result::RunResult;

/// Renders a result as one JSON object.
pub fn json(result: &RunResult) -> serde_json::Result<String> {
    serde_json::to_string_pretty(result)
}
