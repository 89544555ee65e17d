use proptest::prelude::*;

use super::*;

fn frame(bytes: &[u8]) -> Result<Frame<'_>, FrameError> {
    let header = FrameHeader::parse(bytes).expect("a whole header");
    assert_eq!(bytes.len(), HEADER_LEN + header.payload_len(), "one frame");
    Frame::parse(header, &bytes[HEADER_LEN..])
}

fn raw(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let [e, f, g, h] = stream.to_be_bytes();
    [&[a, b, c, kind, flags, e, f, g, h][..], payload].concat()
}

fn written(push: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    push(&mut out);
    out
}

#[test]
fn a_header_that_is_torn_is_waited_for() {
    let bytes = written(|out| push_ping([7; 8], false, out));
    for length in 0..HEADER_LEN {
        assert_eq!(FrameHeader::parse(&bytes[..length]), None);
    }
}

#[test]
fn what_is_written_is_read() {
    let settings = [Setting::InitialWindowSize(1 << 20), Setting::EnablePush(false), Setting::MaxFrameSize(1 << 14)];
    let bytes = written(|out| push_settings(&settings, out));
    let Ok(Frame::Settings(read)) = frame(&bytes) else { panic!("{:?}", frame(&bytes)) };
    assert_eq!(read.iter().collect::<Result<Vec<_>, _>>().unwrap(), settings);
    assert_eq!(frame(&written(push_settings_ack)), Ok(Frame::SettingsAck));
    let ping = written(|out| push_ping([1; 8], true, out));
    assert_eq!(frame(&ping), Ok(Frame::Ping { data: [1; 8], is_ack: true }));
    let reset = written(|out| push_rst_stream(5, ErrorCode::Cancel, out));
    assert_eq!(frame(&reset), Ok(Frame::RstStream { stream: 5, code: 8 }));
    let goaway = written(|out| push_goaway(9, ErrorCode::EnhanceYourCalm, out));
    assert_eq!(frame(&goaway), Ok(Frame::GoAway { last_stream: 9, code: 11 }));
    let update = written(|out| push_window_update(3, 70_000, out));
    assert_eq!(frame(&update), Ok(Frame::WindowUpdate { stream: 3, increment: 70_000 }));
}

#[test]
fn padding_goes_and_counts_for_flow_control() {
    let bytes = raw(0, 0x8, 1, b"\x03dataxxx");
    assert_eq!(frame(&bytes), Ok(Frame::Data { stream: 1, data: b"data", flow_len: 8, is_last: false }));
    let bytes = raw(1, 0x8 | 0x20 | 0x4, 1, b"\x01\x80\0\0\x03\x0fblockx");
    let priority = Some(Priority { depends_on: 3, is_exclusive: true, weight: 15 });
    assert_eq!(
        frame(&bytes),
        Ok(Frame::Headers { stream: 1, block: b"block", is_whole: true, is_last: false, priority })
    );
}

