//! Kernel TLS, with a kernel of this file.

use std::sync::Arc;

use proto::{KernelTls, Limits, NextWrite, Protocol, Session};
use rustls::{
    CipherSuite, ContentType, ProtocolVersion, SupportedCipherSuite,
    crypto::{
        aws_lc_rs::ALL_CIPHER_SUITES,
        cipher::{AeadKey, Iv, MessageEncrypter, OutboundChunks, OutboundPlainMessage},
    },
    version::TLS13,
};
use sys::ktls::Support;
use testkit::in_memory;
use tls::{Config, Settings, Tls};

use crate::{
    harness::{Authority, HANDSHAKE_MAX, LARGE, Link, Pieces, Server, VERSIONS},
    lines::{CONTENT_BYTES, Lines},
};

/// The kernel of one connection: it takes steps, and encrypts with the keys that it is given.
#[derive(Default)]
pub(crate) struct Kernel {
    pub(crate) refuses: bool,
    keys: Option<Keys>,
    /// Bytes of files that it was given to encrypt.
    pub(crate) file_bytes: u64,
}

/// Contents of `tls12_crypto_info_*` with a key of 32 bytes (linux/tls.h).
struct Keys {
    version: u16,
    cipher: u16,
    key: [u8; 32],
    iv: [u8; 12],
    sequence: u64,
    /// Records so far.
    count: u64,
}

impl Kernel {
    /// Moves at most `max` bytes of output to `sink`, as a driver does.
    pub(crate) fn flush<P: Protocol>(&mut self, session: &mut Session<P>, sink: &mut Vec<u8>, max: usize) -> usize {
        match session.outbox().front() {
            Some(NextWrite::KernelTls(step)) => {
                match step {
                    KernelTls::Attach if self.refuses => {
                        session.outbox().refuse_kernel_tls();
                        return 1; // Something has moved.
                    }
                    KernelTls::Attach => {}
                    KernelTls::Start(keys) => self.keys = Some(Keys::parse(keys.bytes())),
                    KernelTls::Record { content_type, payload } => {
                        let keys = self.keys.as_mut().expect("it encrypts");
                        keys.encrypt(ContentType::from(*content_type), payload, sink);
                    }
                }
                session.outbox().complete_kernel_tls();
                1
            }
            Some(NextWrite::Memory(pieces, _)) if let Some(keys) = &mut self.keys => {
                let n = pieces[0].len().min(max).min(16_384);
                keys.encrypt(ContentType::ApplicationData, &pieces[0][..n], sink);
                session.outbox().advance(n);
                n
            }
            Some(NextWrite::File(region)) if let Some(keys) = &mut self.keys => {
                let part = proto::FileRegion { len: region.len.min(16_384).min(max as u64), ..region.clone() };
                keys.encrypt(ContentType::ApplicationData, &in_memory::read_region(&part), sink);
                self.file_bytes += part.len;
                session.outbox().advance(part.len as usize);
                part.len as usize
            }
            // No more than there is before the next step.
            Some(NextWrite::Memory(pieces, count)) => {
                let n = pieces[..count].iter().map(|piece| piece.len()).sum::<usize>().min(max);
                in_memory::flush(session, sink, n)
            }
            _ => in_memory::flush(session, sink, max),
        }
    }
}

impl Keys {
    fn parse(option: &[u8]) -> Self {
        let number = |at: usize| u16::from_ne_bytes([option[at], option[at + 1]]);
        let (version, cipher) = (number(0), number(2));
        assert_eq!(option.len(), 56, "a key of 32 bytes");
        let mut iv = [0; 12];
        let key = match cipher {
            52 => {
                iv[..4].copy_from_slice(&option[44..48]);
                iv[4..].copy_from_slice(&option[4..12]);
                &option[12..44]
            }
            54 => {
                iv.copy_from_slice(&option[4..16]);
                &option[16..48]
            }
            _ => panic!("cipher {cipher}"),
        };
        let (key, sequence) = (key.try_into().unwrap(), u64::from_be_bytes(option[48..].try_into().unwrap()));
        Self { version, cipher, key, iv, sequence, count: 0 }
    }

    fn encrypter(&self) -> Box<dyn MessageEncrypter> {
        let wanted = match (self.version, self.cipher) {
            (0x304, 52) => CipherSuite::TLS13_AES_256_GCM_SHA384,
            (0x304, _) => CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
            (_, 52) => CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
            _ => CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
        };
        let suite = ALL_CIPHER_SUITES.iter().find(|suite| suite.suite() == wanted).unwrap();
        let key = AeadKey::from(self.key);
        match suite {
            SupportedCipherSuite::Tls13(suite) => suite.aead_alg.encrypter(key, Iv::copy(&self.iv)),
            SupportedCipherSuite::Tls12(suite) if self.cipher == 52 => {
                // The kernel counts from the explicit part on; rustls xors it with the number of the record.
                let explicit = u64::from_be_bytes(self.iv[4..].try_into().unwrap()).wrapping_add(self.count);
                suite.aead_alg.encrypter(key, &self.iv[..4], &(explicit ^ self.sequence).to_be_bytes())
            }
            SupportedCipherSuite::Tls12(suite) => suite.aead_alg.encrypter(key, &self.iv, &[]),
        }
    }

