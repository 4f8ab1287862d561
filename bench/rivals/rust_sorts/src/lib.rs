// Sorts of Rust as C functions: NAME_TYPE(items, count, threads).
use rdst::{RadixKey, RadixSort};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use voracious_radix_sort::{RadixSort as VoraciousSort, Radixable};

#[repr(C)]
#[derive(Copy, Clone)]
pub struct Pair {
    key: u64,
    value: u64,
}

#[repr(C)]
#[derive(Copy, Clone)]
pub struct Record {
    bytes: [u8; 100],
}

impl Record {
    fn key(&self) -> &[u8; 10] {
        self.bytes[..10].try_into().unwrap()
    }
}

impl RadixKey for Pair {
    const LEVELS: usize = 8;
    #[inline]
    fn get_level(&self, level: usize) -> u8 {
        (self.key >> (level * 8)) as u8
    }
}

// Level 0 is the least significant byte.
impl RadixKey for Record {
    const LEVELS: usize = 10;
    #[inline]
    fn get_level(&self, level: usize) -> u8 {
        self.bytes[9 - level]
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.key.partial_cmp(&other.key)
    }
}
impl Radixable<u64> for Pair {
    type Key = u64;
    #[inline]
    fn key(&self) -> u64 {
        self.key
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}
impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.key().partial_cmp(other.key())
    }
}
impl Radixable<u128> for Record {
    type Key = u128;
    #[inline]
    fn key(&self) -> u128 {
        let mut wide = [0u8; 16];
        wide[6..].copy_from_slice(&self.bytes[..10]);
        u128::from_be_bytes(wide)
    }
}

// A pool of `threads` threads, made once for each number.
fn pool(threads: usize) -> Arc<rayon::ThreadPool> {
    static POOLS: Mutex<BTreeMap<usize, Arc<rayon::ThreadPool>>> = Mutex::new(BTreeMap::new());
    let mut pools = POOLS.lock().expect("no thread that holds it ends");
    let make = || rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
    pools.entry(threads).or_insert_with(|| Arc::new(make())).clone()
}

fn sort_by_rdst<T: RadixKey + Copy + Send + Sync>(items: &mut [T], threads: usize) {
    if threads > 1 {
        pool(threads).install(|| items.radix_sort_unstable());
    } else {
        items.radix_sort_builder().with_single_threaded_tuner().with_parallel(false).sort();
    }
}

macro_rules! sorts {
    ($type:ty, $std:ident, $rdst:ident, $voracious:ident, $less:expr) => {
        /// # Safety
        /// `items` are `count` items that no one else uses.
        #[no_mangle]
        pub unsafe extern "C" fn $std(items: *mut $type, count: usize, _threads: u32) {
            std::slice::from_raw_parts_mut(items, count).sort_unstable_by($less);
        }
        /// # Safety
        /// `items` are `count` items that no one else uses.
        #[no_mangle]
        pub unsafe extern "C" fn $rdst(items: *mut $type, count: usize, threads: u32) {
            sort_by_rdst(std::slice::from_raw_parts_mut(items, count), threads as usize);
        }
        /// # Safety
        /// `items` are `count` items that no one else uses.
        #[no_mangle]
        pub unsafe extern "C" fn $voracious(items: *mut $type, count: usize, threads: u32) {
            let items = std::slice::from_raw_parts_mut(items, count);
            if threads > 1 {
                items.voracious_mt_sort(threads as usize);
            } else {
                items.voracious_sort();
            }
        }
    };
}

sorts!(u32, std_u32, rdst_u32, voracious_u32, |a, b| a.cmp(b));
sorts!(u64, std_u64, rdst_u64, voracious_u64, |a, b| a.cmp(b));
// NaNs are put aside before.
sorts!(f64, std_f64, rdst_f64, voracious_f64, |a, b| a.total_cmp(b));
sorts!(Pair, std_kv64, rdst_kv64, voracious_kv64, |a, b| a.key.cmp(&b.key));
sorts!(Record, std_record, rdst_record, voracious_record, |a, b| a.key().cmp(b.key()));
