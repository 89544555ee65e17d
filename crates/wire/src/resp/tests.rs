mod client;
mod requests;
mod tearing;
