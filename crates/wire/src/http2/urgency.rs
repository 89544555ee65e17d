//! Priorities of responses (RFC 9218, section 4).

/// Order in which a client wants its responses.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Urgency {
    /// 0 to 7; lower is sooner.
    pub level: u8,
    /// True if parts are of use: such responses take turns.
    pub is_incremental: bool,
}

impl Default for Urgency {
    fn default() -> Self {
        Self { level: 3, is_incremental: false }
    }
}

impl Urgency {
    /// Reads the value of a field `priority` or of a PRIORITY_UPDATE. Unknown parameters, and values out of range, are
    /// ignored.
    pub fn parse(value: &[u8]) -> Self {
        let mut urgency = Self::default();
        for parameter in value.split(|&byte| byte == b',') {
            match parameter.trim_ascii() {
                [b'u', b'=', level @ b'0'..=b'7'] => urgency.level = level - b'0',
                b"i" | b"i=?1" => urgency.is_incremental = true,
                b"i=?0" => urgency.is_incremental = false,
                _ => {}
            }
        }
        urgency
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_read_and_others_ignored() {
        let urgency = |level, is_incremental| Urgency { level, is_incremental };
        for (value, expected) in [
            ("", urgency(3, false)),
            ("u=0", urgency(0, false)),
            ("u=5, i", urgency(5, true)),
            ("i=?1,u=7", urgency(7, true)),
            ("i, i=?0", urgency(3, false)),
            ("u=8, x=\"y\"", urgency(3, false)),
            ("u=-1", urgency(3, false)),
        ] {
            assert_eq!(Urgency::parse(value.as_bytes()), expected, "{value}");
        }
    }
}
