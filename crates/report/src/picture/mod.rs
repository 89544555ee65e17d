//! Pictures as SVG: the drawing kit, and the matrix of costs, which stands in the report and on a results page.

pub(crate) mod axes;
pub(crate) mod curves;
pub(crate) mod grid;
pub(crate) mod heat_map;
pub(crate) mod roc;
pub(crate) mod row_labels;
pub(crate) mod series;
pub(crate) mod standalone;
pub(crate) mod svg;
pub(crate) mod whiskers;
