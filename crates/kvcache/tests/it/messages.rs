//! Channels and messages, on every driver.

use std::{
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use anyhow::{Context, ensure};
use testkit::{
    Client, Server, eventually,
    tls::{Certificates, TLS13},
};

use crate::common::{EXE, ask, field, on_every_driver, send, start, text};

/// Answers the reply to a subscription in RESP2.
fn confirmation(verb: &str, name: &str, count: usize) -> String {
    format!("*3\r\n${}\r\n{verb}\r\n${}\r\n{name}\r\n:{count}\r\n", verb.len(), name.len())
}

/// Answers a message of a channel in RESP2.
fn message(channel: &str, text: &str) -> String {
    format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{text}\r\n", channel.len(), text.len())
}

/// Answers the message of a pattern in RESP2.
fn pattern_message(pattern: &str, channel: &str, text: &str) -> String {
    let (p, c, t) = (pattern.len(), channel.len(), text.len());
    format!("*4\r\n$8\r\npmessage\r\n${p}\r\n{pattern}\r\n${c}\r\n{channel}\r\n${t}\r\n{text}\r\n")
}

/// Returns the same as RESP3 has it.
fn push(resp2: &str) -> String {
    resp2.replacen('*', ">", 1)
}

fn subscriber(server: &Server, channel: &str) -> anyhow::Result<Client> {
    let mut client = server.connect()?;
    ask(&mut client, &format!("SUBSCRIBE {channel}"), &confirmation("subscribe", channel, 1))?;
    Ok(client)
}

fn resp3(server: &Server) -> anyhow::Result<Client> {
    let mut client = server.connect()?;
    send(&mut client, &[b"HELLO", b"3", b"SETNAME", b"three"])?;
    send(&mut client, &[b"ECHO", b"here"])?;
    let mut got = Vec::new();
    while !got.ends_with(b"$4\r\nhere\r\n") {
        got.extend(client.take(1)?);
    }
    Ok(client)
}

#[test]
fn a_message_reaches_every_subscriber_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let mut plain = subscriber(&server, "news")?;
        let mut pattern = server.connect()?;
        ask(&mut pattern, "PSUBSCRIBE n*", &confirmation("psubscribe", "n*", 1))?;
        let mut three = resp3(&server)?;
        ask(&mut three, "SUBSCRIBE news", &push(&confirmation("subscribe", "news", 1)))?;
        let mut shard = server.connect()?;
        ask(&mut shard, "SSUBSCRIBE news", &confirmation("ssubscribe", "news", 1))?;
        let mut publisher = server.connect()?;
        for number in 0..100 {
            let said = format!("m{number}");
            ask(&mut publisher, &format!("PUBLISH news {said}"), ":3\r\n")?;
            plain.expect(message("news", &said).as_bytes())?;
            pattern.expect(pattern_message("n*", "news", &said).as_bytes())?;
            three.expect(push(&message("news", &said)).as_bytes())?;
        }
        ask(&mut publisher, "SPUBLISH news sharded", ":1\r\n")?;
        shard.expect(message("news", "sharded").replace("$7\r\nmessage", "$8\r\nsmessage").as_bytes())?;
        ask(&mut publisher, "PUBLISH olds nobody", ":0\r\n")?;
        // Another connection goes on as if there were no messages, and RESP3 has replies between them.
        ask(&mut three, "SET k v", "+OK\r\n")?;
        ask(&mut publisher, "GET k", "$1\r\nv\r\n")?;
        drop(plain);
        eventually("the subscription is gone", || {
            send(&mut publisher, &[b"PUBSUB", b"NUMSUB", b"news"])?;
            let got = publisher.take(18)?;
            Ok(got.ends_with(b":1\r\n"))
        })
    });
}

/// All messages of one publisher arrive, in order, whatever their length and however slowly they are read.
#[test]
fn messages_keep_their_order_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let mut subscribers = [subscriber(&server, "c")?, subscriber(&server, "c")?];
        let mut publisher = server.connect()?;
        let texts: Vec<String> = (0..300).map(|i| format!("{i}-{}", "x".repeat(i * 97 % 5_000))).collect();
        let mut requests = Vec::new();
        for text in &texts {
            wire::resp::client::command(&mut requests, &[b"PUBLISH", b"c", text.as_bytes()]);
        }
        publisher.send(&requests)?;
        publisher.expect(":2\r\n".repeat(texts.len()).as_bytes())?;
        let wanted: String = texts.iter().map(|text| message("c", text)).collect();
        subscribers.iter_mut().try_for_each(|client| client.expect(wanted.as_bytes()))
    });
}

