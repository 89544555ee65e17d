//! Settings that cannot be used, and those that change.

use std::{fs, sync::Arc};

use proto::Limits;
use rcgen::{CertificateParams, KeyPair as TestKey};
use rustls::HandshakeKind;
use tls::{Config, Settings};

use crate::harness::{Authority, LARGE, Link, Server, VERSIONS, layer};

fn link(config: &Arc<Config>, authority: &Authority) -> Link {
    let server = Server::new(&layer(config, Limits::default()), Limits::default());
    Link::new(server, authority.client(VERSIONS[1], false), "localhost")
}

#[test]
fn an_error_names_the_file_that_is_wrong() {
    let authority = Authority::new();
    let (good, other) = (authority.issue("good", &["a"]), authority.issue("other", &["b"]));
    fs::write(authority.path("empty"), "").unwrap();
    let with = |pair: tls::KeyPair| Settings { pairs: vec![pair], ..Settings::default() };
    for (settings, wanted) in [
        (Settings::default(), "needs a certificate"),
        (with(tls::KeyPair { certificate: authority.path("none"), ..good.clone() }), "none: No such file"),
        (with(tls::KeyPair { certificate: authority.path("empty"), ..good.clone() }), "no certificate in PEM"),
        (with(tls::KeyPair { key: authority.path("empty"), ..good.clone() }), "no private key in PEM"),
        (with(tls::KeyPair { key: other.key.clone(), ..good.clone() }), "the key does not belong"),
        (Settings { client_ca: Some(authority.path("empty")), ..with(good.clone()) }, "empty: no certificate"),
    ] {
        let error = Config::load(settings).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn a_certificate_out_of_date_is_used_with_a_warning() {
    let authority = Authority::new();
    let dated = |from: (i32, u8), to: (i32, u8)| {
        let pair = authority.issue("dated", &["localhost"]);
        let key = TestKey::generate().unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(from.0, from.1, 1);
        params.not_after = rcgen::date_time_ymd(to.0, to.1, 1);
        fs::write(&pair.certificate, params.self_signed(&key).unwrap().pem()).unwrap();
        fs::write(&pair.key, key.serialize_pem()).unwrap();
        Config::load(Settings { pairs: vec![pair], ..Settings::default() }).unwrap().warnings()
    };
    assert_eq!(dated((2020, 1), (2999, 1)), Vec::<String>::new());
    for ((from, to), wanted) in
        [(((2020, 1), (2021, 1)), "dated.pem: the certificate expired "), (((2998, 1), (2999, 1)), "is valid only in ")]
    {
        let warnings = dated(from, to);
        assert!(matches!(&warnings[..], [one] if one.contains(wanted) && one.contains(" days")), "{warnings:?}");
    }
}

#[test]
fn a_reload_shows_the_new_certificate_to_new_connections() {
    let authority = Authority::new();
    let config = Arc::new(Config::load(authority.settings()).unwrap());
    let mut old = link(&config, &authority);
    old.ask("inline 1\n");
    authority.issue("server", &["localhost"]);
    config.reload().unwrap();
    let mut new = link(&config, &authority);
    new.ask("inline 1\n");
    assert_ne!(old.certificate(), new.certificate());
    assert_eq!(old.ask("file 100000\n").len(), 100_000, "an open connection goes on");
}

#[test]
fn an_unreadable_pair_leaves_the_old_one_in_use() {
    let authority = Authority::new();
    let config = Arc::new(Config::load(authority.settings()).unwrap());
    let certificate = |authority: &Authority| {
        let mut link = link(&config, authority);
        link.ask("inline 1\n");
        link.certificate()
    };
    let before = certificate(&authority);
    let pem = fs::read(authority.path("server.pem")).unwrap();
    for wrong in [&pem[..pem.len() / 2], b"", b"nonsense"] {
        fs::write(authority.path("server.pem"), wrong).unwrap();
        assert!(config.reload().is_err());
        assert_eq!(certificate(&authority), before);
    }
    fs::write(authority.path("server.pem"), &pem).unwrap();
    config.reload().unwrap();
}

/// A ticket is worth nothing once other authorities vouch for clients.
#[test]
fn tickets_end_with_the_authorities_that_they_were_given_under() {
    for version in VERSIONS {
        let (authority, other) = (Authority::new(), Authority::new());
        let client_ca = Some(authority.path("clients.pem"));
        fs::copy(authority.path("authority.pem"), authority.path("clients.pem")).unwrap();
        let config = Arc::new(Config::load(Settings { client_ca, ..authority.settings() }).unwrap());
        let client = authority.client(version, true);
        let connect = || {
            let server = Server::new(&layer(&config, Limits::default()), Limits::default());
            let mut link = Link::new(server, client.clone(), "localhost");
            link.send(b"inline 1\n");
            link.run(LARGE);
            link
        };
        assert_eq!(connect().received.len(), 1);
        assert_eq!(connect().client.handshake_kind(), Some(HandshakeKind::Resumed));
        fs::copy(other.path("authority.pem"), authority.path("clients.pem")).unwrap();
        config.reload().unwrap();
        let refused = connect();
        assert!(refused.received.is_empty() && refused.error.is_some(), "{version:?}");
    }
}
