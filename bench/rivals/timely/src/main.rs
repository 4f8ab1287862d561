// Two timely workers (threads): one produces 64-bit numbers in batches, an exchange carries them to
// the other one, which sums them up. Prints bytes per second and the sum.
use std::cell::Cell;
use std::rc::Rc;
use std::time::Instant;
use timely::dataflow::channels::pact::Exchange;
use timely::dataflow::operators::generic::operator::Operator;
use timely::dataflow::operators::Input;
use timely::dataflow::{InputHandle, ProbeHandle};
use timely::dataflow::operators::Probe;

fn main() {
    let bytes: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(1 << 30);
    let numbers = bytes / 8;
    let batch = 1u64 << 17; // a mebibyte at a time
    let start = Instant::now();
    let guards = timely::execute(timely::Config::process(2), move |worker| {
        let mut input = InputHandle::new();
        let mut probe = ProbeHandle::new();
        let total = Rc::new(Cell::new(0u64));
        let counted = total.clone();
        worker.dataflow::<u64, _, _>(|scope| {
            scope
                .input_from(&mut input)
                .unary(Exchange::new(|_: &u64| 1u64), "sum", move |_, _| {
                    move |from, to| {
                        let mut batch = Vec::new();
                        from.for_each(|time, data| {
                            data.swap(&mut batch);
                            let sum = batch.iter().fold(0u64, |sum, x| sum.wrapping_add(*x));
                            counted.set(counted.get().wrapping_add(sum));
                            let _ = to.session(&time).give(());
                            batch.clear();
                        });
                    }
                })
                .probe_with(&mut probe);
        });
        if worker.index() == 0 {
            let mut first = 0u64;
            let mut round = 0u64;
            while first < numbers {
                let end = numbers.min(first + batch);
                for number in first..end {
                    input.send(number);
                }
                first = end;
                round += 1;
                input.advance_to(round);
                // At most a few batches are in flight, as in a bounded pipe.
                while round > 4 && probe.less_than(&(round - 4)) {
                    worker.step();
                }
            }
        }
        drop(input);
        while !probe.done() {
            worker.step();
        }
        total.get()
    })
    .expect("workers");
    let sum = guards.join().into_iter().fold(0u64, |sum, part| sum.wrapping_add(part.unwrap_or(0)));
    let seconds = start.elapsed().as_secs_f64();
    println!("{} {}", bytes as f64 / seconds, sum);
}
