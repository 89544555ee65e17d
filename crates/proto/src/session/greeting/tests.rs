use std::{
    net::SocketAddr,
    os::fd::AsFd,
    sync::{Mutex, atomic::AtomicUsize},
    time::{Duration, Instant},
};

use super::*;
use crate::{BatchInput, ClientConnections, Flow, Limits, Outbox, Peer, Step, run_batch};

const V1: &[u8] = b"PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n";
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Echoes lines, behind the address of the client that a proxy has named.
struct Echo;

impl Protocol for Echo {
    type Conn = Option<SocketAddr>;

    fn open(&self, _: Peer<'_>, _: Now) -> Self::Conn {
        None
    }

    fn on_proxied(&self, conn: &mut Self::Conn, addresses: ProxyAddresses) {
        *conn = Some(addresses.client);
    }

    fn on_input(&self, conn: &mut Self::Conn, input: &[u8], _: Now, out: &mut Outbox) -> Step {
        assert!(!input.starts_with(b"PROXY"), "no header reaches the protocol");
        let whole = input.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        for line in input[..whole].split_inclusive(|&byte| byte == b'\n') {
            out.inline().extend_from_slice(format!("{conn:?} ").as_bytes());
            out.inline().extend_from_slice(line);
        }
        Step::open(whole)
    }

    fn on_deadline(&self, _: &mut Self::Conn, _: Now, _: &mut Outbox) -> Flow {
        Flow::Abort
    }

    fn refusal(&self) -> &[u8] {
        b"full\n"
    }
}

#[expect(clippy::disallowed_methods, reason = "there is no other way to make an Instant")]
fn now() -> Now {
    Now { instant: Instant::now(), unix: Duration::ZERO }
}

/// Rules that trust every peer of IPv4, with so many connections for each client.
fn admission(max: usize) -> &'static Admission {
    let mut admission = Admission::new(Duration::from_secs(5), |_| {
        REPORTS.fetch_add(1, Ordering::Relaxed);
    });
    admission.proxies = vec!["0.0.0.0/0".parse().unwrap()];
    admission.clients = Some(ClientConnections::new(max));
    // Reachable to the end, or LeakSanitizer would report it.
    static KEPT: Mutex<Vec<&Admission>> = Mutex::new(Vec::new());
    let admission: &'static Admission = Box::leak(Box::new(admission));
    KEPT.lock().unwrap().push(admission);
    admission
}

static REPORTS: AtomicUsize = AtomicUsize::new(0);

fn session_from(address: &str, admission: &'static Admission, now: Now) -> Session<Echo> {
    let socket = std::io::stdin();
    let lookup = match address {
        "4" => |_: std::os::fd::BorrowedFd<'_>| PeerAddress::Tcp(([203, 0, 113, 1], 9).into()),
        _ => |_: std::os::fd::BorrowedFd<'_>| PeerAddress::Unix,
    };
    let limits = Limits { admission: Some(admission), ..Limits::default() };
    Session::new(&Echo, Peer::new(socket.as_fd(), 0, lookup), limits, now)
}

fn said(session: &mut Session<Echo>) -> String {
    String::from_utf8(session.outbox().inline().clone()).unwrap()
}

#[test]
fn replies_do_not_depend_on_how_the_header_is_torn() {
    let now = now();
    for (header, client) in [(V1, "Some(192.0.2.1:56324)"), (LOCAL, "None")] {
        let input = [header, b"a\nb\n"].concat();
        for step in 1..=input.len() {
            for way in ["fed", "held", "batched"] {
                let mut session = session_from("4", admission(1), now);
                for piece in input.chunks(step) {
                    assert!(session.wants_read() && !session.is_done());
                    match way {
                        "fed" => session.feed(&Echo, piece, now),
                        "held" => {
                            session.hold(piece, now);
                            session.resume(&Echo, now);
                        }
                        _ => run_batch(&Echo, &mut [BatchInput { session: &mut session, lent: piece }], now),
                    }
                }
                assert_eq!(said(&mut session), format!("{client} a\n{client} b\n"), "{way} {step}");
            }
        }
    }
}

#[test]
fn a_peer_that_is_not_named_speaks_for_itself() {
    let now = now();
    let mut session = session_from("unix", admission(1), now);
    session.feed(&Echo, b"a\n", now);
    assert_eq!(said(&mut session), "None a\n");
}

#[test]
fn a_proxy_without_a_header_is_cut_off_at_once_or_in_time() {
    let now = now();
    for bad in [&b"GET / HTTP/1.1\r\n"[..], b"PROXY TCP4 x\r\n", &[b'P'; 200], b"\r\n\r\n\0\r\nQUIT\n\x31"] {
        let admission = admission(1);
        let mut session = session_from("4", admission, now);
        session.feed(&Echo, bad, now);
        session.feed(&Echo, &[0; 200], now);
        assert!(session.is_aborted() && session.is_done() && session.outbox().is_idle(), "{}", bad.escape_ascii());
        assert_eq!(admission.headers_refused(), 1);
    }
    let admission = admission(1);
    let mut session = session_from("4", admission, now);
    session.feed(&Echo, &V1[..V1.len() - 1], now);
    let until = session.deadline(&Echo).unwrap();
    assert_eq!(until, now.instant + Duration::from_secs(5), "however its bytes trickle in");
    session.tick(&Echo, Now { instant: until, ..now }, || unreachable!("nothing is unsent"));
    assert!(session.is_done());
    assert_eq!(admission.headers_refused(), 1);
}

#[test]
fn a_connection_that_ends_before_its_header_is_over() {
    let now = now();
    let mut session = session_from("4", admission(1), now);
    session.feed(&Echo, &V1[..7], now);
    session.end_of_input();
    assert!(session.is_done());
}

#[test]
fn the_limit_of_a_client_counts_what_proxies_bring() {
    let (now, admission) = (now(), admission(1));
    let mut first = session_from("4", admission, now);
    first.feed(&Echo, V1, now);
    let mut second = session_from("4", admission, now);
    second.feed(&Echo, &[V1, b"a\n"].concat(), now);
    assert_eq!(said(&mut second), "full\n");
    assert!(!second.wants_read());
    let mut local = session_from("4", admission, now);
    local.feed(&Echo, &[LOCAL, b"a\n"].concat(), now);
    assert_eq!(said(&mut local), "None a\n", "the proxy itself is no client");
    drop(first);
    let mut third = session_from("4", admission, now);
    third.feed(&Echo, &[V1, b"a\n"].concat(), now);
    assert_eq!(said(&mut third), "Some(192.0.2.1:56324) a\n");
}
