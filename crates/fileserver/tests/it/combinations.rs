//! Every combination of everything gives the same answers.

use clap::ValueEnum;
use fileserver::{
    Combination, ProtocolKind,
    cache::{CacheMapKind, EvictionKind},
    requests::RequestMapKind,
};
use layouts::LayoutKind;
use testkit::examine;
use wire::file::Status;

use crate::common::{Collection, DATABASE, DOCUMENTS, PLAIN, Setup, World, caches, contents, frame};

const MISSING: &[u8] = b"MISSING9";

/// All that `--list-backends` calls valid beside the driver.
fn setups() -> Vec<Setup> {
    let layouts = LayoutKind::value_variants().iter().map(|&layout| Setup { layout, ..PLAIN });
    // A database knows no layout.
    let sources: Vec<_> = layouts.chain([DATABASE]).collect();
    let mut setups = Vec::new();
    for &protocol in ProtocolKind::value_variants() {
        for &requests in RequestMapKind::value_variants() {
            for choice in caches() {
                let choice = Combination { protocol, requests, ..choice };
                setups.extend(sources.iter().map(|&source| Setup { choice, ..source }));
            }
        }
    }
    setups
}

fn serves(setup: &Setup, collection: &Collection) {
    let world = World::new(setup, collection);
    let ids: Vec<&[u8]> = DOCUMENTS.iter().map(|(id, _)| id.as_bytes()).chain([MISSING]).collect();
    for _ in 0..2 {
        let got = world.get_all(&ids);
        assert_eq!(got.len(), ids.len());
        for ((id, size), (status, body)) in DOCUMENTS.iter().zip(&got) {
            assert!(*status == Status::Found && *body == contents(id, *size), "{id}: {status:?}, {} bytes", body.len());
        }
        assert_eq!(got.last(), Some(&(Status::Missing, Vec::new())));
    }
    let (statistics, (used, _)) = (world.server.statistics(), world.server.cache());
    let (found, documents) = (2 * DOCUMENTS.len() as u64, DOCUMENTS.len());
    assert_eq!(statistics.answers, [found, 2, 0, 0, 0]);
    let keeps = setup.choice.cache_map != CacheMapKind::None;
    let hits = if keeps { documents as u64 } else { 0 };
    assert_eq!(
        (statistics.hits, statistics.loads),
        (hits, found + 2 - hits),
        "a miss is not kept, a hit is not loaded"
    );
    // Without a map there may be the order of use, of all that was found.
    let orders = !keeps && setup.choice.eviction == EvictionKind::Mutex;
    assert_eq!(
        used.entries,
        if keeps {
            documents
        } else if orders {
            2 * documents
        } else {
            0
        }
    );
    // The large ones of a database are temporary files.
    assert_eq!(used.descriptors, if keeps { 2 } else { 0 }, "{used:?}");
}

#[test]
fn every_combination_serves_every_document() {
    let setups = setups();
    assert_eq!(setups.len(), 2 * 3 * 11 * 5);
    let collections: Vec<_> =
        LayoutKind::value_variants().iter().map(|&layout| (layout, Collection::new(layout))).collect();
    for setup in setups {
        let collection = collections.iter().find(|(layout, _)| *layout == setup.layout);
        let outcome = std::panic::catch_unwind(|| serves(&setup, &collection.expect("each layout has one").1));
        assert!(outcome.is_ok(), "{setup:?}");
    }
}

/// The entry of a connection is there from its first moment to its last.
#[test]
fn the_request_map_holds_the_open_connections() {
    let collection = Collection::new(LayoutKind::Flat);
    examine(RequestMapKind::value_variants(), 3, |&requests| {
        let setup = Setup { choice: Combination { requests, ..PLAIN.choice }, ..PLAIN };
        let world = World::new(&setup, &collection);
        let mut sessions: Vec<_> = (0..100).map(|_| world.session()).collect();
        assert_eq!(world.server.connections(), 100);
        // Torn requests of many connections do not meet.
        let request = frame(DOCUMENTS[2].0.as_bytes());
        for cut in 0..request.len() {
            for session in &mut sessions {
                session.feed(&world.server, &request[cut..=cut], world.now);
            }
        }
        let wanted = contents(DOCUMENTS[2].0, DOCUMENTS[2].1);
        for session in &mut sessions {
            let mut bytes = Vec::new();
            testkit::dialogue::flush(session, &mut bytes, usize::MAX);
            assert!(bytes.ends_with(&wanted) && bytes.len() == 9 + wanted.len());
        }
        sessions.truncate(40);
        assert_eq!(world.server.connections(), 40);
        drop(sessions);
        assert_eq!(world.server.connections(), 0);
        Ok(())
    });
}
