//! Which engines there are.

/// Declares the engines once: the enum, [`EngineKind::ALL`] and the names on the command line cannot differ.
macro_rules! engines {
    ($($(#[doc = $about:literal])+ $kind:ident = $name:literal,)+) => {
        /// How the threads talk to the kernel.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum EngineKind { $($(#[doc = $about])+ $kind,)+ }

        impl EngineKind {
            pub const ALL: &'static [Self] = &[$(Self::$kind,)+];

            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)+ }
            }

            /// In a sentence.
            #[must_use]
            pub fn about(self) -> &'static str {
                match self { $(Self::$kind => concat!($($about),+).trim_ascii(),)+ }
            }
        }
    };
}

engines! {
    /// Edge-triggered epoll, one recv and one send per batch
    Epoll = "epoll",
    /// io_uring: multishot receives, and one submission for all the sends of a turn (Linux 6.1)
    Uring = "uring",
}
