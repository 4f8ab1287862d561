//! Files larger than memory, sorted and merged within a budget of memory; slices, sorted in place.
//!
//! A safe subset of the C interface. The rest, streams and rewired memory, is in `penstock_sys`.
use penstock_sys as c;
use std::ffi::{c_char, c_void, CStr, CString};

/// A failed call, with a message for people.
#[derive(Debug, Clone)]
pub struct Error {
    /// A value of `penstock_code` in `penstock/penstock.h`.
    pub code: i32,
    pub message: String,
    /// The system's error, if there is one.
    pub os_error: Option<i32>,
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}
impl std::error::Error for Error {}

fn result(code: i32) -> Result<(), Error> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the text is this thread's, until its next error.
    let (message, errno) = unsafe { (CStr::from_ptr(c::penstock_error_message()), c::penstock_error_errno()) };
    Err(Error { code, message: message.to_string_lossy().into_owned(), os_error: (errno != 0).then_some(errno) })
}

fn invalid(message: &str) -> Error {
    Error { code: c::PENSTOCK_INVALID_ARGUMENT as i32, message: message.into(), os_error: None }
}

mod sealed {
    pub trait Sealed {}
}
/// Types whose slices can be sorted: integers, and floats in their total order (-0 before 0, NaNs last).
pub trait Item: Copy + sealed::Sealed {
    #[doc(hidden)]
    const TYPE: i32;
}
macro_rules! items {
    ($($t:ty = $name:ident),*) => {$(impl sealed::Sealed for $t {} impl Item for $t { const TYPE: i32 = c::$name as i32; })*};
}
items!(u8 = PENSTOCK_U8, i8 = PENSTOCK_I8, u16 = PENSTOCK_U16, i16 = PENSTOCK_I16, u32 = PENSTOCK_U32, i32 = PENSTOCK_I32,
    u64 = PENSTOCK_U64, i64 = PENSTOCK_I64, f32 = PENSTOCK_F32, f64 = PENSTOCK_F64);

#[derive(Debug, Clone)]
pub struct SortOptions {
    pub threads: u32,
    pub descending: bool,
    pub stable: bool,
}

impl Default for SortOptions {
    fn default() -> Self {
        SortOptions { threads: 1, descending: false, stable: false }
    }
}

/// Sorts a slice in place.
pub fn sort<T: Item>(items: &mut [T], options: &SortOptions) -> Result<(), Error> {
    // SAFETY: zeros are the defaults of all fields.
    let mut words: c::penstock_sort_options = unsafe { std::mem::zeroed() };
    words.size = size_of::<c::penstock_sort_options>();
    words.threads = options.threads;
    words.descending = options.descending.into();
    words.stable = options.stable.into();
    // SAFETY: the slice is borrowed mutably.
    result(unsafe { c::penstock_sort(items.as_mut_ptr().cast(), items.len(), T::TYPE, &words) })
}

/// Returns the indices of the items in ascending order; stable.
pub fn argsort<T: Item>(items: &[T]) -> Result<Vec<u64>, Error> {
    let mut order = vec![0; items.len()];
    // SAFETY: `order` is as long as `items`.
    result(unsafe { c::penstock_argsort(items.as_ptr().cast(), items.len(), order.as_mut_ptr(), T::TYPE, std::ptr::null()) })?;
    Ok(order)
}

/// The inputs, the output and the memory of an operation: options of the command line `penstock`.
#[derive(Debug, Clone, Default)]
pub struct Files {
    pub inputs: Vec<String>,
    /// Default: standard output.
    pub output: Option<String>,
    /// `u64`, `f64`, `record`, ...; default: lines.
    pub format: Option<String>,
    pub keys: Vec<String>,
    pub csv: bool,
    pub header_lines: u32,
    pub descending: bool,
    /// 0: 1 GiB.
    pub memory_bytes: u64,
    pub temporary_directories: Vec<String>,
}

type Operation = unsafe extern "C" fn(*const c::penstock_files_options, *mut *mut c_char) -> i32;

impl Files {
    /// Sorts, and returns statistics as JSON. `progress` gets the phase, the finished and the total bytes; it is called
    /// from threads of the run, one call at a time.
    pub fn sort(&self, progress: impl FnMut(&str, u64, u64) + Send) -> Result<String, Error> {
        unsafe extern "C" fn operation(files: *const c::penstock_files_options, json: *mut *mut c_char) -> i32 {
            c::penstock_sort_files(files, std::ptr::null(), json)
        }
        self.run(operation, progress)
    }

