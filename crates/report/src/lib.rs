//! Stored results of the bench as one HTML page, as pictures, as Markdown, as CSV and as tables for a terminal.
//!
//! Knows nothing of how a run is made: everything is drawn from the [`results`] of one.

#![forbid(unsafe_code)]

mod format;
mod markup;
mod matrix_view;
mod page;
mod picture;
mod text;

#[cfg(test)]
pub(crate) mod sample;

pub use self::{
    format::rate,
    page::render,
    picture::standalone::picture,
    text::{
        csv::csv,
        markdown::markdown,
        names::version_number,
        quoted_figures::{QuotedFigures, quoted_figures},
        readme, terminal,
    },
};
