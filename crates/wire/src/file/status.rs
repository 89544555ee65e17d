use crate::statuses::statuses;

statuses! {
    /// What became of a request: the first byte of a framed reply.
    pub enum Status {
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
}
