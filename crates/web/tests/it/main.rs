//! Tests of the front end before a site in memory, through its sessions.

#[cfg(test)]
mod fragmentation;
mod http2;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod site;
#[cfg(test)]
mod uploads;
