//! The generator's own ceiling, as far as a run knows it.

use loadgen::{result::RunResult, summary};

/// The most that the generator itself can do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ceiling {
    /// Requests per second.
    Measured(f64),
    /// Nobody asked for it.
    NotWanted,
    /// It cannot be measured, for this reason.
    Unknown(&'static str),
}

impl Ceiling {
    /// Adds the ceiling to a result.
    pub(super) fn note(self, result: &mut RunResult) {
        match self {
            Self::Measured(rps) => summary::note_ceiling(result, rps),
            Self::NotWanted => {}
            Self::Unknown(why) => result.saturation.ceiling_unknown = Some(why.to_owned()),
        }
    }
}
