//! Representations of one path: the file itself, compressed siblings beside it, and what the server has compressed.

mod siblings;

use std::sync::Arc;

use wire::http1::{
    Request,
    coding::{Coding, CodingSet},
};

pub(crate) use siblings::open_sources;
pub use siblings::{Siblings, Sources};

/// File that a path leads to, and where there are several representations of it, all of them.
#[derive(Debug)]
pub struct Found<'a, F> {
    /// The only representation, or one of them.
    pub file: &'a F,
    /// `None`: there is nothing to choose, and the request need not be searched for `Accept-Encoding`.
    pub variants: Option<&'a Variants<F>>,
}

impl<'a, F> Found<'a, F> {
    /// The only representation of a path.
    pub fn sole(file: &'a F) -> Self {
        Self { file, variants: None }
    }
}

/// Representations between which `Accept-Encoding` decides. Never changed: what comes later makes another.
#[derive(Debug)]
pub struct Variants<F> {
    /// By coding. That of the original is where its entry keeps it.
    files: [Option<Arc<F>>; Coding::ALL.len()],
    stored: CodingSet,
    /// Those of them that the server has made.
    made: CodingSet,
    /// Those that it can make.
    makeable: CodingSet,
}

impl<F> Clone for Variants<F> {
    fn clone(&self) -> Self {
        Self { files: self.files.clone(), ..*self }
    }
}

/// Representation that a request is answered with.
#[derive(Debug)]
pub enum Choice<'a, F> {
    /// One that is there; `None` for the original.
    Stored(Option<&'a Arc<F>>),
    /// One that has to be made first.
    Make(Coding),
    /// None that can be had.
    Nothing,
}

impl<F> Variants<F> {
    /// Representations of a path that are stored (`has_original`: the original, too), and codings that can be made.
    pub fn new(has_original: bool, stored: impl IntoIterator<Item = (Coding, Arc<F>)>, makeable: CodingSet) -> Self {
        let original = if has_original { CodingSet::EMPTY.with(Coding::Identity) } else { CodingSet::EMPTY };
        let mut variants = Self { files: Default::default(), stored: original, made: CodingSet::EMPTY, makeable };
        for (coding, file) in stored {
            variants.files[coding as usize] = Some(file);
            variants.stored = variants.stored.with(coding);
        }
        variants
    }

    /// Adds a representation that has been made.
    #[must_use]
    pub fn with(&self, coding: Coding, file: Arc<F>) -> Self {
        let mut variants = self.without(coding);
        variants.files[coding as usize] = Some(file);
        Self { stored: self.stored.with(coding), made: self.made.with(coding), ..variants }
    }

    /// Notes that nothing is gained by a coding, or that it cannot be made.
    #[must_use]
    pub fn without(&self, coding: Coding) -> Self {
        Self { makeable: self.makeable.without(coding), ..self.clone() }
    }

    pub fn can_make(&self, coding: Coding) -> bool {
        self.makeable.contains(coding)
    }

    /// Returns the representations beside the original.
    pub fn files(&self) -> impl Iterator<Item = (Coding, &Arc<F>)> {
        Coding::ALL.into_iter().zip(&self.files).filter_map(|(coding, file)| Some((coding, file.as_ref()?)))
    }

    /// Chooses by what the client accepts, and where it accepts nothing that can be had, the identity: a response that it
    /// may not like is better than none (RFC 9110, section 12.5.3, permits both).
    #[inline]
    pub fn choose(&self, request: &Request<'_>, may_make: bool) -> Choice<'_, F> {
        let makeable = if may_make { self.makeable } else { CodingSet::EMPTY };
        // What has been made does not go before what can be: the choice must not depend on what others have asked for.
        let (preferred, others) = (self.stored.minus(self.made), makeable.plus(self.made));
        let chosen = request.accepted_codings().choose(preferred, others).unwrap_or(Coding::Identity);
        if self.stored.contains(chosen) {
            Choice::Stored(self.files[chosen as usize].as_ref())
        } else if makeable.contains(chosen) {
            Choice::Make(chosen)
        } else {
            Choice::Nothing
        }
    }
}