    /// Returns the plan of `sort` as JSON. Writes nothing.
    pub fn plan_sort(&self) -> Result<String, Error> {
        unsafe extern "C" fn operation(files: *const c::penstock_files_options, json: *mut *mut c_char) -> i32 {
            c::penstock_plan_sort_files(files, std::ptr::null(), json)
        }
        self.run(operation, |_, _, _| {})
    }

    /// Merges sorted files.
    pub fn merge(&self, progress: impl FnMut(&str, u64, u64) + Send) -> Result<String, Error> {
        unsafe extern "C" fn operation(files: *const c::penstock_files_options, json: *mut *mut c_char) -> i32 {
            c::penstock_merge_files(files, std::ptr::null(), json)
        }
        self.run(operation, progress)
    }

    fn run<F: FnMut(&str, u64, u64) + Send>(&self, operation: Operation, mut progress: F) -> Result<String, Error> {
        unsafe extern "C" fn report<F: FnMut(&str, u64, u64) + Send>(context: *mut c_void, phase: *const c_char, done: u64, total: u64) {
            let call = || {
                // SAFETY: `context` is the closure below, which lives as long as the run; one call at a time.
                let progress = unsafe { &mut *context.cast::<F>() };
                progress(&unsafe { CStr::from_ptr(phase) }.to_string_lossy(), done, total);
            };
            // A panic must not unwind into the library.
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err() {
                std::process::abort();
            }
        }
        let text = |word: &String| CString::new(word.as_str()).map_err(|_| invalid("a text has a NUL in it"));
        let texts = |words: &Vec<String>| words.iter().map(text).collect::<Result<Vec<_>, _>>();
        let pointers = |words: &Vec<CString>| words.iter().map(|word| word.as_ptr()).collect::<Vec<_>>();
        let (inputs, keys, directories) = (texts(&self.inputs)?, texts(&self.keys)?, texts(&self.temporary_directories)?);
        let (output, format) = (self.output.as_ref().map(text).transpose()?, self.format.as_ref().map(text).transpose()?);
        let (input_pointers, key_pointers, directory_pointers) = (pointers(&inputs), pointers(&keys), pointers(&directories));

        // SAFETY: zeros are the defaults of all fields.
        let mut words: c::penstock_files_options = unsafe { std::mem::zeroed() };
        words.size = size_of::<c::penstock_files_options>();
        (words.inputs, words.inputs_count) = (input_pointers.as_ptr(), input_pointers.len());
        (words.keys, words.keys_count) = (key_pointers.as_ptr(), key_pointers.len());
        (words.temp_directories, words.temp_directories_count) = (directory_pointers.as_ptr(), directory_pointers.len());
        words.output = output.as_ref().map_or(std::ptr::null(), |word| word.as_ptr());
        words.format = format.as_ref().map_or(std::ptr::null(), |word| word.as_ptr());
        (words.csv, words.header_lines, words.descending) = (self.csv.into(), self.header_lines, self.descending.into());
        words.memory_bytes = self.memory_bytes;
        words.progress = Some(report::<F>);
        words.progress_context = (&raw mut progress).cast();

        let mut json = std::ptr::null_mut();
        // SAFETY: everything that `words` points to lives until the end of this function.
        result(unsafe { operation(&words, &mut json) })?;
        // SAFETY: on success the text belongs to the caller, until it is freed.
        let told = unsafe { CStr::from_ptr(json) }.to_string_lossy().into_owned();
        unsafe { c::penstock_text_free(json) };
        Ok(told)
    }
}

/// A file as bytes. Only a few megabytes of it are in memory at a time.
pub struct Reader {
    reader: *mut c::penstock_reader,
}

// SAFETY: any number of threads may read by the pointer and ask for its length.
unsafe impl Send for Reader {}
unsafe impl Sync for Reader {}

impl Reader {
    pub fn open(path: &str) -> Result<Reader, Error> {
        let path = CString::new(path).map_err(|_| invalid("a path has a NUL in it"))?;
        let mut reader = std::ptr::null_mut();
        // SAFETY: `reader` is written on success.
        result(unsafe { c::penstock_reader_open(path.as_ptr(), std::ptr::null(), &mut reader) })?;
        Ok(Reader { reader })
    }

    /// Returns the file's bytes. An error of the disk ends the process with a message.
    ///
    /// # Safety
    /// The file must not change meanwhile. A system call with a part of the slice may fail with EFAULT.
    pub unsafe fn bytes(&self) -> &[u8] {
        let length = c::penstock_reader_bytes(self.reader) as usize;
        if length == 0 {
            return &[];
        }
        std::slice::from_raw_parts(c::penstock_reader_data(self.reader).cast(), length)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // SAFETY: the reader is owned, and closed once.
        unsafe { c::penstock_reader_close(self.reader) }
    }
}
