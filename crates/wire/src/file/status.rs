/// Declares the statuses once: enum, bytes, names and descriptions cannot differ.
macro_rules! statuses {
    ($($(#[doc = $doc:literal])+ $status:ident = $byte:literal $name:literal,)+) => {
        /// What became of a request: the first byte of a framed reply.
        #[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
        #[repr(u8)]
        pub enum Status { $($(#[doc = $doc])+ $status = $byte,)+ }

        impl Status {
            pub const ALL: &'static [Self] = &[$(Self::$status,)+];

            /// The byte on the wire.
            #[inline]
            #[must_use]
            pub const fn byte(self) -> u8 {
                self as u8
            }

            /// The status of a byte, if it is one.
            #[inline]
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte { $($byte => Some(Self::$status),)+ _ => None }
            }

            /// One word, for metrics and logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$status => $name,)+ }
            }
        }
    };
}

statuses! {
    /// The body follows.
    Found = 0 "found",
    /// There is no such document.
    Missing = 1 "missing",
    /// This cannot be the id of a document.
    Malformed = 2 "malformed",
    /// The server is short of something at the moment; asking again may help.
    Unavailable = 3 "unavailable",
    /// The document is there and cannot be read, or is damaged.
    Failed = 4 "failed",
}
