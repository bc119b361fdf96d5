//! Telling systemd how far we are (sd_notify), for a service of Type=notify.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Without systemd it does nothing. A message that is not delivered is systemd's to notice, by its time-out.
pub fn notify(state: &str) {
    let Ok(name) = env::var("NOTIFY_SOCKET") else {
        return;
    };
    if let Err(error) = send(&name, state) {
        eprintln!("tombola: cannot tell systemd \"{state}\": {error}");
    }
}

// A path, or after an @ a name that is in no file system.
fn send(name: &str, state: &str) -> io::Result<()> {
    let address = match name.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(state.as_bytes(), &address)
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_receives(socket: &UnixDatagram, name: &str) {
        send(name, "READY=1").unwrap();
        let mut message = [0; 16];
        let length = socket.recv(&mut message).unwrap();
        assert_eq!(&message[..length], b"READY=1");
    }

    #[test]
    fn the_message_arrives_at_a_path() {
        let path = env::temp_dir().join(format!("tombola-notify-{}", std::process::id()));
        let socket = UnixDatagram::bind(&path).unwrap();
        assert_receives(&socket, path.to_str().unwrap());
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn the_message_arrives_at_an_abstract_name() {
        let name = format!("tombola-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let socket = UnixDatagram::bind_addr(&address).unwrap();
        assert_receives(&socket, &format!("@{name}"));
    }
}
