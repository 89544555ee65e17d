//! All representations of one path, as they are cached together.

use std::{sync::Arc, time::Duration};

use file_cache::{Body, FileState};
use sys::beneath::{OpenError, Root};
use web::{ContentCodings, Encoding, Found, NotFound, Presentation, Siblings, Sources, Variants, codec};
use wire::http1::coding::Coding;

use crate::representation::Representation;

/// Limits of what is kept of one path, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MemoryLimits {
    /// Length of the largest contents that are read into memory.
    pub(crate) contents: u64,
    /// Length of the largest contents that are sent from memory, where they could be sent from a file as well.
    pub(crate) sent_from_memory: u64,
    /// Length of the largest contents that are compressed, or that come of decompressing.
    pub(crate) converted: u64,
}

/// All representations of one path.
#[derive(Debug)]
pub(crate) struct CachedPath {
    /// The original; where there is none, one of the compressed ones.
    file: Representation,
    has_original: bool,
    /// `None`: the original is the only one.
    variants: Option<Box<Variants<Representation>>>,
    beside: Arc<Beside>,
}

/// Properties of a path that all of its representations share.
#[derive(Debug)]
struct Beside {
    siblings: Siblings,
    presentation: Presentation,
}

impl CachedPath {
    /// Reads what is kept in memory of the sources at `unix` since the epoch.
    ///
    /// # Errors
    /// Those of fstat(2) and pread(2).
    pub(crate) fn load(
        sources: Sources,
        presentation: Presentation,
        codings: ContentCodings,
        limits: MemoryLimits,
        unix: Duration,
    ) -> Result<Self, NotFound> {
        let makeable = sources.makeable(&presentation.media_type, codings, limits.converted);
        let is_sole = sources.compressed.is_empty() && makeable.is_empty();
        let load = |opened, encoding| Representation::load(opened, &presentation, encoding, limits.contents, unix);
        let compressed = sources.compressed.into_iter().filter_map(|(coding, opened)| {
            // One that cannot be read is no reason not to send the others.
            Some((coding, Arc::new(load(opened, Encoding::Stored(coding)).ok()?)))
        });
        let compressed: Vec<(Coding, Arc<Representation>)> = compressed.collect();
        let has_original = sources.original.is_some();
        let file = match sources.original {
            Some(original) => load(original, if is_sole { Encoding::Sole } else { Encoding::Identity })?,
            None => compressed.first().map(|(_, file)| Representation::clone(file)).ok_or(NotFound::MISSING)?,
        };
        let variants = (!is_sole).then(|| Box::new(Variants::new(has_original, compressed, makeable)));
        let beside = Arc::new(Beside { siblings: sources.siblings, presentation });
        Ok(Self { file, has_original, variants, beside })
    }

    #[inline]
    pub(crate) fn found(&self) -> Found<'_, Representation> {
        Found { file: &self.file, variants: self.variants.as_deref() }
    }

    pub(crate) fn can_make(&self, coding: Coding) -> bool {
        self.variants.as_ref().is_some_and(|variants| variants.can_make(coding))
    }

    /// Makes a representation. Returns what is to be remembered of it: itself, or that it is not worth it. Returns `None` if
    /// the files have changed meanwhile.
    pub(crate) fn convert(&self, coding: Coding, limits: MemoryLimits, unix: Duration) -> Option<Converted> {
        let compressed = self.variants.as_ref().and_then(|variants| variants.files().next());
        let (from, source) = match compressed {
            Some((from, file)) if !self.has_original => (from, &**file),
            _ => (Coding::Identity, &self.file),
        };
        let contents = codec::convert(coding, (from, &*source.contents()?), limits.converted);
        let encoding = if coding == Coding::Identity { Encoding::Decompressed } else { Encoding::Compressed(coding) };
        let file = contents.map(|contents| {
            Arc::new(source.converted(contents, &self.beside.presentation, encoding, limits.sent_from_memory, unix))
        });
        Some(Converted { coding, file, of: *self.file.state() })
    }

    /// Returns the representations with another one. Returns `None` if it is not of the same files, or there already.
    pub(crate) fn with(&self, converted: &Converted) -> Option<Self> {
        let Converted { coding, file, of } = converted;
        if self.file.state() != of || !self.can_make(*coding) {
            return None;
        }
        let variants = self.variants.as_deref()?;
        let variants = match file {
            Some(file) => variants.with(*coding, Arc::clone(file)),
            None => variants.without(*coding),
        };
        let (file, beside) = (self.file.clone(), Arc::clone(&self.beside));
        Some(Self { file, has_original: self.has_original, variants: Some(Box::new(variants)), beside })
    }

    fn all(&self) -> impl Iterator<Item = &Representation> {
        let others = self.variants.iter().flat_map(|variants| variants.files());
        [&self.file].into_iter().chain(others.map(|(_, file)| &**file))
    }
}

/// Result of [`CachedPath::convert`].
#[derive(Debug)]
pub(crate) struct Converted {
    coding: Coding,
    /// `None`: it is not worth it.
    file: Option<Arc<Representation>>,
    /// State of the file that it was made of.
    of: FileState,
}

impl Body for CachedPath {
    #[inline]
    fn state(&self) -> &FileState {
        self.file.state()
    }

    fn is_unchanged(&self, root: &Root, relative: &[u8]) -> bool {
        let is_original_unchanged = match self.has_original {
            true => self.state().is_unchanged(|| root.stat(relative)),
            false => root.stat(relative) == Err(OpenError::Missing),
        };
        is_original_unchanged && self.beside.siblings.are_unchanged(root, relative)
    }

    fn memory_bytes(&self) -> usize {
        let Beside { siblings, presentation: Presentation { media_type, cache_control, fields } } = &*self.beside;
        let texts = media_type.len() + cache_control.as_ref().map_or(0, String::len) + fields.len();
        let beside = size_of::<Self>() + size_of::<Beside>() + siblings.memory_bytes() + texts;
        let variants = self.variants.as_ref().map_or(0, |variants| size_of_val(&**variants));
        beside + variants + self.all().map(Representation::memory_bytes).sum::<usize>()
    }

    fn descriptors(&self) -> usize {
        self.all().map(Representation::descriptors).sum()
    }
}
