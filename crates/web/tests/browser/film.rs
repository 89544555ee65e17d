//! A film that a browser can seek in: [WebM](https://www.webmproject.org/docs/container/) of one frame a second.

/// Length of a chunk: an identifier of Matroska and the number of bytes behind it.
fn element(id: u32, contents: &[u8]) -> Vec<u8> {
    let id = id.to_be_bytes();
    let first = id.iter().position(|&byte| byte != 0).unwrap_or(3);
    let length = (contents.len() as u64 | 1 << 56).to_be_bytes();
    [&id[first..], &length, contents].concat()
}

fn number(id: u32, number: u64) -> Vec<u8> {
    element(id, &number.to_be_bytes())
}

/// Returns the frame of a picture in lossy [WebP](https://www.rfc-editor.org/rfc/rfc9649): its chunk `VP8 `, if it has one.
pub(super) fn frame(picture: &[u8]) -> Option<&[u8]> {
    let mut chunks = picture.get(12..)?;
    loop {
        let (head, contents) = chunks.split_at_checked(8)?;
        let length = u32::from_le_bytes(head[4..].try_into().ok()?) as usize;
        if head.starts_with(b"VP8 ") {
            return contents.get(..length);
        }
        chunks = contents.get(length.next_multiple_of(2)..)?;
    }
}

/// Returns the film of these frames, each followed by `padding` bytes that mean nothing.
pub(super) fn film(frames: &[&[u8]], [width, height]: [u64; 2], padding: usize) -> Vec<u8> {
    let header = [number(0x4286, 1), number(0x42f7, 1), number(0x42f2, 4), number(0x42f3, 8)].concat();
    let header = [header, element(0x4282, b"webm"), number(0x4287, 2), number(0x4285, 2)].concat();
    let milliseconds = 1000.0 * frames.len() as f64;
    let info = [number(0x2ad7b1, 1_000_000), element(0x4489, &milliseconds.to_be_bytes())].concat();
    let info = [info, element(0x4d80, b"test"), element(0x5741, b"test")].concat();
    let size = element(0xe0, &[number(0xb0, width), number(0xba, height)].concat());
    let track = [number(0xd7, 1), number(0x73c5, 1), number(0x83, 1), element(0x86, b"V_VP8"), size].concat();
    let before = [element(0x1549_a966, &info), element(0x1654_ae6b, &element(0xae, &track))].concat();
    let cluster = |(second, frame): (usize, &&[u8])| {
        // The frame is on track 1, at the cluster's own time, and can be shown without any other.
        let block = [&[0x81, 0, 0, 0x80], *frame].concat();
        let void = element(0xec, &vec![0; padding]);
        element(0x1f43_b675, &[number(0xe7, 1000 * second as u64), element(0xa3, &block), void].concat())
    };
    let clusters: Vec<_> = frames.iter().enumerate().map(cluster).collect();
    // The index has places in it that its own length is part of, which does not depend on them.
    let index = |first: usize| {
        let mut place = first as u64;
        let mut points = Vec::new();
        for (second, cluster) in clusters.iter().enumerate() {
            let position = element(0xb7, &[number(0xf7, 1), number(0xf1, place)].concat());
            points.push(element(0xbb, &[number(0xb3, 1000 * second as u64), position].concat()));
            place += cluster.len() as u64;
        }
        element(0x1c53_bb6b, &points.concat())
    };
    let index = index(before.len() + index(0).len());
    [element(0x1a45_dfa3, &header), element(0x1853_8067, &[before, index, clusters.concat()].concat())].concat()
}
