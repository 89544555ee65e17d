//! Bytes of responses, with every strategy.

use anyhow::{Context, ensure};
use testkit::{
    Server,
    http::{Http, Response},
};

use crate::setup::{ALL, Combination, Setup, Site, bytes, fallbacks, number, of_strategy, stats};

/// Sizes around every boundary: pages, the usual pipe, the largest pipe of these servers with and without a head, chains.
const PIPE_SIZE: usize = 128 << 10;
const SIZES: &[usize] = &[
    0,
    1,
    4_095,
    4_096,
    4_097,
    26_510,
    61_439,
    61_440,
    61_441,
    65_535,
    65_536,
    65_537,
    PIPE_SIZE - 4_097,
    PIPE_SIZE - 4_096,
    PIPE_SIZE - 4_095,
    PIPE_SIZE - 1,
    PIPE_SIZE,
    PIPE_SIZE + 1,
    2 * PIPE_SIZE - 4_096,
    2 * PIPE_SIZE,
    1 << 20,
    3 << 20,
];
const SETUP: Setup = Setup { args: &["--threads", "1", "--pipe-size", "128KiB"], ..ALL };

fn is_whole(got: &Response, size: usize) -> anyhow::Result<()> {
    ensure!(got.status == 200 && got.body == bytes(size), "{size}: {} with {} bytes", got.status, got.body.len());
    ensure!(got.field("accept-ranges") == Some("bytes"), "{size}: {got:?}");
    Ok(())
}

