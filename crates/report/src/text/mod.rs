//! Results as plain text: Markdown, CSV, tables for a terminal, and the parts of the README.

pub mod markdown;
pub mod output;
pub mod quoted_figures;
pub mod readme;
