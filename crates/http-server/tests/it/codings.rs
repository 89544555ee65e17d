//! Content codings: compressed siblings, and what the server compresses.

use std::{
    fs::{self, File, FileTimes},
    time::{Duration, SystemTime},
};

use http_server::{CacheLimits, SiteOptions};
use testkit::http::Response;
use web::{ContentCodings, Settings, codec};
use wire::http1::coding::Coding;

use crate::common::World;

const CODINGS: [(Coding, &str); 3] = [(Coding::Brotli, ".br"), (Coding::Zstd, ".zst"), (Coding::Gzip, ".gz")];
const INTERVAL: Duration = Duration::from_secs(1);

/// Text of so many bytes that differs by `seed`.
fn text(seed: usize, bytes: usize) -> Vec<u8> {
    (0..).flat_map(|line| format!("line {line} of {seed}\n").into_bytes()).take(bytes).collect()
}

fn compressed(coding: Coding, contents: &[u8]) -> Vec<u8> {
    codec::compress(coding, contents).unwrap().unwrap()
}

/// Writes siblings of `name` in these codings.
fn write_siblings(world: &World, name: &str, contents: &[u8], codings: &[(Coding, &str)]) {
    for (coding, suffix) in codings {
        world.write(&format!("{name}{suffix}"), compressed(*coding, contents));
    }
}

fn accept(world: &World, target: &str, codings: &str) -> Response {
    world.get_with(target, &format!("Accept-Encoding: {codings}\r\n"))
}

fn coding(response: &Response) -> &str {
    response.field("content-encoding").unwrap_or("identity")
}

/// Checks that a response is whole and means `contents`.
fn check(response: &Response, contents: &[u8], context: &str) {
    let coding = Coding::ALL.into_iter().find(|known| known.name() == coding(response)).unwrap();
    assert_eq!(response.status, 200, "{context}");
    assert_eq!(codec::decompress(coding, &response.body, u64::MAX).unwrap(), contents, "{context}");
    assert_eq!(response.field("vary"), Some("Accept-Encoding"), "{context}");
    assert_eq!(response.field("content-length").unwrap(), response.body.len().to_string(), "{context}");
}

fn off(codings: ContentCodings) -> World {
    World::with_settings(SiteOptions::default(), Settings { codings, ..Settings::default() })
}

fn only_siblings() -> World {
    off(ContentCodings { compress: false, ..ContentCodings::default() })
}

const ACCEPTED: &[(&str, &[&str])] = &[
    // What is accepted, and what is sent: the first of these that there is.
    ("gzip, deflate, br, zstd", &["br", "zstd", "gzip"]),
    ("br;q=1, gzip;q=0.8", &["br", "gzip"]),
    ("gzip;q=1.0, br;q=0.5, zstd;q=0.7", &["gzip", "zstd", "br"]),
    ("gzip", &["gzip"]),
    ("x-gzip", &["gzip"]),
    ("GZIP;Q=0.1", &["gzip"]),
    ("*", &["br", "zstd", "gzip"]),
    ("*;q=0.1, br;q=0", &["zstd", "gzip"]),
    ("identity;q=1, gzip;q=0.5", &[]),
    ("identity;q=0", &[]),
    ("*;q=0", &[]),
    ("gzip;q=0, br;q=0.0, zstd;q=0.000", &[]),
    ("deflate, compress", &[]),
    ("gzip;q=7, br;x=1", &[]),
    ("", &[]),
];

#[test]
fn what_is_accepted_and_there_is_sent() {
    let contents = text(1, 5_000);
    for there in 0..8 {
        let codings: Vec<_> = (0..3).filter(|at| there >> at & 1 == 1).map(|at| CODINGS[at]).collect();
        let world = only_siblings();
        world.write("a.css", &contents);
        write_siblings(&world, "a.css", &contents, &codings);
        let names: Vec<_> = codings.iter().map(|(coding, _)| coding.name()).collect();
        for round in ["opened", "cached"] {
            for (accepted, liked) in ACCEPTED {
                let got = accept(&world, "/a.css", accepted);
                let want = liked.iter().find(|name| names.contains(name)).unwrap_or(&"identity");
                assert_eq!(coding(&got), *want, "{round}: {accepted:?} of {names:?}");
                assert_eq!(got.field("content-type"), Some("text/css; charset=utf-8"));
                match names.is_empty() {
                    true => assert_eq!((got.field("vary"), &got.body), (None, &contents)),
                    false => check(&got, &contents, accepted),
                }
            }
            assert_eq!(coding(&world.get("/a.css")), "identity", "without the field");
        }
    }
}

