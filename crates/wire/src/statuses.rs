//! The common part of the statuses of binary protocols.

/// Declares statuses once, so that enum, bytes and names agree.
macro_rules! statuses {
    (
        $(#[doc = $about:literal])+
        pub enum $name:ident { $($(#[doc = $doc:literal])+ $status:ident = $byte:literal $word:literal,)+ }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $name { $($(#[doc = $doc])+ $status = $byte,)+ }

        impl $name {
            pub const ALL: &'static [Self] = &[$(Self::$status,)+];

            /// Returns the byte on the wire.
            #[inline]
            #[must_use]
            pub const fn byte(self) -> u8 {
                self as u8
            }

            /// Returns the status of a byte, if it is one.
            #[inline]
            #[must_use]
            pub const fn from_byte(byte: u8) -> Option<Self> {
                match byte { $($byte => Some(Self::$status),)+ _ => None }
            }

            /// Returns one word, for metrics and logs.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$status => $word,)+ }
            }
        }
    };
}

pub(crate) use statuses;
