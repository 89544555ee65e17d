//! The hot path allocates nothing.

use std::{sync::Arc, time::Instant};

use clap::ValueEnum;
use proto::{Now, Outbox, Protocol, Segment, Taken};
use sys::{beneath::Root, registered::Region};
use web::HttpOptions;
use zerocopy::{Access, Cache, CacheOptions, CachedSite, Strategy, StrategyChoice, ZerocopyServer};

/// Takes all output away, as a driver does that writes it all at once.
fn sink(out: &mut Outbox) -> usize {
    let mut sum = 0;
    while let Taken::Segment(segment) = out.take() {
        sum += match &segment {
            Segment::File(region) => region.len as usize,
            Segment::Pipe(region) => region.len as usize,
            Segment::Owned(_) | Segment::Shared(_) | Segment::Mapped(_) => segment.memory().map_or(0, <[u8]>::len),
            Segment::Deferred(_) | Segment::KernelTls(_) => panic!("never made by this server"),
        };
        out.recycle(segment);
    }
    sum
}

#[test]
fn a_cached_get_allocates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), vec![b'x'; 26_510]).unwrap();
    crate::setup::settle();
    for &strategy in Strategy::value_variants() {
        let options = CacheOptions { strategy: StrategyChoice::Always(strategy), ..CacheOptions::default() };
        let region = Region::new(1 << 20).unwrap();
        let root = Root::open(dir.path()).unwrap();
        let cache = Arc::new(Cache::new(root, Arc::default(), options, Some(region)));
        let site = CachedSite::new(cache, Access::new(None, &[], false));
        let server = ZerocopyServer::new(site, HttpOptions::default());
        let now = Now { instant: Instant::now(), unix: sys::clock::unix_coarse() };
        let request = "GET /file HTTP/1.1\r\nHost: h:80\r\n\r\n";
        let (mut conn, mut out) = (server.new_connection(), Outbox::default());
        let mut answer = || {
            let step = server.on_input(&mut conn, request.as_bytes(), now, &mut out);
            assert_eq!(step.consumed, request.len());
            sink(&mut out)
        };
        // The first fills the cache, makes the outbox its queue and the thread its date and its stripe.
        let first = (answer(), answer()).1;
        let mut third = 0;
        let counted = allocation_counter::measure(|| third = answer());
        assert!(first == third && first > 26_510, "{strategy}: {first} and {third} bytes");
        assert_eq!(counted.count_total, 0, "{strategy}");
    }
}
