//! Reasons to say nothing of a cell.

use results::{Flag, Outcome, Ratio, words::count};

use crate::matrix_view::{Drawable, MatrixView};

/// Reason that a cell is not compared with the reference; the first that holds.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Silence<'a> {
    NotSelected,
    /// It could not run, or every visit failed.
    NotRun(&'a str),
    /// Blocks in which every attempt failed.
    Failed(u32),
    /// Flags that cast doubt.
    Flagged(Vec<Flag>),
    NoCpu,
    /// Keys may be missing: who misses more has less to do.
    AllowsMisses,
    /// The reference has no figures under this workload.
    NoReference,
    /// The reference failed or is flagged.
    ReferenceInDoubt,
    /// No block has figures of both.
    NoCommonBlock,
}

impl Silence<'_> {
    /// `2 visits failed`. `reference` is the label of the reference.
    pub(crate) fn words(&self, reference: &str) -> String {
        match self {
            Self::NotSelected => "not selected".to_owned(),
            Self::NotRun(reason) => format!("n/a: {reason}"),
            Self::NoCpu => "n/a: the generator saw no server CPU".to_owned(),
            Self::Failed(visits) => format!("in doubt: {} failed", count(*visits as usize, "visit")),
            Self::Flagged(flags) => {
                let names: Vec<&str> = flags.iter().map(|flag| flag.name()).collect();
                format!("in doubt: flagged {}", names.join(", "))
            }
            Self::AllowsMisses => "not compared: a miss costs less than a hit".to_owned(),
            Self::NoReference => format!("not compared: {reference} has no figures here"),
            Self::ReferenceInDoubt => format!("not compared: {reference} is in doubt here"),
            Self::NoCommonBlock => format!("not compared: no block has this and {reference}"),
        }
    }

    /// True if the cell's own figures are in doubt.
    pub(crate) fn is_doubt(&self) -> bool {
        matches!(self, Self::Failed(_) | Self::Flagged(_))
    }
}

impl<'a> MatrixView<'a> {
    /// Server CPU per request beside the reference's, where it may be compared. Of the reference it is 1.
    pub(crate) fn compared_ratio(&self, row: usize, column: usize) -> Result<Ratio, Silence<'a>> {
        self.sound(row, column)?;
        if self.workloads()[column].allows_misses {
            return Err(Silence::AllowsMisses);
        }
        match self.reference.map(|reference| self.sound(reference, column)) {
            Some(Ok(())) => {}
            Some(Err(doubt)) if doubt.is_doubt() => return Err(Silence::ReferenceInDoubt),
            Some(Err(_)) | None => return Err(Silence::NoReference),
        }
        self.ratio(row, column).ok_or(Silence::NoCommonBlock)
    }

    /// Says why a cell's figure that is shown is not judged, if it is not: its own figures are in doubt, or those that it would be
    /// compared with.
    pub(crate) fn unjudged(&self, row: usize, column: usize) -> Option<Silence<'a>> {
        let is_beside = Some(row) != self.reference && self.ratio(row, column).is_some();
        if is_beside {
            return self.compared_ratio(row, column).err();
        }
        self.sound(row, column).err().filter(Silence::is_doubt)
    }

    /// Says why the figures of a cell are missing or in doubt, if they are.
    pub(crate) fn sound(&self, row: usize, column: usize) -> Result<(), Silence<'a>> {
        let figures = match self.outcome(row, column) {
            None => return Err(Silence::NotSelected),
            Some(Outcome::NotRun { reason }) => return Err(Silence::NotRun(reason)),
            Some(Outcome::Measured(figures)) => figures,
        };
        let doubts = self.doubts(row, column);
        if figures.failed > 0 {
            Err(Silence::Failed(figures.failed))
        } else if !doubts.is_empty() {
            Err(Silence::Flagged(doubts))
        } else if !figures.cpu_us.is_some_and(|cpu| cpu.is_drawable()) {
            Err(Silence::NoCpu)
        } else {
            Ok(())
        }
    }
}
