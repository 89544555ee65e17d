//! Stored results of the bench as one HTML page, as pictures, as Markdown, as CSV and as tables for a terminal.
//!
//! Knows nothing of how a run is made: everything is drawn from the [`results`] of one.
//!
//! - `page`: the HTML page; a file for each of its sections, with the sentence of its finding and its pictures.
//! - `picture`: the drawing kit for SVG, and the heat map, which is also the picture on a results page.
//! - `text`: Markdown, CSV, tables for a terminal, and the published results pages.
//! - `claims`: every sentence about the figures, as data.
//! - `matrix_view`: a summary as all of them read it. `format` and `markup` are used by all and use none.

#![forbid(unsafe_code)]

mod claims;
mod format;
mod markup;
mod matrix_view;
mod page;
mod picture;
mod text;

#[cfg(test)]
pub(crate) mod sample;

pub use self::{
    format::{rate, significant},
    page::{
        render,
        visits::{RawVisit, VISITS_PAGE, visits_page},
    },
    picture::{
        roc::{RocCurve, roc},
        standalone::picture,
    },
    text::{
        csv::csv,
        markdown::markdown,
        names::version_number,
        quoted_figures::{QuotedFigures, quoted_figures},
        results_pages, terminal,
    },
};