#[test]
fn a_subscriber_that_does_not_read_is_closed_on_every_driver() {
    on_every_driver(|driver| {
        let args = ["--driver", driver.name(), "--threads", "2", "--max-pushed", "1MiB", "--stall-timeout", "10min"];
        let server = start(&args)?;
        let mut idle = Client::connect_with_buffer(server.address(), 16 << 10)?;
        ask(&mut idle, "SUBSCRIBE c", &confirmation("subscribe", "c", 1))?;
        let (mut reader, mut publisher) = (subscriber(&server, "other")?, server.connect()?);
        let said = "x".repeat(100_000);
        eventually("it is closed", || {
            send(&mut publisher, &[b"PUBLISH", b"c", said.as_bytes()])?;
            let receivers = publisher.take(4)?;
            Ok(receivers == b":0\r\n")
        })?;
        eventually("it is told so", || Ok(idle.is_cut_off()?))?;
        ask(&mut publisher, "PUBLISH other here", ":1\r\n")?;
        reader.expect(message("other", "here").as_bytes())
    });
}

/// In RESP2 a client that waits for messages may say nothing else.
#[test]
fn a_subscriber_of_resp2_has_few_commands() -> anyhow::Result<()> {
    let server = start(&["--threads", "1"])?;
    let mut client = subscriber(&server, "a")?;
    let refusal = |name: &str| {
        format!(
            "-ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in \
             this context\r\n"
        )
    };
    ask(&mut client, "GET k", &refusal("get"))?;
    ask(&mut client, "CLIENT ID", &refusal("client|id"))?;
    ask(&mut client, "MULTI", &refusal("multi"))?;
    ask(&mut client, "PING", "*2\r\n$4\r\npong\r\n$0\r\n\r\n")?;
    ask(&mut client, "PING hello", "*2\r\n$4\r\npong\r\n$5\r\nhello\r\n")?;
    ask(&mut client, "UNSUBSCRIBE b", &confirmation("unsubscribe", "b", 1))?;
    ask(&mut client, "UNSUBSCRIBE", &confirmation("unsubscribe", "a", 0))?;
    ask(&mut client, "UNSUBSCRIBE", "*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n")?;
    ask(&mut client, "GET k", "$-1\r\n")?;
    ask(&mut client, "PSUBSCRIBE a b", &(confirmation("psubscribe", "a", 1) + &confirmation("psubscribe", "b", 2)))?;
    ask(&mut client, "RESET", "+RESET\r\n")?;
    ask(&mut client, "PUBSUB NUMPAT", ":0\r\n")?;
    let mut three = resp3(&server)?;
    ask(&mut three, "SUBSCRIBE a", &push(&confirmation("subscribe", "a", 1)))?;
    ask(&mut three, "PING", "+PONG\r\n")?;
    // What a connection says to itself comes behind its reply.
    ask(&mut three, "PUBLISH a me", &(":1\r\n".to_owned() + &push(&message("a", "me"))))?;
    ask(&mut three, "QUIT", "+OK\r\n")?;
    three.expect_end()
}

#[test]
fn transactions_and_scripts_can_publish() -> anyhow::Result<()> {
    for store in ["packed", "partitioned"] {
        let server = start(&["--threads", "2", "--store", store])?;
        let (mut listener, mut client) = (subscriber(&server, "c")?, server.connect()?);
        for (request, reply) in [
            ("MULTI", "+OK\r\n"),
            ("PUBLISH c 1", "+QUEUED\r\n"),
            ("SET k v", "+QUEUED\r\n"),
            ("EXEC", "*2\r\n:1\r\n+OK\r\n"),
            ("EVAL return{redis.call('set',KEYS[1],'2'),redis.call('publish','c','2')} 1 k", "*2\r\n+OK\r\n:1\r\n"),
            ("GET k", "$1\r\n2\r\n"),
            ("MULTI", "+OK\r\n"),
            ("SUBSCRIBE d", "+QUEUED\r\n"),
            ("PUBLISH c 3", "+QUEUED\r\n"),
        ] {
            ask(&mut client, request, reply).context(store)?;
        }
        ask(&mut client, "EXEC", &format!("*2\r\n{}:1\r\n", confirmation("subscribe", "d", 1)))?;
        for number in ["1", "2", "3"] {
            listener.expect(message("c", number).as_bytes())?;
        }
        ask(&mut listener, "UNSUBSCRIBE c", &confirmation("unsubscribe", "c", 0))?;
        send(&mut listener, &[b"EVAL", b"return redis.pcall('subscribe','x')", b"0"])?;
        listener.expect(b"-ERR This Redis command is not allowed from script")?;
    }
    Ok(())
}

