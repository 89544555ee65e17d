//! Reasons why a file or a response is sent by `sendfile` instead of its strategy.

/// Reason why a file or a response is sent by `sendfile` instead of its strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The file cannot be mapped, the mappings have reached their limit, or the file has lost pages since.
    Mapping,
    /// Cached pipes have reached `--pipe-budget`, or registered memory is full.
    PipeBudget,
    /// Cached descriptors have reached their limit, or the process has none left.
    Descriptors,
    /// The kernel refuses: a pipe of that size, or a splice.
    Kernel,
    /// The driver has no scratch pipe for the response.
    Scratch,
}

impl Reason {
    pub(crate) const ALL: [Self; 5] = [Self::Mapping, Self::PipeBudget, Self::Descriptors, Self::Kernel, Self::Scratch];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mapping => "mapping",
            Self::PipeBudget => "pipe-budget",
            Self::Descriptors => "descriptors",
            Self::Kernel => "kernel",
            Self::Scratch => "scratch",
        }
    }
}

/// Reason why a file is not prepared for its strategy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PrepareError {
    Fallback(Reason),
    /// The file has changed while it was prepared.
    Changed,
}

impl From<Reason> for PrepareError {
    fn from(reason: Reason) -> Self {
        Self::Fallback(reason)
    }
}
