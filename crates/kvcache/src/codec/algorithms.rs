//! Compression libraries behind one trait. Each thread keeps their contexts between two values.

use std::cell::RefCell;

use flate2::{Compress, Crc, Decompress, FlushCompress, FlushDecompress, Status};

/// Compression algorithm.
pub(super) trait Algorithm {
    /// Appends the compressed value to `encoded` if it is at most `max` bytes long. Otherwise the contents of
    /// `encoded` are undefined.
    fn compress(value: &[u8], max: usize, encoded: &mut Vec<u8>) -> Option<()>;

    /// Decodes exactly `len` bytes, and never holds more. `None` means that [`Algorithm::compress`] has not made it.
    fn decompress(encoded: &[u8], len: usize) -> Option<Vec<u8>>;
}

/// DEFLATE (RFC 1951) in gzip's frame (RFC 1952).
pub(super) struct Gzip;

/// Header without a name or a time, written by no particular system.
const GZIP_HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
/// Bytes of CRC-32 and length.
const GZIP_TRAILER_BYTES: usize = 8;

thread_local! {
    static DEFLATE: RefCell<Compress> = RefCell::new(Compress::new(flate2::Compression::fast(), false));
    static INFLATE: RefCell<Decompress> = RefCell::new(Decompress::new(false));
    static ZSTD_IN: RefCell<Option<zstd::bulk::Compressor<'static>>> =
        RefCell::new(zstd::bulk::Compressor::new(ZSTD_LEVEL).ok());
    static ZSTD_OUT: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        RefCell::new(zstd::bulk::Decompressor::new().ok());
}

impl Algorithm for Gzip {
    fn compress(value: &[u8], max: usize, encoded: &mut Vec<u8>) -> Option<()> {
        let room = max.checked_sub(GZIP_HEADER.len() + GZIP_TRAILER_BYTES)?;
        encoded.extend_from_slice(&GZIP_HEADER);
        let begin = encoded.len();
        encoded.resize(begin + room, 0);
        let written = DEFLATE.with_borrow_mut(|deflate| {
            deflate.reset();
            let status = deflate.compress(value, &mut encoded[begin..], FlushCompress::Finish).ok()?;
            (status == Status::StreamEnd).then(|| usize::try_from(deflate.total_out()).ok()).flatten()
        })?;
        encoded.truncate(begin + written);
        encoded.extend_from_slice(&trailer(value)?);
        Some(())
    }

    fn decompress(encoded: &[u8], len: usize) -> Option<Vec<u8>> {
        let body = encoded.strip_prefix(&GZIP_HEADER)?;
        let (body, end) = body.split_last_chunk::<GZIP_TRAILER_BYTES>()?;
        let mut value = vec![0; len];
        INFLATE.with_borrow_mut(|inflate| {
            inflate.reset(false);
            let status = inflate.decompress(body, &mut value, FlushDecompress::Finish).ok()?;
            let is_whole = inflate.total_in() == body.len() as u64 && inflate.total_out() == len as u64;
            (status == Status::StreamEnd && is_whole).then_some(())
        })?;
        (*end == trailer(&value)?).then_some(value)
    }
}

fn trailer(value: &[u8]) -> Option<[u8; GZIP_TRAILER_BYTES]> {
    let mut crc = Crc::new();
    crc.update(value);
    let mut trailer = [0; GZIP_TRAILER_BYTES];
    trailer[..4].copy_from_slice(&crc.sum().to_le_bytes());
    trailer[4..].copy_from_slice(&u32::try_from(value.len()).ok()?.to_le_bytes());
    Some(trailer)
}

/// LZ4's block format.
pub(super) struct Lz4;

impl Algorithm for Lz4 {
    fn compress(value: &[u8], max: usize, encoded: &mut Vec<u8>) -> Option<()> {
        let compressed = lz4_flex::block::compress(value);
        (compressed.len() <= max).then(|| encoded.extend_from_slice(&compressed))
    }

    fn decompress(encoded: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut value = vec![0; len];
        let written = lz4_flex::block::decompress_into(encoded, &mut value).ok()?;
        (written == len).then_some(value)
    }
}

/// Zstandard (RFC 8878).
pub(super) struct Zstd;

const ZSTD_LEVEL: i32 = 1;

impl Algorithm for Zstd {
    fn compress(value: &[u8], max: usize, encoded: &mut Vec<u8>) -> Option<()> {
        let begin = encoded.len();
        encoded.resize(begin + max, 0);
        let written = ZSTD_IN.with_borrow_mut(|context| {
            // A value that does not fit is an error, too.
            context.as_mut()?.compress_to_buffer(value, &mut encoded[begin..]).ok()
        })?;
        encoded.truncate(begin + written);
        Some(())
    }

    fn decompress(encoded: &[u8], len: usize) -> Option<Vec<u8>> {
        let mut value = vec![0; len];
        let written =
            ZSTD_OUT.with_borrow_mut(|context| context.as_mut()?.decompress_to_buffer(encoded, &mut value[..]).ok())?;
        (written == len).then_some(value)
    }
}
