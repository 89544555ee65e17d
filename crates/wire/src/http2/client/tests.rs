use super::{
    super::{push_data_header, push_headers, push_settings},
    *,
};

/// Pieces that arrived, in order.
#[derive(Debug, Default)]
struct Seen {
    events: Vec<String>,
    /// Bytes by which each stream's window is widened with each piece.
    refill: u32,
}

impl Responses for Seen {
    fn on_head(&mut self, stream: u32, block: &[u8], is_last: bool, decoder: &mut Decoder) -> Result<(), FrameError> {
        let head = ResponseHead::decode(decoder, block)?.expect("a head");
        self.events.push(format!("{stream} {}{}", head.status, if is_last { "." } else { "" }));
        Ok(())
    }

    fn on_data(&mut self, stream: u32, data: &[u8], _wire_len: u32, is_last: bool) -> u32 {
        self.events.push(format!("{stream} +{}{}", data.len(), if is_last { "." } else { "" }));
        self.refill
    }

    fn on_reset(&mut self, stream: u32, code: u32) {
        self.events.push(format!("{stream} reset {code}"));
    }

    fn on_goaway(&mut self, last_stream: u32, code: u32) {
        self.events.push(format!("goaway {last_stream} {code}"));
    }
}

/// Makes a connection with so many streams whose server has sent its settings.
fn connection(streams: usize, settings: &[Setting]) -> ClientConnection {
    let mut connection = ClientConnection::new();
    for _ in 0..streams {
        connection.open_stream(0);
    }
    connection.feed(&written(|out| push_settings(settings, out)), &mut Seen::default()).unwrap();
    connection.take_output(&mut Vec::new());
    connection
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Feeds whole DATA frames of 16 KiB on stream 1, and returns what is sent in return.
fn feed_data(connection: &mut ClientConnection, frames: u32, seen: &mut Seen) -> Vec<u8> {
    let frame = written(|out| {
        push_data_header(1, 1 << 14, false, out);
        out.resize(out.len() + (1 << 14), 0);
    });
    (0..frames).for_each(|_| connection.feed(&frame, seen).unwrap());
    written(|out| connection.take_output(out))
}

#[test]
fn windows_are_given_back_long_before_they_are_used_up() {
    let mut connection = connection(1, &[]);
    let before = feed_data(&mut connection, REFILL_BYTES / (1 << 14) - 1, &mut Seen::default());
    assert!(before.is_empty());
    let sent = feed_data(&mut connection, 1, &mut Seen::default());
    assert_eq!(sent, written(|out| push_window_update(0, REFILL_BYTES, out)));
    let sent = feed_data(&mut connection, 1, &mut Seen { refill: 5, ..Seen::default() });
    assert_eq!(sent, written(|out| push_window_update(1, 5, out)));
}

#[test]
fn streams_end_when_their_numbers_are_used_up() {
    let mut connection = connection(0, &[Setting::MaxConcurrentStreams(9)]);
    connection.next_stream = STREAM_MAX;
    assert_eq!((connection.is_ending(), connection.streams_max()), (false, 9));
    assert_eq!(connection.open_stream(0), STREAM_MAX);
    assert_eq!((connection.is_ending(), connection.streams_max()), (true, 0));
}

#[test]
fn a_header_block_has_a_limit() {
    let mut connection = connection(1, &[]);
    let block = vec![0x88; BLOCK_BYTES_MAX + 1];
    let frames = written(|out| push_headers(1, &block, true, 1 << 14, out));
    let error = connection.feed(&frames, &mut Seen::default()).unwrap_err();
    assert_eq!(error, FrameError::connection(ErrorCode::EnhanceYourCalm));
}

#[test]
fn frames_of_streams_that_were_never_opened_are_refused() {
    for stream in [2, 3, 5] {
        let head = written(|out| push_headers(stream, b"\x88", true, 1 << 14, out));
        let data = written(|out| push_data_header(stream, 0, true, out));
        for frame in [head, data] {
            let error = connection(1, &[]).feed(&frame, &mut Seen::default()).unwrap_err();
            assert_eq!(error, FrameError::connection(ErrorCode::ProtocolError), "{stream}");
        }
    }
}

#[test]
fn a_smaller_window_holds_bodies_back() {
    let mut connection = connection(0, &[Setting::InitialWindowSize(10)]);
    let stream = connection.open_stream(25);
    let piece = |connection: &mut ClientConnection| connection.next_piece().map(|piece| (piece.range, piece.is_last));
    assert_eq!((piece(&mut connection), piece(&mut connection)), (Some((0..10, false)), None));
    connection.feed(&written(|out| push_window_update(stream, 12, out)), &mut Seen::default()).unwrap();
    assert_eq!((piece(&mut connection), piece(&mut connection)), (Some((10..22, false)), None));
    // The window goes below zero (section 6.9.2), and up again.
    let resize = |bytes| written(|out| push_settings(&[Setting::InitialWindowSize(bytes)], out));
    connection.feed(&resize(5), &mut Seen::default()).unwrap();
    assert_eq!(piece(&mut connection), None);
    connection.feed(&resize(100), &mut Seen::default()).unwrap();
    assert_eq!((piece(&mut connection), piece(&mut connection)), (Some((22..25, true)), None));
}

#[test]
fn a_body_is_not_sent_on_behind_the_response() {
    let mut connection = connection(0, &[Setting::InitialWindowSize(10)]);
    let stream = connection.open_stream(25);
    assert!(connection.next_piece().is_some());
    let mut seen = Seen::default();
    connection.feed(&written(|out| push_headers(stream, b"\x88", true, 1 << 14, out)), &mut seen).unwrap();
    assert_eq!(seen.events, ["1 200."]);
    let reset = written(|out| push_rst_stream(stream, ErrorCode::Cancel, out));
    assert_eq!((written(|out| connection.take_output(out)), connection.next_piece()), (reset, None));
}

#[test]
fn a_frame_larger_than_we_allow_is_refused_by_its_header() {
    let frame = written(|out| push_data_header(1, FRAME_BYTES as usize + 1, false, out));
    let error = connection(1, &[]).feed(&frame, &mut Seen::default()).unwrap_err();
    assert_eq!(error, FrameError::connection(ErrorCode::FrameSizeError));
}