#[test]
fn every_accepted_coding_is_made() {
    let world = World::new(SiteOptions::default());
    let contents = text(1, 50_000);
    world.write("a.js", &contents);
    for round in ["compressed", "cached"] {
        for (accepted, liked) in ACCEPTED {
            let got = accept(&world, "/a.js", accepted);
            assert_eq!(coding(&got), *liked.first().unwrap_or(&"identity"), "{round}: {accepted:?}");
            check(&got, &contents, accepted);
        }
    }
    let opens = world.server.statistics().file_opens;
    assert_eq!(opens, 1, "one file, whatever is made of it");
}

#[test]
fn siblings_go_before_what_would_have_to_be_made() {
    let world = World::new(SiteOptions::default());
    let contents = text(1, 50_000);
    world.write("a.js", &contents);
    write_siblings(&world, "a.js", &contents, &CODINGS[2..]);
    let got = accept(&world, "/a.js", "br, gzip");
    assert_eq!(coding(&got), "gzip");
    assert_eq!(got.body, fs::read(world.root.join("a.js.gz")).unwrap());
    assert_eq!(coding(&accept(&world, "/a.js", "br, gzip;q=0.9")), "br", "weights are the client's");
}

#[test]
fn no_two_representations_share_a_tag_and_each_is_revalidated() {
    let world = World::new(SiteOptions::default());
    let contents = text(1, 50_000);
    world.write("made.js", &contents);
    world.write("stored.js", &contents);
    write_siblings(&world, "stored.js", &contents, &CODINGS);
    for target in ["/made.js", "/stored.js"] {
        let mut tags = Vec::new();
        for name in ["identity", "gzip", "zstd", "br"] {
            let tag = accept(&world, target, name).field("etag").unwrap().to_owned();
            assert!(tag.starts_with('"'), "strong: {tag}");
            let fields = format!("Accept-Encoding: {name}\r\nIf-None-Match: {tag}\r\n");
            let known = world.get_with(target, &fields);
            assert_eq!((known.status, known.field("vary")), (304, Some("Accept-Encoding")), "{target} {name}");
            assert_eq!((known.field("etag"), known.field("content-encoding")), (Some(&*tag), None));
            for other in &tags {
                let fields = format!("Accept-Encoding: {name}\r\nIf-None-Match: {other}\r\n");
                assert_eq!(world.get_with(target, &fields).status, 200, "{other} is not {name}");
            }
            tags.push(tag);
        }
    }
}

/// The client has the tag of what has left the cache: it is made again, to be told that nothing has changed.
#[test]
fn a_condition_waits_for_its_representation() {
    let mut world = World::new(SiteOptions::default());
    world.write("a.js", text(1, 50_000));
    let tag = accept(&world, "/a.js", "br").field("etag").unwrap().to_owned();
    world.restart();
    let fields = format!("Accept-Encoding: br\r\nIf-None-Match: {tag}\r\n");
    assert_eq!(world.get_with("/a.js", &fields).status, 304);
}

