//! Histograms on their way out: base64 in a result, and the two kinds of file that HdrHistogram's tools read.

pub(crate) mod hgrm;
pub(crate) mod interval_log;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};

/// Encodes a histogram as HdrHistogram V2 with DEFLATE, in base64.
#[must_use]
pub fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    // Writing into memory cannot fail, and the histogram is far below the format's limits.
    let written = V2DeflateSerializer::new().serialize(histogram, &mut bytes);
    debug_assert!(written.is_ok());
    STANDARD.encode(bytes)
}

/// Decodes the text of [`encode`]; `None` if it is something else.
#[must_use]
pub fn decode(text: &str) -> Option<Histogram<u64>> {
    let bytes = STANDARD.decode(text).ok()?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).ok()
}
