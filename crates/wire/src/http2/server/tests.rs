mod client;

use std::time::Duration;

use proptest::prelude::*;

use self::client::{Bench, block, data, get, initial_window, raw, reset, window_update, written};
use super::*;
use crate::http2::{
    FRAME_BYTES_MAX, WINDOW_BYTES_MAX, push_data_header, push_goaway, push_headers, push_ping, push_rst_stream,
    push_settings,
};

#[test]
fn requests_and_bodies_are_handed_on() {
    let mut bench = Bench::new();
    bench.request(1, true).unwrap();
    bench.send(&[get(3, &[("content-length", "5")], false), data(3, 2, false), data(3, 3, true)].concat()).unwrap();
    let trailers = written(|out| push_headers(5, &block(&[("x-checksum", "1")]), true, 100, out));
    bench.send(&[get(5, &[], false), data(5, 7, false), trailers].concat()).unwrap();
    assert_eq!(bench.seen.0, ["1 GET /.", "3 GET /", "3 +2", "3 +3.", "5 GET /", "5 +7", "5 +0."]);
    bench.respond(3, 10);
    bench.respond(1, 0);
    assert_eq!(bench.got(), ["head 3", "data 3 10.", "head 1."]);
    assert!(!bench.connection.is_idle());
    bench.respond(5, 0);
    assert!(bench.connection.is_idle());
}

#[test]
fn a_head_may_be_continued() {
    let mut bench = Bench::new();
    let fields = block(&[(":method", "GET"), (":scheme", "https"), (":path", "/long"), (":authority", "h")]);
    bench.send(&written(|out| push_headers(1, &fields, true, 3, out))).unwrap();
    assert_eq!(bench.seen.0, ["1 GET /long."]);
}

#[test]
fn settings_and_pings_are_answered() {
    let mut bench = Bench::new();
    bench.send(&initial_window(5)).unwrap();
    bench.send(&written(|out| push_ping([1; 8], false, out))).unwrap();
    bench.send(&written(|out| push_ping([1; 8], true, out))).unwrap();
    bench.send(&written(|out| push_goaway(0, ErrorCode::NoError, out))).unwrap();
    bench.send(&raw(5, 0x77, 0, 0)).unwrap();
    assert_eq!(bench.got(), ["settings ack", "ping true"]);
}

#[test]
fn windows_hold_data_back_until_they_are_enlarged() {
    let mut bench = Bench::new();
    bench.send(&initial_window(10)).unwrap();
    bench.request(1, true).unwrap();
    assert_eq!(bench.respond(1, 30), 10);
    bench.send(&window_update(1, 5)).unwrap();
    assert_eq!(bench.push(), 5);
    // Smaller than what has been sent: the window is negative, and has to be made up for.
    bench.send(&[initial_window(0), window_update(1, 14)].concat()).unwrap();
    assert_eq!(bench.push(), 4);
    bench.send(&initial_window(1 << 20)).unwrap();
    assert_eq!(bench.push(), 11);
    // The connection's own window counts as well.
    bench.request(3, true).unwrap();
    assert_eq!(bench.respond(3, 1 << 20), 65_535 - 30);
    bench.send(&window_update(0, 7)).unwrap();
    assert_eq!(bench.push(), 7);
}

#[test]
fn room_for_bodies_is_given_back() {
    let mut bench = Bench::new();
    bench.request(1, false).unwrap();
    for _ in 0..100 {
        bench.send(&data(1, 10_000, false)).unwrap();
    }
    let windows: Vec<_> = bench.got();
    assert!(windows.iter().any(|window| window.starts_with("window 0 ")), "{windows:?}");
    assert!(windows.iter().any(|window| window.starts_with("window 1 ")), "{windows:?}");
}

#[test]
fn the_most_urgent_response_goes_first_and_increments_take_turns() {
    let mut bench = Bench::new();
    for (stream, priority) in [(1, ""), (3, "u=5"), (5, "i"), (7, "i"), (9, "u=1")] {
        bench.send(&get(stream, &[("priority", priority)], true)).unwrap();
    }
    bench.connection.frame_bytes_max = 10;
    for stream in [1, 3, 5, 7, 9] {
        bench.connection.push_response(stream, b"\x88", 20, &mut bench.out);
    }
    bench.out.clear();
    bench.push();
    let order = ["9", "9.", "1", "1.", "5", "7", "5.", "7.", "3", "3."].map(|end| {
        let (stream, dot) = end.split_at(1);
        format!("data {stream} 10{dot}")
    });
    assert_eq!(bench.got(), order);
    for stream in [11, 13] {
        bench.send(&get(stream, &[], true)).unwrap();
        bench.connection.push_response(stream, b"\x88", 20, &mut bench.out);
    }
    assert_eq!(bench.connection.next(), Some((11, 10)));
    let update = [&raw(4 + 3, 0x10, 0, 0)[..HEADER_LEN], b"\0\0\0\x0du=0"].concat();
    bench.send(&update).unwrap();
    assert_eq!(bench.connection.next(), Some((13, 10)));
}

