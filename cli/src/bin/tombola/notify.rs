//! Telling systemd how far we are (sd_notify), for a service of Type=notify.

use std::env;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Without systemd it does nothing. A message that is not delivered is systemd's to notice, by its time-out.
pub fn notify(state: &str) {
    let Ok(name) = env::var("NOTIFY_SOCKET") else {
        return;
    };
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(&name),
    };
    let sent = address.and_then(|address| {
        let socket = UnixDatagram::unbound()?;
        socket.send_to_addr(state.as_bytes(), &address)
    });
    if let Err(error) = sent {
        eprintln!("tombola: cannot tell systemd \"{state}\": {error}");
    }
}