#[test]
fn head_says_what_get_would_send() {
    let world = World::new(SiteOptions::default());
    world.write("a.js", text(1, 50_000));
    let head = world.ask("HEAD /a.js HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    let get = accept(&world, "/a.js", "gzip");
    assert_eq!((head.body.len(), coding(&head)), (0, "gzip"));
    assert_eq!(head.fields, get.fields);
}

#[test]
fn ranges_are_of_the_representation_that_is_sent() {
    let world = World::new(SiteOptions::default());
    let contents = text(1, 50_000);
    world.write("a.js", &contents);
    world.write("large.js", text(2, 3_000_000));
    write_siblings(&world, "large.js", &text(2, 3_000_000), &CODINGS);
    for target in ["/a.js", "/large.js"] {
        for name in ["identity", "br", "gzip"] {
            let whole = accept(&world, target, name);
            let tag = whole.field("etag").unwrap();
            let ask = |fields: &str| world.get_with(target, &format!("Accept-Encoding: {name}\r\n{fields}"));
            let part = ask("Range: bytes=10-99\r\n");
            assert_eq!((part.status, &part.body[..]), (206, &whole.body[10..100]), "{target} {name}");
            assert_eq!(coding(&part), coding(&whole));
            assert_eq!(part.field("vary"), Some("Accept-Encoding"));
            assert_eq!(part.field("content-range").unwrap(), format!("bytes 10-99/{}", whole.body.len()));
            let same = ask(&format!("Range: bytes=-5\r\nIf-Range: {tag}\r\n"));
            assert_eq!((same.status, same.body.len()), (206, 5));
            let other = ask("Range: bytes=-5\r\nIf-Range: \"other\"\r\n");
            assert_eq!((other.status, other.body.len()), (200, whole.body.len()));
            // A coding cannot be undone for parts in one body.
            let several = ask("Range: bytes=0-4,10-14\r\n");
            assert_eq!(several.status, if name == "identity" { 206 } else { 200 });
        }
    }
}

#[test]
fn a_path_with_nothing_but_siblings_is_found() {
    let contents = text(1, 30_000);
    for codings in [&CODINGS[..1], &CODINGS[1..2], &CODINGS[2..], &CODINGS[..]] {
        let world = World::new(SiteOptions::default());
        write_siblings(&world, "a.css", &contents, codings);
        write_siblings(&world, "sub/index.html", &contents, codings);
        for target in ["/a.css", "/sub/"] {
            let liked = accept(&world, target, "br, gzip, zstd");
            assert_eq!(coding(&liked), codings[0].0.name());
            check(&liked, &contents, target);
            for _ in ["decompressed", "cached"] {
                let plain = world.get(target);
                assert_eq!(coding(&plain), "identity");
                check(&plain, &contents, target);
                assert_ne!(plain.field("etag"), liked.field("etag"));
            }
        }
        world.write("a.css", "the original");
        let mut world = world;
        world.pass(INTERVAL);
        assert_eq!(world.get("/a.css").body, b"the original");
    }
    let world = World::new(SiteOptions::default());
    world.write("broken.css.gz", "no gzip");
    assert_eq!(world.get("/broken.css").status, 404, "nothing that a client without gzip could be given");
    assert_eq!(accept(&world, "/broken.css", "gzip").body, b"no gzip");
    assert_eq!(world.get("/none.css").status, 404);
}

#[test]
fn a_compressed_file_that_is_asked_for_is_no_coding() {
    let world = World::new(SiteOptions::default());
    let contents = text(1, 5_000);
    world.write("a.css", &contents);
    write_siblings(&world, "a.css", &contents, &CODINGS);
    for (coding, suffix) in CODINGS {
        let got = accept(&world, &format!("/a.css{suffix}"), "br, gzip, zstd");
        assert_eq!(got.body, compressed(coding, &contents));
        assert_eq!((got.field("content-encoding"), got.field("vary")), (None, None), "{suffix}");
        assert!(!got.field("content-type").unwrap().starts_with("text/css"), "{suffix}");
    }
}

#[test]
fn a_sibling_older_than_its_original_is_not_sent() {
    let mut world = only_siblings();
    let contents = text(1, 5_000);
    world.write("a.css", &contents);
    write_siblings(&world, "a.css", &text(2, 5_000), &CODINGS[..1]);
    let root = world.root.clone();
    let set_time = |name: &str, time| {
        File::options().write(true).open(root.join(name)).unwrap().set_times(FileTimes::new().set_modified(time))
    };
    let time = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 900_000_000);
    set_time("a.css", time).unwrap();
    for (age, is_sent) in [(Duration::from_secs(1), false), (Duration::from_millis(800), true), (Duration::ZERO, true)]
    {
        set_time("a.css.br", time - age).unwrap();
        world.restart();
        assert_eq!(accept(&world, "/a.css", "br").body != contents, is_sent, "older by {age:?}");
    }
}

