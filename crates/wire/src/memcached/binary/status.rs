//! Outcomes of requests.

/// Status of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    Success = 0x00,
    NotFound = 0x01,
    /// The key exists, or has another unique number than the given one.
    Exists = 0x02,
    TooLarge = 0x03,
    Invalid = 0x04,
    NotStored = 0x05,
    /// The value that is to be incremented or decremented is no number.
    BadDelta = 0x06,
    AuthError = 0x20,
    /// SASL goes on.
    AuthContinue = 0x21,
    UnknownCommand = 0x81,
    NoMemory = 0x82,
}

impl Status {
    pub const ALL: &[Self] = &[
        Self::Success,
        Self::NotFound,
        Self::Exists,
        Self::TooLarge,
        Self::Invalid,
        Self::NotStored,
        Self::BadDelta,
        Self::AuthError,
        Self::AuthContinue,
        Self::UnknownCommand,
        Self::NoMemory,
    ];

    /// Returns the text that memcached sends with an error; it is empty for what is none.
    pub fn text(self) -> &'static str {
        match self {
            Self::Success | Self::AuthContinue => "",
            Self::NotFound => "Not found",
            Self::Exists => "Data exists for key.",
            Self::TooLarge => "Too large.",
            Self::Invalid => "Invalid arguments",
            Self::NotStored => "Not stored.",
            Self::BadDelta => "Non-numeric server-side value for incr or decr",
            Self::AuthError => "Auth failure.",
            Self::UnknownCommand => "Unknown command",
            Self::NoMemory => "Out of memory",
        }
    }

    /// True if the request has failed, rather than found the key in another state than the client assumed.
    pub fn is_failure(self) -> bool {
        match self {
            Self::Success | Self::NotFound | Self::Exists | Self::NotStored | Self::AuthContinue => false,
            Self::TooLarge
            | Self::Invalid
            | Self::BadDelta
            | Self::AuthError
            | Self::UnknownCommand
            | Self::NoMemory => true,
        }
    }
}