/// Subscribes, ends that, and checks that nothing but messages came in between.
fn subscribe_and_end(client: &mut Client) -> anyhow::Result<()> {
    ask(client, "SUBSCRIBE c", &confirmation("subscribe", "c", 1))?;
    send(client, &[b"UNSUBSCRIBE"])?;
    let (end, said) = (confirmation("unsubscribe", "c", 0), message("c", "message"));
    let mut got = Vec::new();
    while !got.ends_with(end.as_bytes()) {
        got.extend(client.take(1)?);
    }
    let messages = &got[..got.len() - end.len()];
    let is_whole = messages.chunks(said.len()).all(|chunk| chunk == said.as_bytes());
    ensure!(is_whole, "{}", got.escape_ascii());
    ask(client, "ECHO x", "$1\r\nx\r\n")
}

/// Once a client has been told that a subscription has ended, nothing of it follows: a reply would be taken for it.
#[test]
fn nothing_follows_the_end_of_a_subscription_on_every_driver() {
    on_every_driver(|driver| {
        let server = start(&["--driver", driver.name(), "--threads", "2"])?;
        let (mut client, mut publisher) = (server.connect()?, server.connect()?);
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let flood = scope.spawn(|| -> anyhow::Result<()> {
                while !is_over.load(Ordering::Relaxed) {
                    send(&mut publisher, &[b"PUBLISH", b"c", b"message"])?;
                    publisher.take(4)?;
                }
                Ok(())
            });
            let outcome = (0..100).try_for_each(|_| subscribe_and_end(&mut client));
            is_over.store(true, Ordering::Relaxed);
            flood.join().map_err(|_| anyhow::anyhow!("the publisher panicked"))?.and(outcome)
        })
    });
}

#[test]
fn subscriptions_are_counted_and_shown() -> anyhow::Result<()> {
    let server = start(&["--threads", "1", "--idle-timeout", "1day"])?;
    let (mut client, mut other) = (server.connect()?, server.connect()?);
    ask(&mut client, "SUBSCRIBE a b", &(confirmation("subscribe", "a", 1) + &confirmation("subscribe", "b", 2)))?;
    ask(&mut client, "PSUBSCRIBE p", &confirmation("psubscribe", "p", 3))?;
    ask(&mut client, "SSUBSCRIBE s", &confirmation("ssubscribe", "s", 1))?;
    let stats = text(&mut other, "INFO stats")?;
    let figures = ["pubsub_channels", "pubsub_patterns", "pubsubshard_channels"].map(|name| field(&stats, name));
    assert_eq!(figures.into_iter().collect::<anyhow::Result<Vec<_>>>()?, ["2", "1", "1"]);
    let list = text(&mut other, "CLIENT LIST TYPE pubsub")?;
    ensure!(
        list.lines().count() == 1 && list.contains(" flags=P ") && list.contains(" sub=2 psub=1 ssub=1 "),
        "{list}"
    );
    let list = text(&mut other, "CLIENT LIST TYPE normal")?;
    ensure!(list.lines().count() == 1 && list.contains(" sub=0 psub=0 ssub=0 "), "{list}");
    ask(&mut other, "PUBSUB NUMSUB a c", "*4\r\n$1\r\na\r\n:1\r\n$1\r\nc\r\n:0\r\n")?;
    ask(&mut other, "PUBSUB CHANNELS [b-z]", "*1\r\n$1\r\nb\r\n")?;
    ask(&mut other, "PUBSUB SHARDCHANNELS", "*1\r\n$1\r\ns\r\n")?;
    ask(&mut other, "PUBSUB SHARDNUMSUB s", "*2\r\n$1\r\ns\r\n:1\r\n")?;
    // A timeout that comes later spares who waits for messages.
    ask(&mut other, "CONFIG SET timeout 1", "+OK\r\n")?;
    let mut idle = server.connect()?;
    ask(&mut idle, "PING", "+PONG\r\n")?;
    idle.expect_disconnect()?;
    ask(&mut server.connect()?, "PUBLISH a late", ":1\r\n")?;
    client.expect(message("a", "late").as_bytes())
}

#[test]
fn messages_go_over_tls_on_every_driver() -> anyhow::Result<()> {
    let certificates = Certificates::new()?;
    on_every_driver(|driver| {
        let args = ["--listen", "127.0.0.1:0", "--driver", driver.name(), "--threads", "2"].map(str::to_owned);
        let mut command = Command::new(EXE);
        command.args(args).args(certificates.flags("server"));
        let server = Server::start_command(command, 2)?;
        let mut client = certificates.connect(&server.addresses()[1], &TLS13)?;
        let mut request = Vec::new();
        wire::resp::client::command(&mut request, &[b"SUBSCRIBE", b"c"]);
        client.send(&request)?;
        client.expect(confirmation("subscribe", "c", 1).as_bytes())?;
        let mut publisher = server.connect()?;
        for number in 0..50 {
            let said = format!("{number}{}", "x".repeat(number * 1_000));
            send(&mut publisher, &[b"PUBLISH", b"c", said.as_bytes()])?;
            publisher.expect(b":1\r\n")?;
            client.expect(message("c", &said).as_bytes())?;
        }
        Ok(())
    });
    Ok(())
}
