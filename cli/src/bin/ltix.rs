fn main() -> std::process::ExitCode {
    tombola_cli::commands::ltix::main()
}
