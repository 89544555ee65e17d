//! Results as plain text: Markdown, CSV, tables for a terminal, and the published results pages.

pub(crate) mod counterparts;
pub(crate) mod csv;
mod entries;
pub(crate) mod markdown;
pub(crate) mod names;
pub(crate) mod quoted_figures;
pub mod results_pages;
pub mod terminal;
pub(crate) mod witness;
