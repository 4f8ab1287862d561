// uutils' sort as a program of its own, for the bench text.

fn main() {
    std::process::exit(uu_sort::uumain(std::env::args_os()));
}
