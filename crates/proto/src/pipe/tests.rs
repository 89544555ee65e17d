use std::{collections::VecDeque, os::fd::AsFd};

use proptest::prelude::*;

use super::*;
use crate::{NextWrite, Outbox, Segment, Taken};

/// Contents of the file of every test.
fn content(range: Range<u64>) -> impl Iterator<Item = u8> {
    range.map(|at| (at ^ at >> 8) as u8)
}

/// Any descriptor will do: nobody reads from it here.
fn descriptor() -> OwnedFd {
    std::io::stdin().as_fd().try_clone_to_owned().expect("a descriptor")
}

fn pipe() -> Pipe {
    Pipe { reader: descriptor(), writer: descriptor() }
}

fn scratch(filled: u64) -> Box<ScratchPipe> {
    Box::new(ScratchPipe { pipe: pipe(), filled, capacity: 65_536, permit: Arc::default() })
}

/// One thing that a protocol sends.
#[derive(Clone, Debug)]
enum Piece {
    Inline(usize),
    Shared(usize),
    File(u64, u64),
    /// Bytes of head, offset and length of the file's part, and bytes at the end that are not asked for.
    Cached(usize, u64, u64, u64),
    Pages(u64, u64),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![
        (1..200_usize).prop_map(Piece::Inline),
        (1..9_000_usize).prop_map(Piece::Shared),
        (0..500_u64, 1..5_000_u64).prop_map(|(offset, len)| Piece::File(offset, len)),
        (0..300_usize, 0..500_u64, 0..5_000_u64, 0..400_u64).prop_map(|(a, b, c, d)| Piece::Cached(a, b, c, d)),
        (0..500_u64, 0..9_000_u64).prop_map(|(offset, len)| Piece::Pages(offset, len)),
    ]
}

fn push(piece: &Piece, fallbacks: &Arc<AtomicU64>, out: &mut Outbox) -> Vec<u8> {
    let file = |offset, len| FileRegion { file: Arc::new(descriptor()), offset, len };
    let memory = |len: usize| -> Vec<u8> { (0..len).map(|at| (at * 7 + len) as u8).collect() };
    match *piece {
        Piece::Inline(len) => {
            out.inline().extend(memory(len));
            memory(len)
        }
        Piece::Shared(len) => {
            out.push_shared(&memory(len).into());
            memory(len)
        }
        Piece::File(offset, len) => {
            out.push_file(file(offset, len));
            content(offset..offset + len).collect()
        }
        Piece::Cached(head, offset, len, unasked) => {
            let head = memory(head);
            let mut whole: Vec<u8> = head.iter().copied().chain(content(offset..offset + len)).collect();
            let cached = CachedPipe {
                pipe: pipe(),
                len: whole.len() as u64,
                head: head.into(),
                file: file(offset, len),
                fallbacks: Arc::clone(fallbacks),
            };
            let mut region = PipeRegion::cached(&Arc::new(cached));
            region.len -= unasked.min(region.len);
            whole.truncate(region.len as usize);
            out.push_pipe(region);
            whole
        }
        Piece::Pages(offset, len) => {
            let bytes = content(0..offset + len).collect::<Vec<_>>().into();
            let of = MappedFile { bytes, file: Arc::new(descriptor()), fallbacks: Arc::clone(fallbacks) };
            out.push_pipe(PipeRegion::pages(&Arc::new(of), offset..offset + len));
            content(offset..offset + len).collect()
        }
    }
}

/// A driver whose kernel takes a few bytes at a time, and has a scratch pipe or has none.
struct Trickle<'a> {
    steps: std::iter::Cycle<std::slice::Iter<'a, (usize, bool)>>,
    /// Bytes in the scratch pipe of the front.
    piped: VecDeque<u8>,
    sent: Vec<u8>,
    fell_back: u64,
}

