//! Wide events of sampled connections.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;
use testkit::Client;

use crate::common::{Kv, exchange, on_every_driver};

fn read(path: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(path)?;
    text.lines().map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
}

/// Fields of all events in a row, without what no test can know.
fn summary(events: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let fields = ["protocol", "command", "key", "bytes_in", "bytes_out", "outcome", "complete"];
    let requests = events.iter().filter(|event| event["event"] == "request");
    requests.map(|event| fields.map(|field| text(&event[field])).join(" ")).collect()
}

#[test]
fn every_request_of_a_sampled_connection_has_an_event() {
    let directory = tempfile::tempdir().unwrap();
    on_every_driver(|driver| {
        let path = directory.path().join(driver.name());
        let path_text = path.display().to_string();
        let kv = Kv::start(["--driver", driver.name(), "--events", &path_text, "--event-rate", "1"])?;
        let mut client = Client::connect(kv.resp())?;
        exchange(&mut client, b"CLIENT SETNAME me\r\nSET k 12345\r\nGET k\r\nGET none\r\nNONSENSE\r\n", {
            b"+OK\r\n+OK\r\n$5\r\n12345\r\n$-1\r\n-ERR unknown command 'NONSENSE', with args beginning with: \r\n"
        })?;
        drop(client);
        let mut client = Client::connect(kv.us())?;
        exchange(&mut client, b"GET k\x1f", b"12345\x1f")?;
        drop(client);
        let mut client = Client::connect(kv.memcached())?;
        exchange(&mut client, b"get k none\r\n", b"VALUE k 0 5\r\n12345\r\nEND\r\n")?;
        drop(client);
        kv.stop()?;
        let events = read(&path)?;
        let mut requests = summary(&events);
        requests.sort_unstable();
        let expected = [
            "memcached get k 12 25 ok true",
            "resp2 client|setname null 19 5 ok true",
            "resp2 get k 7 11 ok true",
            "resp2 get none 10 5 nil true",
            "resp2 nonsense null 10 61 error true",
            "resp2 set k 13 5 ok true",
            "us get k 6 6 ok true",
        ];
        ensure!(requests == expected, "{requests:#?}");
        let of = |field: &str, value: &str| events.iter().find(|event| event[field] == value).cloned().context("none");
        ensure!(of("command", "set")?["client_name"] == "me", "{events:?}");
        ensure!(of("outcome", "error")?["error"].as_str().is_some_and(|error| error.starts_with("ERR unknown")));
        let mut connections: Vec<_> = events.iter().filter(|event| event["event"] == "connection").collect();
        // Threads write when they like.
        connections.sort_by_key(|event| event["connection"].as_u64());
        ensure!(connections.len() == 3 && connections[0]["requests"] == 5, "{connections:?}");
        ensure!(connections[0]["errors"] == 1 && connections[0]["bytes_in"] == 59, "{connections:?}");
        Ok(())
    });
}

/// The threads of a partitioned store run none of the commands of a sampled connection, and their replies stay in order.
#[test]
fn sampling_changes_no_reply_of_any_store() {
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    for n in 0..500 {
        requests.extend_from_slice(format!("SET key:{n} {n}\r\nGET key:{n}\r\n").as_bytes());
        let value = n.to_string();
        replies.extend_from_slice(format!("+OK\r\n${}\r\n{value}\r\n", value.len()).as_bytes());
    }
    for store in ["packed", "partitioned"] {
        let kv = Kv::start(["--store", store, "--events", "/dev/null", "--event-rate", "1"]).unwrap();
        exchange(&mut Client::connect(kv.resp()).unwrap(), &requests, &replies).unwrap();
        kv.stop().unwrap();
    }
}
