//! Compressed files beside their originals.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::Path, time::Duration};

use file_cache::FileState;
use sys::beneath::{Metadata, OpenError, Opened, Root};
use wire::http1::coding::{Coding, CodingSet};

use crate::{ContentCodings, NotFound, codec};

/// Codings and what they add to a file's name.
const SUFFIXES: [(Coding, &str); 3] = [(Coding::Brotli, ".br"), (Coding::Zstd, ".zst"), (Coding::Gzip, ".gz")];

const NANOSECONDS: i64 = 1_000_000_000;

/// Files that the representations of a path are made from.
#[derive(Debug)]
pub struct Sources {
    /// Path of the original beneath the root, whether or not there is one.
    pub relative: Vec<u8>,
    pub original: Option<Opened>,
    /// Compressed files that may be sent in place of it; at least one where there is no original.
    pub compressed: Vec<(Coding, Opened)>,
    pub siblings: Siblings,
}

/// State of a file's siblings when they were looked for, those that were not there included.
#[derive(Debug, Default)]
pub struct Siblings(State);

#[derive(Debug, Default)]
enum State {
    /// None were looked for.
    #[default]
    Ignored,
    /// None was there.
    Absent,
    Seen(Box<[Sibling; SUFFIXES.len()]>),
}

/// Outcome of looking for one of them.
#[derive(Clone, Copy, Debug)]
struct Sibling {
    stat: Result<Metadata, OpenError>,
    /// False if it may change without a trace.
    is_settled: bool,
}

impl Siblings {
    /// True if looking for them again would find the same. `relative` is the path of the original.
    pub fn are_unchanged(&self, root: &Root, relative: &[u8]) -> bool {
        let stat = |suffix| root.stat(&with_suffix(relative, suffix));
        match &self.0 {
            State::Ignored => true,
            State::Absent => SUFFIXES.iter().all(|(_, suffix)| stat(suffix) == Err(OpenError::Missing)),
            State::Seen(seen) => SUFFIXES
                .iter()
                .zip(seen.iter())
                .all(|((_, suffix), sibling)| sibling.is_settled && stat(suffix) == sibling.stat),
        }
    }

    /// Bytes of memory held beside the value itself.
    pub fn memory_bytes(&self) -> usize {
        match &self.0 {
            State::Ignored | State::Absent => 0,
            State::Seen(seen) => size_of_val(&**seen),
        }
    }
}

/// Opens what is beside a file, the outcome of opening that being `original`. Siblings are looked for where `should_look`
/// says so.
///
/// A sibling counts if it is a regular file beneath the root and not older than its original, in whole seconds: tools
/// that copy times cut them differently. Compressed files have no siblings of their own.
///
/// # Errors
/// There is neither an original nor a sibling in its place.
pub(crate) fn open_sources(
    root: &Root,
    relative: Vec<u8>,
    original: Option<Opened>,
    should_look: bool,
    unix: Duration,
) -> Result<Sources, NotFound> {
    let mut sources = Sources { relative, original, compressed: Vec::new(), siblings: Siblings::default() };
    if should_look && !is_compressed(&sources.relative) {
        sources.look(root, unix);
    }
    if sources.original.is_none() && sources.compressed.is_empty() {
        return Err(NotFound::MISSING);
    }
    Ok(sources)
}

impl Sources {
    /// Returns the codings that are worth making from what is there, for a server that has room for results of `bytes_max`.
    pub fn makeable(&self, media_type: &str, codings: ContentCodings, bytes_max: u64) -> CodingSet {
        let stored = self.compressed.iter().map(|(coding, _)| *coding);
        match &self.original {
            None if bytes_max > 0 => CodingSet::EMPTY.with(Coding::Identity),
            Some(Opened { metadata, .. })
                if codings.compress
                    && codec::SIZES.contains(&metadata.size)
                    && metadata.size <= bytes_max
                    && codec::is_compressible(media_type) =>
            {
                stored.fold(codec::CODINGS, CodingSet::without)
            }
            None | Some(_) => CodingSet::EMPTY,
        }
    }

    fn look(&mut self, root: &Root, unix: Duration) {
        let modified = self.original.as_ref().map(|original| original.metadata.modified_ns.div_euclid(NANOSECONDS));
        let is_current = |metadata: &Metadata| {
            modified.is_none_or(|modified| metadata.modified_ns.div_euclid(NANOSECONDS) >= modified)
        };
        let mut seen = [Sibling { stat: Err(OpenError::Missing), is_settled: true }; SUFFIXES.len()];
        for ((coding, suffix), seen) in SUFFIXES.iter().zip(&mut seen) {
            let path = with_suffix(&self.relative, suffix);
            // A cheaper call than opening, and seldom successful. It may leave the root, which opening does not.
            seen.stat = root.stat(&path);
            let Ok(metadata) = seen.stat else { continue };
            seen.is_settled = FileState::new(metadata, unix).is_settled;
            match root.open_file(&path) {
                Ok(opened) if is_current(&opened.metadata) => {
                    // What was opened counts: it may be another one already.
                    seen.stat = Ok(opened.metadata);
                    seen.is_settled = FileState::new(opened.metadata, unix).is_settled;
                    self.compressed.push((*coding, opened));
                }
                Ok(_) | Err(_) => {}
            }
        }
        let is_absent = seen.iter().all(|sibling| sibling.stat == Err(OpenError::Missing));
        self.siblings = Siblings(if is_absent { State::Absent } else { State::Seen(Box::new(seen)) });
    }
}

/// True for names of compressed files.
fn is_compressed(relative: &[u8]) -> bool {
    let extension = Path::new(OsStr::from_bytes(relative)).extension().map(OsStr::as_bytes);
    SUFFIXES.iter().any(|(_, suffix)| extension == Some(&suffix.as_bytes()[1..]))
}

fn with_suffix(relative: &[u8], suffix: &str) -> Vec<u8> {
    [relative, suffix.as_bytes()].concat()
}