impl Trickle<'_> {
    fn run(&mut self, out: &mut Outbox) {
        while let Some((&(n, has_scratch), front)) = self.steps.next().zip(out.front()) {
            let n = match front {
                NextWrite::Memory(pieces, count) => {
                    let bytes: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
                    self.sent.extend(&bytes[..n.min(bytes.len())]);
                    n.min(bytes.len())
                }
                NextWrite::File(region) => {
                    let n = region.len.min(n as u64);
                    self.sent.extend(content(region.offset..region.offset + n));
                    n as usize
                }
                NextWrite::Pipe(region) => {
                    if !self.fill(region, n, has_scratch) {
                        assert!(out.fall_back(), "nothing of it has been sent");
                        self.fell_back += 1;
                        continue;
                    }
                    let n = n.min(self.piped.len());
                    self.sent.extend(self.piped.drain(..n));
                    assert!(!self.piped.is_empty() || region.scratch().is_some());
                    n
                }
                NextWrite::KernelTls(_) | NextWrite::Waiting => unreachable!("nothing is promised"),
            };
            out.advance(n);
            if let Some(scratch) = out.emptied_pipe() {
                assert_eq!((scratch.filled, self.piped.len()), (0, 0), "only empty pipes come back");
            }
        }
    }

    /// False: nothing of the rest is in a pipe, and there is none to be had.
    fn fill(&mut self, region: &mut PipeRegion, room: usize, has_scratch: bool) -> bool {
        if !self.piped.is_empty() || !has_scratch {
            return !self.piped.is_empty();
        }
        match &mut region.source {
            PipeSource::Cached(cached) => {
                let file = cached.file.offset..cached.file.offset + cached.file.len;
                self.piped = cached.head.iter().copied().chain(content(file)).take(region.len as usize).collect();
                region.source = PipeSource::Filled(scratch(region.len));
            }
            PipeSource::Pages(pages) => {
                // More than is sent in one go, so that a pipe is met half full.
                let range = pages.range(region.len.min(3 * room as u64)).expect("the mapping is whole");
                self.piped = pages.of.bytes[range].iter().copied().collect();
                pages.scratch = Some(scratch(self.piped.len() as u64));
            }
            PipeSource::Filled(_) => unreachable!("a filled pipe that is empty has been sent"),
        }
        true
    }
}

proptest! {
    /// Whatever falls back, whenever it does, the peer gets the same bytes.
    #[test]
    fn a_fall_back_changes_no_byte_under_any_trickle(
        pieces in prop::collection::vec(piece(), 1..12),
        steps in prop::collection::vec((1..3_000_usize, any::<bool>()), 1..20),
    ) {
        let (mut out, fallbacks) = (Outbox::default(), Arc::<AtomicU64>::default());
        let wanted: Vec<u8> = pieces.iter().flat_map(|piece| push(piece, &fallbacks, &mut out)).collect();
        let mut driver =
            Trickle { steps: steps.iter().cycle(), piped: VecDeque::new(), sent: Vec::new(), fell_back: 0 };
        driver.run(&mut out);
        prop_assert!(out.is_idle() && out.held_bytes() == 0, "{} bytes held", out.held_bytes());
        prop_assert!(driver.sent == wanted, "{} bytes of {}", driver.sent.len(), wanted.len());
        prop_assert_eq!(driver.fell_back, fallbacks.load(Ordering::Relaxed));
    }
}

/// Teed bytes may have been sent in part, and bytes in a scratch pipe have left the file.
#[test]
fn a_region_in_a_scratch_pipe_does_not_fall_back() {
    let fallbacks = Arc::<AtomicU64>::default();
    let mut out = Outbox::default();
    for piece in [Piece::Cached(10, 0, 100, 0), Piece::Pages(50, 200)] {
        push(&piece, &fallbacks, &mut out);
        let Some(NextWrite::Pipe(region)) = out.front() else { panic!("a pipe") };
        let len = region.len;
        match &mut region.source {
            PipeSource::Pages(pages) => pages.scratch = Some(scratch(len)),
            source @ (PipeSource::Cached(_) | PipeSource::Filled(_)) => *source = PipeSource::Filled(scratch(len)),
        }
        out.advance(3);
        assert!(!out.fall_back());
        out.advance(len as usize - 3);
        assert!(out.emptied_pipe().is_some_and(|scratch| scratch.filled == 0) && out.is_idle());
    }
    assert_eq!(fallbacks.load(Ordering::Relaxed), 0);
}

/// A driver that takes segments falls back by itself.
#[test]
fn a_taken_region_knows_what_it_is_without_a_pipe() {
    let (mut out, fallbacks) = (Outbox::default(), Arc::<AtomicU64>::default());
    push(&Piece::Cached(10, 7, 100, 0), &fallbacks, &mut out);
    let Taken::Segment(Segment::Pipe(region)) = out.take() else { panic!("a pipe") };
    let (head, file) = region.fall_back().expect("nothing of it is in a scratch pipe");
    assert_eq!((head.len(), file.offset, file.len), (10, 7, 100));
    assert_eq!(fallbacks.load(Ordering::Relaxed), 1);
    out.recycle(Segment::File(file));
    assert!(out.is_idle() && out.emptied_pipe().is_none());
}
