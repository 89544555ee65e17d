//! The hot path allocates nothing.

use http_server::SiteOptions;
use proto::{Outbox, Protocol};

use crate::common::World;

#[test]
fn a_cached_get_allocates_nothing() {
    let world = World::new(SiteOptions::default());
    world.write("small.txt", [b's'; 128]);
    world.write("sub/index.html", "<p>sub");
    for (path, fields) in
        [("/small.txt", ""), ("/sub/", "Connection: keep-alive\r\nAccept: */*\r\n"), ("/missing/", "")]
    {
        let request = format!("GET {path}?query HTTP/1.1\r\nHost: h:80\r\n{fields}\r\n").repeat(4);
        let (mut conn, mut out) = (world.server.new_connection(), Outbox::default());
        let mut answer = || {
            let step = world.server.on_input(&mut conn, request.as_bytes(), world.now, &mut out);
            assert_eq!(step.consumed, request.len());
            let len = out.inline().len();
            out.advance(len);
            len
        };
        // The first fills the cache, makes the outbox its buffer and the thread its date and its stripe.
        let first = answer();
        let mut second = 0;
        let counted = allocation_counter::measure(|| second = answer());
        assert_eq!(first, second);
        let is_cached = path != "/missing/";
        assert_eq!(counted.count_total == 0, is_cached, "{} allocations for {path}", counted.count_total);
    }
}