#[test]
fn no_sibling_leaves_the_root() {
    let world = only_siblings();
    world.write("a.css", text(1, 5_000));
    fs::write(world.outside().join("secret"), "secret").unwrap();
    std::os::unix::fs::symlink("../secret", world.root.join("a.css.br")).unwrap();
    std::os::unix::fs::symlink("../secret", world.root.join("b.css.gz")).unwrap();
    fs::create_dir(world.root.join("a.css.gz")).unwrap();
    for _ in ["opened", "cached"] {
        assert_eq!(accept(&world, "/a.css", "br, gzip").body, text(1, 5_000));
        assert_eq!(accept(&world, "/b.css", "gzip").status, 404);
    }
}

#[test]
fn siblings_that_come_change_and_go_are_noticed() {
    let mut world = only_siblings();
    let contents = text(1, 5_000);
    world.write("a.css", &contents);
    assert_eq!(coding(&accept(&world, "/a.css", "br, gzip")), "identity");
    write_siblings(&world, "a.css", &contents, &CODINGS[2..]);
    world.pass(INTERVAL);
    assert_eq!(coding(&accept(&world, "/a.css", "br, gzip")), "gzip");
    write_siblings(&world, "a.css", &contents, &CODINGS[..1]);
    world.pass(INTERVAL);
    assert_eq!(coding(&accept(&world, "/a.css", "br, gzip")), "br");
    std::thread::sleep(Duration::from_millis(25));
    write_siblings(&world, "a.css", &text(2, 5_000), &CODINGS[..1]);
    world.pass(INTERVAL);
    check(&accept(&world, "/a.css", "br, gzip"), &text(2, 5_000), "replaced");
    fs::remove_file(world.root.join("a.css.br")).unwrap();
    world.pass(INTERVAL);
    assert_eq!(coding(&accept(&world, "/a.css", "br, gzip")), "gzip");
    fs::remove_file(world.root.join("a.css.gz")).unwrap();
    world.pass(INTERVAL);
    let last = accept(&world, "/a.css", "br, gzip");
    assert_eq!((coding(&last), last.field("vary")), ("identity", None));
    let opens = world.server.statistics().file_opens;
    world.pass(INTERVAL);
    accept(&world, "/a.css", "br, gzip");
    assert_eq!(world.server.statistics().file_opens, opens, "nothing has changed");
}

#[test]
fn what_profits_nothing_is_sent_as_it_is() {
    let world = World::new(SiteOptions::default());
    let noise: Vec<u8> = {
        let mut state = 1_u64;
        std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u8
        })
        .take(50_000)
        .collect()
    };
    world.write("noise.txt", &noise);
    world.write("small.txt", text(1, 1_000));
    world.write("large.txt", text(1, 5 << 20));
    world.write("text.png", text(1, 50_000));
    for _ in ["tried", "known"] {
        let got = accept(&world, "/noise.txt", "br");
        assert!(coding(&got) == "identity" && got.body == noise);
    }
    for target in ["/small.txt", "/large.txt", "/text.png"] {
        let got = accept(&world, target, "br");
        assert_eq!((coding(&got), got.field("vary")), ("identity", None), "{target}");
    }
}

#[test]
fn each_kind_of_coding_can_be_switched_off() {
    let contents = text(1, 50_000);
    for (codings, want) in [
        (ContentCodings { precompressed: false, compress: false }, ["identity", "identity"]),
        (ContentCodings { precompressed: true, compress: false }, ["br", "identity"]),
        (ContentCodings { precompressed: false, compress: true }, ["br", "br"]),
    ] {
        let world = off(codings);
        world.write("a.js", &contents);
        world.write("a.js.br", "sibling");
        world.write("b.js", &contents);
        let (a, b) = (accept(&world, "/a.js", "br"), accept(&world, "/b.js", "br"));
        assert_eq!([coding(&a), coding(&b)], want, "{codings:?}");
        assert_eq!(a.body == b"sibling", codings.precompressed);
    }
}