fn ask(client: &mut Http, method: &str, size: usize, fields: &str) -> anyhow::Result<Response> {
    let request = format!("{method} /{size} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    client.ask(&request).with_context(|| format!("{method} /{size} {fields}"))
}

/// Requests every size, twice, alone and in a pipeline.
fn whole(server: &Server) -> anyhow::Result<()> {
    let mut client = Http::connect(server.address())?;
    for _ in 0..3 {
        for &size in SIZES {
            is_whole(&ask(&mut client, "GET", size, "")?, size)?;
        }
    }
    let all: String = SIZES.iter().map(|size| format!("GET /{size} HTTP/1.1\r\nHost: h\r\n\r\n")).collect();
    client.send(&all.repeat(2))?;
    for &size in SIZES.iter().chain(SIZES) {
        is_whole(&client.response("GET")?, size)?;
    }
    Ok(())
}

fn heads_ranges_and_conditions(server: &Server) -> anyhow::Result<()> {
    let mut client = Http::connect(server.address())?;
    for &size in SIZES {
        let whole = ask(&mut client, "GET", size, "")?;
        let head = ask(&mut client, "HEAD", size, "")?;
        let without_date = |response: &Response| -> Vec<_> {
            response.fields.iter().filter(|(name, _)| name != "Date").cloned().collect()
        };
        ensure!(head.body.is_empty() && without_date(&head) == without_date(&whole), "{head:?} and {:?}", whole.fields);
        let etag = whole.field("etag").context("no etag")?;
        let known = ask(&mut client, "GET", size, &format!("If-None-Match: {etag}\r\n"))?;
        ensure!(known.status == 304 && known.body.is_empty(), "{size}: {known:?}");
        for (first, last) in [(0, 0), (0, size / 2), (size / 3, size - size / 3), (size.saturating_sub(1), size)] {
            let got = ask(&mut client, "GET", size, &format!("Range: bytes={first}-{last}\r\n"))?;
            if first >= size {
                ensure!(got.status == 416, "{size}: {first}-{last}: {}", got.status);
                continue;
            }
            let end = size.min(last + 1);
            ensure!(got.status == 206 && got.body == bytes(size)[first..end], "{size}: {first}-{last}: {}", got.status);
            let range = format!("bytes {first}-{}/{size}", end - 1);
            ensure!(got.field("content-range") == Some(&*range), "{size}: {first}-{last}: {got:?}");
        }
        is_whole(&ask(&mut client, "GET", size, "")?, size)?;
    }
    Ok(())
}

/// Requests several parts in one response: each has its range and its bytes, in the order of the request.
fn several_parts(server: &Server) -> anyhow::Result<()> {
    let mut client = Http::connect(server.address())?;
    for &size in SIZES.iter().filter(|&&size| size >= 4_095) {
        let wanted = [0..1, size / 3..size / 2, size - 7..size];
        let mut fields = String::from("Range: bytes=");
        wanted[..2].iter().for_each(|part| fields += &format!("{}-{},", part.start, part.end - 1));
        let got = ask(&mut client, "GET", size, &(fields + "-7\r\n"))?;
        let media_type = got.field("content-type").context("no type")?;
        let boundary = media_type.strip_prefix("multipart/byteranges; boundary=").context("one part")?;
        let mut rest = &got.body[..];
        for (at, part) in wanted.into_iter().enumerate() {
            let line_end = if at == 0 { "" } else { "\r\n" };
            let delimiter = format!("{line_end}--{boundary}\r\nContent-Type: application/octet-stream\r\n");
            let range = format!("Content-Range: bytes {}-{}/{size}\r\n\r\n", part.start, part.end - 1);
            rest = rest.strip_prefix((delimiter + &range).as_bytes()).with_context(|| format!("{size}: {part:?}"))?;
            rest = rest.strip_prefix(&bytes(size)[part.clone()]).with_context(|| format!("{size}: not {part:?}"))?;
        }
        ensure!(got.status == 206 && rest == format!("\r\n--{boundary}--\r\n").as_bytes(), "{size}: {got:?}");
    }
    Ok(())
}

/// Sends requests by HTTP/1.0, which has to ask for a persistent connection, and requests that end it.
fn other_heads(server: &Server) -> anyhow::Result<()> {
    let mut client = Http::connect(server.address())?;
    for &size in SIZES {
        let got = client.ask(&format!("GET /{size} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"))?;
        is_whole(&got, size)?;
        ensure!(got.field("connection") == Some("keep-alive"), "{size}: {got:?}");
        let mut other = Http::connect(server.address())?;
        let got = ask(&mut other, "GET", size, "Connection: close\r\n")?;
        is_whole(&got, size)?;
        ensure!(got.field("connection") == Some("close"), "{size}: {got:?}");
        other.expect_end()?;
    }
    Ok(())
}

/// Checks that every response took its strategy's way, and that the counts match the requests.
fn all_went_their_way(server: &Server, Combination { strategy, .. }: Combination) -> anyhow::Result<()> {
    let stats = stats(server)?;
    ensure!(fallbacks(&stats) == 0.0, "{}", stats["fallbacks"]);
    ensure!(stats["strategy"] == strategy && number(&stats, "/zombies")? == 0.0, "{stats}");
    if strategy != "auto" {
        let files = of_strategy(&stats, strategy, "files")?;
        let wanted = if strategy == "sendfile" { SIZES.len() } else { SIZES.len() - 1 };
        ensure!(files == wanted as f64, "{files} files: {stats}");
    }
    let sent = of_strategy(&stats, if strategy == "auto" { "pipe" } else { strategy }, "requests")?;
    ensure!(sent >= 50.0, "{sent} by {strategy}: {stats}");
    Ok(())
}

#[test]
fn every_size_is_sent_right_in_every_way() {
    SETUP.for_each_server(Site::new(SIZES).path(), |server, combination| {
        whole(server).context("whole")?;
        heads_ranges_and_conditions(server).context("parts")?;
        several_parts(server).context("several parts")?;
        other_heads(server).context("other heads")?;
        all_went_their_way(server, combination)
    });
}

/// A head in a pipe has a date: it is that of the response, however old the pipe.
#[test]
fn a_date_is_never_older_than_a_second_or_two() {
    let setup = Setup { strategies: &["pipe"], ..SETUP };
    setup.for_each_server(Site::new(&[26_510]).path(), |server, _| {
        let mut client = Http::connect(server.address())?;
        let mut dates = std::collections::BTreeSet::new();
        for _ in 0..25 {
            let before = httpdate::HttpDate::from(std::time::SystemTime::now());
            let got = ask(&mut client, "GET", 26_510, "")?;
            is_whole(&got, 26_510)?;
            let date = got.field("date").context("no date")?.to_owned();
            // The coarse clock may be a tick behind the fine one.
            let least = std::time::SystemTime::from(before) - std::time::Duration::from_secs(1);
            ensure!(std::time::SystemTime::from(date.parse::<httpdate::HttpDate>()?) >= least, "{date} at {before}");
            dates.insert(date);
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        ensure!(dates.len() >= 3, "{dates:?}");
        ensure!(of_strategy(&stats(server)?, "pipe", "requests")? == 25.0, "all of them by pipe");
        Ok(())
    });
}
