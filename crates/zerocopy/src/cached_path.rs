//! All representations of one path, and its requests.

use std::{
    fs::File,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use file_cache::{Body, FileState};
use sys::{
    beneath::{OpenError, Root},
    contents::read_unchanging,
};
use web::{Found, Presentation, Siblings, Variants, codec};
use wire::http1::coding::{Coding, CodingSet};

use crate::file::CachedFile;

/// Files that a path leads to, and the requests by this path.
#[derive(Debug)]
pub(crate) struct CachedPath {
    /// The original; where there is none, one of the compressed ones.
    pub(crate) file: Arc<CachedFile>,
    has_original: bool,
    /// `None`: the original is the only one.
    variants: Option<Box<Variants<CachedFile>>>,
    siblings: Arc<Siblings>,
    /// Where there are several representations: that of all of them.
    presentation: Option<Arc<Presentation>>,
    requests: AtomicU64,
}

impl CachedPath {
    /// Path with one representation.
    pub(crate) fn sole(file: Arc<CachedFile>, siblings: Siblings) -> Self {
        let requests = AtomicU64::new(0);
        Self { file, has_original: true, variants: None, siblings: Arc::new(siblings), presentation: None, requests }
    }

    /// Path with several representations; `None` if there is none at all.
    pub(crate) fn negotiated(
        original: Option<Arc<CachedFile>>,
        compressed: Vec<(Coding, Arc<CachedFile>)>,
        makeable: CodingSet,
        siblings: Siblings,
        presentation: Presentation,
    ) -> Option<Self> {
        let has_original = original.is_some();
        let file = original.or_else(|| compressed.first().map(|(_, file)| Arc::clone(file)))?;
        let variants = Some(Box::new(Variants::new(has_original, compressed, makeable)));
        let (siblings, presentation) = (Arc::new(siblings), Some(Arc::new(presentation)));
        Some(Self { file, has_original, variants, siblings, presentation, requests: AtomicU64::new(0) })
    }

    #[inline]
    pub(crate) fn found(&self) -> Found<'_, CachedFile> {
        Found { file: &self.file, variants: self.variants.as_deref() }
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Takes back as many uses: lookups that were no requests of their own.
    pub(crate) fn forget_uses(&self, uses: u64) {
        self.requests.fetch_sub(uses, Ordering::Relaxed);
    }

    /// Returns all files.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Arc<CachedFile>> {
        let others = self.variants.iter().flat_map(|variants| variants.files());
        [&self.file].into_iter().filter(|_| self.has_original).chain(others.map(|(_, file)| file))
    }

    /// Returns how all representations are presented, where there are several.
    pub(crate) fn presentation(&self) -> Option<&Presentation> {
        self.presentation.as_deref()
    }

    pub(crate) fn can_make(&self, coding: Coding) -> bool {
        self.variants.as_ref().is_some_and(|variants| variants.can_make(coding))
    }

    /// Returns the file that others are made from, and its coding.
    pub(crate) fn source(&self) -> (Coding, &Arc<CachedFile>) {
        let compressed = self.variants.as_ref().and_then(|variants| variants.files().next());
        compressed.filter(|_| !self.has_original).unwrap_or((Coding::Identity, &self.file))
    }

    /// Returns the representations with another one (`None`: with the knowledge that it is not worth it). Returns `None` if
    /// they are not of the file in this state, or have it already.
    pub(crate) fn with(&self, of: &FileState, coding: Coding, file: Option<&Arc<CachedFile>>) -> Option<Self> {
        if self.state() != of || !self.can_make(coding) {
            return None;
        }
        let variants = self.variants.as_deref()?;
        let variants = match file {
            Some(file) => variants.with(coding, Arc::clone(file)),
            None => variants.without(coding),
        };
        Some(Self {
            file: Arc::clone(&self.file),
            has_original: self.has_original,
            variants: Some(Box::new(variants)),
            siblings: Arc::clone(&self.siblings),
            presentation: self.presentation.clone(),
            requests: AtomicU64::new(self.requests()),
        })
    }
}

/// Makes the contents of a representation from a file; `None` inside if it is not worth it. Returns `None` if the file has
/// changed meanwhile.
pub(crate) fn convert(from: Coding, source: &CachedFile, to: Coding, bytes_max: u64) -> Option<Option<Vec<u8>>> {
    let file = File::from(source.descriptor().try_clone().ok()?);
    let (contents, metadata) = read_unchanging(&file, source.state.metadata, source.state.metadata.size).ok()??;
    (metadata == source.state.metadata).then(|| codec::convert(to, (from, &contents), bytes_max))
}

impl Body for CachedPath {
    fn state(&self) -> &FileState {
        &self.file.state
    }

    fn is_unchanged(&self, root: &Root, relative: &[u8]) -> bool {
        let is_original_unchanged = match self.has_original {
            true => self.state().is_unchanged(|| root.stat(relative)),
            false => root.stat(relative) == Err(OpenError::Missing),
        };
        is_original_unchanged && self.siblings.are_unchanged(root, relative)
    }

    // What a file holds counts against budgets of its own, since several paths may share it.

    fn memory_bytes(&self) -> usize {
        0
    }

    fn descriptors(&self) -> usize {
        0
    }

    #[inline]
    fn is_intact(&self, now_ns: u64) -> bool {
        let are_others_intact =
            |variants: &Variants<CachedFile>| variants.files().all(|(_, file)| file.is_intact(now_ns));
        self.file.is_intact(now_ns) && self.variants.as_deref().is_none_or(are_others_intact)
    }

    #[inline]
    fn record_use(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}
