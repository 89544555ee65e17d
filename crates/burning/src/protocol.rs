//! A protocol around another that burns CPU time on each request.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use loadgen::null::{Burn, BurnOption};
use proto::{BatchEntry, Flow, Now, Outbox, Peer, Protocol, ProxyAddresses, Secured, Step};

/// The protocol. A request is whatever input the inner protocol has consumed in one turn: that is one where a client has one
/// request outstanding, and fewer in a pipeline.
#[derive(Debug)]
pub struct BurningProtocol<P> {
    inner: Arc<P>,
    burns: Vec<SharedBurn>,
}

/// A burn that all threads of a server share.
#[derive(Debug)]
struct SharedBurn {
    burn: Burn,
    requests: AtomicU64,
}

impl<P: Protocol> BurningProtocol<P> {
    pub fn new(inner: Arc<P>, options: &[BurnOption]) -> Self {
        let calibrated = |option: &BurnOption| Burn::calibrated(option.cpu_ns, option.every);
        let burns = options.iter().map(|option| SharedBurn { burn: calibrated(option), requests: AtomicU64::new(0) });
        Self { inner, burns: burns.collect() }
    }

    /// Measures the CPU time that is burnt on a request, in nanoseconds.
    #[must_use]
    pub fn measure(&self) -> f64 {
        self.burns.iter().map(|shared| shared.burn.measure()).sum()
    }

    fn burn(&self, requests: u64) {
        for SharedBurn { burn, requests: passed } in &self.burns {
            burn.spend_after(passed.fetch_add(requests, Relaxed), requests);
        }
    }
}

impl<P: Protocol> Protocol for BurningProtocol<P> {
    type Conn = P::Conn;

    const BATCH: usize = P::BATCH;
    const OBSERVES_OUTPUT: bool = P::OBSERVES_OUTPUT;
    const PUSHES: bool = P::PUSHES;
    const STREAMS: bool = P::STREAMS;

    fn open(&self, peer: Peer<'_>, now: Now) -> Self::Conn {
        self.inner.open(peer, now)
    }

    fn is_multiplexed(&self, conn: &Self::Conn) -> bool {
        self.inner.is_multiplexed(conn)
    }

    fn on_drain(&self, conn: &mut Self::Conn) -> bool {
        self.inner.on_drain(conn)
    }

    fn is_streaming(&self, conn: &Self::Conn) -> bool {
        self.inner.is_streaming(conn)
    }

    fn on_secured(&self, conn: &mut Self::Conn, secured: Secured<'_>) {
        self.inner.on_secured(conn, secured);
    }

    fn on_proxied(&self, conn: &mut Self::Conn, addresses: ProxyAddresses) {
        self.inner.on_proxied(conn, addresses);
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], now: Now, out: &mut Outbox) -> Step {
        let step = self.inner.on_input(conn, input, now, out);
        self.burn(u64::from(step.consumed > 0));
        step
    }

    fn on_ready(&self, entries: &mut [BatchEntry<'_, Self::Conn>], now: Now) {
        self.inner.on_ready(entries, now);
        let requests = entries.iter().filter(|entry| entry.step.consumed > 0).count();
        self.burn(requests as u64);
    }

    fn on_end(&self, conn: &mut Self::Conn, now: Now, out: &mut Outbox) -> Flow {
        self.inner.on_end(conn, now, out)
    }

    fn deadline(&self, conn: &Self::Conn, quiet_since: Instant) -> Option<Instant> {
        self.inner.deadline(conn, quiet_since)
    }

    fn on_deadline(&self, conn: &mut Self::Conn, now: Now, out: &mut Outbox) -> Flow {
        self.inner.on_deadline(conn, now, out)
    }

    fn on_sent(&self, conn: &mut Self::Conn, out: &Outbox, clock: fn() -> Now) {
        self.inner.on_sent(conn, out, clock);
    }

    fn retire(&self, conn: &mut Self::Conn) -> bool {
        self.inner.retire(conn)
    }

    fn refusal(&self) -> &[u8] {
        self.inner.refusal()
    }
}

#[cfg(test)]
mod tests {
    use std::{os::fd::AsFd as _, time::Duration};

    use super::*;

    /// Answers each line with itself.
    struct Lines;

    impl Protocol for Lines {
        type Conn = ();

        const BATCH: usize = 4;

        fn open(&self, _: Peer<'_>, _: Now) {}

        fn on_input(&self, _: &mut (), input: &[u8], _: Now, out: &mut Outbox) -> Step {
            let whole = input.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
            out.inline().extend_from_slice(&input[..whole]);
            Step::open(whole)
        }

        fn refusal(&self) -> &[u8] {
            b"full"
        }
    }

    fn now() -> Now {
        Now { instant: Instant::now(), unix: Duration::ZERO }
    }

    fn requests(protocol: &BurningProtocol<Lines>) -> u64 {
        protocol.burns[0].requests.load(Relaxed)
    }

    #[test]
    fn each_request_is_burnt_for_and_no_part_of_one() {
        let option = BurnOption { cpu_ns: 100, every: 1 };
        let (protocol, mut out) = (BurningProtocol::new(Arc::new(Lines), &[option]), Outbox::default());
        let inputs = [&b"a\n"[..], b"b", b"bb\n", b""];
        let counts = inputs.map(|input| {
            let _ = protocol.on_input(&mut (), input, now(), &mut out);
            requests(&protocol)
        });
        assert_eq!(counts, [1, 1, 2, 2]);
        assert_eq!(out.inline(), b"a\nbb\n");
        let (mut conns, mut outs) = ([(), (), ()], [(); 3].map(|()| Outbox::default()));
        let entries = conns.iter_mut().zip(&mut outs).zip([&b"c\n"[..], b"d", b"e\n"]);
        let mut entries: Vec<_> =
            entries.map(|((conn, out), input)| BatchEntry { conn, input, out, step: Step::open(0) }).collect();
        protocol.on_ready(&mut entries, now());
        assert_eq!(requests(&protocol), 4);
        assert!(protocol.measure() > 0.0);
    }

    #[test]
    fn what_drivers_ask_a_protocol_is_what_the_inner_one_says() {
        let protocol = BurningProtocol::new(Arc::new(Lines), &[]);
        assert_eq!((protocol.refusal(), BurningProtocol::<Lines>::BATCH), (&b"full"[..], 4));
        protocol.open(Peer::unknown(std::io::stdin().as_fd(), 0), now());
        assert_eq!(protocol.deadline(&(), Instant::now()), None);
        assert!(protocol.retire(&mut ()) && !protocol.on_drain(&mut ()));
    }
}
