//! Files written from the summary of made-up visits.

mod markdown;
mod output;
mod quotes;