/// Compressed files share the cache with all others, and its limit holds.
#[test]
fn compressed_files_count_against_the_cache() {
    const FILES: usize = 40;
    let contents: Vec<_> = (0..FILES).map(|number| text(number, 40_000)).collect();
    // Sent from files without a name, from memory, and for want of descriptors from memory.
    for (cache_file_max, descriptors) in [(1 << 10, 200), (50_000, 8), (50_000, 0)] {
        let cache = CacheLimits { entries: 1000, bytes: 400_000, descriptors };
        let world = World::new(SiteOptions { cache, cache_file_max, ..SiteOptions::default() });
        for (number, contents) in contents.iter().enumerate() {
            world.write(&format!("{number}.js"), contents);
        }
        for number in (0..FILES).chain(0..FILES) {
            for coding in ["gzip", "br"] {
                let got = accept(&world, &format!("/{number}.js"), coding);
                check(&got, &contents[number], "whatever has been evicted");
                assert!(world.cached_bytes() <= 400_000);
            }
            let held = world.cached_bytes() as usize;
            assert!(number < FILES / 2 || held > 100_000, "{held} bytes are all that is kept of {number}");
        }
    }
    let cache = CacheLimits { entries: 0, bytes: 0, descriptors: 0 };
    let world = World::new(SiteOptions { cache, ..SiteOptions::default() });
    world.write("a.js", &contents[1]);
    let got = accept(&world, "/a.js", "gzip");
    assert_eq!((coding(&got), &got.body), ("identity", &contents[1]), "nothing is made that cannot be kept");
}

/// Requests behind one that waits are answered after it, and none is lost, however many there are.
#[test]
fn a_pipeline_behind_a_compression_keeps_its_order() {
    let world = World::new(SiteOptions::default());
    let contents: Vec<_> = (0..8).map(|number| text(number, 30_000)).collect();
    for (number, contents) in contents.iter().enumerate() {
        world.write(&format!("{number}.js"), contents);
    }
    let request = |number| format!("GET /{number}.js HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    let input: String = (0..2_000).map(|at| request(at % 8)).collect();
    for chunk in [usize::MAX, 1_000] {
        let output = world.exchange(input.as_bytes(), chunk.min(input.len()));
        let responses = output.responses(&[]);
        assert_eq!(responses.len(), 2_000);
        for (at, response) in responses.iter().enumerate() {
            assert_eq!(coding(response), "gzip");
            match responses[..at].get(at % 8) {
                Some(first) => assert!(response.body == first.body, "in order"),
                None => check(response, &contents[at % 8], "in order"),
            }
        }
    }
}

/// A file that is replaced all the time: what is sent is one version of it, head and body.
#[test]
fn a_file_that_changes_while_compressed_is_never_mixed() {
    const VERSIONS: usize = 100;
    let world = World::new(SiteOptions { revalidate: Duration::ZERO, ..SiteOptions::default() });
    let contents = |version: usize| text(version, 20_000 + version * 37);
    world.write("a.js", contents(0));
    std::thread::scope(|scope| {
        let readers = ["br", "gzip", "zstd", "identity"].map(|name| {
            let world = &world;
            scope.spawn(move || {
                let mut latest = 0;
                while latest + 1 < VERSIONS {
                    let got = accept(world, "/a.js", name);
                    let coding = Coding::ALL.into_iter().find(|known| known.name() == coding(&got)).unwrap();
                    let body = codec::decompress(coding, &got.body, u64::MAX).unwrap();
                    let version = (body.len() - 20_000) / 37;
                    assert!(body == contents(version), "a mixture");
                    assert!(version >= latest, "{version} after {latest}");
                    latest = version;
                }
            })
        });
        for version in 1..VERSIONS {
            world.write("new", contents(version));
            fs::rename(world.root.join("new"), world.root.join("a.js")).unwrap();
            std::thread::sleep(Duration::from_millis(3));
        }
        for reader in readers {
            reader.join().unwrap();
        }
    });
}
