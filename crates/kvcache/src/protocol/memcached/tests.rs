//! Laws of memcached pipelines.

use fastrand::Rng;
use proto::{BatchEntry, Flow, Outbox, Protocol, Step};
use store::HashbrownStore;
use wire::memcached::binary::{self, Opcode, client::RequestBody};

use crate::{
    connection::{Conn, FrontEnd},
    testing,
    testing::{Server, ask, connect, now},
};

/// Every kind of request, several of them refused.
const REQUESTS: &[&str] = &[
    "set a 1 0 3\r\nabc\r\n",
    "set b 0 100 2\r\n12\r\n",
    "set c 0 -1 1\r\nx\r\n",
    "set a 0 0 1 noreply\r\n7\r\n",
    "set a 0 0 2\r\nlong\r\n",
    "set b 0 0 99999999999\r\n",
    "add d 0 0 1\r\n1\r\n",
    "append a 0 0 1\r\nz\r\n",
    "cas a 0 0 1 1\r\nc\r\n",
    "get a\r\n",
    "get a b c\r\n",
    "get none\r\n",
    "get \r\n",
    "bget b\r\n",
    "gets a\r\n",
    "gat 0 a\r\n",
    "gat 0\r\n",
    "touch b 50\r\n",
    "incr b 3\r\n",
    "decr a 3\r\n",
    "delete d\r\n",
    "mg a v f h\r\n",
    "mg a v c k Oq\r\n",
    "mg YQ== b v\r\n",
    "mg none v q\r\n",
    "mg e v N30 t\r\n",
    "ms e 2 F5\r\nhi\r\n",
    "ms a 2 Y\r\nno\r\n",
    "md b I\r\n",
    "ma b v\r\n",
    "me none\r\n",
    "mn\r\n",
    "version\r\n",
    "flush_all noreply\r\n",
    "nonsense\r\n",
];

fn start() -> (Server, Conn<HashbrownStore>) {
    let (server, _) = testing::server();
    let conn = connect(&server, FrontEnd::Memcached);
    (server, conn)
}

fn requests(random: &mut Rng) -> Vec<&'static str> {
    (0..random.usize(1..120)).map(|_| REQUESTS[random.usize(..REQUESTS.len())]).collect()
}

/// Returns the replies to input that comes in pieces.
fn answer(
    server: &Server,
    conn: &mut Conn<HashbrownStore>,
    mut input: &[u8],
    mut piece: impl FnMut() -> usize,
) -> String {
    let (mut pending, mut out) = (Vec::new(), Outbox::default());
    while !input.is_empty() {
        let (came, rest) = input.split_at(piece().min(input.len()));
        pending.extend_from_slice(came);
        input = rest;
        let step = server.on_input(conn, &pending, now(), &mut out);
        assert_eq!(step.flow, Flow::Open);
        pending.drain(..step.consumed);
    }
    assert!(out.is_inline());
    out.inline().escape_ascii().to_string()
}

#[test]
fn replies_depend_neither_on_pipelining_nor_on_fragmentation() {
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let requests = requests(&mut random);
        let (server, mut conn) = start();
        // Each request is sent alone; a refused value is skipped together with its request.
        let alone: String =
            requests.iter().map(|request| answer(&server, &mut conn, request.as_bytes(), || 1000)).collect();
        let input = requests.concat();
        for largest in [1, 7, 100, input.len()] {
            let (server, mut conn) = start();
            let together = answer(&server, &mut conn, input.as_bytes(), || random.usize(..largest) + 1);
            assert_eq!(together, alone, "seed {seed}, pieces of up to {largest} bytes:\n{input}");
        }
    }
}

#[test]
fn a_binary_first_byte_means_the_binary_protocol_only_at_the_start() {
    let (server, mut conn) = start();
    assert_eq!(ask(&server, &mut conn, b"get a\r\n\x80\r\n"), "END\r\nERROR\r\n");
    let (mut conn, mut out) = (connect(&server, FrontEnd::Memcached), Outbox::default());
    let step = server.on_input(&mut conn, b"\x80\r\n", now(), &mut out);
    assert_eq!((step.consumed, step.flow), (0, Flow::Open));
    let mut noop = Vec::new();
    binary::client::request(&mut noop, Opcode::Noop.number(), 0, 0, &RequestBody::default());
    let step = server.on_input(&mut conn, &[&noop, b"get a\r\n".as_slice()].concat(), now(), &mut out);
    assert_eq!(step.flow, Flow::Linger);
    assert_eq!(out.inline().len(), 24);
}

