//! Sorts the file of its first argument to the second, and a slice.
use penstock::{Files, SortOptions};

fn main() -> Result<(), penstock::Error> {
    let mut words = std::env::args().skip(1);
    let files = Files { inputs: words.next().into_iter().collect(), output: words.next(), memory_bytes: 256 << 20, ..Files::default() };
    let stats = files.sort(|_, _, _| {})?;
    let mut keys = vec![3u64, 1, 2];
    penstock::sort(&mut keys, &SortOptions::default())?;
    let order = penstock::argsort(&[2.5f64, -1.0, 0.0])?;
    let missing = Files { inputs: vec!["/does/not/exist".into()], ..files }.sort(|_, _, _| {}).unwrap_err();
    assert!(missing.message.contains("/does/not/exist") && missing.os_error == Some(2), "{missing:?}");
    println!("{keys:?} {order:?} {}", stats.contains("\"items\": 3"));
    Ok(())
}
