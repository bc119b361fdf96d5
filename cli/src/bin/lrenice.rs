fn main() -> std::process::ExitCode {
    tombola_cli::commands::lrenice::main()
}