/// Requests of the binary protocol, quiet ones and refused ones among them.
fn binary_requests(random: &mut Rng) -> Vec<Vec<u8>> {
    let count = random.u32(1..120);
    let request = |opaque: u32| {
        let (mut bytes, key) = (Vec::new(), [b'a' + random.u8(..3)]);
        let (opcode, is_quiet) = (Opcode::ALL[random.usize(..Opcode::ALL.len())], random.u8(..3) == 0);
        let number = [0, 0, 0, 0, 0, 0, 0, random.u8(..3)];
        let extras = match opcode {
            Opcode::Set | Opcode::Add | Opcode::Replace => number.to_vec(),
            Opcode::Increment | Opcode::Decrement => [&number[..], &number, &[0; 4]].concat(),
            Opcode::Touch | Opcode::Gat | Opcode::GatK | Opcode::Verbosity => vec![0; 4],
            Opcode::Get | Opcode::GetK | Opcode::Delete | Opcode::Append | Opcode::Prepend => Vec::new(),
            // Statistics differ from run to run, and the end of the connection is another test's.
            Opcode::Flush | Opcode::Noop | Opcode::Version | Opcode::SaslListMechs => {
                binary::client::request(&mut bytes, opcode.number(), opaque, 0, &RequestBody::default());
                return bytes;
            }
            Opcode::Stat | Opcode::Quit | Opcode::SaslAuth | Opcode::SaslStep => {
                let body = RequestBody { value: b"to be skipped", ..RequestBody::default() };
                binary::client::request(&mut bytes, 0x77, opaque, 0, &body);
                return bytes;
            }
        };
        let is_number = matches!(opcode, Opcode::Set | Opcode::Add | Opcode::Append) && random.bool();
        let is_text = matches!(opcode, Opcode::Set | Opcode::Replace | Opcode::Prepend) && !is_number;
        let value: &[u8] = if is_number {
            b"12"
        } else if is_text {
            b"text"
        } else {
            b""
        };
        let key = if opcode == Opcode::Verbosity { &[][..] } else { &key };
        let number = opcode.quiet_number().filter(|_| is_quiet).unwrap_or_else(|| opcode.number());
        binary::client::request(&mut bytes, number, opaque, 0, &RequestBody { extras: &extras, key, value });
        bytes
    };
    (0..count).map(request).collect()
}

#[test]
fn binary_replies_depend_neither_on_pipelining_nor_on_fragmentation() {
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let requests = binary_requests(&mut random);
        let (server, mut conn) = start();
        let alone: String = requests.iter().map(|request| answer(&server, &mut conn, request, || 1000)).collect();
        let input = requests.concat();
        for largest in [1, 7, 100, input.len()] {
            let (server, mut conn) = start();
            let together = answer(&server, &mut conn, &input, || random.usize(..largest) + 1);
            assert_eq!(together, alone, "seed {seed}, pieces of up to {largest} bytes");
        }
    }
}

#[test]
fn binary_requests_on_one_key_go_through_the_window_together() {
    let (server, mut conn) = start();
    let mut batch = Vec::new();
    for opaque in 0..16 {
        binary::client::set(&mut batch, opaque, b"a", 0, 0, b"x");
        binary::client::get(&mut batch, opaque, b"a");
    }
    ask(&server, &mut conn, &batch);
    let batches = server.state.statistics.batches();
    assert_eq!((batches[5], batches.iter().sum::<u64>()), (1, 1), "32 commands");
}

#[test]
fn a_pipeline_is_counted_as_one_batch() {
    let (server, mut conn) = start();
    let batch = ["set a 0 0 1\r\nx\r\n", "get a\r\n", "mg a v\r\n", "incr b 1\r\n"].concat().repeat(8);
    ask(&server, &mut conn, batch.as_bytes());
    let batches = server.state.statistics.batches();
    assert_eq!((batches[5], batches.iter().sum::<u64>()), (1, 1), "32 commands");
}

/// Connections of all protocols that are ready at the same time.
#[test]
fn connections_of_one_batch_keep_their_protocol_and_database() {
    let (server, mut resp) = testing::server();
    let (mut memcached, mut us) = (connect(&server, FrontEnd::Memcached), connect(&server, FrontEnd::Us));
    let inputs: [&[u8]; 3] = [
        b"SET a 0\r\nSELECT 3\r\nSET a 3\r\nGET a\r\n",
        b"get a\r\nset b 4 0 1\r\nm\r\nget a b\r\nget b\r\n*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
        b"GET b\x1fSET a us\x1fGET a\x1f",
    ];
    let mut outs = [Outbox::default(), Outbox::default(), Outbox::default()];
    let conns = [&mut resp, &mut memcached, &mut us];
    let batch = conns.into_iter().zip(inputs).zip(&mut outs);
    let batch = batch.map(|((conn, input), out)| BatchEntry { conn, input, out, step: Step::open(0) });
    let mut batch: Vec<_> = batch.collect();
    server.on_ready(&mut batch, now());
    assert!(batch.iter().all(|entry| entry.step.consumed == entry.input.len()));
    drop(batch);
    let wanted: [&[u8]; 3] = [
        b"+OK\r\n+OK\r\n+OK\r\n$1\r\n3\r\n",
        b"VALUE a 0 1\r\n0\r\nEND\r\nSTORED\r\nVALUE a 0 1\r\n0\r\nVALUE b 4 1\r\nm\r\nEND\r\nVALUE b 4 1\r\nm\r\nEND\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\nERROR\r\n",
        b"m\x1fOK\x1fus\x1f",
    ];
    for (out, wanted) in outs.iter_mut().zip(wanted) {
        assert_eq!(out.inline().escape_ascii().to_string(), wanted.escape_ascii().to_string());
    }
}

#[test]
fn a_read_changes_an_entry_only_by_asking_for_its_number() {
    for (request, is_change) in [
        ("get a\r\n", false),
        ("get a a\r\n", false),
        ("mg a v f s h t\r\n", false),
        ("mg a v u\r\n", false),
        ("gets a\r\n", true),
        ("mg a v c\r\n", true),
    ] {
        let (server, mut resp) = testing::server();
        let mut memcached = connect(&server, FrontEnd::Memcached);
        ask(&server, &mut resp, b"SET a 1\r\nWATCH a\r\n");
        ask(&server, &mut memcached, request.as_bytes());
        let executed = ask(&server, &mut resp, b"MULTI\r\nEXEC\r\n");
        assert_eq!(executed, if is_change { "+OK\r\n*-1\r\n" } else { "+OK\r\n*0\r\n" }, "{request:?}");
        let fetched = if request.contains(" u") { "HD h0\r\n" } else { "HD h1\r\n" };
        assert_eq!(ask(&server, &mut memcached, b"mg a h\r\n"), fetched, "{request:?}");
    }
}
