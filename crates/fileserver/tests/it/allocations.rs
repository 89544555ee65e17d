//! The hot path allocates nothing.

use std::os::fd::AsFd;

use clap::ValueEnum;
use fileserver::{Combination, ProtocolKind, cache::CacheMapKind};
use layouts::LayoutKind;
use proto::{Flow, Outbox, Peer, Protocol};

use crate::common::{Collection, DOCUMENTS, PLAIN, Setup, World, caches, frame};

#[test]
fn a_cached_document_is_served_without_an_allocation() {
    let collection = Collection::new(LayoutKind::Flat);
    for choice in caches() {
        for &protocol in ProtocolKind::value_variants() {
            let setup = Setup { choice: Combination { protocol, ..choice }, ..PLAIN };
            let world = World::new(&setup, &collection);
            let keeps = choice.cache_map != CacheMapKind::None;
            for (id, size) in DOCUMENTS {
                let request = match protocol {
                    ProtocolKind::Original => id.as_bytes().to_vec(),
                    ProtocolKind::Framed => frame(id.as_bytes()),
                };
                let stdin = std::io::stdin();
                let mut out = Outbox::default();
                let mut answer = || {
                    let mut conn = world.server.open(Peer::unknown(stdin.as_fd(), 0), world.now);
                    let step = world.server.on_input(&mut conn, &request, world.now, &mut out);
                    assert_eq!(
                        (step.consumed, step.flow == Flow::Open),
                        (8.max(request.len()), protocol == ProtocolKind::Framed)
                    );
                    let mut len = 0;
                    while let Some(front) = out.front() {
                        let n = match front {
                            proto::NextWrite::Memory(pieces, count) => {
                                pieces[..count].iter().map(|piece| piece.len()).sum()
                            }
                            proto::NextWrite::File(region) => usize::try_from(region.len).unwrap(),
                            proto::NextWrite::Pipe(_) | proto::NextWrite::KernelTls(_) | proto::NextWrite::Waiting => {
                                panic!("not cached")
                            }
                        };
                        out.advance(n);
                        len += n;
                    }
                    len
                };
                // The first fill the cache, make the outbox its buffers, the thread its stripe and the map its table.
                (0..64).for_each(|_| _ = answer());
                let mut sent = 0;
                let counted = allocation_counter::measure(|| sent = answer());
                let head = if protocol == ProtocolKind::Framed { 9 } else { 0 };
                assert_eq!(sent, size + head);
                assert_eq!(counted.count_total == 0, keeps, "{} allocations: {setup:?}, {id}", counted.count_total);
            }
        }
    }
}
