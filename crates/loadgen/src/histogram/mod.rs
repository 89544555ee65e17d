//! Histograms as files.

pub mod hgrm;
