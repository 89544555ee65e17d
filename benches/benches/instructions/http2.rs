//! Requests of HTTP/2, as many as one read of a busy connection has, on the server's side and on the load generator's.

use gungraun::{library_benchmark, library_benchmark_group};
use http_server::HttpServer;
use loadgen::{
    http::{Expectation, Http2Client, Http2Message, Http2Spec, HttpVerify},
    protocol::{Answer, ClientProtocol},
};
use wire::{
    hpack::push_field,
    http2::{
        CLIENT_WINDOW_BYTES, HEADER_LEN, PREFACE, WINDOW_BYTES, push_data_header, push_headers, push_settings,
        push_window_update,
    },
};

use crate::{
    TURNS, at_most,
    servers::{Setup, http_server, serve},
};

/// Requests that arrive at once.
const STREAMS: u32 = 32;
/// Payload of a frame that is never exceeded here.
const FRAME_BYTES: usize = 1 << 14;

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    fields.iter().for_each(|(name, value)| push_field(name.as_bytes(), value.as_bytes(), &mut block));
    block
}

fn request() -> Vec<u8> {
    let host = (":authority", "127.0.0.1:8080");
    block(&[(":method", "GET"), (":scheme", "http"), host, (":path", "/small"), ("user-agent", "loadgen/0.1.0")])
}

/// Frames of neighbouring streams, whose numbers grow with each turn.
struct Frames {
    bytes: Vec<u8>,
    /// Places of the streams' numbers.
    places: Vec<usize>,
}

impl Frames {
    /// Gathers the frames of the first streams, which `push` appends.
    fn new(push: impl Fn(u32, &mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        (0..STREAMS).for_each(|stream| push(2 * stream + 1, &mut bytes));
        let (mut places, mut at) = (Vec::new(), 0);
        while let Some(header) = wire::http2::FrameHeader::parse(&bytes[at..]) {
            places.push(at + HEADER_LEN - 4);
            at += HEADER_LEN + header.payload_len();
        }
        Self { bytes, places }
    }

    fn renumber(&mut self) {
        for &place in &self.places {
            let number = self.bytes[place..].first_chunk_mut().expect("a frame");
            *number = (u32::from_be_bytes(*number) + 2 * STREAMS).to_be_bytes();
        }
    }
}

/// Makes an http-server with the requested file in its cache, and a connection of HTTP/2 that has asked for it before.
fn server() -> (Setup<HttpServer>, Frames) {
    let mut setup = http_server();
    let block = request();
    let frames = Frames::new(|stream, out| push_headers(stream, &block, true, FRAME_BYTES, out));
    let mut greeting = PREFACE.to_vec();
    push_settings(&[], &mut greeting);
    push_window_update(0, CLIENT_WINDOW_BYTES - WINDOW_BYTES, &mut greeting);
    setup.reconnect();
    setup.input = greeting;
    serve(&mut setup);
    setup.input.clone_from(&frames.bytes);
    let bytes = serve(&mut setup);
    assert!(bytes > 128 * STREAMS as usize, "{bytes} bytes of responses");
    (setup, frames)
}

#[library_benchmark]
#[bench::streams_32(args = (server()), config = at_most(19_990_000))]
fn http2_get((mut setup, mut frames): (Setup<HttpServer>, Frames)) -> (Setup<HttpServer>, Frames) {
    for _ in 0..TURNS {
        frames.renumber();
        setup.input.clone_from(&frames.bytes);
        serve(&mut setup);
    }
    (setup, frames)
}

/// A client, its connection, replies to its next requests, and the memory that it uses again.
struct Client {
    client: Http2Client,
    conn: <Http2Client as ClientProtocol>::Conn,
    replies: Frames,
    answers: Vec<Answer<<Http2Client as ClientProtocol>::Request>>,
    sent: Vec<u8>,
}

impl Client {
    /// Sends as many requests as there are streams, and reads the replies to them.
    fn turn(&mut self) {
        for _ in 0..STREAMS {
            let request = self.client.next(&mut self.conn, 1);
            self.client.encode(request, &mut self.sent);
        }
        self.client.flush(&mut self.conn, &mut self.sent);
        self.sent.clear();
        let read = self.client.decode_any(&mut self.conn, &self.replies.bytes, 0, &mut self.answers);
        assert!(read.is_ok() && self.answers.len() == STREAMS as usize, "a reply to each");
        self.answers.clear();
        self.replies.renumber();
    }
}

/// Makes a client that has seen replies already, with which it compares the others.
fn client() -> Client {
    let message = Http2Message { name: "GET /small".to_owned(), block: request(), body: Vec::new() };
    let spec = Http2Spec { message, expectation: Expectation::Nothing };
    let mut client = Http2Client::new(&[spec], HttpVerify::Content, 0, STREAMS as usize);
    let mut conn = client.open();
    let (mut settings, mut answers) = (Vec::new(), Vec::new());
    push_settings(&[], &mut settings);
    assert!(client.decode_any(&mut conn, &settings, 0, &mut answers).is_ok());
    let date = ("date", "Sat, 01 Jan 2028 00:00:00 GMT");
    let block = block(&[(":status", "200"), ("content-type", "text/plain"), ("content-length", "128"), date]);
    let replies = Frames::new(|stream, out| {
        push_headers(stream, &block, false, FRAME_BYTES, out);
        push_data_header(stream, 128, true, out);
        out.extend_from_slice(&[b'x'; 128]);
    });
    let mut client = Client { client, conn, replies, answers, sent: Vec::new() };
    client.turn();
    client
}

#[library_benchmark]
#[bench::streams_32(args = (client()), config = at_most(2_607_000))]
fn http2_reply(mut client: Client) -> Client {
    for _ in 0..TURNS {
        client.turn();
    }
    client
}

library_benchmark_group!(name = multiplex, benchmarks = [http2_get, http2_reply]);
