//! The hot path allocates nothing.

use http_server::SiteOptions;
use proto::{NextWrite, Outbox, Protocol};
use web::codec;
use wire::http1::coding::Coding;

use crate::common::World;

#[test]
fn a_cached_get_allocates_nothing() {
    let world = World::new(SiteOptions::default());
    world.write("small.txt", [b's'; 128]);
    world.write("sub/index.html", "<p>sub");
    // Compressed still larger than what is sent from memory.
    let page: String =
        (0..20_000_u64).map(|line| format!("<p>{:x}\n", line.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    world.write("made.html", &page);
    world.write("stored.html", &page);
    world.write("stored.html.br", codec::compress(Coding::Brotli, page.as_bytes()).unwrap().unwrap());
    let browser = "Accept: text/html\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n";
    for path in ["/made.html", "/stored.html"] {
        let got = world.get_with(path, browser);
        assert_eq!(got.field("content-encoding"), Some("br"), "{path}");
    }
    // A body that is sent by itself leaves its head in a buffer of its own, of which an outbox keeps two.
    for (path, fields, pipelined) in [
        ("/small.txt", "", 4),
        ("/small.txt", browser, 4),
        ("/sub/", "Connection: keep-alive\r\nAccept: */*\r\n", 4),
        ("/made.html", browser, 1),
        ("/stored.html", browser, 1),
        ("/missing/", "", 4),
    ] {
        let request = format!("GET {path}?query HTTP/1.1\r\nHost: h:80\r\n{fields}\r\n").repeat(pipelined);
        let (mut conn, mut out) = (world.server.new_connection(), Outbox::default());
        let mut answer = || {
            let step = world.server.on_input(&mut conn, request.as_bytes(), world.now, &mut out);
            assert_eq!(step.consumed, request.len());
            let mut sent = 0;
            while let Some(next) = out.front() {
                let len = match next {
                    NextWrite::Memory(pieces, count) => pieces[..count].iter().map(|piece| piece.len()).sum(),
                    NextWrite::File(region) => usize::try_from(region.len).unwrap(),
                    NextWrite::Pipe(_) | NextWrite::KernelTls(_) | NextWrite::Waiting => {
                        panic!("nothing has to be made")
                    }
                };
                out.advance(len);
                sent += len;
            }
            sent
        };
        // The first fills the cache, makes the outbox its buffers and the thread its date and its stripe.
        let first = (answer(), answer()).1;
        let mut second = 0;
        let counted = allocation_counter::measure(|| second = answer());
        assert_eq!(first, second);
        let is_cached = path != "/missing/";
        assert_eq!(counted.count_total == 0, is_cached, "{} allocations for {path}", counted.count_total);
    }
}