#[test]
fn frames_against_the_rules_are_refused() {
    use ErrorCode::{FlowControlError, FrameSizeError, ProtocolError};
    let setting = |id: u16, value: u32| [&id.to_be_bytes()[..], &value.to_be_bytes()].concat();
    for (bytes, error) in [
        (raw(0, 0, 0, b"x"), FrameError::connection(ProtocolError)),
        (raw(0, 0x8, 1, b""), FrameError::connection(FrameSizeError)),
        (raw(0, 0x8, 1, b"\x02x"), FrameError::connection(ProtocolError)),
        (raw(1, 0, 0, b"x"), FrameError::connection(ProtocolError)),
        (raw(1, 0x20, 1, b"\0\0\0\x02"), FrameError::connection(FrameSizeError)),
        (raw(1, 0x20, 1, b"\0\0\0\x01\x0f"), FrameError::stream(1, ProtocolError)),
        (raw(2, 0, 0, b"\0\0\0\x03\x0f"), FrameError::connection(ProtocolError)),
        (raw(2, 0, 1, b"\0\0\0\x03"), FrameError::stream(1, FrameSizeError)),
        (raw(3, 0, 0, b"\0\0\0\x08"), FrameError::connection(ProtocolError)),
        (raw(3, 0, 1, b"\0\0\x08"), FrameError::connection(FrameSizeError)),
        (raw(4, 0, 1, b""), FrameError::connection(ProtocolError)),
        (raw(4, 0, 0, b"\0\x01"), FrameError::connection(FrameSizeError)),
        (raw(4, 1, 0, &setting(1, 1)), FrameError::connection(FrameSizeError)),
        (raw(6, 0, 1, &[0; 8]), FrameError::connection(ProtocolError)),
        (raw(6, 0, 0, &[0; 7]), FrameError::connection(FrameSizeError)),
        (raw(7, 0, 1, &[0; 8]), FrameError::connection(ProtocolError)),
        (raw(7, 0, 0, &[0; 7]), FrameError::connection(FrameSizeError)),
        (raw(8, 0, 0, &[0; 4]), FrameError::connection(ProtocolError)),
        (raw(8, 0, 1, &[0; 4]), FrameError::stream(1, ProtocolError)),
        (raw(8, 0, 1, &[0; 5]), FrameError::connection(FrameSizeError)),
        (raw(9, 0, 0, b"x"), FrameError::connection(ProtocolError)),
        (raw(16, 0, 0, &[0; 4]), FrameError::connection(ProtocolError)),
    ] {
        assert_eq!(frame(&bytes), Err(error), "{bytes:?}");
    }
    for (id, value, code) in [
        (2, 2, ProtocolError),
        (4, 1 << 31, FlowControlError),
        (5, (1 << 14) - 1, ProtocolError),
        (5, 1 << 24, ProtocolError),
        (9, 2, ProtocolError),
    ] {
        let bytes = raw(4, 0, 0, &setting(id, value));
        let Ok(Frame::Settings(settings)) = frame(&bytes) else { panic!("{:?}", frame(&bytes)) };
        assert_eq!(settings.iter().next(), Some(Err(FrameError::connection(code))), "{id}");
    }
    let unknown = raw(4, 0, 0, &setting(0xff, 3));
    let Ok(Frame::Settings(settings)) = frame(&unknown) else { panic!("{:?}", frame(&unknown)) };
    assert_eq!(settings.iter().count(), 0, "to be ignored");
    assert_eq!(frame(&raw(0x77, 0xff, 0, b"anything")), Ok(Frame::Unknown));
}

proptest! {
    /// A block of any length arrives whole, in frames that are not too long.
    #[test]
    fn long_header_blocks_are_continued(block: Vec<u8>, frame_bytes_max in 1..50_usize, is_last: bool) {
        let bytes = written(|out| push_headers(7, &block, is_last, frame_bytes_max, out));
        let (mut rest, mut got, mut frames, mut ended) = (&bytes[..], Vec::new(), 0, false);
        while let Some(header) = FrameHeader::parse(rest) {
            prop_assert!(!ended && header.payload_len() <= frame_bytes_max);
            let (payload, behind) = rest[HEADER_LEN..].split_at(header.payload_len());
            rest = behind;
            let frame = Frame::parse(header, payload).unwrap();
            if frames == 0 {
                let Frame::Headers { stream: 7, block, is_whole, is_last: last, priority: None } = frame else {
                    panic!("{frame:?}");
                };
                prop_assert_eq!(last, is_last);
                got.extend_from_slice(block);
                ended = is_whole;
            } else {
                let Frame::Continuation { stream: 7, block, is_whole } = frame else { panic!("{frame:?}") };
                got.extend_from_slice(block);
                ended = is_whole;
            }
            frames += 1;
        }
        prop_assert!(ended && rest.is_empty());
        prop_assert_eq!(got, block);
    }

    #[test]
    fn any_payload_is_read_or_refused(kind in 0..18_u8, flags: u8, stream in 0..3_u32, payload: Vec<u8>) {
        if let Ok(Frame::Settings(settings)) = frame(&raw(kind, flags, stream, &payload)) {
            prop_assert!(settings.iter().count() <= payload.len() / 6);
        }
    }
}
