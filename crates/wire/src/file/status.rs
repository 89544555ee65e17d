use crate::statuses::statuses;

statuses! {
    /// Result of a request: the first byte of a framed reply.
    pub enum Status {
        /// The body follows.
        Found = 0 "found",
        /// There is no such document.
        Missing = 1 "missing",
        /// The bytes cannot be the id of a document.
        Malformed = 2 "malformed",
        /// The server is short of a resource at the moment; asking again may help.
        Unavailable = 3 "unavailable",
        /// The document exists but cannot be read, or is damaged.
        Failed = 4 "failed",
    }
}
