use loadgen::result::Handshakes as Counted;

use serde_json::json;

use super::*;

fn spec(workload: &str) -> &'static Spec {
    servers::all().iter().find_map(|server| server.workload(workload)).unwrap()
}

fn agreed(protocol: Option<&str>) -> TlsSession {
    TlsSession {
        version: "1.3".to_owned(),
        cipher: CIPHER.to_owned(),
        group: Some(GROUP.to_owned()),
        protocol: protocol.map(str::to_owned),
    }
}

fn run(sessions: &[TlsSession], handshakes: Option<(u64, u64)>) -> RunResult {
    let counted = |(full, resumed)| Counted { full, resumed, rate: 0.0, latency_us: None };
    let nothing = json!({
        "schema": 1, "kind": "http", "target": "", "config": {}, "duration_s": 1.0, "requests": 0, "ok": 0, "errors": {},
        "hits": null, "misses": null, "stores": null, "reconnects": 0, "bytes_in": 0, "bytes_out": 0, "throughput_rps": 0.0,
        "latency_us": null, "service_us": null, "client_cpu_s": 0.0, "server": null,
        "saturation": {"client_cpu_fraction": 0.0, "note": ""}, "histogram": "", "service_histogram": null
    });
    let nothing: RunResult = serde_json::from_value(nothing).unwrap();
    RunResult { tls_sessions: sessions.to_vec(), handshakes: handshakes.map(counted), ..nothing }
}

#[test]
fn another_cipher_version_group_or_protocol_is_refused() {
    let (plain, h1, h2) = (spec("site-c64"), spec("tls-site-c64"), spec("h2-site-c64"));
    for (spec, sessions) in [(plain, &[][..]), (h1, &[agreed(None)]), (h2, &[agreed(Some("h2"))])] {
        check(spec, &run(sessions, None)).unwrap();
    }
    let wrong = [
        TlsSession { cipher: "TLS_AES_256_GCM_SHA384".to_owned(), ..agreed(Some("h2")) },
        TlsSession { version: "1.2".to_owned(), ..agreed(Some("h2")) },
        TlsSession { group: Some("X25519MLKEM768".to_owned()), ..agreed(Some("h2")) },
        TlsSession { group: None, ..agreed(Some("h2")) },
        agreed(None),
    ];
    for session in &wrong {
        let error = check(h2, &run(std::slice::from_ref(session), None)).unwrap_err().to_string();
        assert!(error.contains(&session.to_string()) && error.contains("not with"), "{error}");
    }
    let mixed = check(h2, &run(&[agreed(Some("h2")), agreed(None)], None));
    assert!(mixed.is_err(), "one connection of another kind is enough");
    assert!(check(h1, &run(&[agreed(Some("h2"))], None)).is_err(), "HTTP/2 where HTTP/1.1 is measured");
    assert!(check(h1, &run(&[], None)).is_err(), "in the clear");
    assert!(check(plain, &run(&[agreed(None)], None)).is_err(), "over TLS");
}

#[test]
fn handshakes_of_the_other_kind_are_refused() {
    let check = |workload: &str, counted| check(spec(workload), &run(&[agreed(None)], counted)).is_ok();
    let (full, resumed) = ("tls-full-c64", "tls-resumed-c64");
    assert!(check(full, Some((500, 0))) && !check(full, Some((500, 1))) && !check(full, None));
    assert!(check(resumed, Some((0, 500))) && check(resumed, Some((2, 500))));
    assert!(!check(resumed, Some((500, 0))) && !check(resumed, Some((64, 500))) && !check(resumed, Some((0, 0))));
}

#[test]
fn the_certificate_lies_beside_the_site_and_is_of_p256() {
    let place = tempfile::tempdir().unwrap();
    let site = place.path().join("site");
    write(&site).unwrap();
    let read = |word: &str| fs::read_to_string(placed(word, &site)).unwrap();
    assert!(read(CERTIFICATE).starts_with("-----BEGIN CERTIFICATE-----"));
    let key = KeyPair::from_pem(&read(KEY)).unwrap();
    assert!(key.is_compatible(&PKCS_ECDSA_P256_SHA256));
    assert_eq!(placed("--tls-cert", &site), "--tls-cert");
}