#[test]
fn a_client_that_still_sends_is_told_to_stop() {
    let mut bench = Bench::new();
    bench.request(1, false).unwrap();
    bench.respond(1, 3);
    assert_eq!(bench.got(), ["head 1", "data 1 3.", "reset 1 0"]);
    bench.send(&[data(1, 10, false), data(1, 0, true)].concat()).unwrap();
    assert_eq!(bench.got(), [""; 0], "what was on its way is nobody's fault");
}

/// A client that has not heard of the drain yet loses nothing: what it sends before it answers the PING is served.
#[test]
fn a_drain_lets_requests_end_and_accepts_no_more() {
    let mut bench = Bench::new();
    bench.request(1, true).unwrap();
    let Bench { connection, out, .. } = &mut bench;
    connection.drain(out);
    connection.drain(out);
    bench.request(3, true).unwrap();
    bench.send(&written(|out| push_ping(*b"draining", true, out))).unwrap();
    bench.send(&[get(5, &[], false), data(5, 5, true), window_update(5, 1), reset(5)].concat()).unwrap();
    bench.respond(1, 5);
    assert!(!bench.connection.is_drained());
    bench.respond(3, 0);
    assert_eq!(bench.got(), ["goaway 2147483647 0", "ping false", "goaway 3 0", "head 1", "data 1 5.", "head 3."]);
    assert_eq!(bench.seen.0, ["1 GET /.", "3 GET /."]);
    assert!(bench.connection.is_drained());
}

#[test]
fn a_smaller_header_table_is_confirmed_once() {
    let mut bench = Bench::new();
    bench.send(&written(|out| push_settings(&[Setting::HeaderTableSize(0)], out))).unwrap();
    bench.request(1, true).unwrap();
    bench.request(3, true).unwrap();
    bench.out.clear();
    for stream in [1, 3] {
        bench.connection.push_response(stream, b"\x88", 0, &mut bench.out);
    }
    assert_eq!(&bench.out[HEADER_LEN..HEADER_LEN + 2], b"\x20\x88");
    assert_eq!(bench.out.len(), 2 * HEADER_LEN + 3);
}

#[test]
fn errors_of_a_stream_leave_the_others() {
    use ErrorCode::{FlowControlError, ProtocolError, RefusedStream, StreamClosed};
    let upper = get(1, &[("Upper", "x")], true);
    for (frames, code) in [
        (vec![upper], ProtocolError),
        (vec![get(1, &[("content-length", "5")], false), data(1, 4, true)], ProtocolError),
        (vec![get(1, &[("content-length", "5")], false), data(1, 6, false)], ProtocolError),
        (vec![get(1, &[], true), data(1, 1, true)], StreamClosed),
        (vec![get(1, &[], true), get(1, &[], true)], StreamClosed),
        (vec![get(1, &[], false), get(1, &[], false)], ProtocolError),
        (vec![get(1, &[], true), window_update(1, WINDOW_BYTES_MAX)], FlowControlError),
        (vec![get(1, &[], true), raw(4, 0x8, 0, 1)], ProtocolError),
        (vec![get(1, &[], true), raw(4, 0x2, 0, 1)], ErrorCode::FrameSizeError),
        (vec![get(1, &[], false), reset(1), data(1, 1, true)], StreamClosed),
        (vec![get(1, &[], false), reset(1), get(1, &[], true)], StreamClosed),
    ] {
        let mut bench = Bench::new();
        bench.send(&frames.concat()).unwrap();
        assert_eq!(bench.got(), [format!("reset 1 {}", code as u32)], "{code:?}");
        bench.request(3, true).unwrap();
        assert_eq!(bench.seen.0.last().unwrap(), "3 GET /.");
    }
    let mut bench = Bench::with_limits(Limits { streams_max: 1, ..Limits::default() });
    bench.request(1, true).unwrap();
    bench.request(3, true).unwrap();
    assert_eq!(bench.got(), [format!("reset 3 {}", RefusedStream as u32)]);
    bench.respond(1, 0);
    bench.request(5, true).unwrap();
    assert_eq!(bench.seen.0, ["1 GET /.", "5 GET /."]);
}

