use crate::statuses::statuses;

statuses! {
    /// Result of a request: the fifth byte of a [`super::Header`].
    pub enum Status {
        /// In front of the bytes: they follow. In a status FIFO: all of them have been written.
        Ok = 0 "ok",
        /// There is no such file beneath the root, or the path leaves it.
        FileMissing = 1 "file-missing",
        /// A directory, FIFO, socket or device.
        FileNotRegular = 2 "file-not-regular",
        /// The server may not read the file.
        FileDenied = 3 "file-denied",
        /// The file became shorter than was announced.
        FileChanged = 4 "file-changed",
        /// The file could not be read, or another error occurred in the server.
        Failed = 5 "failed",
        /// The FIFO for the bytes does not exist, or is not a FIFO that the server may write to.
        FifoRefused = 6 "fifo-refused",
        /// No client opened the FIFO for reading in time.
        NoReader = 7 "no-reader",
        /// The reader went away before the end.
        ReaderGone = 8 "reader-gone",
        /// The reader took nothing for too long, or not everything before the deadline.
        TimedOut = 9 "timed-out",
        /// The server has too much to do.
        Overloaded = 10 "overloaded",
        /// The server is stopping.
        Stopping = 11 "stopping",
    }
}
