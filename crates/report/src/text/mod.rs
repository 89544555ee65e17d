//! Results as plain text: Markdown, CSV, tables for a terminal, and the parts of the README.

pub(crate) mod csv;
mod entries;
pub(crate) mod markdown;
pub(crate) mod names;
pub(crate) mod quoted_figures;
pub mod readme;
pub mod terminal;