#[test]
fn errors_of_the_connection_end_it() {
    use ErrorCode::{CompressionError, EnhanceYourCalm, FlowControlError, FrameSizeError, ProtocolError, StreamClosed};
    let torn = &get(1, &[], true)[..];
    let mut torn = torn.to_vec();
    torn[4] &= !0x4;
    let finished = |bench: &mut Bench| {
        bench.request(1, true).unwrap();
        bench.respond(1, 0);
    };
    let fresh: fn(&mut Bench) = |_| {};
    type Prepare<'a> = &'a dyn Fn(&mut Bench);
    let cases: [(Prepare<'_>, Vec<u8>, ErrorCode); 16] = [
        (&fresh, get(2, &[], true), ProtocolError),
        (&fresh, [get(5, &[], true), get(3, &[], true)].concat(), ProtocolError),
        (&finished, get(1, &[], true), StreamClosed),
        (&fresh, data(1, 1, true), ProtocolError),
        (&fresh, reset(1), ProtocolError),
        (&fresh, window_update(1, 1), ProtocolError),
        (&fresh, window_update(0, WINDOW_BYTES_MAX), FlowControlError),
        (&fresh, raw(4, 0x8, 0, 0), ProtocolError),
        (&fresh, [torn.clone(), written(|out| push_ping([0; 8], false, out))].concat(), ProtocolError),
        (&fresh, [torn.clone(), get(3, &[], true)].concat(), ProtocolError),
        (&fresh, [torn, raw(1, 0x9, 0x4, 3)].concat(), ProtocolError),
        (&fresh, raw(1, 0x9, 0x4, 1), ProtocolError),
        (&fresh, raw(4, 0x5, 0x4, 1), ProtocolError),
        (&fresh, raw(FRAME_BYTES + 1, 0, 0, 1), FrameSizeError),
        (&fresh, written(|out| push_headers(1, b"\xff\xff\xff\xff\xff\xff", true, 100, out)), CompressionError),
        (&fresh, written(|out| push_headers(1, &[0x82; 40_000], true, 10_000, out)), EnhanceYourCalm),
    ];
    for (prepare, bytes, code) in cases {
        let mut bench = Bench::new();
        prepare(&mut bench);
        assert_eq!(bench.send(&bytes), Err(code), "{:?}", &bytes[..HEADER_LEN]);
        let goaway = bench.got().pop().unwrap();
        assert!(goaway.starts_with("goaway") && goaway.ends_with(&format!(" {}", code as u32)), "{goaway}");
    }
    let too_much = (0..7).map(|_| data(1, 16_000, false)).collect::<Vec<_>>().concat();
    let mut bench = Bench::with_limits(Limits { window_bytes: 1000, ..Limits::default() });
    bench.request(1, false).unwrap();
    bench.send(&too_much[..16_009]).unwrap();
    assert!(bench.got().contains(&format!("reset 1 {}", FlowControlError as u32)));
}

#[test]
fn a_connection_begins_with_its_preface_and_settings() {
    for (bytes, length) in [(&b"GET / HTTP/1.1\r\n"[..], 1), (b"PRI * HTTP/1.1\r\n", 24)] {
        let mut bench = Bench::silent(Limits::default());
        assert_eq!(bench.send(bytes), Err(ErrorCode::ProtocolError), "{length}");
    }
    let mut bench = Bench::silent(Limits::default());
    bench.send(PREFACE).unwrap();
    assert_eq!(bench.send(&get(1, &[], true)), Err(ErrorCode::ProtocolError));
    assert_eq!(FRAME_BYTES_MAX, 16_777_215);
}

#[test]
fn too_large_a_head_is_told_apart() {
    let value = "v".repeat(2000);
    let fields: Vec<_> = (0..10).map(|_| ("x", &value[..])).collect();
    let mut bench = Bench::with_limits(Limits { head_bytes_max: 8000, ..Limits::default() });
    bench.send(&get(1, &fields, true)).unwrap();
    assert_eq!(bench.seen.0, ["1 GET / too large."]);
}

/// Rapid reset, and floods of frames that cost work and take nothing.
#[test]
fn floods_end_the_connection() {
    let limits = Limits { nuisances_max: 50, ..Limits::default() };
    let torn = |bench: &mut Bench| {
        let mut head = get(1, &[], true);
        head[4] &= !0x4;
        bench.send(&head).unwrap();
    };
    type Flood<'a> = &'a dyn Fn(u32) -> Vec<u8>;
    let floods: [(bool, Flood<'_>); 8] = [
        (false, &|n| [get(2 * n + 1, &[], true), reset(2 * n + 1)].concat()),
        (false, &|_| written(|out| push_ping([0; 8], false, out))),
        (false, &|_| initial_window(7)),
        (false, &|n| raw(5, 0x2, 0, 2 * n + 1)),
        (false, &|_| raw(0, 0x77, 0, 0)),
        (false, &|_| window_update(0, 1)),
        (false, &|n| if n == 0 { get(1, &[], false) } else { data(1, 0, false) }),
        (true, &|_| raw(0, 0x9, 0, 1)),
    ];
    for (number, (is_torn, flood)) in floods.into_iter().enumerate() {
        let mut bench = Bench::with_limits(limits);
        if is_torn {
            torn(&mut bench);
        }
        let ended = (0..100).find_map(|n| bench.send(&flood(n)).err());
        assert_eq!(ended, Some(ErrorCode::EnhanceYourCalm), "flood {number}");
    }
}

#[test]
fn a_patient_client_is_forgiven() {
    let mut bench = Bench::with_limits(Limits { nuisances_max: 50, ..Limits::default() });
    for n in 0..1000 {
        bench.now += Duration::from_millis(100);
        bench.send(&written(|out| push_ping([0; 8], false, out))).unwrap();
        bench.send(&get(2 * n + 1, &[], true)).unwrap();
        bench.respond(2 * n + 1, 2000);
        bench.send(&[window_update(0, 2000), raw(5, 0x2, 0, 2 * n + 3)].concat()).unwrap();
    }
}

/// As Go's client does, which gives back what it has read 4 KiB at a time.
#[test]
fn windows_that_are_given_back_in_small_pieces_cost_nothing() {
    let mut bench = Bench::with_limits(Limits { nuisances_max: 50, ..Limits::default() });
    bench.send(&[initial_window(1 << 20), window_update(0, 1 << 20)].concat()).unwrap();
    bench.request(1, true).unwrap();
    assert_eq!(bench.respond(1, 2 << 20), 1 << 20);
    let piece = [window_update(0, 4096), window_update(1, 4096)].concat();
    bench.send(&piece.repeat(256)).unwrap();
    assert_eq!(bench.push(), 1 << 20);
    bench.send(&piece.repeat(256)).unwrap();
    let flood = (0..100).find_map(|_| bench.send(&window_update(0, 4096)).err());
    assert_eq!(flood, Some(ErrorCode::EnhanceYourCalm), "for nothing that was sent");
}

proptest! {
    /// Whatever is sent, it is taken or ends the connection; heads and streams stay within their limits.
    #[test]
    fn any_frames_leave_a_bounded_connection(
        frames in proptest::collection::vec((0..12_u8, any::<u8>(), 0..8_u32, proptest::collection::vec(any::<u8>(), 0..40)), 0..60),
    ) {
        let mut bench = Bench::with_limits(Limits { streams_max: 2, ..Limits::default() });
        for (kind, flags, stream, payload) in frames {
            let mut frame = raw(payload.len() as u32, kind, flags, stream);
            frame[HEADER_LEN..].copy_from_slice(&payload);
            if bench.send(&frame).is_err() {
                break;
            }
            prop_assert!(bench.connection.streams.len() <= 2);
        }
    }

    /// However the input is torn, the same is handed on and answered.
    #[test]
    fn nothing_depends_on_fragmentation(cut in 1..60_usize, bodies in proptest::collection::vec(0..300_usize, 1..6)) {
        let mut input = PREFACE.to_vec();
        input.extend(written(|out| push_settings(&[Setting::InitialWindowSize(100)], out)));
        for (n, &length) in bodies.iter().enumerate() {
            let stream = 2 * n as u32 + 1;
            input.extend(get(stream, &[], false));
            input.extend(data(stream, length, true));
        }
        let run = |cut: usize| {
            let mut bench = Bench::silent(Limits::default());
            let mut held = Vec::new();
            for piece in input.chunks(cut) {
                held.extend_from_slice(piece);
                loop {
                    let taken = bench.receive(&held).unwrap();
                    if taken == 0 {
                        break;
                    }
                    held.drain(..taken);
                }
            }
            assert!(held.is_empty());
            (bench.seen.clone(), bench.out)
        };
        prop_assert_eq!(run(cut), run(usize::MAX));
    }
}