    fn encrypt(&mut self, typ: ContentType, plain: &[u8], sink: &mut Vec<u8>) {
        let message =
            OutboundPlainMessage { typ, version: ProtocolVersion::TLSv1_2, payload: OutboundChunks::Single(plain) };
        let record = self.encrypter().encrypt(message, self.sequence).unwrap();
        sink.extend(record.encode());
        self.sequence += 1;
        self.count += 1;
    }
}

fn link(authority: &Authority, version: &'static rustls::SupportedProtocolVersion) -> Link {
    let settings = Settings { allows_kernel: true, ..authority.settings() };
    let config = Arc::new(Config::load(settings).unwrap());
    let layer = Tls::new(Arc::new(Lines::new()), config, Limits::default(), HANDSHAKE_MAX);
    let layer = Arc::new(layer.with_kernel(Some(Support::complete())));
    Link::new(Server::new(&layer, Limits::default()), authority.client(version, false), "localhost")
}

#[test]
fn the_kernel_goes_on_where_rustls_stopped() {
    let authority = Authority::new();
    for version in VERSIONS {
        for pieces in [LARGE, Pieces { input: 7, output: 10_000 }] {
            let mut link = link(&authority, version);
            let lines =
                "inline 100\nfile 1000000\nmapped 70000\nlater 500\nshared 300000\nhold 9\npages 90000\nfile 3000000\n";
            link.send(lines.as_bytes());
            link.run(pieces);
            let wanted: Vec<u8> = lines.lines().flat_map(|line| link.server.layer.inner().reply(line)).collect();
            assert_eq!(link.error, None);
            assert!(link.received == wanted, "{version:?}: {} of {}", link.received.len(), wanted.len());
            assert!(link.server.kernel.file_bytes > 3_900_000, "{} bytes of files", link.server.kernel.file_bytes);
            assert_eq!(link.server.layer.statistics().counts().kernel, 1);
            link.received.clear();
            assert!(link.ask("inline 5\n") == link.server.layer.inner().reply("inline 5"), "and small ones");
            link.send(b"close\n");
            link.run(pieces);
            assert!(link.is_closed && link.received == b"close", "with close_notify");
        }
    }
}

#[test]
fn small_replies_and_refusals_stay_with_rustls() {
    let authority = Authority::new();
    let mut small = link(&authority, &TLS13);
    assert_eq!(small.ask("file 60000\nshared 300000\n").len(), 360_000);
    assert_eq!(small.server.layer.statistics().counts().kernel, 0);
    let mut refused = link(&authority, &TLS13);
    refused.server.kernel.refuses = true;
    assert_eq!(refused.ask("file 1000000\nfile 2000000\n").len(), 3_000_000);
    assert_eq!((refused.server.kernel.file_bytes, refused.server.layer.statistics().counts().kernel), (0, 0));
}

#[test]
fn the_client_may_change_its_keys_and_close_while_the_kernel_encrypts() {
    let authority = Authority::new();
    let mut link = link(&authority, &TLS13);
    assert_eq!(link.ask("file 1000000\n").len(), 1_000_000);
    // rustls asks for new keys of ours, too, which the kernel cannot change: a goodbye.
    link.client.refresh_traffic_keys().unwrap();
    link.run(LARGE);
    assert!(link.is_closed && link.error.is_none(), "{:?}", link.error);
}

#[test]
fn a_client_that_closes_gets_what_is_left() {
    let authority = Authority::new();
    for version in VERSIONS {
        let mut link = link(&authority, version);
        assert_eq!(link.ask("file 1000000\n").len(), 1_000_000);
        link.send(format!("file {CONTENT_BYTES}\n").as_bytes());
        link.client.send_close_notify();
        link.run(LARGE);
        assert!(link.is_closed && link.received.len() == CONTENT_BYTES, "{}", link.received.len());
    }
}

#[test]
fn a_record_that_was_changed_is_answered_with_an_alert() {
    let authority = Authority::new();
    for version in VERSIONS {
        let mut link = link(&authority, version);
        assert_eq!(link.ask("file 1000000\n").len(), 1_000_000);
        let mut record = Vec::new();
        link.send(b"inline 5\n");
        link.client.write_tls(&mut record).unwrap();
        *record.last_mut().unwrap() ^= 1;
        link.server.feed(&record);
        link.run(LARGE);
        let error = format!("{:?}", link.error);
        assert!(error.contains("BadRecordMac"), "{error}");
        assert_eq!(link.received, b"");
    }
}
