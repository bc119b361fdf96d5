//! Which system calls a thread can wait in for another one, and which wake another one up: by number, for the scheduler
//! (bpf/waits.h).

/// Numbers below this are looked up (NR_CALLS).
const CALLS: usize = 512;

/// enum call of bpf/waits.h.
#[derive(Clone, Copy)]
#[repr(u8)]
enum Call {
    Receive = 1,
    Send,
    Poll,
    Serve,
    Futex,
    ReceiveMessage,
    SendMessage,
}

/// The descriptor is the first argument of calls that receive or send. A connection that is made wakes the thread that accepts
/// it, as what is sent does.
const KNOWN: [(Call, &[libc::c_long]); 7] = {
    use libc::{
        SYS_accept, SYS_accept4, SYS_connect, SYS_epoll_pwait, SYS_epoll_pwait2, SYS_futex,
        SYS_msgrcv, SYS_msgsnd, SYS_ppoll, SYS_pselect6, SYS_read, SYS_readv, SYS_recvfrom,
        SYS_recvmmsg, SYS_recvmsg, SYS_sendfile, SYS_sendmmsg, SYS_sendmsg, SYS_sendto, SYS_write,
        SYS_writev,
    };
    let receive = &[SYS_read, SYS_readv, SYS_recvfrom, SYS_recvmsg, SYS_recvmmsg];
    let send = &[
        SYS_write,
        SYS_writev,
        SYS_sendto,
        SYS_sendmsg,
        SYS_sendmmsg,
        SYS_sendfile,
        SYS_connect,
    ];
    let serve = &[
        SYS_accept,
        SYS_accept4,
        SYS_epoll_pwait,
        SYS_epoll_pwait2,
        SYS_pselect6,
    ];
    [
        (Call::Receive, receive),
        (Call::Send, send),
        (Call::Serve, serve),
        (Call::Poll, &[SYS_ppoll]),
        (Call::Futex, &[SYS_futex]),
        (Call::ReceiveMessage, &[SYS_msgrcv]),
        (Call::SendMessage, &[SYS_msgsnd]),
    ]
};

/// Calls that newer architectures do not have.
#[cfg(target_arch = "x86_64")]
const OLD: &[(Call, &[libc::c_long])] = &[
    (Call::Poll, &[libc::SYS_poll]),
    (Call::Serve, &[libc::SYS_epoll_wait, libc::SYS_select]),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(Call, &[libc::c_long])] = &[];

pub(crate) fn system_calls() -> [u8; CALLS] {
    let mut calls = [0; CALLS];
    for (call, numbers) in KNOWN.iter().chain(OLD) {
        for &number in *numbers {
            calls[number as usize] = *call as u8;
        }
    }
    calls
}
