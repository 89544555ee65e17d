mod replies;
mod requests;
