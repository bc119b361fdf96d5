//! Numbers that a test takes from the environment.

use std::str::FromStr;

pub fn from_environment<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Err(_) => default,
        Ok(text) => text.parse().unwrap_or_else(|_| {
            panic!("{name} is {text:?}, not a whole number\n  next:  {name}=600, or unset it")
        }),
    }
}
