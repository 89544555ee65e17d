//! Content codings on every driver, and as other people's clients undo them.

use std::{path::Path, process::Command};

use anyhow::ensure;
use testkit::{installed_program, run_to_end};
use web::codec;
use wire::http1::coding::Coding;

use crate::process::setup::{Http, PLAIN};

const PAGE: &str = "page.html";

fn contents(number: usize) -> Vec<u8> {
    (0..4_000).flat_map(|line| format!("<p>line {line} of {number}\n").into_bytes()).collect()
}

fn tree() -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    let write = |name: &str, contents: &[u8]| std::fs::write(tree.path().join(name), contents).unwrap();
    write(PAGE, &contents(0));
    for number in 1..5 {
        write(&format!("{number}.js"), &contents(number));
    }
    write("stored.css", &contents(9));
    write("stored.css.br", &codec::compress(Coding::Brotli, &contents(9)).unwrap().unwrap());
    write("alone.css.gz", &codec::compress(Coding::Gzip, &contents(9)).unwrap().unwrap());
    tree
}

fn get(target: &str, codings: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: {codings}\r\n\r\n")
}

/// Many clients ask at once for what has to be made first, in pipelines and one by one, and some do not stay.
#[test]
fn all_who_wait_for_a_coding_get_it() {
    let tree = tree();
    PLAIN.for_each_server(tree.path(), |server, _| {
        let mut clients = Vec::new();
        for at in 0..24 {
            let coding = [Coding::Brotli, Coding::Gzip, Coding::Zstd][at % 3];
            let mut client = Http::connect(server.address())?;
            client.send(&(1..5).map(|number| get(&format!("/{number}.js"), coding.name())).collect::<String>())?;
            if at % 5 == 0 {
                continue;
            }
            clients.push((client, coding));
        }
        for (client, coding) in &mut clients {
            for number in 1..5 {
                let got = client.response("GET")?;
                ensure!(got.field("content-encoding") == Some(coding.name()), "{number}: {:?}", got.fields);
                ensure!(codec::decompress(*coding, &got.body, u64::MAX)? == contents(number), "{number}: other bytes");
            }
        }
        let mut client = Http::connect(server.address())?;
        let plain = client.get("/alone.css")?;
        ensure!(plain.status == 200 && plain.body == contents(9), "decompressed: {:?}", plain.fields);
        let stored = client.ask(&get("/stored.css", "br, gzip"))?;
        ensure!(stored.field("content-encoding") == Some("br"), "{:?}", stored.fields);
        Ok(())
    });
}

#[test]
fn curl_undoes_every_coding() {
    let Some(curl) = installed_program("curl").unwrap() else { return };
    let run = |args: &[&str]| {
        let mut command = Command::new(Path::new(&curl));
        command.args(["-q", "-sS", "--noproxy", "*", "--max-time", "30"]).args(args);
        run_to_end(command)
    };
    let known = run(&["--version"]).unwrap().stdout;
    let tree = tree();
    PLAIN.for_each_server(tree.path(), |server, driver| {
        for (target, number) in [(PAGE, 0), ("1.js", 1), ("stored.css", 9), ("alone.css", 9)] {
            let url = format!("http://{}/{target}", server.address());
            let output = tree.path().join(format!("{driver}.got")).display().to_string();
            for (feature, coding) in [("libz", "gzip"), ("brotli", "br"), ("zstd", "zstd")] {
                if known.contains(feature) {
                    let field = format!("Accept-Encoding: {coding}");
                    let finished = run(&["--compressed", "-H", &field, "-o", &output, &url])?;
                    ensure!(finished.code() == Some(0), "{target}, {coding}: {finished:?}");
                    ensure!(std::fs::read(&output)? == contents(number), "{target}, {coding}: other bytes");
                }
            }
        }
        Ok(())
    });
}
