//! Versions, names, protocols, certificates of clients, resumption.

use std::sync::Arc;

use proto::Limits;
use rustls::{AlertDescription, ClientConfig, Error, HandshakeKind, ProtocolVersion::TLSv1_2};
use tls::{Config, Counts, Handshakes, Settings};

use crate::harness::{Authority, LARGE, Link, Server, VERSIONS, layer};

fn link(config: &Arc<Config>, client: ClientConfig, name: &'static str) -> Link {
    Link::new(Server::new(&layer(config, Limits::default()), Limits::default()), client, name)
}

#[test]
fn the_name_that_is_asked_for_chooses_the_certificate() {
    let authority = Authority::new();
    let pairs = vec![
        authority.issue("first", &["first.test", "*.sub.test"]),
        authority.issue("second", &["second.test", "a.sub.test"]),
        authority.issue("third", &["third.test", "second.test"]),
    ];
    let config = Arc::new(Config::load(Settings { pairs: pairs.clone(), ..Settings::default() }).unwrap());
    let shown = |name: &'static str| {
        let mut link = link(&config, authority.client(VERSIONS[1], false), name);
        link.run(LARGE);
        let certificate = link.certificate().or_else(|| {
            // Names that no certificate is for are not what the client accepts, but it has seen the certificate.
            assert!(matches!(link.error, Some(Error::InvalidCertificate(_))), "{:?}", link.error);
            None
        });
        certificate.map(|shown| {
            let is_shown = |pair: &&tls::KeyPair| {
                let pem = std::fs::read(&pair.certificate).unwrap();
                use rustls::pki_types::{CertificateDer, pem::PemObject};
                CertificateDer::from_pem_slice(&pem).unwrap() == shown
            };
            pairs.iter().position(|pair| is_shown(&pair)).unwrap()
        })
    };
    let names = ["first.test", "second.test", "third.test", "a.sub.test", "b.sub.test", "SECOND.test"];
    assert_eq!(names.map(shown), [Some(0), Some(1), Some(2), Some(1), Some(0), Some(1)]);
    assert_eq!(["x.b.sub.test", "other.test"].map(shown), [None, None], "the first, which is not theirs");
}

#[test]
fn the_protocol_and_the_name_are_told() {
    let authority = Authority::new();
    let protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let config = Arc::new(Config::load(Settings { protocols, ..authority.settings() }).unwrap());
    for version in VERSIONS {
        for (offered, wanted) in [
            (vec!["http/1.1", "h2"], r#"Some("h2") Some("localhost") None"#),
            (vec!["http/1.1"], r#"Some("http/1.1") Some("localhost") None"#),
            (vec![], r#"None Some("localhost") None"#),
        ] {
            let mut client = authority.client(version, false);
            client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
            assert_eq!(String::from_utf8_lossy(&link(&config, client, "localhost").ask("names\n")), wanted);
        }
        let mut client = authority.client(version, false);
        client.alpn_protocols = vec![b"other".to_vec()];
        let mut link = link(&config, client, "localhost");
        link.run(LARGE);
        assert_eq!(link.error, Some(Error::AlertReceived(AlertDescription::NoApplicationProtocol)));
    }
}

#[test]
fn a_client_certificate_is_required_where_authorities_are_named() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let client_ca = Some(authority.path("authority.pem"));
    let config = Arc::new(Config::load(Settings { client_ca, ..authority.settings() }).unwrap());
    for version in VERSIONS {
        let mut trusted = link(&config, authority.client(version, true), "localhost");
        let names = trusted.ask("names\n");
        assert!(String::from_utf8_lossy(&names).starts_with(r#"None Some("localhost") Some("#), "{names:?}");
        let mut other = authority.client(version, false);
        other.client_auth_cert_resolver = stranger.client(version, true).client_auth_cert_resolver;
        for client in [authority.client(version, false), other] {
            let mut link = link(&config, client, "localhost");
            link.send(b"names\n");
            link.run(LARGE);
            assert!(matches!(link.error, Some(Error::AlertReceived(_))), "{:?}", link.error);
            assert!(link.received.is_empty());
            assert_eq!(link.server.layer.statistics().counts(), Counts { failed: 1, open: 1, ..Counts::default() });
        }
    }
}

/// Sessions are resumed by tickets, after a reload too, and on another connection of another layer.
#[test]
fn sessions_are_resumed_without_any_memory_of_them() {
    for version in VERSIONS {
        let authority = Authority::new();
        let config = Arc::new(Config::load(authority.settings()).unwrap());
        let client = authority.client(version, false);
        for (round, wanted) in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed].iter().enumerate()
        {
            let mut link = link(&config, client.clone(), "localhost");
            assert_eq!(link.ask("inline 5\n").len(), 5);
            assert_eq!(link.client.handshake_kind(), Some(*wanted), "{version:?} {round}");
            let counts = link.server.layer.statistics().counts();
            let (done, other) =
                if version.version == TLSv1_2 { (counts.tls12, counts.tls13) } else { (counts.tls13, counts.tls12) };
            assert_eq!((done.full, done.resumed), if round == 0 { (1, 0) } else { (0, 1) });
            assert_eq!((other, counts.open), (Handshakes::default(), 1));
            config.reload().unwrap();
        }
    }
}

/// Data that follows the end of the handshake in the same read is not lost.
#[test]
fn data_behind_the_last_handshake_message_is_read() {
    for version in VERSIONS {
        let authority = Authority::new();
        let config = Arc::new(Config::load(authority.settings()).unwrap());
        let client = authority.client(version, false);
        for _ in 0..2 {
            let mut link = link(&config, client.clone(), "localhost");
            link.send(b"inline 3\n");
            link.run(LARGE);
            assert_eq!((link.received.len(), &link.error), (3, &None), "{version:?}");
        }
    }
}
