use super::*;

#[test]
fn texts_compress_as_real_ones_do_and_images_do_not() {
    for (seed, (name, bytes)) in (1..).zip(FILES) {
        let content = text::content(name, bytes, seed);
        assert_eq!(content.len(), bytes, "{name}");
        assert_eq!(content, text::content(name, bytes, seed), "{name}");
        let (gzip, brotli) = (gzip(&content).unwrap().len(), brotli(&content).unwrap().len());
        if is_text(name) {
            assert!((bytes / 8..bytes * 2 / 5).contains(&gzip), "{name}: {gzip} of {bytes} bytes");
            assert!(brotli <= gzip, "{name}: {brotli} bytes, by gzip {gzip}");
            assert!(std::str::from_utf8(&content).is_ok_and(|text| text.is_ascii()));
        } else {
            assert!(gzip >= bytes, "{name}");
        }
    }
}

/// Returns what a server sends that has every file in this coding.
fn bodies(site: &Path, coding: Coding) -> Vec<BodySeen> {
    let body = |(name, _): (&str, usize)| {
        let path = site.join(DIRECTORY).join(name);
        let (file, named) = match is_text(name) {
            true => (beside(&path, coding), coding.name()),
            false => (path, "identity"),
        };
        let content = fs::read(file).unwrap();
        BodySeen {
            request: format!("GET /{DIRECTORY}/{name}"),
            bytes: content.len() as u64,
            coding: named.to_owned(),
            sha256: Some(digest_text(&content)),
        }
    };
    FILES.map(body).to_vec()
}

#[test]
fn a_server_that_delivers_less_or_other_is_told_with_the_file() {
    let site = tempfile::tempdir().unwrap();
    write(site.path()).unwrap();
    let paths = fs::read_to_string(paths(&site.path().to_string_lossy())).unwrap();
    assert_eq!(paths.lines().count(), count() as usize);
    assert!(paths.lines().all(|path| site.path().join(&path[1..]).is_file()));
    for coding in [Coding::Brotli, Coding::Gzip] {
        let right = bodies(site.path(), coding);
        assert!(check(site.path(), coding, &right).is_ok());
        let fault = |change: &dyn Fn(&mut Vec<BodySeen>)| {
            let mut bodies = right.clone();
            change(&mut bodies);
            check(site.path(), coding, &bodies).unwrap_err().to_string()
        };
        assert!(fault(&|bodies| bodies[3].bytes -= 1).contains("/css/layout.css came as "));
        assert!(fault(&|bodies| bodies[3].coding = "identity".to_owned()).contains(" bytes of identity, not as the "));
        assert!(
            fault(&|bodies| bodies[11].coding = "gzip".to_owned()).contains("/fonts/text.woff2 came as 20000 bytes")
        );
        assert!(fault(&|bodies| bodies[0].sha256 = bodies[1].sha256.clone()).contains("/index.html came with another"));
        assert!(fault(&|bodies| drop(bodies.remove(5))).contains("/css/framework.css: not one and the same"));
        assert!(
            fault(&|bodies| bodies.push(BodySeen { bytes: 1, ..bodies[5].clone() })).contains("not one and the same")
        );
    }
}

#[test]
fn the_null_server_answers_with_the_mean_length() {
    let site = tempfile::tempdir().unwrap();
    write(site.path()).unwrap();
    let mean = mean_bytes(site.path(), Coding::Brotli);
    for workload in servers::all().iter().flat_map(|server| &server.workloads).filter(|workload| workload.web_site) {
        assert!(workload.body_bytes.abs_diff(mean) < mean / 50, "{}: the mean is {mean}", workload.name);
    }
}
