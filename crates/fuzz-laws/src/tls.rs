//! TLS between a client of rustls and a session of the layer. What is on its way to the server is torn and altered.

use std::{
    fs,
    io::{Read, Write},
    os::fd::AsFd,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use bytes::Bytes;
use proto::{Limits, Now, Outbox, Peer, Protocol, Session, Step};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    crypto::aws_lc_rs,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use tls::{Config, Settings, Tls};

use crate::{
    session::{take_one, write_some},
    tearing::Tearing,
};

/// Byte that is answered with many.
const LARGE: u8 = b'L';
const LARGE_BYTES: usize = 20_000;
/// Bytes that may be queued: what an outbox holds, the end of the reply that filled it, and the records around them.
const HELD_BYTES_MAX: usize = (256 << 10) + 2 * LARGE_BYTES;
/// Number of commands, and of small writes to the client: more of them would find nothing new.
const COMMANDS_MAX: usize = 30;
const SMALL_WRITES_MAX: u32 = 400;
const WRITE_BYTES: usize = 60_000;

/// Answers each byte with itself, or with many.
struct Echo {
    large: Bytes,
}

impl Protocol for Echo {
    type Conn = ();

    fn open(&self, _: Peer<'_>, _: Now) {}

    fn on_input(&self, (): &mut (), input: &[u8], _: Now, out: &mut Outbox) -> Step {
        let mut consumed = 0;
        while consumed < input.len() && !out.is_full() {
            match input[consumed] {
                LARGE => out.push_shared(&self.large),
                byte => out.inline().push(byte),
            }
            consumed += 1;
        }
        Step::open(consumed)
    }
}

/// A layer and clients that trust it, of TLS 1.2 and 1.3, shared by all runs of a process.
struct World {
    layer: Tls<Echo>,
    clients: [Arc<ClientConfig>; 2],
    now: Now,
}

impl World {
    fn new() -> Self {
        // Signatures of this kind have one length, so that an input means the same each time.
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let params = CertificateParams::new(vec!["localhost".to_owned()]).expect("a name");
        let certificate = params.self_signed(&key).expect("a certificate");
        let directory = tempfile::tempdir().expect("a directory");
        let pair = tls::KeyPair { certificate: directory.path().join("pem"), key: directory.path().join("key") };
        fs::write(&pair.certificate, certificate.pem()).expect("a file");
        fs::write(&pair.key, key.serialize_pem()).expect("a file");
        let config = Config::load(Settings { pairs: vec![pair], ..Settings::default() }).expect("a configuration");
        let echo = Echo { large: Bytes::from(vec![LARGE; LARGE_BYTES]) };
        let layer = Tls::new(Arc::new(echo), Arc::new(config), Limits::default(), Duration::from_secs(10));
        let clients = [&TLS12, &TLS13].map(|version| {
            let mut roots = RootCertStore::empty();
            roots.add(certificate.der().clone()).expect("a certificate");
            let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
                .with_protocol_versions(&[version])
                .expect("a version");
            Arc::new(builder.with_root_certificates(roots).with_no_client_auth())
        });
        Self { layer, clients, now: Now { instant: Instant::now(), unix: Duration::ZERO } }
    }
}

/// Both sides, and what is between them.
struct Link<'a> {
    world: &'a World,
    client: ClientConnection,
    session: Session<Tls<Echo>>,
    /// Ciphertext on its way.
    to_server: Vec<u8>,
    /// Plaintext that was sent, and the reply as far as it has come.
    sent: Vec<u8>,
    received: Vec<u8>,
    /// The client has said close_notify, and the server has.
    has_closed: bool,
    is_closed: bool,
    error: Option<rustls::Error>,
    input: Tearing,
    output: Tearing,
    writes: u32,
    /// True if segments are taken out of the outbox instead of borrowing the front.
    takes: bool,
}

/// Records that come as they may are no reason to panic, little is held, and the reply is a beginning of
/// that to what was sent. If they are only torn, it is the whole reply. The first two bytes say how bytes travel; commands
/// of two bytes follow, some with more behind them.
pub fn tls(data: &[u8]) {
    let [seed, ways, commands @ ..] = data else { return };
    static WORLD: OnceLock<World> = OnceLock::new();
    let mut link = Link::new(WORLD.get_or_init(World::new), *seed, *ways);
    let (mut commands, mut is_altered) = (commands, false);
    for _ in 0..COMMANDS_MAX {
        let [command, argument, rest @ ..] = commands else { break };
        let kind = command % 10;
        let (bytes, behind) =
            rest.split_at(if matches!(kind, 3..7) { 0 } else { rest.len().min(usize::from(argument % 16)) });
        commands = behind;
        match kind {
            0..3 => link.send(bytes),
            3 => link.send(&vec![LARGE; usize::from(argument % 20)]),
            4 => link.send(&vec![*argument; usize::from(*argument) * 20]),
            5 => drop(link.client.refresh_traffic_keys()),
            6 => link.close(),
            kind => is_altered |= link.alter(kind, *argument, bytes),
        }
        // Otherwise it travels with what follows.
        if command & 64 == 0 {
            link.deliver();
        }
    }
    link.deliver();
    link.close();
    link.deliver();
    link.session.end_of_input();
    while link.flush() {}
    link.check(is_altered);
}

impl<'a> Link<'a> {
    fn new(world: &'a World, seed: u8, ways: u8) -> Self {
        let mut config = (*world.clients[usize::from(ways & 1)]).clone();
        config.max_fragment_size = (ways & 2 != 0).then_some(32);
        let client = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").expect("a name"));
        let mut client = client.expect("a client");
        client.set_buffer_limit(None);
        let stdin = std::io::stdin();
        let peer = Peer::unknown(stdin.as_fd(), 0);
        Self {
            world,
            client,
            session: Session::new(&world.layer, peer, Limits::default(), world.now),
            to_server: Vec::new(),
            sent: Vec::new(),
            received: Vec::new(),
            has_closed: false,
            is_closed: false,
            error: None,
            input: Tearing::new(seed),
            output: Tearing::new(ways >> 3),
            writes: 0,
            takes: ways & 4 != 0,
        }
    }

    fn send(&mut self, plain: &[u8]) {
        if !self.has_closed && self.error.is_none() {
            self.client.writer().write_all(plain).expect("there is no limit");
            self.sent.extend_from_slice(plain);
        }
    }

    fn close(&mut self) {
        if self.error.is_none() && !self.client.is_handshaking() && !std::mem::replace(&mut self.has_closed, true) {
            self.client.send_close_notify();
        }
    }

    fn collect(&mut self) {
        while self.client.wants_write() {
            self.client.write_tls(&mut self.to_server).expect("memory");
        }
    }

    /// Alters what is on its way. Returns true if it is another stream now.
    fn alter(&mut self, kind: u8, place: u8, bytes: &[u8]) -> bool {
        self.collect();
        let at = self.to_server.len() * usize::from(place) / 256;
        let end = self.to_server.len().min(at + bytes.len());
        match kind {
            7 => self.to_server.iter_mut().skip(at).zip(bytes).for_each(|(byte, change)| *byte ^= change | 1),
            8 => drop(self.to_server.drain(at..end)),
            _ => drop(self.to_server.splice(at..at, bytes.iter().copied())),
        }
        if kind == 9 { !bytes.is_empty() } else { end > at }
    }

    /// Moves bytes in both directions until nothing moves.
    fn deliver(&mut self) {
        loop {
            self.collect();
            let mut has_moved = false;
            while !self.to_server.is_empty() && self.session.wants_read() {
                let piece: Vec<u8> = self.to_server.drain(..self.to_server.len().min(self.input.next())).collect();
                self.session.feed(&self.world.layer, &piece, self.world.now);
                self.flush();
                has_moved = true;
            }
            has_moved |= self.flush();
            if !has_moved {
                return;
            }
        }
    }

    /// Writes a little, like a socket that is nearly full.
    fn flush(&mut self) -> bool {
        assert!(self.session.outbox().held_bytes() <= HELD_BYTES_MAX, "{}", self.session.outbox().held_bytes());
        let mut bytes = Vec::new();
        if self.takes {
            take_one(&mut self.session, &mut bytes);
        } else {
            self.writes += 1;
            let max = if self.writes > SMALL_WRITES_MAX { WRITE_BYTES } else { self.output.next() };
            write_some(&mut self.session, &mut bytes, max);
        }
        if !bytes.is_empty() {
            self.session.sent(self.world.now);
        }
        let had_turn = self.session.wants_turn(&self.world.layer, !bytes.is_empty());
        if had_turn {
            self.session.resume(&self.world.layer, self.world.now);
        }
        self.read(&bytes);
        !bytes.is_empty() || !self.session.outbox().is_empty()
    }

    /// Has the client process what has come.
    fn read(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.error.is_none() {
            self.client.read_tls(&mut bytes).expect("memory");
            match self.client.process_new_packets() {
                Ok(state) => self.take_plaintext(state.plaintext_bytes_to_read(), state.peer_has_closed()),
                Err(error) => self.error = Some(error),
            }
        }
    }

    fn take_plaintext(&mut self, len: usize, is_closed: bool) {
        let begin = self.received.len();
        self.received.resize(begin + len, 0);
        self.client.reader().read_exact(&mut self.received[begin..]).expect("what is there");
        self.is_closed |= is_closed;
    }

    fn check(mut self, is_altered: bool) {
        let wanted = self.sent.iter().map(|&byte| if byte == LARGE { LARGE_BYTES } else { 1 });
        let wanted: Vec<u8> =
            self.sent.iter().zip(wanted).flat_map(|(&byte, count)| std::iter::repeat_n(byte, count)).collect();
        assert!(wanted.starts_with(&self.received), "{} bytes, of {}", self.received.len(), wanted.len());
        let has_ended = self.session.is_done() || self.session.begin_lingering(self.world.now);
        assert!(has_ended, "all has been said");
        if !is_altered {
            assert_eq!((self.received.len(), self.error), (wanted.len(), None));
            assert!(self.is_closed, "no close_notify");
        }
    }
}
